# What `nix flake check` proves. The tests of ./default.nix run on a machine without nixpkgs, too (go test ./nix).
{
  pkgs,
  self,
  nixpkgs,
}:
let
  inherit (nixpkgs) lib;
  inherit (pkgs.stdenv.hostPlatform) system isLinux;
  package = self.packages.${system}.default;
  tests = import ./tests { inherit lib; };
  passed = name: builtins.seq tests.ok (pkgs.runCommand name { } "touch $out");
  try = name: script: pkgs.runCommand name { nativeBuildInputs = [ package pkgs.diffutils ]; } ''
    export HOME=$TMPDIR HERMES_HOME=$TMPDIR/home
    mkdir $HERMES_HOME
    ${script}
    touch $out
  '';
in
{
  inherit package;

  # types, assertions, warnings, parity of the two modules, what is taken from upstream's, how the units hang together
  module-eval = passed "module-eval";

  option-docs = pkgs.runCommand "option-docs" { } ''
    diff ${self.packages.${system}.options-doc} ${../docs/nix-options.md} && touch $out
  '';

  config-merge = try "config-merge" ''
    printf '# mine\n_config_version: 50\nterminal:\n  timeout: 60  # kept\n' >$HERMES_HOME/config.yaml
    echo '{"terminal":{"backend":"docker"},"a":{"b":[1]}}' >declared.json
    hermes-appliance config merge --manager nixos --declared declared.json
    cp $HERMES_HOME/config.yaml first
    hermes-appliance config merge --manager nixos --declared declared.json
    cmp first $HERMES_HOME/config.yaml
    grep -q 'timeout: 60  # kept' first && grep -q 'backend: docker' first && grep -q '^# mine' first
    ! hermes-appliance config set a.b 2
  '';

  env-assembly = try "env-assembly" ''
    echo TOKEN=one >one; echo '{"A":"1"}' >vars.json
    hermes-appliance env assemble --manager nixos --environment vars.json --file ./one
    grep -q '^TOKEN=one' $HERMES_HOME/.env && grep -q '^A=1' $HERMES_HOME/.env
    hermes-appliance env assemble --manager nixos --environment vars.json
    ! grep -q TOKEN $HERMES_HOME/.env
    [ "$(stat -c %a $HERMES_HOME/.env)" = 640 ]
  '';

  # The parser knows every argument of the units: with one more it complains of that one alone.
  service-argv = try "service-argv" ''
    for args in "" "--external-supervisor"; do
      code=0; hermes-appliance gateway run $args --sentinel 2>said || code=$?
      [ $code = 2 ] && grep -q 'unknown flag: --sentinel' said
    done
  '';
}
// lib.optionalAttrs (isLinux && lib ? nixosSystem) {
  # a whole system, evaluated by NixOS itself
  nixos-eval =
    let
      host = lib.nixosSystem {
        modules = [
          self.nixosModules.default
          {
            nixpkgs.hostPlatform = system;
            boot.isContainer = true;
            system.stateVersion = lib.trivial.release;
            services.hermes-gateway = { enable = true; profiles.work.gateway.enable = true; };
          }
        ];
      };
    in
    pkgs.writeText "nixos-eval" (builtins.unsafeDiscardStringContext host.config.system.build.toplevel.drvPath);
}
// lib.optionalAttrs isLinux {
  vm-gateway = pkgs.testers.runNixOSTest (import ./tests/vm.nix { inherit self; });
}
