// SPDX-License-Identifier: MIT

package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// parse makes a Config of texts; "-" is a file that is not there.
func parse(t testing.TB, user, admin string) *Config {
	t.Helper()
	c, err := Parse(file("config.yaml", user), file("/etc/hermes/config.yaml", admin))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func file(path, text string) File {
	if text == "-" {
		return File{Path: path}
	}
	return File{path, []byte(text)}
}

func env(pairs ...string) Lookup {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	const user = `
terminal:
  timeout: 60
  docker_volumes: [/a:/b]
display: {skin: dark}
`
	const admin = `
terminal:
  backend: docker
  docker_volumes: []
only: {admin: 1}
`
	v := parse(t, user, admin).With(nil)
	for _, row := range []struct {
		path   string
		want   any
		origin Origin
	}{
		{"terminal.timeout", int64(60), User},
		{"terminal.backend", "docker", Admin},
		{"terminal.lifetime_seconds", int64(300), Default},
		{"terminal.docker_volumes", []any{}, Admin},
		{"display.skin", "dark", User},
		{"display", map[string]any{"skin": "dark"}, User},
		{"only.admin", int64(1), Admin},
		{"terminal.nothing", nil, Unset},
		{"nothing.at.all", nil, Unset},
		{"compression.threshold_tokens", nil, Default},
		{"terminal.docker_env", map[string]any{}, Default},
	} {
		path, err := ParsePath(row.path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Value(path...)
		if err != nil || !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: got %#v, %v; want %#v", row.path, got, err, row.want)
		}
		if o := v.Origin(path...); o != row.origin {
			t.Errorf("%s: origin %v, want %v", row.path, o, row.origin)
		}
	}
	if f, line := v.Line("terminal", "timeout"); f != "config.yaml" || line != 3 {
		t.Errorf("terminal.timeout is in %s, line %d", f, line)
	}
	if o := v.Origin("terminal"); o != Admin {
		t.Errorf("terminal: origin %v", o)
	}
}

// oddKeys are keys that a reader which splits or joins paths carelessly mistakes.
var oddKeys = []string{"a", "b", "c", "grok-4.6", "a.b", "", "\x00", "\x00\x00", "ÿ", "<<", " ", "\n", "~", "x:y", "\u2028", `\`, `"`, "-", "1", "null", "日本"}

func randomMap(r *rand.Rand, depth int) map[string]any {
	m := map[string]any{}
	for range r.IntN(6) {
		var v any
		switch n := r.IntN(10); {
		case n < 4 && depth > 0:
			v = randomMap(r, depth-1)
		case n < 5:
			v = nil
		case n < 6:
			v = []any{float64(r.IntN(9)) + 0.5, "x", nil, map[string]any{"k.k": true}}
		case n < 8:
			v = fmt.Sprint("v", r.IntN(1000))
		default:
			v = r.IntN(2) == 0
		}
		m[oddKeys[r.IntN(len(oddKeys))]] = v
	}
	return m
}

// naive is the overlay as the spec says it in one sentence.
func naive(dst, src map[string]any) {
	for k, sv := range src {
		dm, under := dst[k].(map[string]any)
		sm, over := sv.(map[string]any)
		switch {
		case under && over:
			naive(dm, sm)
		case under: // what is no section does not replace one
		case over:
			fresh := map[string]any{}
			naive(fresh, sm)
			dst[k] = fresh
		default:
			dst[k] = sv
		}
	}
}

func TestOverlayEqualsNaiveMerge(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := newConfig("")
		want := map[string]any{}
		leaves := map[Origin]map[string]any{}
		for o := Default; o <= Admin; o++ {
			m := randomMap(r, 4)
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.overlay(File{o.String(), text}, o); err != nil {
				t.Fatalf("seed %d: %s: %v", seed, text, err)
			}
			naive(want, m)
			leaves[o] = m
		}
		got, err := c.With(nil).section(nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !reflect.DeepEqual(got, any(want)) {
			t.Fatalf("seed %d:\ngot  %#v\nwant %#v\nof %#v", seed, got, want, leaves)
		}
		checkPaths(t, c, want, nil)
	}
}

// checkPaths reads every path of want one by one.
func checkPaths(t *testing.T, c *Config, want map[string]any, path []string) {
	t.Helper()
	for k, w := range want {
		here := append(slices.Clip(path), k)
		l, section, ok := c.at(here)
		if wm, isMap := w.(map[string]any); isMap {
			if !ok || !section {
				t.Fatalf("%q: got %v, want a section", here, l.node)
			}
			checkPaths(t, c, wm, here)
			continue
		}
		if got, err := c.With(nil).decode(l, here); !ok || err != nil || !reflect.DeepEqual(got, w) {
			t.Fatalf("%q: got %#v, %v; want %#v", here, got, err, w)
		}
	}
	for _, k := range oddKeys {
		if _, there := want[k]; !there {
			if l, s, ok := c.at(append(slices.Clip(path), k)); ok {
				t.Fatalf("%q in %q: got %v %v, want nothing", k, path, l.node, s)
			}
		}
	}
}

func TestReadsLikeYAML11(t *testing.T) {
	t.Parallel()
	const text = "\xef\xbb\xbf" + `# comment
on_word: yes
off: {mode: off}
hex: 0x10
under: 256_000
octal: 010
sexa: 1:30
text_number: "7"
null_section:
base: &base
  a: 1
  b: {c: 2}
merged:
  <<: *base
  b: 3
two:
  <<: [*base, {a: 9, z: 8}]
alias: *base
dup: 1
dup: 2
list: [*base, yes, 1.50]
date: 2024-01-02
`
	for _, eol := range []string{"\n", "\r\n"} {
		v := parse(t, strings.ReplaceAll(text, "\n", eol), "-").With(nil)
		for path, want := range map[string]any{
			"on_word": true, "off": map[string]any{"mode": false}, "hex": int64(16), "under": int64(256000), "octal": int64(8),
			"sexa": int64(90), "text_number": "7", "null_section": nil,
			"merged":  map[string]any{"a": int64(1), "b": int64(3)},
			"two":     map[string]any{"a": int64(1), "b": map[string]any{"c": int64(2)}, "z": int64(8)},
			"alias":   map[string]any{"a": int64(1), "b": map[string]any{"c": int64(2)}},
			"alias.a": int64(1), "dup": int64(2), "date": "2024-01-02",
			"list": []any{map[string]any{"a": int64(1), "b": map[string]any{"c": int64(2)}}, true, 1.5},
		} {
			p, _ := ParsePath(path)
			if got, err := v.Value(p...); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %#v, %v; want %#v", path, got, err, want)
			}
		}
		if s, err := v.String("off", "mode"); s != "off" || err != nil {
			t.Errorf("off.mode as text: %q, %v", s, err)
		}
		if n, err := v.Int("text_number"); n != 7 || err != nil {
			t.Errorf("text_number: %d, %v", n, err)
		}
		if _, line := v.Line("dup"); line != 20 {
			t.Errorf("dup is in line %d", line)
		}
	}
}

func TestTypedReads(t *testing.T) {
	t.Parallel()
	const text = `
s: text
n: 5
f: 1.5
whole: 2.0
b: on
l: [a, 1, off]
mixed: [a, {b: c}]
sec: {a: b}
nul: null
inf: .inf
neg: -1
id: 0123
ref: ${PORT}
flag: ${env:FLAG}
gone: ${GONE}
half: "x-${PORT}-${GONE}-${NOT A NAME}-${"
big: 1e300
odd: !custom x
`
	v := parse(t, text, "-").With(env("PORT", "8080", "FLAG", "true"))
	type read func(...string) (any, error)
	str := func(p ...string) (any, error) { return v.String(p...) }
	integer := func(p ...string) (any, error) { return v.Int(p...) }
	boolean := func(p ...string) (any, error) { return v.Bool(p...) }
	float := func(p ...string) (any, error) { return v.Float(p...) }
	list := func(p ...string) (any, error) { return v.Strings(p...) }
	dur := func(p ...string) (any, error) { return v.Duration(p...) }
	section := func(p ...string) (any, error) { return v.Map(p...) }
	for _, row := range []struct {
		name string
		read read
		path string
		want any // a string that starts with "!" is part of the error
	}{
		{"String", str, "s", "text"},
		{"String", str, "n", "5"},
		{"String", str, "b", "on"},
		{"String", str, "id", "0123"},
		{"String", str, "l", "!is a list; expected text"},
		{"String", str, "sec", "!is a section of keys; expected text"},
		{"String", str, "nul", ""},
		{"String", str, "none", ""},
		{"String", str, "ref", "8080"},
		{"String", str, "half", "x-8080-${GONE}-${NOT A NAME}-${"},
		{"String", str, "odd", "!something with a tag"},
		{"String", str, "s.below", "!s: is text; expected a section"},
		{"Int", integer, "n", int64(5)},
		{"Int", integer, "whole", int64(2)},
		{"Int", integer, "ref", int64(8080)},
		{"Int", integer, "f", "!is a number; expected a whole number"},
		{"Int", integer, "s", "!is text; expected a whole number"},
		{"Int", integer, "gone", "!refers to ${GONE}"},
		{"Int", integer, "inf", "!expected a whole number"},
		{"Int", integer, "nul", int64(0)},
		{"Bool", boolean, "b", true},
		{"Bool", boolean, "flag", true},
		{"Bool", boolean, "n", "!expected true or false"},
		{"Bool", boolean, "s", "!expected true or false"},
		{"Float", float, "f", 1.5},
		{"Float", float, "n", 5.0},
		{"Float", float, "inf", "!is a number; expected a number"},
		{"Float", float, "l", "!is a list"},
		{"Strings", list, "l", []string{"a", "1", "off"}},
		{"Strings", list, "mixed", "!item 2 is a section"},
		{"Strings", list, "s", "!is text; expected a list"},
		{"Strings", list, "none", []string(nil)},
		{"Duration", dur, "f", 1500 * time.Millisecond},
		{"Duration", dur, "neg", "!not negative"},
		{"Duration", dur, "big", "!expected a number of seconds"},
		{"Map", section, "sec", map[string]any{"a": "b"}},
		{"Map", section, "l", "!is a list; expected a section"},
		{"Map", section, "none", map[string]any(nil)},
	} {
		p, _ := ParsePath(row.path)
		got, err := row.read(p...)
		if text, ok := row.want.(string); ok && strings.HasPrefix(text, "!") {
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), text[1:]) || e.File != "config.yaml" || e.Line == 0 {
				t.Errorf("%s(%s): got %v, %v; want the error %q", row.name, row.path, got, err, text[1:])
			} else if exitcode.Of(err) != exitcode.Config {
				t.Errorf("%s(%s): exit code %v", row.name, row.path, exitcode.Of(err))
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s(%s): got %#v, %v; want %#v", row.name, row.path, got, err, row.want)
		}
	}
}

func TestErrorsKeepSecrets(t *testing.T) {
	t.Parallel()
	v := parse(t, "a: sekret\nb: [sekret]\nc: ${KEY}\nd: {x: sekret}\n", "-").With(env("KEY", "sekret"))
	for _, key := range []string{"a", "b", "c", "d"} {
		for _, err := range []error{
			second(v.Int(key)), second(v.Bool(key)), second(v.Duration(key)), second(v.Strings(key)), second(v.Map(key)),
			second(v.Value(key, "x", "y")),
		} {
			if err != nil && strings.Contains(err.Error(), "sekret") {
				t.Errorf("the error shows the value: %v", err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestNullAndMisfit(t *testing.T) {
	t.Parallel()
	v := parse(t, "terminal:\ncompression: null\nmax_live_sessions: null\n", "-").With(nil)
	if s, err := v.String("terminal", "backend"); s != "local" || err != nil {
		t.Errorf("a null section takes its defaults away: %q, %v", s, err)
	}
	if v.Has("max_live_sessions") || v.Origin("max_live_sessions") != User {
		t.Error("an explicit null is not seen")
	}

	v = parse(t, "terminal: docker\n", "terminal: {timeout: 5}\n").With(nil)
	for _, err := range []error{
		second(v.String("terminal", "backend")), second(v.Map("terminal")), second(v.Value()), second(v.Int("terminal", "timeout")),
	} {
		if !errors.Is(err, ErrType) || !strings.Contains(err.Error(), "config.yaml, line 1, terminal: is text; expected a section") {
			t.Errorf("a section that is none is overlooked: %v", err)
		}
	}
	if b, err := v.Bool("security", "redact_secrets"); !b || err != nil {
		t.Errorf("a fault in one section reaches another: %v, %v", b, err)
	}

	c := parse(t, "terminal: {timeout: 7}\n", "terminal: docker\n")
	if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0].Error(), "/etc/hermes/config.yaml, line 1, terminal") {
		t.Errorf("warnings: %v", w)
	}
	if n, err := c.With(nil).Int("terminal", "timeout"); n != 7 || err != nil {
		t.Errorf("the administrator's fault hides the user's value: %d, %v", n, err)
	}
}

func TestHostileFiles(t *testing.T) {
	t.Parallel()
	bomb := "a0: &a0 {x: 1}\n"
	list := "l0: &l0 [x]\n"
	for i := 1; i < 40; i++ {
		bomb += fmt.Sprintf("a%d: &a%d {x: *a%d, y: *a%d}\n", i, i, i-1, i-1)
		list += fmt.Sprintf("l%d: &l%d [*l%d, *l%d]\n", i, i, i-1, i-1)
	}
	merges := "m0: &m0 {k0: 1}\n"
	for i := 1; i < 60; i++ {
		merges += fmt.Sprintf("m%d: &m%d {k%d: 1, <<: [*m%d, *m%d]}\n", i, i, i, i-1, i-1)
	}
	for name, text := range map[string]string{
		"bomb": bomb, "merges": merges, "self": "a: &a {b: *a}\n", "self merge": "a: &a {<<: *a, b: 1}\n", "no anchor": "a: *b\n",
		"root list": "- a\n", "root text": "hello\n", "two documents": "a: 1\n---\nb: 2\n", "bad UTF-8": "a: \xff\n", "half written": "terminal:\n  backend: \"do",
		"complex key": "? [a]\n: b\n", "merge of text": "a: {<<: b}\n", "root alias": "*a\n", "tab": "a:\n\tb: c\n",
	} {
		_, err := Parse(File{"config.yaml", []byte(text)}, File{})
		if !errors.Is(err, ErrUnreadable) || exitcode.Of(err) != exitcode.Unparseable {
			t.Errorf("%s: got %v", name, err)
		} else if !strings.HasPrefix(err.Error(), "config.yaml, line ") {
			t.Errorf("%s: the error names no line: %v", name, err)
		}
		c, err := Parse(File{}, File{"admin", []byte(text)})
		if err != nil || len(c.Warnings()) != 1 || !errors.Is(c.Warnings()[0], ErrUnreadable) {
			t.Errorf("%s of the administrator: got %v, %v", name, err, c.Warnings())
		}
		if s, err := c.With(nil).String("terminal", "backend"); s != "local" || err != nil {
			t.Errorf("%s of the administrator: %q, %v", name, s, err)
		}
	}
	v := parse(t, list+"ll: &ll [*ll]\n", "-").With(nil)
	for _, key := range []string{"l39", "ll"} {
		if _, err := v.Value(key); !errors.Is(err, ErrType) {
			t.Errorf("%s: got %v", key, err)
		}
	}
	for _, text := range []string{"", "# only\n", "---\n", "~\n", "{}\n", "\xef\xbb\xbf"} {
		if c := parse(t, text, "-"); !c.Exists() || c.Stamp().Present {
			t.Errorf("%q: not an empty file", text)
		}
	}
}

func TestStamp(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Stamp{
		"-": {}, "a: 1\n": {}, "_config_version: 50\n": {50, true, true}, "_config_version: \"49\"\n": {49, true, true},
		"_config_version: 49.9\n": {49, true, true}, "_config_version: true\n": {0, true, false}, "_config_version:\n": {0, true, false},
		"_config_version: x\n": {0, true, false}, "_config_version: -1\n": {0, true, false}, "_config_version: [1]\n": {0, true, false},
		"_config_version: .inf\n": {0, true, false}, "_config_version: .nan\n": {0, true, false},
	} {
		if got := parse(t, text, "_config_version: 99\n").Stamp(); got != want {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := home.Home{Dir: filepath.Join(dir, "home"), Profile: home.Default}
	testkit.WriteTree(t, dir, map[string]string{"home/": "", "etc/config.yaml": "terminal: {backend: docker}\n"})
	var log bytes.Buffer
	o := Options{AdminDir: filepath.Join(dir, "etc"), Log: slog.New(slog.NewTextHandler(&log, nil))}

	c, err := Load(h, o)
	if err != nil || c.Exists() || c.Origin("terminal", "backend") != Admin || log.Len() > 0 {
		t.Fatalf("no file: %v, exists %v, log %q", err, c.Exists(), log.String())
	}
	testkit.WriteTree(t, dir, map[string]string{"home/config.yaml": "terminal: {timeout: 1}\n"})
	if c, err = Load(h, o); err != nil || !c.Exists() || c.Path() != h.Config() {
		t.Fatalf("got %v", err)
	}

	testkit.WriteTree(t, dir, map[string]string{"etc/config.yaml": "a: [\n"})
	if c, err = Load(h, o); err != nil || len(c.Warnings()) != 1 || !strings.Contains(log.String(), "etc/config.yaml, line 1") {
		t.Fatalf("broken admin file: %v, %v, log %q", err, c.Warnings(), log.String())
	}
	for name, spoil := range map[string]func(path string) error{
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"loop":      func(p string) error { return os.Symlink(p, p) },
		"dangling":  func(p string) error { return os.Symlink(p+".gone", p) },
	} {
		for _, who := range []string{"home", "etc"} {
			path := filepath.Join(dir, who, "config.yaml")
			old, _ := os.ReadFile(path)
			if err := errors.Join(os.Remove(path), spoil(path)); err != nil {
				t.Fatal(err)
			}
			c, err := Load(h, o)
			if who == "home" {
				if !errors.Is(err, ErrUnreadable) || exitcode.Of(err) != exitcode.Unparseable {
					t.Errorf("%s: got %v", name, err)
				}
			} else if err != nil || len(c.Warnings()) != 1 {
				t.Errorf("%s of the administrator: got %v", name, err)
			}
			if err := errors.Join(os.Remove(path), os.WriteFile(path, old, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The home is below a file: nothing can be there.
	if _, err := Load(home.Home{Dir: h.Config()}, Options{}); !errors.Is(err, ErrUnreadable) {
		t.Errorf("below a file: got %v", err)
	}
}

func TestConcurrentReaders(t *testing.T) {
	t.Parallel()
	c := parse(t, "a: &a {b: [1, '${X}']}\nm: {<<: *a}\nterminal: {timeout: 5}\n", "-")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			v := c.With(env("X", fmt.Sprint(i)))
			for range 200 {
				l, err := v.Strings("m", "b")
				if err != nil || l[1] != fmt.Sprint(i) {
					t.Errorf("got %v, %v", l, err)
				}
				m, err := v.Map("terminal")
				if err != nil {
					t.Error(err)
				}
				m["timeout"] = i // the caller's own
				if n, _ := v.Int("terminal", "timeout"); n != 5 {
					t.Errorf("got %d", n)
				}
				_ = v.Origin("m")
			}
		})
	}
	wg.Wait()
}

func TestCorpusLoads(t *testing.T) {
	t.Parallel()
	dir := testkit.Corpus(t)
	n := 0
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		n++
		h := home.Home{Dir: filepath.Dir(path), Profile: home.Default}
		c, err := Load(h, Options{})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		v := c.With(nil)
		if _, err := v.Value(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Fatalf("%d files, %v", n, err)
	}
}

func aliasKeys(n *yamlspan.Node) bool {
	if n == nil {
		return false
	}
	for _, p := range n.Pairs {
		if p.Key.Kind == yamlspan.Alias || aliasKeys(p.Value) {
			return true
		}
	}
	return slices.ContainsFunc(n.Items, aliasKeys)
}

// FuzzLoad holds the loader to the editor: of any file that loads, both see the same value
// at every path.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{
		sample, "a: &a {b: 1, <<: {c: 2}}\nd: {<<: [*a, {b: 3, e: 4}], c: 5}\n", "<<: {a: 1}\n<<: {a: 2}\nb: *b\n", "? a\n: {b: c, b: d}\n",
		"{\"a\": [1, {\"b\": null}], \"\": {\"\": 0}}", "a: &x\nb: *x\n", "x: &x {<<: *x, y: 1}\n", "&k a: 1\nb: {*k : 2}\n", "terminal: x\n", "a: !!map {b: !t c}\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(File{"config.yaml", []byte(text)}, File{})
		if err != nil {
			return
		}
		doc := c.layers[User].doc
		if aliasKeys(doc.Root()) {
			return // the editor does not look through an alias that is a key
		}
		for _, id := range c.sorted() {
			path := split(id)
			l, section, ok := c.at(path)
			if !ok {
				t.Fatalf("%q: nothing at %q", text, path)
			}
			if section || l.layer.from != User {
				continue
			}
			if found, ok := doc.Find(path...); !ok || found.Node != l.node {
				t.Fatalf("%q: %q is %+v here and %+v, %v in the editor", text, path, l.node, found.Node, ok)
			}
		}
		for id, l := range c.misfits {
			if found, ok := doc.Find(split(id)...); !ok || found.Node != l.node {
				t.Fatalf("%q: misfit %q", text, split(id))
			}
		}
		_, _ = c.With(nil).Value()
		_ = Check(CheckInput{User: File{"config.yaml", []byte(text)}})
	})
}
