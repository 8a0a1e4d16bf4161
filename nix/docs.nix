# docs/nix-options.md, from the options themselves. It is kept in the repository; a test compares.
{ lib }:
let
  inherit (builtins) attrNames concatMap concatStringsSep elem filter isAttrs map toJSON;
  pkgs = { stdenv.hostPlatform.isLinux = true; };
  optionsOf = host: module: (lib.evalModules {
    modules = [ host (import module { package = _: { outPath = "/"; }; }) ];
    specialArgs = { inherit pkgs; };
  }).options.services.hermes-gateway;
  nixos = optionsOf ./tests/hosts/nixos.nix ./nixos.nix;
  home = optionsOf ./tests/hosts/home.nix ./home-manager.nix;

  nested = type: if type ? getSubOptions && type.description == "submodule" then type else if type ? nestedTypes.elemType then nested type.nestedTypes.elemType else null;
  segment = n: if builtins.match "[A-Za-z_][A-Za-z0-9_-]*" n != null then n else toJSON n;

  # Every option below a set of them, submodules' too, by its dotted name.
  flat = prefix: opts:
    concatMap (
      n:
      let o = opts.${n}; name = prefix ++ [ n ]; sub = nested o.type; in
      if n == "_module" then [ ]
      else if !lib.isOption o then flat name o
      else [ { name = concatStringsSep "." name; option = o; } ] ++ (if sub == null then [ ] else flat (name ++ [ "<name>" ]) (sub.getSubOptions name))
    ) (attrNames opts);

  value = v:
    if v == null || builtins.isBool v || builtins.isInt v || builtins.isString v then (if builtins.isString v then toJSON v else if v == null then "null" else toJSON v)
    else if builtins.isList v then (if v == [ ] then "[ ]" else "[ ${concatStringsSep " " (map value v)} ]")
    else if isAttrs v then (if v == { } then "{ }" else "{ ${concatStringsSep " " (map (n: "${segment n} = ${value v.${n}};") (attrNames v))} }")
    else "…";

  entry = where: { name, option }:
    let
      default = if option ? defaultText then (option.defaultText.text or option.defaultText) else if option ? default then "`${value option.default}`" else "none";
    in
    "## `${name}`\n\n${option.description}\n\nDefault: ${default}.${lib.optionalString (option ? example) " Example: `${value option.example}`."}${lib.optionalString (where != "") " ${where}"}\n";

  ofNixos = flat [ ] nixos;
  ofHome = flat [ ] home;
  names = map (e: e.name);
  entries = builtins.sort (a: b: a.name < b.name) (
    map (e: e // { where = if elem e.name (names ofHome) then "" else "NixOS only."; }) ofNixos
    ++ map (e: e // { where = "home-manager only."; }) (filter (e: !(elem e.name (names ofNixos))) ofHome)
  );
in
''
  # Options of services.hermes-gateway

  This file is made from the modules: `go test ./nix -update` writes it anew. Every option is in both modules, NixOS and
  home-manager, unless it says otherwise. [nix.md](nix.md) shows how to use them.

''
+ concatStringsSep "\n" (map (e: entry e.where { inherit (e) name option; }) entries)
