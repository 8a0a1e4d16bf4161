# The options, for both modules. What only one of them has is in its own file.
{ lib }:
let
  inherit (lib) mkOption types;
  file = types.either types.path types.str;
  absent = type: description: mkOption { type = types.nullOr type; default = null; inherit description; };

  mcpServer.options = {
    command = absent types.str "The program of a server that talks through standard input and output.";
    url = absent types.str "The address of a server that talks HTTP.";
    auth = absent (types.enum [ "oauth" ]) "How to sign in to a server that talks HTTP.";
    args = mkOption { type = types.listOf types.str; default = [ ]; description = "Arguments of the program."; };
    env = mkOption { type = types.attrsOf types.str; default = { }; description = "Variables of the program; `\${NAME}` takes a secret from `.env`."; };
    headers = mkOption { type = types.attrsOf types.str; default = { }; description = "Headers of every request; `\${NAME}` takes a secret from `.env`."; };
    enabled = mkOption { type = types.bool; default = true; description = "Whether the server is used."; };
    timeout = absent types.int "Seconds a call may take.";
    connect_timeout = absent types.int "Seconds to wait for the server to start.";
    tools = absent (types.attrsOf types.anything) "Which of its tools are used: `include`, `exclude`.";
    sampling = absent (types.attrsOf types.anything) "Whether the server may ask the model: `enabled`, `model`, `max_tokens_cap` …";
  };

  # What every home has: the default one and each profile's.
  home = {
    workingDirectory = absent types.str "Where the agent works, absolute; null is a directory of the service's own (NixOS) or the user's home directory (home-manager). It is written as `terminal.cwd` unless `settings` say otherwise.";
    settings = mkOption {
      type = types.attrsOf types.anything;
      default = { };
      example = { model.default = "anthropic/claude-sonnet-4"; };
      description = "Keys of `config.yaml`. They are laid over the file before each start: declared keys win, every other key and all comments stay. World-readable in the store: no secrets.";
    };
    configFile = absent types.path "A whole `config.yaml` instead of `settings`. It is put in place when it has changed, and then migrated.";
    environment = mkOption { type = types.attrsOf types.str; default = { }; description = "Variables of `.env` that are no secrets: they are world-readable in the store."; };
    environmentFiles = mkOption {
      type = types.listOf types.str;
      default = [ ];
      example = [ "/run/secrets/hermes" ];
      description = "Files of lines `NAME=value` with secrets, as texts: a path literal would copy the secret into the store. `.env` is made of them before each start.";
    };
    authFile = absent types.str "A file that becomes `auth.json` where there is none, as a text.";
    authFileForceOverwrite = mkOption { type = types.bool; default = false; description = "Write `auth.json` before each start, also where there is one."; };
    documents = mkOption { type = types.attrsOf file; default = { }; description = "Files of the working directory: a path, or the text itself. `workingDirectory` must be set."; };
    hermesHomeFiles = mkOption { type = types.attrsOf file; default = { }; example = { "SOUL.md" = "You are terse."; }; description = "Files of the home, such as `SOUL.md`: a path, or the text itself."; };
    mcpServers = mkOption { type = types.attrsOf (types.submodule mcpServer); default = { }; description = "MCP servers; they become `settings.mcp_servers`."; };
    extraArgs = mkOption { type = types.listOf types.str; default = [ ]; description = "Further arguments of `hermes-appliance gateway run`."; };
  };

  gatewayEnable = mkOption { type = types.bool; default = false; description = "Whether a gateway of its own runs for this home. On NixOS the default home always has one."; };

  top = home // {
    enable = mkOption { type = types.bool; default = false; example = true; description = "Whether to run the Hermes gateway."; };
    extraPackages = mkOption { type = types.listOf types.package; default = [ ]; description = "Programs that the agent finds on its `PATH`."; };
    restart = mkOption { type = types.str; default = "always"; description = "systemd's `Restart=`. Exit 75 always starts it again, exit 78 never."; };
    restartSec = absent types.int "Seconds before it is started again; null is the program's own choice.";
    hardening = mkOption {
      type = types.nullOr (types.enum [ "balanced" "agent" "none" ]);
      default = null;
      description = "How much of the machine the service is kept from; null is `balanced` for NixOS and `none` for home-manager. `agent` leaves what browsers and rootless containers need.";
    };
    profiles = mkOption {
      type = types.attrsOf (types.submodule { options = home // { gateway.enable = gatewayEnable; }; });
      default = { };
      description = "Named profiles: homes below `profiles/`, each with settings of its own. Without a gateway of its own a profile is served by the default one if `settings.gateway.multiplex_profiles` is true.";
    };
  };
in
{
  inherit top gatewayEnable;

  # Options of upstream's module that have another name or place here, and why.
  refused = {
    extraPythonPackages = "This gateway is no Python program: put what the agent calls into services.hermes-gateway.extraPackages.";
    extraDependencyGroups = "This gateway has everything built in; remove the option. Programs the agent calls go into services.hermes-gateway.extraPackages.";
    extraPlugins = "Upstream's plugins are Python code, which this gateway does not run: offer the tools through services.hermes-gateway.mcpServers.";
    installPackage = "Use services.hermes-gateway.addToSystemPackages on NixOS; with home-manager the program is always installed.";
    backend = "There is no second service: the API is part of the gateway. Set services.hermes-gateway.environment.API_SERVER_ENABLED = \"true\" (API_SERVER_HOST, API_SERVER_PORT), and API_SERVER_KEY in an environmentFile.";
  };
}
