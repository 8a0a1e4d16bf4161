// SPDX-License-Identifier: MIT

package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func listEditor(t *testing.T, text string) Editor {
	t.Helper()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"config.yaml": text})
	return Editor{Home: home.Home{Dir: dir}, Getenv: func(string) string { return "" }, LockWait: 5 * time.Second}
}

func TestEditList(t *testing.T) {
	t.Parallel()
	add := func(items ...string) func([]string) []string {
		return func(l []string) []string { return append(l, items...) }
	}
	drop := func(items ...string) func([]string) []string {
		return func(l []string) []string {
			return slices.DeleteFunc(l, func(s string) bool { return slices.Contains(items, s) })
		}
	}
	for name, c := range map[string]struct {
		in   string
		edit func([]string) []string
		want string
	}{
		"none yet":         {"a: 1 # x\n", add("git push"), "a: 1 # x\ncommand_allowlist:\n  - \"git push\"\n"},
		"without a value":  {"command_allowlist: # mine\nb: 2\n", add("ls"), "b: 2\ncommand_allowlist:\n  - ls\n"},
		"empty brackets":   {"command_allowlist: []\n", add("ls", "*: x"), "command_allowlist: [ls, \"*: x\"]\n"},
		"comments stay":    {"command_allowlist:\n  # first\n  - 'ls' # quoted\n  - \"rm *\"\nb: 2\n", add("id"), "command_allowlist:\n  # first\n  - 'ls' # quoted\n  - \"rm *\"\n  - id\nb: 2\n"},
		"one is taken out": {"command_allowlist:\n  - a # 1\n  - b # 2\n  - c # 3\n", drop("b"), "command_allowlist:\n  - a # 1\n  - c # 3\n"},
		"the last one":     {"command_allowlist: [a]\n", drop("a"), "command_allowlist: []\n"},
		"out and in":       {"command_allowlist: [a, b]\n", func([]string) []string { return []string{"b", "c"} }, "command_allowlist: [b, c]\n"},
		"nothing to do":    {"command_allowlist: [ a ]\n", add(), "command_allowlist: [ a ]\n"},
		"line endings":     {"command_allowlist:\r\n  - a\r\n", add("b"), "command_allowlist:\r\n  - a\r\n  - b\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := listEditor(t, c.in)
			got, err := e.EditList(t.Context(), []string{"command_allowlist"}, c.edit)
			if err != nil {
				t.Fatal(err)
			}
			if got.Changed != (c.in != c.want) {
				t.Errorf("changed: %v", got.Changed)
			}
			if text, _ := os.ReadFile(e.Home.Config()); strings.TrimSpace(string(text)) != strings.TrimSpace(c.want) {
				t.Errorf("got\n%s\nwant\n%s", text, c.want)
			}
		})
	}
}

func TestEditListRefuses(t *testing.T) {
	t.Parallel()
	same := func(l []string) []string { return append(l, "x") }
	for name, c := range map[string]struct {
		in   string
		edit func([]string) []string
		want error
	}{
		"a text":      {"command_allowlist: ls\n", same, ErrType},
		"a number":    {"command_allowlist: [1]\n", same, ErrType},
		"a section":   {"command_allowlist: {a: b}\n", same, ErrType},
		"an alias":    {"x: &l [a]\ncommand_allowlist: *l\n", same, ErrUnreadable},
		"other order": {"command_allowlist: [a, b]\n", func([]string) []string { return []string{"b", "a"} }, ErrUsage},
		"broken file": {"command_allowlist: [a\n", same, ErrUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := listEditor(t, c.in)
			if _, err := e.EditList(t.Context(), []string{"command_allowlist"}, c.edit); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if text, _ := os.ReadFile(e.Home.Config()); string(text) != c.in {
				t.Errorf("the file was changed: %s", text)
			}
		})
	}
}

func TestCacheSeesEveryChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := home.Home{Dir: dir}
	c := NewCache()
	base := time.Now()
	c.now = func() time.Time { return base.Add(time.Hour) } // all files are old
	write := func(name, text string) {
		t.Helper()
		testkit.WriteTree(t, dir, map[string]string{name: text})
	}
	get := func() (string, *Config) {
		t.Helper()
		cfg, err := c.Load(h, Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := cfg.With(nil).String("model", "default")
		if err != nil {
			t.Fatal(err)
		}
		return s, cfg
	}
	write("config.yaml", "model: {default: one}\n")
	_, first := get()
	if _, again := get(); again != first {
		t.Error("an unchanged file was read again")
	}
	write(".op.env", "OP_SERVICE_ACCOUNT_TOKEN=x\n")
	_, second := get()
	if second == first {
		t.Error("a new .op.env was not noticed")
	}
	// A replacement with the same size and time stamp, as cp -p makes it.
	info, err := os.Stat(h.Config())
	if err != nil {
		t.Fatal(err)
	}
	write("other.yaml", "model: {default: two}\n")
	if err := errors.Join(os.Chtimes(filepath.Join(dir, "other.yaml"), info.ModTime(), info.ModTime()), os.Rename(filepath.Join(dir, "other.yaml"), h.Config())); err != nil {
		t.Fatal(err)
	}
	if s, _ := get(); s != "two" {
		t.Errorf("got %q after the file was replaced", s)
	}
	write("config.yaml", "model: [\n")
	if _, err := c.Load(h, Options{}); err == nil {
		t.Error("a broken file gives what it said before")
	}
	if err := os.Remove(h.Config()); err != nil {
		t.Fatal(err)
	}
	if s, _ := get(); s != "" {
		t.Errorf("got %q after the file was removed", s)
	}
}

func TestCacheKeepsNothingYoung(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"config.yaml": "a: 1\n"})
	info, err := os.Stat(filepath.Join(dir, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c := NewCache()
	c.now = func() time.Time { return atomicfile.ChangeTime(info) } // however long the machine takes
	one, err := c.Load(home.Home{Dir: dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	two, err := c.Load(home.Home{Dir: dir}, Options{})
	if err != nil || one == two {
		t.Errorf("a file that was written just now is remembered: a second write in the same clock tick would be missed (%v)", err)
	}
}

func TestTopLevel(t *testing.T) {
	t.Parallel()
	c, err := Parse(File{"u", []byte("_config_version: 50\ntimezone: UTC\nflag: yes\nn: 3\nlist: [a]\nmodel: {default: x}\nempty:\nref: ${NAME}\n")}, File{"a", []byte("timezone: CET\n")})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.With(func(string) (string, bool) { return "resolved", true }).TopLevel()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"timezone": "CET", "flag": "True", "n": "3", "ref": "resolved"}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: got %q, want %q", k, got[k], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
}
