{
  description = "Run a Hermes home as an appliance";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }: import ./nix { inherit self nixpkgs; };
}
