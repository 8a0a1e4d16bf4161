# services.hermes-gateway for NixOS.
{ package }:
{
  config,
  lib,
  pkgs,
  ...
}:
let
  inherit (lib) mkIf mkMerge mkOption types;
  cfg = config.services.hermes-gateway;
  opts = import ./options.nix { inherit lib; };
  container = import ./container.nix { inherit lib pkgs cfg; home = homeOf null; };
  shared = cfg.addToSystemPackages || cfg.container.hostUsers != [ ];
  inst = import ./instance.nix { inherit lib pkgs shared; manager = "nixos"; };
  option = "services.hermes-gateway";

  root = "${cfg.stateDir}/.hermes";
  homeOf = profile: if profile == null then root else "${root}/profiles/${profile}";
  nameOf = profile: if profile == null then "hermes-gateway" else "hermes-gateway-${profile}";
  icfgOf = profile: if profile == null then cfg else cfg.profiles.${profile};
  workOf = profile:
    let own = (icfgOf profile).workingDirectory;
    in if own != null then own else if cfg.workingDirectory != null then cfg.workingDirectory else "${cfg.stateDir}/workspace";

  profiles = builtins.attrNames cfg.profiles;
  all = [ null ] ++ profiles;
  gateways = [ null ] ++ builtins.filter (p: cfg.profiles.${p}.gateway.enable) profiles;
  umask = if shared then "0007" else "0027";

  tools = [ pkgs.bash pkgs.coreutils pkgs.git pkgs.gnugrep pkgs.gnused pkgs.findutils ] ++ cfg.extraPackages;

  # The rendered unit, with our paths in it.
  unitOf = profile:
    let
      dirs = [ (homeOf profile) cfg.stateDir (workOf profile) ];
      u = inst.unit {
        scope = "system";
        inherit (cfg) hardening;
        replace = {
          "/@home@" = homeOf profile;
          "/@state@" = cfg.stateDir;
          "/@work@" = workOf profile;
          "/@program@" = "${cfg.package}/bin/hermes-appliance";
          account_placeholder = cfg.user;
          group_placeholder = cfg.group;
        };
      };
    in
    u // {
      Service = u.Service // {
        ExecStart = u.Service.ExecStart + lib.concatMapStringsSep "" (a: " ${inst.execWord a}") (icfgOf profile).extraArgs;
        ExecReload = builtins.replaceStrings [ "/bin/kill" ] [ "${pkgs.coreutils}/bin/kill" ] u.Service.ExecReload;
        TimeoutStopSec = toString (inst.stopSeconds (icfgOf profile));
        Restart = cfg.restart;
      }
      // lib.optionalAttrs (u.Service ? UMask) { UMask = umask; }
      // lib.optionalAttrs (cfg.restartSec != null) { RestartSec = toString cfg.restartSec; }
      // lib.optionalAttrs (u.Service ? ProtectHome) { ProtectHome = inst.protectHome dirs; };
    };

  # What of the gateway's unit its preparation shares: who it runs as, and what it is kept from.
  sandboxOf = profile:
    removeAttrs (unitOf profile).Service [
      "Type" "NotifyAccess" "ExecStart" "ExecReload" "Restart" "RestartSec" "RestartForceExitStatus" "SuccessExitStatus"
      "RestartPreventExitStatus" "KillMode" "KillSignal" "TimeoutStopSec" "OOMPolicy" "WorkingDirectory"
    ];

  credentialsOf = profile:
    lib.imap0 (i: f: "env-${toString i}:${f}") (icfgOf profile).environmentFiles
    ++ lib.optional ((icfgOf profile).authFile != null) "auth:${(icfgOf profile).authFile}";

  prepareOf = profile:
    inst.prepare {
      name = nameOf profile;
      home = homeOf profile;
      icfg = icfgOf profile;
      workingDirectory = workOf profile;
      inherit (cfg) package;
      inherit umask;
      envFiles = lib.imap0 (i: _: "env-${toString i}") (icfgOf profile).environmentFiles;
      authFile = if (icfgOf profile).authFile == null then null else "auth";
      links = lib.optionalAttrs (cfg.container.enable && profile == null) container.links;
    };

  # Homes that a gateway serves: its own, and with the default one every profile that has none.
  servedBy = profile: [ profile ] ++ lib.optionals (profile == null) (builtins.filter (p: !cfg.profiles.${p}.gateway.enable) profiles);
  preparations = profile: map (p: "${nameOf p}-prepare.service") (servedBy profile);

  prepareUnit = profile: {
    name = "${nameOf profile}-prepare";
    value = {
      description = "Home of ${nameOf profile}: config, secrets and files as declared";
      serviceConfig = sandboxOf profile // {
        Type = "oneshot";
        # The home and the working directory need not be there yet.
        ReadWritePaths = [ cfg.stateDir "-${workOf profile}" ];
        ExecStart = toString (prepareOf profile);
        LoadCredential = credentialsOf profile;
      };
    }
    // lib.optionalAttrs (profile != null) {
      requires = [ "hermes-gateway-prepare.service" ];
      after = [ "hermes-gateway-prepare.service" ];
    };
  };

  gatewayUnit = profile: {
    name = nameOf profile;
    value = {
      description = (unitOf profile).Unit.Description;
      wants = [ "network-online.target" ];
      after = [ "network-online.target" ] ++ preparations profile;
      requires = preparations profile;
      wantedBy = [ "multi-user.target" ];
      aliases = [ (builtins.replaceStrings [ "gateway" ] [ "agent" ] "${nameOf profile}.service") ];
      restartTriggers = map (p: toString (prepareOf p)) (servedBy profile);
      path = tools;
      unitConfig = removeAttrs (unitOf profile).Unit [ "Description" "Wants" "After" ];
      serviceConfig = (unitOf profile).Service // lib.optionalAttrs (profile == null && held) { Sockets = "hermes-gateway.socket"; };
    };
  };
  held = cfg.socketActivation != null;
in
{
  imports = [
    (import ./upstream.nix {
      inherit lib;
      paths =
        map (n: [ n ]) (builtins.attrNames opts.top ++ [ "package" "user" "group" "createUser" "stateDir" "addToSystemPackages" ])
        ++ map (n: [ "container" n ]) [ "enable" "backend" "image" "extraVolumes" "extraOptions" "hostUsers" ];
    })
  ];

  options.services.hermes-gateway = opts.top // {
    package = mkOption { type = types.package; default = package pkgs; defaultText = "the flake's package"; description = "The program."; };
    user = mkOption { type = types.str; default = "hermes"; description = "The account it runs as."; };
    group = mkOption { type = types.str; default = "hermes"; description = "Its group."; };
    createUser = mkOption { type = types.bool; default = true; description = "Whether to make the account and the group."; };
    stateDir = mkOption { type = types.str; default = "/var/lib/hermes"; description = "Where all of its state lies; the home is `.hermes` in it."; };
    socketActivation = mkOption {
      type = types.nullOr types.str;
      default = null;
      example = "127.0.0.1:8642";
      description = "The address of the default gateway's API, held by systemd, so that requests wait while the gateway restarts. The API must be on; the address in its settings does not count then. null has the gateway listen itself.";
    };
    addToSystemPackages = mkOption { type = types.bool; default = false; description = "Put the program and `HERMES_HOME` into everybody's environment, and let the group write the home."; };
    container = {
      enable = mkOption { type = types.bool; default = false; description = "Run the gateway in a container, in which the agent may install what it likes."; };
      backend = mkOption { type = types.enum [ "docker" "podman" ]; default = "docker"; description = "The engine."; };
      image = mkOption { type = types.str; default = "ubuntu:24.04"; description = "The image. Another one makes a new container, without what was installed in the old."; };
      extraVolumes = mkOption { type = types.listOf types.str; default = [ ]; example = [ "/srv/data:/srv/data:ro" ]; description = "Further volumes."; };
      extraOptions = mkOption { type = types.listOf types.str; default = [ ]; description = "Further options of the engine's `create`."; };
      hostUsers = mkOption { type = types.listOf types.str; default = [ ]; description = "People who share the home: they join the group. With `addToSystemPackages` their programs find it by `HERMES_HOME`."; };
    };
  };

  config = mkIf cfg.enable (mkMerge [
    {
      assertions =
        inst.assertions option cfg
        ++ inst.profileAssertions option cfg.profiles
        ++ [
          (inst.packageAssertion cfg.package)
          { assertion = inst.plainPath cfg.stateDir; message = "${option}.stateDir: expected an absolute path of letters, digits and . _ - + @ /"; }
          { assertion = !(held && cfg.container.enable); message = "${option}.socketActivation: a gateway in a container listens itself; take one of the two out."; }
          { assertion = !held || builtins.match "[][A-Za-z0-9.:]+" cfg.socketActivation != null; message = "${option}.socketActivation: expected ADDRESS:PORT."; }
          { assertion = !(cfg.container.enable && lib.any (p: cfg.profiles.${p}.gateway.enable) profiles); message = "${option}.container runs one gateway: set settings.gateway.multiplex_profiles = true instead of profiles.<name>.gateway.enable."; }
        ];
      warnings =
        inst.warnings option cfg
        ++ lib.concatMap (p: inst.warnings "${option}.profiles.${p}" cfg.profiles.${p}) profiles
        ++ lib.optional (cfg.container.hostUsers != [ ] && !cfg.addToSystemPackages) "${option}.container.hostUsers share the home, but their programs do not know where it is: set ${option}.addToSystemPackages, or HERMES_HOME for them.";

      # The state directory alone is made by root; all below it by the account itself.
      systemd.tmpfiles.rules =
        [ "d ${cfg.stateDir} ${if shared then "2770" else "2750"} ${cfg.user} ${cfg.group} -" ]
        ++ map (p: "d ${workOf p} ${if shared then "2770" else "2750"} ${cfg.user} ${cfg.group} -") (
          builtins.filter (p: !(lib.hasPrefix "${cfg.stateDir}/" (workOf p)) && (icfgOf p).workingDirectory != null && !(lib.hasPrefix "/home/" (workOf p))) all
        );

      systemd.services = builtins.listToAttrs (
        map prepareUnit all ++ map gatewayUnit (if cfg.container.enable then [ ] else gateways)
      );
    }
    (mkIf held {
      systemd.sockets.hermes-gateway = {
        description = "${(unitOf null).Unit.Description}, listener api_server";
        wantedBy = [ "sockets.target" ];
        socketConfig = inst.socket cfg.socketActivation;
      };
    })
    (mkIf cfg.createUser {
      users.users.${cfg.user} = {
        isSystemUser = true;
        inherit (cfg) group;
        home = cfg.stateDir;
        useDefaultShell = true;
      };
      users.groups.${cfg.group} = { };
    })
    (mkIf (cfg.container.hostUsers != [ ]) {
      users.users = lib.genAttrs cfg.container.hostUsers (_: { extraGroups = [ cfg.group ]; });
    })
    (mkIf cfg.addToSystemPackages {
      environment.systemPackages = [ cfg.package ];
      environment.variables.HERMES_HOME = root;
    })
    (mkIf cfg.container.enable {
      virtualisation.${cfg.container.backend}.enable = true;
      systemd.services.hermes-gateway = container.unit // {
        after = container.unit.after ++ preparations null;
        requires = container.unit.requires ++ preparations null;
        restartTriggers = map (p: toString (prepareOf p)) (servedBy null);
        serviceConfig =
          let native = (unitOf null).Service;
          in {
            inherit (native) Restart RestartSec RestartForceExitStatus RestartPreventExitStatus SuccessExitStatus KillMode StandardOutput StandardError TimeoutStartSec TimeoutStopSec;
          } // container.unit.serviceConfig (inst.stopSeconds cfg);
        unitConfig = removeAttrs (unitOf null).Unit [ "Description" "Wants" "After" ];
      };
    })
  ]);
}
