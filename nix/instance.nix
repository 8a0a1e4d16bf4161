# One home: what is declared for it, the script that makes it so, and how its gateway runs. Both modules use it.
{
  lib,
  pkgs,
  manager, # whose name the home is marked with
  shared, # whether the group may write
}:
let
  legacy = builtins.fromJSON (builtins.readFile ./legacy.json);
  units = builtins.fromJSON (builtins.readFile ./unit.json);

  esc = lib.escapeShellArg;
  mode = if manager == "nixos" then (if shared then "0660" else "0640") else "0600";

  # A word of a command line in a unit, as the Go renderer writes it.
  execWord = s: "\"" + builtins.replaceStrings [ "\\" "\"" "%" "$" ] [ "\\\\" "\\\"" "%%" "$$" ] s + "\"";
  quoted = s: "\"" + builtins.replaceStrings [ "\\" "\"" "%" ] [ "\\\\" "\\\"" "%%" ] s + "\"";

  # null and what is empty say nothing about a server.
  lean = lib.filterAttrs (_: v: v != null && v != [ ] && v != { });

  declared =
    icfg: workingDirectory:
    lib.recursiveUpdate { terminal.cwd = workingDirectory; } (
      builtins.removeAttrs icfg.settings [ "_config_version" ]
      // lib.optionalAttrs (icfg.mcpServers != { }) {
        mcp_servers = (icfg.settings.mcp_servers or { }) // lib.mapAttrs (_: lean) icfg.mcpServers;
      }
    );

  content = name: value: if builtins.isPath value || lib.hasPrefix builtins.storeDir value then value else pkgs.writeText name value;
  drvName = name: builtins.replaceStrings [ "/" " " ] [ "-" "-" ] (lib.removePrefix "." name);

  puts = dir: files:
    lib.concatStringsSep "\n" (
      lib.mapAttrsToList (name: value: "put ${content (drvName "hermes-${name}") value} ${esc "${dir}/${name}"}") files
    );
in
rec {
  inherit execWord quoted units;

  # seconds a stop may take: ten longer than the service's own watchdog (see service.Spec.StopBudget)
  stopSeconds =
    icfg:
    let
      drain = icfg.settings.gateway.restart_drain_timeout or 0;
      whole = if builtins.isFloat drain then builtins.ceil drain else drain;
    in
    lib.max 60 (whole + 70);

  # The script that runs before each start, as the user of the home: nothing of it needs root, so no link in
  # the home can lead it anywhere else. envFiles and authFile are paths, or names of credentials.
  prepare =
    {
      name,
      home,
      icfg,
      workingDirectory,
      package,
      envFiles,
      authFile,
      umask,
      links ? { },
    }:
    let
      whole = icfg.configFile != null;
      settings = pkgs.writeText "${name}-settings.json" (builtins.toJSON (if whole then { } else declared icfg workingDirectory));
      environment = pkgs.writeText "${name}-environment.json" (builtins.toJSON icfg.environment);
      bin = "${package}/bin/hermes-appliance";
      flags = "--manager ${manager} --home ${esc home}";
      authSource = if lib.hasPrefix "/" authFile then esc authFile else "\"$CREDENTIALS_DIRECTORY\"/${authFile}";
    in
    pkgs.writeShellScript "${name}-prepare" ''
      set -eu
      export PATH=${lib.makeBinPath [ pkgs.coreutils pkgs.diffutils ]}
      umask ${umask}

      # put FROM TO: TO becomes FROM, whole or not at all, and stays what it is if it is the same.
      put() {
        if cmp -s "$1" "$2"; then return; fi
        mkdir -p "$(dirname "$2")"
        install -m ${mode} "$1" "$2.new"
        mv -f "$2.new" "$2"
      }

      mkdir -p ${esc home} ${esc workingDirectory}
      for dir in cron sessions logs memories plugins; do mkdir -p ${esc home}/"$dir"; done
      ${lib.concatStringsSep "\n" (lib.mapAttrsToList (link: target: "ln -sfn ${target} ${esc link}") links)}
      ${lib.optionalString whole ''
        # A file that was declared replaces the config when it has changed; the migration after it may stay.
        if ! cmp -s ${icfg.configFile} ${esc home}/.declared-config.yaml; then
          put ${icfg.configFile} ${esc home}/config.yaml
          put ${icfg.configFile} ${esc home}/.declared-config.yaml
        fi
      ''}
      ${bin} migrate ${flags} --declared ${settings} --quiet
      ${bin} config merge ${flags} --declared ${settings}
      ${bin} env assemble ${flags} --environment ${environment}${lib.concatMapStringsSep "" (f: " --file ${esc f}") envFiles}
      ${lib.optionalString (authFile != null) ''
        if ${if icfg.authFileForceOverwrite then "true" else "[ ! -e ${esc home}/auth.json ]"}; then
          ( umask 077 && install -m 0600 ${authSource} ${esc home}/auth.json.new && mv -f ${esc home}/auth.json.new ${esc home}/auth.json )
        fi
      ''}
      ${puts home icfg.hermesHomeFiles}
      ${puts workingDirectory icfg.documents}
    '';

  # The unit of the gateway as lists of values by section and name, from the Go renderer's own output.
  unit =
    {
      scope,
      hardening,
      replace, # what stands for the placeholders
    }:
    let
      files = units.${scope}.${if hardening == null then (if scope == "system" then "balanced" else "none") else hardening};
      options = lib.concatMap (f: f.options) files;
      names = builtins.attrNames replace;
      fill = builtins.replaceStrings names (map (n: replace.${n}) names);
      of = section: builtins.filter (o: o.section == section) options;
      # A value given once stays one; what is given several times becomes a list, in order.
      sections = section:
        lib.mapAttrs (_: vs: if builtins.length vs == 1 then builtins.head vs else vs) (
          lib.zipAttrs (map (o: { ${o.name} = fill o.value; }) (of section))
        );
    in
    {
      Unit = sections "Unit";
      Service = sections "Service";
      Install = sections "Install";
    };

  # A listener that systemd holds for the gateway.
  socket = address:
    builtins.listToAttrs (
      map (o: { inherit (o) name; value = builtins.replaceStrings [ "@listen@" ] [ address ] o.value; }) (
        builtins.filter (o: o.section == "Socket") (builtins.head units.sockets.api_server).options
      )
    );

  # A path that needs no escaping in a unit.
  plainPath = path: builtins.match "/[A-Za-z0-9._+@/-]*" path != null;

  # What is hidden from a service must not hide its own directories.
  protectHome = dirs:
    if lib.any (d: lib.any (hidden: d == hidden || lib.hasPrefix "${hidden}/" d) [ "/home" "/root" "/run/user" ]) dirs then "read-only" else "true";

  # Settings that hold what an old template had copied into files: the program's own defaults are better, and a
  # migration removes them from a file only to see them declared again.
  warnings = option: icfg:
    map (
      l: "${option}.settings.${lib.concatStringsSep "." l.path}: ${builtins.toJSON l.value} is an old default that templates copied into configs (config version ${toString l.step} removes it). Take it out; the current default decides then."
    ) (builtins.filter (l: lib.attrByPath l.path null icfg.settings == l.value) legacy.settings)
    ++ map (
      l: "${option}.environment.${l.name}: ${builtins.toJSON l.value} is an old default (config version ${toString l.step} removes it). Take it out."
    ) (builtins.filter (l: (icfg.environment.${l.name} or null) == l.value) legacy.environment)
    ++ lib.optional (icfg.settings ? _config_version) "${option}.settings._config_version: the program that writes the file knows its version; take it out.";

  assertions = option: icfg:
    let
      secret = name: "${option}.${name} lies in the store, where everybody can read it: give the path of a file outside of it, as a text";
      inStore = p: lib.hasPrefix builtins.storeDir (toString p);
      names = builtins.attrNames (icfg.documents // icfg.hermesHomeFiles);
      reserved = [ "config.yaml" ".env" "auth.json" ".managed" ];
    in
    [
      { assertion = icfg.documents == { } || icfg.workingDirectory != null; message = "${option}.documents needs ${option}.workingDirectory: say where they go."; }
      { assertion = !lib.any inStore icfg.environmentFiles; message = secret "environmentFiles"; }
      { assertion = icfg.authFile == null || !inStore icfg.authFile; message = secret "authFile"; }
      { assertion = lib.all (n: !lib.hasPrefix "/" n && !lib.hasInfix ".." n) names; message = "${option}.documents and hermesHomeFiles: names are relative and have no .. in them."; }
      { assertion = !lib.any (n: icfg.hermesHomeFiles ? ${n}) reserved; message = "${option}.hermesHomeFiles: config.yaml, .env, auth.json and .managed have options of their own: settings, environment, environmentFiles, authFile."; }
      { assertion = icfg.workingDirectory == null || plainPath icfg.workingDirectory; message = "${option}.workingDirectory: expected an absolute path of letters, digits and . _ - + @ /"; }
      { assertion = icfg.configFile == null || icfg.settings == { } && icfg.mcpServers == { }; message = "${option}.configFile replaces settings and mcpServers: use one of the two."; }
    ];

  profileAssertions = option: profiles:
    lib.concatMap (n: [
      {
        assertion = builtins.match "[a-z0-9][a-z0-9_-]{0,63}" n != null && !builtins.elem n [ "default" "hermes" "root" "sudo" "test" "tmp" ];
        message = "${option}.profiles.${n}: a profile's name has lower-case letters, digits, - and _, at most 64, and is none of default, hermes, root, sudo, test, tmp.";
      }
    ] ++ assertions "${option}.profiles.${n}" profiles.${n}) (builtins.attrNames profiles);

  packageAssertion = package: {
    assertion = (package.meta.mainProgram or "hermes-appliance") == "hermes-appliance";
    message = "services.hermes-gateway.package is ${package.name or "a package"}, which has no hermes-appliance: take the option out, or name a build of this program.";
  };
}
