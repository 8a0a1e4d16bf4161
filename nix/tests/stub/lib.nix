# The part of nixpkgs' lib that the modules use, small enough to own: with it they are evaluated where no nixpkgs can
# be had. The same tests run on the real lib too (HERMES_NIXPKGS_LIB, and the flake's checks), so this one cannot drift.
let
  inherit (builtins) attrNames concatLists concatMap concatStringsSep elem elemAt filter foldl' genList head isAttrs isBool isFunction isInt isList isPath isString length listToAttrs map mapAttrs stringLength substring;

  self = rec {
    inherit (builtins) any all concatMap concatStringsSep;

    # values
    max = a: b: if a > b then a else b;
    optional = c: x: if c then [ x ] else [ ];
    optionals = c: xs: if c then xs else [ ];
    optionalAttrs = c: x: if c then x else { };
    optionalString = c: x: if c then x else "";
    imap0 = f: xs: genList (i: f i (elemAt xs i)) (length xs);
    unique = foldl' (acc: x: if elem x acc then acc else acc ++ [ x ]) [ ];
    subtractLists = gone: filter (x: !elem x gone);
    genAttrs = names: f: listToAttrs (map (name: { inherit name; value = f name; }) names);
    filterAttrs = pred: set: listToAttrs (concatMap (name: optional (pred name set.${name}) { inherit name; value = set.${name}; }) (attrNames set));
    mapAttrsToList = f: set: map (name: f name set.${name}) (attrNames set);
    inherit mapAttrs;
    recursiveUpdate = a: b: a // mapAttrs (n: v: if isAttrs v && isAttrs (a.${n} or null) then recursiveUpdate a.${n} v else v) b;
    zipAttrs = sets: listToAttrs (map (name: { inherit name; value = map (s: s.${name}) (filter (s: s ? ${name}) sets); }) (unique (concatMap attrNames sets)));
    attrByPath = path: default: set: if path == [ ] then set else if isAttrs set && set ? ${head path} then attrByPath (builtins.tail path) default set.${head path} else default;
    setAttrByPath = path: value: if path == [ ] then value else { ${head path} = setAttrByPath (builtins.tail path) value; };

    # texts
    concatMapStringsSep = sep: f: xs: concatStringsSep sep (map f xs);
    hasPrefix = p: s: substring 0 (stringLength p) (toString s) == p;
    hasInfix = i: s: length (builtins.split (escapeRegex i) s) > 1;
    escapeRegex = builtins.replaceStrings [ "." "*" "+" ] [ "\\." "\\*" "\\+" ];
    removePrefix = p: s: if hasPrefix p s then substring (stringLength p) (-1) s else s;
    escapeShellArg = x: if builtins.match "[[:alnum:],._+:@%/-]+" (toString x) != null then toString x else "'" + builtins.replaceStrings [ "'" ] [ "'\\''" ] (toString x) + "'";
    escapeShellArgs = concatMapStringsSep " " escapeShellArg;
    makeBinPath = concatMapStringsSep ":" (p: "${p}/bin");

    licenses.mit = { spdxId = "MIT"; };
    platforms = { linux = [ "x86_64-linux" ]; darwin = [ ]; };
    fileset = { unions = xs: xs; toSource = { root, fileset }: root; };

    # options
    mkOption = args: args // { _type = "option"; };
    isOption = x: isAttrs x && x._type or "" == "option";
    literalExpression = text: { _type = "literalExpression"; inherit text; };
    mkIf = condition: content: { _type = "if"; inherit condition content; };
    mkMerge = contents: { _type = "merge"; inherit contents; };
    mkOverride = priority: content: { _type = "override"; inherit priority content; };
    mkDefault = mkOverride 1000;
    mkForce = mkOverride 50;
    mkAliasOptionModule = from: to: { config, options, ... }: {
      options = setAttrByPath from (mkOption { type = types.raw; visible = false; });
      config = setAttrByPath to (mkIf (attrByPath from null options).isDefined (mkMerge (attrByPath from null options).definitions));
    };
    mkRemovedOptionModule = from: why: { options, ... }: {
      options = setAttrByPath from (mkOption { type = types.raw; visible = false; });
      config.assertions = [
        {
          assertion = !(attrByPath from null options).isDefined;
          message = "The option definition `${concatStringsSep "." from}' no longer has any effect; please remove it.\n${why}";
        }
      ];
    };
    inherit types evalModules;
  };
  inherit (self) optional isOption hasPrefix;

  # A type checks a value and merges the definitions of an option: a list of { value, file }.
  show = path: concatStringsSep "." path;
  fail = path: type: throw "A definition for option `${show path}' is not of type `${type}'";
  one = path: defs: if length (self.unique (map (d: d.value) defs)) == 1 then (head defs).value else throw "The option `${show path}' has conflicting definition values";
  simple = description: check: { inherit description check; merge = path: defs: if self.all (d: check d.value) defs then one path defs else fail path description; };

  types = rec {
    raw = { description = "raw value"; check = _: true; merge = _: defs: (head defs).value; };
    bool = simple "boolean" isBool;
    str = simple "string" isString;
    int = simple "signed integer" isInt;
    path = simple "absolute path" (x: isPath x || (isString x || isAttrs x && x ? outPath) && hasPrefix "/" (toString x));
    package = simple "package" (x: isAttrs x && x ? outPath);
    enum = values: simple "one of ${concatStringsSep ", " (map builtins.toJSON values)}" (x: elem x values);
    either = a: b: {
      description = "${a.description} or ${b.description}";
      check = x: a.check x || b.check x;
      merge = path: defs: (if self.all (d: a.check d.value) defs then a else b).merge path defs;
    };
    nullOr = t: {
      description = "null or ${wrapped t}";
      check = x: x == null || t.check x;
      merge = path: defs: if self.all (d: d.value == null) defs then null else if self.any (d: d.value == null) defs then throw "The option `${show path}' is defined both null and not null" else t.merge path defs;
    };
    listOf = t: {
      description = "list of ${wrapped t}";
      check = isList;
      merge = path: defs: concatMap (d: if isList d.value then map (x: t.merge (path ++ [ "*" ]) [ { value = x; } ]) d.value else fail path "list") defs;
    };
    attrsOf = t: {
      description = "attribute set of ${wrapped t}";
      check = isAttrs;
      merge = path: defs: if self.all (d: isAttrs d.value) defs then mergeAttrs path defs (name: t.merge (path ++ [ name ])) else fail path "attribute set of ${t.description}";
      nestedTypes.elemType = t;
    };
    anything = {
      description = "anything";
      check = _: true;
      merge = path: defs: if self.all (d: isAttrs d.value && !(d.value ? outPath)) defs then mergeAttrs path defs (name: anything.merge (path ++ [ name ])) else one path defs;
    };
    submodule = module: {
      description = "submodule";
      check = isAttrs;
      merge = path: defs: (evalModules { modules = [ module ] ++ map (d: { config = d.value; }) defs; prefix = path; }).config;
      getSubOptions = _: (evalModules { modules = [ module ]; }).options;
    };
    wrapped = t: if builtins.match ".* (or|of) .*" t.description != null then "(${t.description})" else t.description;
  };

  mergeAttrs = path: defs: merge:
    mapAttrs (name: ds: merge name ds) (
      self.filterAttrs (_: ds: ds != [ ]) (
        self.genAttrs (self.unique (concatMap (d: attrNames d.value) defs)) (name: settle (concatMap (d: optional (d.value ? ${name}) { value = d.value.${name}; }) defs))
      )
    );

  # Definitions with their conditions and priorities worked off: those of the strongest priority are left.
  settle = defs:
    let
      open = d:
        let v = d.value; t = if isAttrs v then v._type or "" else ""; in
        if t == "if" then (if v.condition then open (d // { value = v.content; }) else [ ])
        else if t == "merge" then concatMap (x: open (d // { value = x; })) v.contents
        else if t == "override" then map (x: x // { priority = v.priority; }) (open (d // { value = v.content; }))
        else [ (d // { priority = d.priority or 100; }) ];
      opened = concatMap open defs;
      strongest = foldl' (m: d: if d.priority < m then d.priority else m) 9999 opened;
    in
    filter (d: d.priority == strongest) opened;

  evalModules =
    { modules, specialArgs ? { }, prefix ? [ ] }:
    let
      # Modules see the configuration before it is checked for strays, or no condition in them could be known.
      args = specialArgs // { inherit options; config = values options; lib = self; };
      load = m: if isPath m || isString m then load (import m) else if isFunction m then m args else m;
      normal = m: let x = load m; in concatMap normal (x.imports or [ ]) ++ [ { options = x.options or { }; config = x.config or (removeAttrs x [ "imports" "options" "_file" ]); } ];
      all = concatMap normal modules;

      declared = foldl' merge' { } (map (m: m.options) all);
      merge' = a: b: a // mapAttrs (n: v: if a ? ${n} && !isOption v then merge' a.${n} v else if a ? ${n} then throw "The option `${n}' is declared twice" else v) b;

      # The definitions below a name, with conditions pushed down to them.
      below = name: v:
        let t = if isAttrs v then v._type or "" else ""; in
        if t == "if" then map (self.mkIf v.condition) (below name v.content)
        else if t == "merge" then concatMap (below name) v.contents
        else if t == "override" then map (self.mkOverride v.priority) (below name v.content)
        else optional (v ? ${name}) v.${name};

      eval = path: opts: defs: mapAttrs (
        name: o:
        let here = path ++ [ name ]; ds = concatMap (below name) defs; in
        if isOption o then value here o ds else eval here o ds
      ) opts;

      value = path: o: ds:
        let left = settle (map (value: { inherit value; }) ds); in
        o // {
          isDefined = left != [ ];
          definitions = map (d: d.value) left;
          value = if left != [ ] then o.type.merge path left else if o ? default then o.default else throw "The option `${show path}' is used but not defined.";
        };

      # What is defined and no option.
      unknown = path: opts: v:
        let t = if isAttrs v then v._type or "" else ""; in
        if t == "if" then (if v.condition then unknown path opts v.content else [ ])
        else if t == "merge" then concatMap (unknown path opts) v.contents
        else if t == "override" then unknown path opts v.content
        else concatMap (n: if !(opts ? ${n}) then [ (show (path ++ [ n ])) ] else if isOption opts.${n} then [ ] else unknown (path ++ [ n ]) opts.${n} v.${n}) (attrNames v);

      options = eval prefix declared (map (m: m.config) all);
      values = mapAttrs (_: o: if isOption o then o.value else values o);
      strays = concatMap (m: unknown prefix declared m.config) all;
      config = if strays == [ ] then values options else throw "The option `${head strays}' does not exist.";
    in
    { inherit config options; };
in
self
