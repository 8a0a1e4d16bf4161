# Takes a configuration that was written for upstream's module, services.hermes-agent. That module must not be
# imported beside this one.
{ lib, paths }:
let
  inherit (import ./options.nix { inherit lib; }) refused;
  from = path: [ "services" "hermes-agent" ] ++ path;
  to = path: [ "services" "hermes-gateway" ] ++ path;
in
{
  imports =
    map (path: lib.mkAliasOptionModule (from path) (to path)) paths
    ++ map (name: lib.mkRemovedOptionModule (from [ name ]) refused.${name}) (builtins.attrNames refused)
    ++ [
      (lib.mkRemovedOptionModule [ "programs" "hermes-agent" ] "It installed upstream's own program and desktop. This gateway's program comes with services.hermes-gateway.enable.")
    ];
}
