# The options of NixOS that the module sets, open to everything.
{ lib, ... }:
let
  any = default: lib.mkOption { type = lib.types.anything; inherit default; };
  sets = lib.mkOption { type = lib.types.attrsOf (lib.types.attrsOf lib.types.anything); default = { }; };
in
{
  options = {
    assertions = lib.mkOption { type = lib.types.listOf lib.types.raw; default = [ ]; };
    warnings = lib.mkOption { type = lib.types.listOf lib.types.str; default = [ ]; };
    systemd.services = sets;
    systemd.sockets = sets;
    systemd.tmpfiles.rules = lib.mkOption { type = lib.types.listOf lib.types.str; default = [ ]; };
    users.users = sets;
    users.groups = sets;
    environment.systemPackages = lib.mkOption { type = lib.types.listOf lib.types.package; default = [ ]; };
    environment.variables = any { };
    virtualisation = sets;
  };
}
