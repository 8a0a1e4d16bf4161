# The options of home-manager that the module sets, open to everything.
{ lib, ... }:
let
  any = default: lib.mkOption { type = lib.types.anything; inherit default; };
  sets = lib.mkOption { type = lib.types.attrsOf (lib.types.attrsOf lib.types.anything); default = { }; };
in
{
  options = {
    assertions = lib.mkOption { type = lib.types.listOf lib.types.raw; default = [ ]; };
    warnings = lib.mkOption { type = lib.types.listOf lib.types.str; default = [ ]; };
    home.homeDirectory = lib.mkOption { type = lib.types.str; default = "/home/me"; };
    home.packages = lib.mkOption { type = lib.types.listOf lib.types.package; default = [ ]; };
    home.sessionVariables = any { };
    home.activation = sets;
    systemd.user.services = sets;
    launchd.agents = sets;
  };
}
