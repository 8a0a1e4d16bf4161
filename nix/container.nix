# The gateway in a container that stays: made anew only when its image, volumes or options change, so that what the
# agent installed in it is still there after an update of this program.
{
  lib,
  pkgs,
  cfg,
  home,
}:
let
  c = cfg.container;
  engine = if c.backend == "podman" then "${pkgs.podman}/bin/podman" else "${pkgs.docker}/bin/docker";
  name = "hermes-gateway";
  current = "${cfg.stateDir}/.program";
  esc = lib.escapeShellArgs;

  identity = builtins.hashString "sha256" (
    builtins.toJSON {
      schema = 1;
      inherit (c) image extraVolumes extraOptions;
      inherit (cfg) stateDir user group extraArgs;
    }
  );
  label = "io.hermes-appliance.identity";

  # Runs as root, for the engine wants that; it touches no file of the home. The ids are looked up here, where
  # they are known.
  ensure = pkgs.writeShellScript "hermes-gateway-container" ''
    set -eu
    have=$(${engine} inspect --format '{{ index .Config.Labels "${label}" }}' ${name} 2>/dev/null || true)
    if [ "$have" = ${identity} ]; then exit 0; fi
    # The new image first: where it cannot be had, the old container stays.
    ${engine} image inspect ${esc [ c.image ]} >/dev/null 2>&1 || ${engine} pull ${esc [ c.image ]}
    ${engine} rm --force ${name} >/dev/null 2>&1 || true
    ${engine} create --name ${name} --label ${label}=${identity} --network host \
      --user "$(${pkgs.coreutils}/bin/id -u ${esc [ cfg.user ]}):$(${pkgs.coreutils}/bin/id -g ${esc [ cfg.user ]})" \
      --volume /nix/store:/nix/store:ro --volume ${esc [ "${cfg.stateDir}:${cfg.stateDir}" ]} \
      --env ${esc [ "HERMES_HOME=${home}" ]} --env ${esc [ "HOME=${cfg.stateDir}" ]} --env HERMES_SUPERVISED_CHILD=1 \
      --env ${esc [ "PATH=${current}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" ]} \
      --workdir ${esc [ home ]} ${lib.concatMapStringsSep " " (v: "--volume ${esc [ v ]}") c.extraVolumes} ${esc c.extraOptions} \
      ${esc ([ c.image "${current}/bin/hermes-appliance" "gateway" "run" ] ++ cfg.extraArgs)} >/dev/null
  '';
in
{
  inherit ensure identity;

  # The container knows the program by this link alone, so that a new one does not make a new container.
  links.${current} = pkgs.buildEnv { name = "hermes-gateway-program"; paths = [ cfg.package ] ++ cfg.extraPackages; };

  unit = {
    description = "Hermes Agent Gateway - Messaging Platform Integration, in a container";
    wants = [ "network-online.target" ];
    after = [ "network-online.target" ] ++ lib.optional (c.backend == "docker") "docker.service";
    requires = lib.optional (c.backend == "docker") "docker.service";
    wantedBy = [ "multi-user.target" ];
    aliases = [ "hermes-agent.service" ];
    serviceConfig = stopSeconds: {
      Type = "exec";
      ExecStartPre = toString ensure;
      ExecStart = "${engine} start --attach ${name}";
      ExecReload = "${engine} kill --signal USR1 ${name}";
      ExecStop = "${engine} stop --time ${toString stopSeconds} ${name}";
      TimeoutStopSec = toString (stopSeconds + 10);
    };
  };
}
