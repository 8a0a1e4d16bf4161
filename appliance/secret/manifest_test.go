// SPDX-License-Identifier: MIT

package secret

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestReadPlugins(t *testing.T) {
	t.Parallel()
	const good = "kind: secret-source\nname: my_vault\ncommand: [fetch]\n"
	for name, c := range map[string]struct {
		text string
		want Plugin // Name "" = none
		warn string // part of the only warning, "" = none
	}{
		"least":             {good, Plugin{Name: "my_vault", Shape: Bulk, Args: []string{"fetch"}}, ""},
		"all":               {good + "shape: mapped\nprotected_env_vars: [A_TOKEN, B]\nfetch_timeout_seconds: 1.5\nunknown: kept\n", Plugin{"my_vault", Mapped, []string{"fetch"}, []string{"A_TOKEN", "B"}, 1500 * time.Millisecond}, ""},
		"another kind":      {"kind: platform\nname: x\n", Plugin{}, ""},
		"no kind":           {"name: my_vault\ncommand: [fetch]\n", Plugin{}, ""},
		"empty":             {"", Plugin{}, ""},
		"not YAML":          {"kind: [", Plugin{}, "plugin.yaml"},
		"bad name":          {"kind: secret-source\nname: My Vault\ncommand: [fetch]\n", Plugin{}, "plugin.yaml:2: name"},
		"no command":        {"kind: secret-source\nname: x\n", Plugin{}, ": command"},
		"a shell line":      {"kind: secret-source\nname: x\ncommand: fetch --all\n", Plugin{}, "plugin.yaml:3: command"},
		"a number":          {"kind: secret-source\nname: x\ncommand: [1]\n", Plugin{}, "plugin.yaml:3: command"},
		"another plugin's":  {"kind: secret-source\nname: x\ncommand: [./../other/fetch]\n", Plugin{}, "plugin.yaml:3: command"},
		"a relative path":   {"kind: secret-source\nname: x\ncommand: [bin/fetch]\n", Plugin{}, "plugin.yaml:3: command"},
		"bad shape":         {good + "shape: round\n", Plugin{}, "plugin.yaml:4: shape"},
		"bad variable":      {good + "protected_env_vars: ['A=B']\n", Plugin{}, "plugin.yaml:4: protected_env_vars"},
		"endless":           {good + "fetch_timeout_seconds: .inf\n", Plugin{}, "plugin.yaml:4: fetch_timeout_seconds"},
		"a text for a time": {good + "fetch_timeout_seconds: soon\n", Plugin{}, "plugin.yaml:4: fetch_timeout_seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			testkit.WriteTree(t, dir, map[string]string{"plugins/p/plugin.yaml": c.text, "plugins/__pycache__/plugin.yaml": good, "plugins/file": good})
			got, warnings, err := ReadPlugins(dir)
			if err != nil {
				t.Fatal(err)
			}
			var want []Plugin
			if c.want.Name != "" {
				want = []Plugin{c.want}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if text := strings.Join(warnings, "\n"); (c.warn == "") != (text == "") || !strings.Contains(text, c.warn) {
				t.Errorf("warnings: %q, want %q", text, c.warn)
			}
		})
	}
}

func TestReadPluginsOfTheDirectory(t *testing.T) {
	t.Parallel()
	if got, warnings, err := ReadPlugins(t.TempDir()); got != nil || warnings != nil || err != nil {
		t.Errorf("no plugins: %v %v %v", got, warnings, err)
	}
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"plugins/a/plugin.yml": "kind: secret-source\nname: a\ncommand: [./bin/fetch, x]\n"})
	got, _, err := ReadPlugins(dir)
	if want := filepath.Join(dir, "plugins", "a", "bin", "fetch"); err != nil || len(got) != 1 || got[0].Args[0] != want {
		t.Errorf("got %v, %v", got, err)
	}
	testkit.Need(t, "posix", runtime.GOOS != "windows", "the test puts a file where a directory is listed")
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plugins"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadPlugins(dir); err == nil {
		t.Error("a plugins directory that cannot be listed counts as empty")
	}
}
