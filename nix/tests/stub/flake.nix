{
  description = "Stands in for nixpkgs where the flake is evaluated offline; nothing of it can be built";

  outputs = _: {
    lib = import ./lib.nix;
    legacyPackages = builtins.listToAttrs (
      map (system: { name = system; value = import ./pkgs.nix { inherit system; }; }) [ "x86_64-linux" "aarch64-linux" "aarch64-darwin" ]
    );
  };
}
