# services.hermes-gateway for home-manager: systemd's user manager on Linux, launchd on macOS.
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
  inst = import ./instance.nix { inherit lib pkgs; manager = "home-manager"; shared = false; };
  option = "services.hermes-gateway";
  user = config.home.homeDirectory;

  homeOf = profile: if profile == null then cfg.hermesHome else "${cfg.hermesHome}/profiles/${profile}";
  nameOf = profile: if profile == null then "hermes-gateway" else "hermes-gateway-${profile}";
  icfgOf = profile: if profile == null then cfg else cfg.profiles.${profile};
  workOf = profile:
    let own = (icfgOf profile).workingDirectory;
    in if own != null then own else if cfg.workingDirectory != null then cfg.workingDirectory else user;

  profiles = builtins.attrNames cfg.profiles;
  all = [ null ] ++ profiles;
  gateways = builtins.filter (p: (icfgOf p).gateway.enable) all;
  program = "${cfg.package}/bin/hermes-appliance";
  tools = lib.makeBinPath ([ pkgs.bash pkgs.coreutils pkgs.git pkgs.gnugrep pkgs.gnused pkgs.findutils ] ++ cfg.extraPackages);

  prepareOf = profile:
    inst.prepare {
      name = nameOf profile;
      home = homeOf profile;
      icfg = icfgOf profile;
      workingDirectory = workOf profile;
      inherit (cfg) package;
      umask = "0077";
      envFiles = (icfgOf profile).environmentFiles;
      inherit (icfgOf profile) authFile;
    };

  unitOf = profile:
    let
      u = inst.unit {
        scope = "user";
        inherit (cfg) hardening;
        replace = {
          "/@home@" = homeOf profile;
          "/@state@" = cfg.hermesHome;
          "/@work@" = workOf profile;
          "/@program@" = program;
        };
      };
    in
    {
      Unit = u.Unit // {
        Requires = preparations profile;
        After = preparations profile;
        X-Restart-Triggers = map (p: toString (prepareOf p)) (servedBy profile);
      };
      Service = u.Service // {
        ExecStart = u.Service.ExecStart + lib.concatMapStringsSep "" (a: " ${inst.execWord a}") (icfgOf profile).extraArgs;
        ExecReload = builtins.replaceStrings [ "/bin/kill" ] [ "${pkgs.coreutils}/bin/kill" ] u.Service.ExecReload;
        TimeoutStopSec = toString (inst.stopSeconds (icfgOf profile));
        Restart = cfg.restart;
        UMask = "0077";
        Environment = u.Service.Environment ++ [ (inst.quoted "PATH=${tools}:/run/wrappers/bin:/run/current-system/sw/bin:/usr/bin:/bin") ];
      }
      // lib.optionalAttrs (cfg.restartSec != null) { RestartSec = toString cfg.restartSec; }
      // lib.optionalAttrs (u.Service ? ProtectHome) { ProtectHome = inst.protectHome [ (homeOf profile) (workOf profile) ]; };
      Install = u.Install // { Alias = [ (builtins.replaceStrings [ "gateway" ] [ "agent" ] "${nameOf profile}.service") ]; };
    };

  # Homes that a gateway serves: its own, and with the default one every profile that has none.
  servedBy = profile: [ profile ] ++ lib.optionals (profile == null) (builtins.filter (p: !cfg.profiles.${p}.gateway.enable) profiles);
  preparations = profile: map (p: "${nameOf p}-prepare.service") (servedBy profile);
  prepared = lib.concatMap servedBy gateways;

  # Secrets may be made by a service of this manager, so the home is prepared by one, too.
  prepareUnit = profile: {
    name = "${nameOf profile}-prepare";
    value = {
      Unit = {
        Description = "Home of ${nameOf profile}: config, secrets and files as declared";
        After = [ "sops-nix.service" "agenix.service" ];
      };
      Service = { Type = "oneshot"; ExecStart = toString (prepareOf profile); };
    };
  };

  agentOf = profile: {
    enable = true;
    config = {
      ProgramArguments = [ program "gateway" "run" ] ++ (icfgOf profile).extraArgs ++ [ "--external-supervisor" ];
      WorkingDirectory = homeOf profile;
      EnvironmentVariables = {
        HERMES_HOME = homeOf profile;
        HERMES_SUPERVISED_CHILD = "1";
        PATH = "${tools}:/usr/bin:/bin:/usr/sbin:/sbin";
      };
      RunAtLoad = true;
      KeepAlive = true;
      ThrottleInterval = lib.max 30 (if cfg.restartSec == null then 0 else cfg.restartSec);
      ExitTimeOut = 25;
      StandardOutPath = "${homeOf profile}/logs/gateway.log";
      StandardErrorPath = "${homeOf profile}/logs/gateway.error.log";
    };
  };

  linux = pkgs.stdenv.hostPlatform.isLinux;
in
{
  imports = [
    (import ./upstream.nix {
      inherit lib;
      paths = map (n: [ n ]) (builtins.attrNames opts.top ++ [ "package" "hermesHome" ]) ++ [ [ "gateway" "enable" ] ];
    })
  ];

  options.services.hermes-gateway = opts.top // {
    package = mkOption { type = types.package; default = package pkgs; defaultText = "the flake's package"; description = "The program."; };
    hermesHome = mkOption { type = types.str; default = "${user}/.hermes"; defaultText = "~/.hermes"; description = "The home."; };
    gateway.enable = opts.gatewayEnable;
  };

  config = mkIf cfg.enable (mkMerge [
    {
      assertions =
        inst.assertions option cfg
        ++ inst.profileAssertions option cfg.profiles
        ++ [
          (inst.packageAssertion cfg.package)
          { assertion = inst.plainPath cfg.hermesHome; message = "${option}.hermesHome: expected an absolute path of letters, digits and . _ - + @ /"; }
        ];
      warnings = inst.warnings option cfg ++ lib.concatMap (p: inst.warnings "${option}.profiles.${p}" cfg.profiles.${p}) profiles;
      home.packages = [ cfg.package ];
      home.sessionVariables = lib.optionalAttrs (cfg.hermesHome != "${user}/.hermes") { HERMES_HOME = cfg.hermesHome; };

      # Homes that no service prepares; a dry run only says what it would do.
      home.activation.hermesGateway = {
        after = [ "writeBoundary" "linkGeneration" ];
        before = [ "setupLaunchAgents" ];
        data = lib.concatMapStringsSep "\n" (p: "run ${prepareOf p}") (if linux then lib.subtractLists prepared all else all);
      };
    }
    (mkIf linux {
      systemd.user.services = builtins.listToAttrs (
        map (p: { name = nameOf p; value = unitOf p; }) gateways ++ map prepareUnit prepared
      );
    })
    (mkIf (!linux) {
      launchd.agents = builtins.listToAttrs (map (p: { name = nameOf p; value = agentOf p; }) gateways);
    })
  ]);
}
