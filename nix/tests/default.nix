# The modules, evaluated: `checks` is a list of what was got and what was wanted. It runs on the small lib of ours, on
# nixpkgs' own, and in the flake's checks.
{
  lib ? import ./stub/lib.nix,
  program ? "/program",
}:
let
  inherit (builtins) attrNames filter length map toJSON;
  stub = import ./stub/pkgs.nix { system = "x86_64-linux"; };
  package = { type = "derivation"; outPath = program; name = "hermes-appliance"; meta.mainProgram = "hermes-appliance"; };
  other = { type = "derivation"; outPath = "/other"; name = "hermes-agent-1"; meta.mainProgram = "hermes"; };
  # Texts become files in the store, so that the scripts can be run; everything else is where Debian has it.
  pkgs = stub // {
    writeText = builtins.toFile;
    writeShellScript = name: text: builtins.toFile name "#!/bin/bash\n${text}";
    buildEnv = { name, paths }: builtins.toFile name (toJSON (map toString paths));
  }
  // lib.genAttrs [ "bash" "coreutils" "diffutils" "docker" "findutils" "git" "gnugrep" "gnused" "podman" ] (name: { type = "derivation"; outPath = "/usr"; inherit name; });

  eval = host: module: system: cfg:
    lib.evalModules {
      modules = [ host (import module { package = _: package; }) cfg ];
      specialArgs.pkgs = pkgs // { stdenv.hostPlatform = { inherit system; isLinux = system == "x86_64-linux"; }; };
    };
  nixos = eval ./hosts/nixos.nix ../nixos.nix "x86_64-linux";
  home = eval ./hosts/home.nix ../home-manager.nix "x86_64-linux";
  mac = eval ./hosts/home.nix ../home-manager.nix "aarch64-darwin";

  gateway = cfg: { services.hermes-gateway = { enable = true; } // cfg; };
  upstream = cfg: { services.hermes-agent = { enable = true; } // cfg; };
  failed = e: map (a: a.message) (filter (a: !a.assertion) e.config.assertions);
  says = word: e: length (filter (lib.hasInfix word) (failed e)) > 0;
  warns = word: e: length (filter (lib.hasInfix word) e.config.warnings) > 0;
  unit = e: e.config.systemd.services.hermes-gateway;
  throws = x: !(builtins.tryEval (builtins.deepSeq x x)).success;

  is = name: want: got: { inherit name got want; };
  yes = name: got: is name true got;

  nixosOptions = (nixos { }).options.services.hermes-gateway;
  homeOptions = (home { }).options.services.hermes-gateway;
  onlyNixos = [ "addToSystemPackages" "container" "createUser" "group" "socketActivation" "stateDir" "user" ];
  onlyHome = [ "gateway" "hermesHome" ];
  less = a: b: filter (n: !(builtins.elem n b)) a;

  # Upstream's options (packaging of its module), each of which works here or says what to do.
  upstreamOptions = [
    "addToSystemPackages" "authFile" "authFileForceOverwrite" "backend" "configFile" "container" "createUser" "documents" "enable" "environment"
    "environmentFiles" "extraArgs" "extraDependencyGroups" "extraPackages" "extraPlugins" "extraPythonPackages" "group" "hermesHomeFiles"
    "installPackage" "mcpServers" "package" "restart" "restartSec" "settings" "stateDir" "user" "workingDirectory"
  ];

  full = {
    workingDirectory = "/srv/work";
    settings = { terminal.backend = "docker"; gateway.restart_drain_timeout = 180; };
    environmentFiles = [ "/run/secrets/a" "/run/secrets/b" ];
    authFile = "/run/secrets/auth";
    extraArgs = [ "--profile" "a b%$\"\\" ];
    profiles.work = { settings.model.default = "m"; gateway.enable = true; };
    profiles.quiet = { };
  };
  native = nixos (gateway full);
  hm = home (gateway (full // { gateway.enable = true; }));
  boxed = nixos (gateway { container.enable = true; container.backend = "podman"; container.extraVolumes = [ "/a:/b" ]; });

  listens = nixos (gateway { socketActivation = "127.0.0.1:8642"; });

  identity = cfg:
    (import ../container.nix { inherit lib pkgs; home = "/h"; cfg = (nixos (gateway cfg)).config.services.hermes-gateway; }).identity;

  checks = [
    (is "parity: what both have is the same" (less (attrNames nixosOptions) onlyNixos) (less (attrNames homeOptions) onlyHome))
    (is "parity: the exclusions are not stale" [ ] (less onlyNixos (attrNames nixosOptions) ++ less onlyHome (attrNames homeOptions) ++ filter (n: homeOptions ? ${n}) onlyNixos ++ filter (n: nixosOptions ? ${n}) onlyHome))
    (is "nothing happens unless enabled" { } (nixos { }).config.systemd.services)
    (is "no assertion fails" [ ] (failed native ++ failed hm ++ failed boxed ++ failed (nixos (gateway { })) ++ failed (home (gateway { }))))
    (is "no warning" [ ] (native.config.warnings ++ hm.config.warnings ++ boxed.config.warnings))

    # moving over from upstream's module
    (is "every option of upstream's is there" [ ] (filter (n: !((nixos { }).options.services.hermes-agent ? ${n})) upstreamOptions))
    (is "upstream's configuration makes the same units" (toJSON native.config.systemd.services) (toJSON (nixos (upstream full)).config.systemd.services))
    (is "upstream's container options are taken" (toJSON (unit boxed)) (toJSON (unit (nixos (upstream { container.enable = true; container.backend = "podman"; container.extraVolumes = [ "/a:/b" ]; })))))
    (is "upstream's home-manager configuration makes the same units" (toJSON hm.config.systemd.user.services) (toJSON (home (upstream (full // { gateway.enable = true; }))).config.systemd.user.services))
    (is "nothing of upstream's is refused in a plain configuration" [ ] (failed (nixos (upstream { settings.a = 1; }))))
    (yes "backend is refused" (says "the API is part of the gateway" (nixos (upstream { backend.mode = "serve"; }))))
    (yes "extraPythonPackages is refused" (says "extraPackages" (nixos (upstream { extraPythonPackages = [ ]; }))))
    (yes "extraPlugins is refused" (says "mcpServers" (nixos (upstream { extraPlugins = [ ]; }))))
    (yes "installPackage is refused" (says "addToSystemPackages" (home (upstream { installPackage = true; }))))
    (yes "programs.hermes-agent is refused" (says "services.hermes-gateway.enable" (home { programs.hermes-agent.enable = true; })))
    (yes "upstream's package is refused" (says "hermes-agent-1" (nixos (upstream { package = other; }))))
    (yes "an unknown option is an error" (throws (nixos (gateway { nonsense = 1; })).config.systemd.services))
    (yes "a value of the wrong type is an error" (throws (nixos (gateway { restartSec = "5"; })).config.systemd.services))

    # documents need a place, six cases
    (yes "documents without a directory" (says "workingDirectory" (nixos (gateway { documents.a = "x"; }))))
    (is "documents with one" [ ] (failed (nixos (gateway { documents.a = "x"; workingDirectory = "/w"; }))))
    (is "documents with mkDefault" [ ] (failed (nixos (gateway { documents.a = "x"; workingDirectory = lib.mkDefault "/w"; }))))
    (is "documents with the default's own text" [ ] (failed (nixos (gateway { documents.a = "x"; workingDirectory = "/var/lib/hermes/workspace"; }))))
    (yes "documents of a profile without a directory" (says "profiles.p.documents" (nixos (gateway { workingDirectory = "/w"; profiles.p.documents.a = "x"; }))))
    (is "documents of a profile with one" [ ] (failed (home (gateway { profiles.p = { documents.a = "x"; workingDirectory = "/w"; }; }))))
    (yes "a document outside of it" (says "relative" (nixos (gateway { documents."../a" = "x"; workingDirectory = "/w"; }))))
    (yes "config.yaml as a file of the home" (says "settings" (nixos (gateway { hermesHomeFiles."config.yaml" = "x"; }))))
    (yes "configFile and settings" (says "configFile" (nixos (gateway { configFile = ./default.nix; settings.a = 1; }))))

    # secrets
    (yes "a secret in the store" (says "environmentFiles lies in the store" (nixos (gateway { environmentFiles = [ "${builtins.storeDir}/x" ]; }))))
    (yes "a sign-in in the store" (says "authFile lies in the store" (home (gateway { authFile = "${builtins.storeDir}/x"; }))))
    (yes "a path literal for a secret" (throws (nixos (gateway { environmentFiles = [ ./default.nix ]; })).config.systemd.services))
    (is "secrets are credentials" [ "env-0:/run/secrets/a" "env-1:/run/secrets/b" "auth:/run/secrets/auth" ] native.config.systemd.services.hermes-gateway-prepare.serviceConfig.LoadCredential)
    (is "the gateway itself is handed none" false ((unit native).serviceConfig ? LoadCredential))

    # copied defaults of the migrations 47, 48 and 49
    (is "copied defaults are warnings" 6 (length (nixos (gateway { settings = { compression.threshold_tokens = 256000; terminal = { docker_image = "nikolaik/python-nodejs:python3.14-nodejs22"; modal_image = "nikolaik/python-nodejs:python3.11-nodejs20"; singularity_image = "docker://nikolaik/python-nodejs:python3.11-nodejs20"; vercel_runtime = "node24"; }; }; environment.TERMINAL_VERCEL_RUNTIME = "node24"; })).config.warnings))
    (yes "the warning names the option" (warns "services.hermes-gateway.settings.terminal.docker_image" (nixos (gateway { settings.terminal.docker_image = "nikolaik/python-nodejs:python3.14-nodejs22"; }))))
    (yes "and that of a profile" (warns "profiles.p.settings.compression.threshold_tokens" (home (gateway { profiles.p.settings.compression.threshold_tokens = 256000; }))))
    (is "an own choice is none" [ ] (nixos (gateway { settings = { compression.threshold_tokens = 256001; terminal = { docker_image = "mine:1"; vercel_runtime = "node22"; }; }; })).config.warnings)
    (yes "a version by hand is a warning" (warns "_config_version" (nixos (gateway { settings._config_version = 50; }))))

    # how the units hang together
    (is "units" [ "hermes-gateway" "hermes-gateway-prepare" "hermes-gateway-quiet-prepare" "hermes-gateway-work" "hermes-gateway-work-prepare" ] (attrNames native.config.systemd.services))
    (is "the gateway waits for its homes" [ "hermes-gateway-prepare.service" "hermes-gateway-quiet-prepare.service" ] (unit native).requires)
    (is "a profile's gateway for its own" [ "hermes-gateway-work-prepare.service" ] native.config.systemd.services.hermes-gateway-work.requires)
    (is "seconds to wait can be set" "7" (unit (nixos (gateway { restartSec = 7; }))).serviceConfig.RestartSec)
    (is "upstream's name is an alias" [ "hermes-agent.service" ] (unit native).aliases)
    (yes "a new declaration starts it anew" ((unit native).restartTriggers != (unit (nixos (gateway (full // { settings.a = 1; })))).restartTriggers))
    (is "home-manager's units" [ "hermes-gateway" "hermes-gateway-prepare" "hermes-gateway-quiet-prepare" "hermes-gateway-work" "hermes-gateway-work-prepare" ] (attrNames hm.config.systemd.user.services))
    (is "without a gateway the homes are prepared at activation" 1 (length (attrNames (home (gateway { })).config.home.activation)))
    (yes "and really" (lib.hasInfix "hermes-gateway-prepare" (home (gateway { })).config.home.activation.hermesGateway.data))
    (is "macOS has agents" [ "hermes-gateway" ] (attrNames (mac (gateway { gateway.enable = true; })).config.launchd.agents))
    (yes "macOS prepares at activation" (lib.hasInfix "hermes-gateway-prepare" (mac (gateway { gateway.enable = true; })).config.home.activation.hermesGateway.data))
    (yes "a profile's name is checked" (says "profiles.Bad" (nixos (gateway { profiles.Bad = { }; }))))
    (yes "reserved names are" (says "profiles.root" (home (gateway { profiles.root = { }; }))))
    (yes "a path with spaces is refused" (says "stateDir" (nixos (gateway { stateDir = "/var/my lib"; }))))

    # report 8: the mark that says who owns the config is in the home, never in the program's environment
    (yes "nobody sets HERMES_MANAGED" (!lib.hasInfix "HERMES_MANAGED" (toJSON [ native.config.systemd.services hm.config.systemd.user.services boxed.config.systemd.services ])))

    # a listener that systemd holds
    (is "no socket unless asked for" { } native.config.systemd.sockets)
    (is "the socket is the program's own" { Backlog = "1024"; FileDescriptorName = "api_server"; ListenStream = "127.0.0.1:8642"; NoDelay = "true"; Service = "hermes-gateway.service"; } listens.config.systemd.sockets.hermes-gateway.socketConfig)
    (is "it starts by itself" [ "sockets.target" ] listens.config.systemd.sockets.hermes-gateway.wantedBy)
    (is "the gateway takes it" [ "hermes-gateway.socket" false ] [ (unit listens).serviceConfig.Sockets ((unit native).serviceConfig ? Sockets) ])
    (is "no assertion fails with it" [ ] (failed listens))
    (yes "not with a container" (says "socketActivation" (nixos (gateway { socketActivation = "127.0.0.1:1"; container.enable = true; }))))
    (yes "an address without spaces" (says "socketActivation" (nixos (gateway { socketActivation = "a b"; }))))

    # container mode
    (yes "the engine runs" boxed.config.virtualisation.podman.enable)
    (is "no native unit beside it" "exec" (unit boxed).serviceConfig.Type)
    (is "exit codes count there, too" [ "75" "75" "78" ] (with (unit boxed).serviceConfig; [ RestartForceExitStatus SuccessExitStatus RestartPreventExitStatus ]))
    (yes "settings do not make a new container" (identity { } == identity { settings.a = 1; environment.A = "b"; extraPackages = [ other ]; }))
    (yes "an image does" (identity { } != identity { container.image = "debian:13"; }))
    (yes "a volume does" (identity { } != identity { container.extraVolumes = [ "/a:/b" ]; }))
    (yes "an option does" (identity { } != identity { container.extraOptions = [ "--cpus=1" ]; }))
    (yes "one gateway in a container" (says "multiplex_profiles" (nixos (gateway { container.enable = true; profiles.p.gateway.enable = true; }))))
    (is "people who share join the group" [ "hermes" ] (nixos (gateway { container.hostUsers = [ "me" ]; })).config.users.users.me.extraGroups)
    (yes "and are told" (warns "addToSystemPackages" (nixos (gateway { container.hostUsers = [ "me" ]; }))))
    (is "sharing lets the group write" "0007" (unit (nixos (gateway { addToSystemPackages = true; }))).serviceConfig.UMask)
    (is "a person's home is the person's alone" "0077" hm.config.systemd.user.services.hermes-gateway.Service.UMask)
    (is "the account can be somebody else's" { } (nixos (gateway { createUser = false; })).config.users.users)
  ];

  failures = filter (c: c.got != c.want) checks;
in
{
  inherit failures;
  count = length checks;
  ok = if failures == [ ] then "ok" else throw "module checks failed: ${toJSON failures}";

  # for the comparison with the Go renderer
  units = {
    system = native.config.systemd.services;
    user = hm.config.systemd.user.services;
    inherit (boxed.config.systemd) services;
    agent = (mac (gateway { gateway.enable = true; extraArgs = [ "-v" ]; })).config.launchd.agents.hermes-gateway.config;
    inHome = (unit (nixos (gateway { stateDir = "/home/bot/hermes"; hardening = "agent"; }))).serviceConfig;
    bare = (unit (nixos (gateway { hardening = "none"; settings.gateway.restart_drain_timeout = 12.5; }))).serviceConfig;
  };
  stops = map (drain: (unit (nixos (gateway { settings.gateway.restart_drain_timeout = drain; }))).serviceConfig.TimeoutStopSec) [ 0 1 180 12.5 3600 ];

  # what systemd is handed, and scripts that are run for real
  systemd = cfg: (nixos { services.hermes-gateway = cfg // { enable = true; }; }).config.systemd.services;
  scripts = root: cfg:
    let e = nixos { services.hermes-gateway = cfg // { enable = true; stateDir = root; }; };
    in lib.mapAttrs (_: s: toString s.serviceConfig.ExecStart) (lib.filterAttrs (n: _: builtins.match ".*-prepare" n != null) e.config.systemd.services);
  containerScript = root: cfg: toString (unit (nixos { services.hermes-gateway = { enable = true; stateDir = root; user = "root"; group = "root"; container = { enable = true; } // cfg; }; })).serviceConfig.ExecStartPre;
}
