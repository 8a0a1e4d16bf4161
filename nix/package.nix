# The program. The source is the Go tree alone, so that a change of the docs builds nothing anew.
{
  lib,
  buildGoModule,
  version ? "devel",
}:
let
  vendor = builtins.fromJSON (builtins.readFile ./vendor.json);
in
buildGoModule {
  pname = "hermes-appliance";
  inherit version;
  inherit (vendor) vendorHash;

  src = lib.fileset.toSource {
    root = ../.;
    fileset = lib.fileset.unions (
      [
        ../go.mod
        ../go.sum
      ]
      ++ map (dir: ../. + "/${dir}") vendor.dirs
    );
  };

  subPackages = [ "cmd/hermes-appliance" ];
  env.CGO_ENABLED = "0";
  ldflags = [
    "-s"
    "-w"
    "-X github.com/hermes-appliance/hermes-appliance/internal/buildinfo.version=${version}"
  ];

  # The tests want Docker, systemd and a network namespace: they are CI's. Here the finished program is tried.
  doCheck = false;
  doInstallCheck = true;
  installCheckPhase = ''
    runHook preInstallCheck
    export HOME=$TMPDIR
    $out/bin/hermes-appliance version --json | grep -qF '"version": "${version}"'
    $out/bin/hermes-appliance migrate --list >/dev/null
    runHook postInstallCheck
  '';
  postInstall = ''
    for shell in bash zsh fish; do
      $out/bin/hermes-appliance completion $shell >completion.$shell
    done
    install -Dm444 completion.bash $out/share/bash-completion/completions/hermes-appliance
    install -Dm444 completion.zsh $out/share/zsh/site-functions/_hermes-appliance
    install -Dm444 completion.fish $out/share/fish/vendor_completions.d/hermes-appliance.fish
  '';

  meta = {
    description = "Runs a Hermes home as an appliance";
    homepage = "https://github.com/hermes-appliance/hermes-appliance";
    license = lib.licenses.mit;
    mainProgram = "hermes-appliance";
    platforms = lib.platforms.linux ++ lib.platforms.darwin;
  };
}
