// SPDX-License-Identifier: MIT

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestReportB12ModesOfAHome (H#10757, PR#6317): a home that is shared with a group through a
// setgid directory keeps every mode that its owner gave it, over starts, turns and stops, and
// what is new in it belongs to the group.
func TestReportB12ModesOfAHome(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{
		"config.yaml": "_config_version: 50\ngateway: {multiplex_profiles: true}\n", ".env": apiOn, "SOUL.md": "I am.\n", "memories/MEMORY.md": "m\n",
		"profiles/bob/config.yaml": "_config_version: 50\n", "profiles/bob/.env": "API_SERVER_KEY=key-of-the-profile-bob-1\n",
	})
	g := p.start(t, "gateway", "run", "--home", p.home) // makes what a gateway makes
	g.ask("", g.key, "run: echo one")
	g.ask("/p/bob", "key-of-the-profile-bob-1", "run: echo one")
	g.end(syscall.SIGTERM)

	was := map[string]fs.FileMode{}
	walk(t, p.home, func(path string, info fs.FileInfo) {
		mode := fs.FileMode(0o640)
		if info.IsDir() {
			mode = 0o750 | fs.ModeSetgid
		}
		if os.Geteuid() == 0 { // who is root can make it another group's
			if err := os.Chown(path, -1, 23456); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		was[path] = mode
	})
	if _, ok := was[filepath.Join(p.home, "profiles", "bob", "state.db")]; !ok {
		t.Fatalf("no state.db of a profile: %v", was)
	}
	for range 2 {
		g = p.start(t, "gateway", "run", "--home", p.home)
		g.ask("", g.key, "run: echo two")
		g.ask("/p/bob", "key-of-the-profile-bob-1", "run: echo two")
		if code := g.end(syscall.SIGTERM); code != 0 {
			t.Errorf("exit %d", code)
		}
	}
	top, err := os.Stat(p.home)
	if err != nil {
		t.Fatal(err)
	}
	walk(t, p.home, func(path string, info fs.FileInfo) {
		if want, ok := was[path]; ok && info.Mode()&(fs.ModePerm|fs.ModeSetgid) != want {
			t.Errorf("%s: mode %v, was %v", path, info.Mode(), want)
		}
		if info.Sys().(*syscall.Stat_t).Gid != top.Sys().(*syscall.Stat_t).Gid {
			t.Errorf("%s is of another group", path)
		}
	})
	if files := testkit.ReadTree(t, p.home); files["SOUL.md"] != "I am.\n" {
		t.Errorf("SOUL.md: %q", files["SOUL.md"])
	}
}

// walk visits the directories and files of a home.
func walk(t testing.TB, dir string, visit func(path string, info fs.FileInfo)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && (info.IsDir() || info.Mode().IsRegular()) {
			visit(path, info)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
