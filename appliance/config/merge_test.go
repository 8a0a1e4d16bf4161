// SPDX-License-Identifier: MIT

package config

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/quick"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func (e Editor) merge(t testing.TB, manager, declared string) (Merged, error) {
	t.Helper()
	d, err := ParseDeclared(File{"settings.json", []byte(declared)})
	if err != nil {
		t.Fatal(err)
	}
	return e.Merge(t.Context(), manager, d)
}

// TestMergeScenarios are the seven of the packaging spec §1.6, and what upstream's loses.
func TestMergeScenarios(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ before, declared, want string }{ // before "-" = no file
		"A fresh":             {"-", `{"model":{"default":"m"},"a":[1,"x"]}`, "_config_version: 50\nmodel:\n  default: m\na: [1,\"x\"]\n"},
		"A empty file":        {"", `{"a":1}`, "_config_version: 50\na: 1\n"},
		"B declared wins":     {sample, `{"terminal":{"timeout":60}}`, strings.Replace(sample, "180", "60", 1)},
		"C user keys stay":    {sample, `{"new":true}`, sample + "new: true\n"},
		"D mixed":             {sample, `{"terminal":{"backend":"docker"},"display":{"size":4}}`, strings.Replace(strings.Replace(sample, `"local"`, "docker", 1), "size: 3", "size: 4", 1)},
		"E mcp additive":      {"mcp_servers:\n  mine: {command: /bin/x}\n", `{"mcp_servers":{"nix":{"command":"/bin/y","args":["-v"]}}}`, "mcp_servers:\n  mine: {command: /bin/x}\n  nix:\n    command: /bin/y\n    args: [\"-v\"]\n"},
		"F nested":            {"a:\n  b:\n    c: 1  # one\n    d: 2\n", `{"a":{"b":{"c":3,"e":{"f":null}}}}`, "a:\n  b:\n    c: 3  # one\n    d: 2\n    e:\n      f: null\n"},
		"list whole":          {"a:\n  # why\n  - 1\n  - 2\nb: 1\n", `{"a":[3]}`, ""},
		"section for scalar":  {"a: 5  # five\nb: 1\n", `{"a":{"x":1,"z":2}}`, "b: 1\na:\n  x: 1\n  z: 2\n"},
		"scalar for section":  {"a:\n  x: 1\nb: 1\n", `{"a":5}`, "b: 1\na: 5\n"},
		"section for null":    {"a:\nb: 1\n", `{"a":{"x":1}}`, "a:\n  x: 1\nb: 1\n"},
		"empty section":       {"a: 1\nb:\n  x: 1\n", `{"a":{},"b":{}}`, "b:\n  x: 1\na: {}\n"},
		"text that is tricky": {"a: 1\n", `{"s":"no","t":"1","u":"a: b #c","v":"two\nlines","w":""}`, "a: 1\ns: \"no\"\nt: \"1\"\nu: \"a: b #c\"\nv: \"two\\nlines\"\nw: \"\"\n"},
		"exponent":            {"a: 1\n", `{"x":1e-7}`, "a: 1\nx: 0.0000001\n"},
		"dots in a key":       {"a: 1\n", `{"model":{"grok-4.6":{"x":1}}}`, "a: 1\nmodel:\n  grok-4.6:\n    x: 1\n"},
		"json file":           {"{\"a\": {\"b\": 1}}\n", `{"a":{"c":"x"}}`, "{\"a\": {\"b\": 1, \"c\": \"x\"}}\n"},
		"crlf and bom":        {"\ufeffa: 1\r\nb: 2\r\n", `{"b":3}`, "\ufeffa: 1\r\nb: 3\r\n"},
		"old stamp stays":     {"_config_version: 46\n", `{"_config_version":50,"a":1}`, "_config_version: 46\na: 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := editor(t, row.before)
			e.Latest = 50
			if _, err := e.merge(t, "nixos", row.declared); err != nil {
				t.Fatal(err)
			}
			first := e.text(t)
			if row.want != "" && first != row.want {
				t.Errorf("got\n%s\nwant\n%s", first, row.want)
			}
			// G: a second merge is byte for byte the first, and writes nothing.
			m, err := e.merge(t, "nixos", row.declared)
			if err != nil || m.Created || len(m.Wrote) > 0 || e.text(t) != first {
				t.Errorf("second merge: %+v, %v\n%s", m, err, e.text(t))
			}
		})
	}
}

// TestMergeRandom merges random settings over random settings: the result is what a plain deep
// merge of the two gives, and a second merge writes nothing.
func TestMergeRandom(t *testing.T) {
	t.Parallel()
	e := editor(t, "")
	check := func(before, declared randomSettings) bool {
		text, _ := json.Marshal(before)
		over, _ := json.Marshal(declared)
		testkit.WriteTree(t, e.Home.Dir, map[string]string{"config.yaml": string(text)})
		if _, err := e.merge(t, "nixos", string(over)); err != nil {
			t.Logf("%s\nover\n%s: %v", over, text, err)
			return false
		}
		c, err := Load(e.Home, Options{})
		if err != nil {
			t.Log(err)
			return false
		}
		w := walker{layer: c.layers[User], left: maxValues}
		got, err := w.decode(w.doc.Root(), Lookup(nil).expand, 0)
		want := deepMerge(plainJSON(t, text), plainJSON(t, over))
		if now, _ := json.Marshal(got); err != nil || !reflect.DeepEqual(plainJSON(t, now), want) {
			t.Logf("%s\nover\n%s\ngives\n%s\nwant\n%v (%v)", over, text, now, want, err)
			return false
		}
		m, err := e.merge(t, "nixos", string(over))
		return err == nil && len(m.Wrote) == 0
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 150}); err != nil {
		t.Error(err)
	}
}

func plainJSON(t *testing.T, text []byte) any {
	t.Helper()
	var x any
	if err := json.Unmarshal(text, &x); err != nil {
		t.Fatal(err)
	}
	return x
}

func deepMerge(under, over any) any {
	a, ok := under.(map[string]any)
	b, ok2 := over.(map[string]any)
	if !ok2 {
		return over
	}
	out := map[string]any{}
	if ok {
		maps.Copy(out, a)
	}
	for k, v := range b {
		out[k] = deepMerge(out[k], v)
	}
	return out
}

func TestMergeManager(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	for name, row := range map[string]struct {
		marker  string // "-" = none
		manager string
		kind    error // nil = it is done
		after   string
	}{
		"nobody yet":     {"-", "nixos", nil, "nixos\n"},
		"the same":       {"nixos", "nixos", nil, "nixos"},
		"bare marker":    {"", "nixos", nil, ""},
		"old word":       {"true", "nixos", nil, "true"},
		"somebody else":  {"home-manager", "nixos", ErrManaged, "home-manager"},
		"word of nobody": {"false", "nixos", nil, "nixos\n"},
		"no name":        {"-", "", ErrUsage, "-"},
		"false":          {"-", "false", ErrUsage, "-"},
		"true":           {"-", "true", ErrUsage, "-"},
		"odd name":       {"-", "Nix OS", ErrUsage, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := editor(t, "a: 1\n")
			marker := filepath.Join(e.Home.Dir, ".managed")
			if row.marker != "-" {
				testkit.WriteTree(t, e.Home.Dir, map[string]string{".managed": row.marker})
			}
			_, err := e.merge(t, row.manager, `{"a":2}`)
			if row.kind == nil && err != nil || row.kind != nil && !errors.Is(err, row.kind) {
				t.Fatalf("got %v, want %v", err, row.kind)
			}
			if (e.text(t) == "a: 2\n") != (row.kind == nil) {
				t.Errorf("the file says %q", e.text(t))
			}
			data, err := os.ReadFile(marker)
			if err != nil {
				data = []byte("-")
			}
			if string(data) != row.after {
				t.Errorf("the marker says %q, want %q", data, row.after)
			}
			if have, err := e.Home.Manager(none); row.kind == nil && (err != nil || have != row.manager) {
				t.Errorf("managed by %q, %v", have, err)
			}
		})
	}
	t.Run("marker that cannot be read", func(t *testing.T) {
		t.Parallel()
		e := editor(t, "a: 1\n")
		testkit.WriteTree(t, e.Home.Dir, map[string]string{".managed/x": ""})
		if _, err := e.merge(t, "nixos", `{"a":2}`); !errors.Is(err, ErrUnreadable) || e.text(t) != "a: 1\n" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("variable says another", func(t *testing.T) {
		t.Parallel()
		e := editor(t, "a: 1\n")
		e.Getenv = func(name string) string { return map[string]string{home.EnvManaged: "home-manager"}[name] }
		if _, err := e.merge(t, "nixos", `{"a":2}`); !errors.Is(err, ErrManaged) {
			t.Errorf("got %v", err)
		}
	})
}

func TestMergeRefusals(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		before, declared string
		kind             error
		says             string
	}{
		"newer file":           {"_config_version: 99\n", `{"a":1}`, ErrNewer, "version 99"},
		"broken file":          {"a: [\n", `{"a":1}`, ErrUnreadable, "line 1"},
		"a list":               {"- a\n", `{"a":1}`, ErrUnreadable, "a section of keys"},
		"behind an alias":      {"x: &x {a: 1}\ny: *x\n", `{"y":{"a":2}}`, ErrUnreadable, "alias"},
		"key twice":            {"a: 1\na: 2\n", `{"a":3}`, ErrUnreadable, "given"},
		"wrong kind of value":  {"a: 1\n", `{"terminal":{"timeout":"soon"}}`, ErrType, "terminal.timeout"},
		"section of ours gone": {"a: 1\n", `{"terminal":"x"}`, ErrType, "terminal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := editor(t, row.before)
			e.Latest = 50
			_, err := e.merge(t, "nixos", row.declared)
			if !errors.Is(err, row.kind) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want %v with %q", err, row.kind, row.says)
			}
			if e.text(t) != row.before {
				t.Errorf("the file says %q", e.text(t))
			}
		})
	}
	for _, bad := range []string{"", "[]", `"x"`, "{", `{"a":1,"a":2}`, `{"a":{"b":1,"b":1}}`, "a: 1"} {
		if _, err := ParseDeclared(File{"f", []byte(bad)}); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

// TestReport6ModeAndLinkSurvive: H#14181, H#6044. What is replaced keeps its mode, a link stays
// one, and a new file is as shared as the umask allows.
func TestReport6ModeAndLinkSurvive(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		testkit.Need(t, "posix", false, "no modes")
	}
	e := editor(t, "-")
	real := filepath.Join(t.TempDir(), "real.yaml")
	if err := errors.Join(os.WriteFile(real, []byte("a: 1 # one\n"), 0o600), os.Chmod(real, 0o664), os.Symlink(real, e.Home.Config())); err != nil {
		t.Fatal(err)
	}
	if _, err := e.merge(t, "nixos", `{"a":2}`); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(real)
	if err != nil || info.Mode().Perm() != 0o664 || e.text(t) != "a: 2 # one\n" {
		t.Errorf("%v %v %q", info.Mode(), err, e.text(t))
	}
	if target, err := os.Readlink(e.Home.Config()); err != nil || target != real {
		t.Errorf("the link: %q %v", target, err)
	}
}

func TestMergeWriteFails(t *testing.T) {
	t.Parallel()
	for _, op := range []atomicfile.Op{atomicfile.OpCreate, atomicfile.OpWrite, atomicfile.OpSync, atomicfile.OpRename} {
		e := editor(t, "a: 1\n")
		e.Files = atomicfile.Writer{Before: func(at atomicfile.Op, path string) error {
			if at == op && strings.Contains(filepath.Base(path), "config.yaml") {
				return errors.New("injected")
			}
			return nil
		}}
		if _, err := e.merge(t, "nixos", `{"a":2}`); err == nil || e.text(t) != "a: 1\n" {
			t.Errorf("%s: %v, the file says %q", op, err, e.text(t))
		}
		if entries, _ := filepath.Glob(filepath.Join(e.Home.Dir, "*config*")); len(entries) != 1 {
			t.Errorf("%s: left behind: %v", op, entries)
		}
		if _, err := os.Lstat(filepath.Join(e.Home.Dir, ".managed")); err == nil {
			t.Errorf("%s: marked, though nothing was merged", op)
		}
	}
}
