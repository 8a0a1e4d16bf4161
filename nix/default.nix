# What the flake gives. It takes no other input than nixpkgs.
{ self, nixpkgs }:
let
  inherit (nixpkgs) lib;
  systems = [
    "x86_64-linux"
    "aarch64-linux"
    "aarch64-darwin"
  ];
  forAllSystems = f: lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});

  # The commit's date and name, never the clock: the same commit builds the same program.
  date = self.lastModifiedDate or "19700101000000";
  version = "0.0.0-${builtins.substring 0 8 date}.${self.shortRev or self.dirtyShortRev or "dirty"}";

  package = pkgs: pkgs.callPackage ./package.nix { inherit version; };
in
{
  packages = forAllSystems (pkgs: rec {
    hermes-appliance = package pkgs;
    default = hermes-appliance;
    options-doc = pkgs.writeText "nix-options.md" (import ./docs.nix { inherit lib; });
  });

  apps = forAllSystems (pkgs: {
    default = {
      type = "app";
      program = "${pkgs.writeShellScript "hermes-appliance-up" ''exec ${package pkgs}/bin/hermes-appliance up "$@"''}";
    };
    hermes-appliance = {
      type = "app";
      program = "${package pkgs}/bin/hermes-appliance";
    };
  });

  overlays.default = final: _prev: { hermes-appliance = package final; };

  nixosModules = rec {
    hermes-gateway = import ./nixos.nix { inherit package; };
    default = hermes-gateway;
  };

  homeManagerModules = rec {
    hermes-gateway = import ./home-manager.nix { inherit package; };
    default = hermes-gateway;
  };

  checks = forAllSystems (pkgs: import ./checks.nix { inherit pkgs self nixpkgs; });

  formatter = forAllSystems (pkgs: pkgs.nixfmt-rfc-style or pkgs.nixfmt);

  devShells = forAllSystems (pkgs: { default = pkgs.mkShell { packages = [ pkgs.go ]; }; });
}
