// SPDX-License-Identifier: MIT

package home

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestManager(t *testing.T) {
	t.Parallel()
	const none = "\x00" // no marker file
	for _, row := range []struct{ name, env, marker, want string }{
		{"nothing", "", none, ""},
		{"env true", "true", none, "nixos"},
		{"env 1", "1", none, "nixos"},
		{"env YES", " YES ", none, "nixos"},
		{"H#12864 false is nobody, not a manager of that name", "false", none, ""},
		{"env 0", "0", none, ""},
		{"env no", "no", none, ""},
		{"env Off", "Off", none, ""},
		{"env brew", "brew", none, ""},
		{"env Homebrew", "Homebrew", none, ""},
		{"env name", "Home-Manager", none, "home-manager"},
		{"env false beats a marker", "false", "nixos", ""},
		{"env name beats a marker", "ansible", "false", "ansible"},
		{"a blank variable is none", "  ", "ansible", "ansible"},
		{"empty marker", "", "", "nixos"},
		{"blank marker", "", " \r\n", "nixos"},
		{"marker with BOM only", "", "\xef\xbb\xbf", "nixos"},
		{"marker with BOM", "", "\xef\xbb\xbfHome-Manager\r\n", "home-manager"},
		{"marker true", "", "true\n", "nixos"},
		{"marker false", "", "False\n", ""},
		{"marker homebrew", "", "homebrew", ""},
		{"marker name", "", "nixos\n", "nixos"},
		{"marker off", "", "off", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := Home{Dir: t.TempDir(), Profile: Default}
			if row.marker != none {
				testkit.WriteTree(t, h.Dir, map[string]string{".managed": row.marker})
			}
			if got, err := h.Manager(env(map[string]string{EnvManaged: row.env})); err != nil || got != row.want {
				t.Errorf("got %q %v, want %q", got, err, row.want)
			}
		})
	}
}

// TestManagerUnreadable: a marker that cannot be read is not an absent one.
func TestManagerUnreadable(t *testing.T) {
	t.Parallel()
	h := Home{Dir: t.TempDir(), Profile: Default}
	testkit.WriteTree(t, h.Dir, map[string]string{".managed/": ""})
	if got, err := h.Manager(env(nil)); err == nil {
		t.Errorf("got %q and no error", got)
	}
	if got, err := h.Manager(env(map[string]string{EnvManaged: "false"})); err != nil || got != "" {
		t.Errorf("the variable decides alone: got %q %v", got, err)
	}
}

func TestAdminDir(t *testing.T) {
	t.Parallel()
	system := ""
	if info, err := os.Stat("/etc/hermes"); err == nil && info.IsDir() {
		system = "/etc/hermes"
	}
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"file": ""})
	for value, want := range map[string]string{
		dir: dir, "": system, filepath.Join(dir, "absent"): system, filepath.Join(dir, "file"): system,
	} {
		if got := AdminDir(env(map[string]string{"HERMES_MANAGED_DIR": value})); got != want {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
	}
}
