# A machine that boots with the service, on a home of version 47 that somebody had before.
{ self }:
{ lib, ... }:
{
  name = "hermes-gateway";

  nodes.machine =
    { pkgs, ... }:
    {
      imports = [ self.nixosModules.default ];
      services.hermes-gateway = {
        enable = true;
        settings.model.default = "declared";
        environment.API_SERVER_ENABLED = "true";
        environmentFiles = [ "/run/keys/hermes" ];
        hermesHomeFiles."SOUL.md" = "You are a test.";
      };
      environment.systemPackages = [
        pkgs.curl
        self.packages.${pkgs.stdenv.hostPlatform.system}.default
      ];

      # Secrets and the old home are there before the service, as sops-nix and a restored backup would have them.
      systemd.services.scene = {
        requiredBy = [ "hermes-gateway-prepare.service" ];
        before = [ "hermes-gateway-prepare.service" ];
        unitConfig.ConditionPathExists = "!/var/lib/hermes/.hermes";
        serviceConfig.Type = "oneshot";
        script = ''
          install -d -o hermes -g hermes -m 2750 /var/lib/hermes/.hermes
          printf '# by hand\n_config_version: 47\nterminal:\n  docker_image: nikolaik/python-nodejs:python3.14-nodejs22\n  timeout: 77  # mine\n' \
            >/var/lib/hermes/.hermes/config.yaml
          chown hermes:hermes /var/lib/hermes/.hermes/config.yaml
        '';
      };
      # Also when the home is there: the keys are on a file system of memory.
      systemd.services.scene-keys = {
        requiredBy = [ "hermes-gateway-prepare.service" ];
        before = [ "hermes-gateway-prepare.service" ];
        serviceConfig.Type = "oneshot";
        script = ''
          install -d -m 0700 /run/keys
          [ -e /run/keys/hermes ] || (umask 077; echo API_SERVER_KEY=$(head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n') >/run/keys/hermes)
        '';
      };

      specialisation.changed.configuration.services.hermes-gateway.settings.model.default = lib.mkForce "changed";
    };

  testScript = ''
    home = "/var/lib/hermes/.hermes"
    key = ""

    def ask(what):
        return machine.succeed(
            f"curl -sSf http://127.0.0.1:8642/v1/chat/completions -H 'Authorization: Bearer {key}'"
            f" -d '{{\"messages\":[{{\"role\":\"user\",\"content\":\"{what}\"}}]}}'"
        )

    machine.wait_for_unit("hermes-gateway.service")
    machine.wait_for_open_port(8642)
    key = machine.succeed("cut -d= -f2 /run/keys/hermes").strip()

    with subtest("the old home was migrated, and nothing else of it touched"):
        config = machine.succeed(f"cat {home}/config.yaml")
        assert "_config_version: 50" in config, config
        assert "docker_image" not in config, config
        assert "# by hand" in config and "timeout: 77  # mine" in config, config
        assert "default: declared" in config, config
        machine.succeed(f"grep -qx nixos {home}/.managed")
        machine.succeed(f"grep -q 'You are a test.' {home}/SOUL.md")

    with subtest("it answers and runs a tool"):
        assert "Linux" in ask("run: uname -s")

    with subtest("upstream's name leads to it"):
        machine.succeed("systemctl is-active hermes-agent.service")

    with subtest("only the manager writes the config"):
        machine.fail(f"su hermes -s /bin/sh -c 'HERMES_HOME={home} hermes-appliance config set model.default x'")
        machine.succeed(f"su hermes -s /bin/sh -c 'HERMES_HOME={home} hermes-appliance config get model.default'")

    with subtest("no secret in the store or in the unit"):
        machine.fail(f"grep -rqs {key} /nix/store /etc/systemd/system")
        machine.fail(f"systemctl show hermes-gateway hermes-gateway-prepare | grep -q {key}")
        machine.succeed(f"[ $(stat -c %a:%U {home}/.env) = 640:hermes ]")

    with subtest("a restart keeps the state"):
        before = machine.succeed(f"sha256sum {home}/config.yaml {home}/.env")
        sessions = machine.succeed(f"stat -c %i {home}/state.db")
        machine.succeed("systemctl restart hermes-gateway")
        machine.wait_for_unit("hermes-gateway.service")
        machine.wait_for_open_port(8642)
        assert machine.succeed(f"sha256sum {home}/config.yaml {home}/.env") == before
        assert machine.succeed(f"stat -c %i {home}/state.db") == sessions

    with subtest("a new declaration is switched to, and back"):
        machine.succeed("/run/current-system/specialisation/changed/bin/switch-to-configuration test")
        machine.wait_for_unit("hermes-gateway.service")
        assert "default: changed" in machine.succeed(f"cat {home}/config.yaml")
        machine.succeed("/run/booted-system/bin/switch-to-configuration test")
        machine.wait_for_unit("hermes-gateway.service")
        assert "default: declared" in machine.succeed(f"cat {home}/config.yaml")

    with subtest("without its secret it does not start, and does not try for ever"):
        machine.succeed("systemctl stop hermes-gateway")
        machine.succeed("mkdir -p /run/systemd/system/hermes-gateway-prepare.service.d")
        machine.succeed("printf '[Service]\\nLoadCredential=gone:/run/keys/gone\\n' > /run/systemd/system/hermes-gateway-prepare.service.d/gone.conf")
        machine.succeed("systemctl daemon-reload")
        machine.fail("systemctl start hermes-gateway")
        machine.fail("systemctl is-active hermes-gateway")

    machine.log(machine.execute("systemd-analyze security hermes-gateway.service")[1])
  '';
}
