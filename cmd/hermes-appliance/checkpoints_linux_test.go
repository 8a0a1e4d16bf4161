// SPDX-License-Identifier: MIT

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestCheckpointCommands: what an agent of a running gateway did to a directory is listed, shown,
// and undone, whole or by file, while the gateway runs; nothing happens without a yes, and the
// way back from a restore is there.
func TestCheckpointCommands(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("git")
	testkit.Need(t, "git", err == nil, "checkpoints are kept by git")
	p := newPlace(t, nil)
	dir := filepath.Join(p.dir, "project")
	before := map[string]string{"a.txt": "first\n", "sub/b.txt": "second\n", ".env": "SECRET=mine\n"}
	testkit.WriteTree(t, dir, before)
	testkit.WriteTree(t, p.home, map[string]string{
		"config.yaml": "_config_version: 50\nterminal: {cwd: " + dir + "}\ncheckpoints: {enabled: true}\n", ".env": apiOn,
	})
	commands := func(want int, args ...string) string {
		t.Helper()
		out, code := p.command(t, append([]string{"checkpoints"}, append(args, "--home", p.home, "--dir", dir)...)...)
		if code != want {
			t.Errorf("%v: exit %d, want %d: %s", args, code, want, out)
		}
		return out
	}
	if out := commands(0, "list"); !strings.Contains(out, "no checkpoints") {
		t.Errorf("before anything: %s", out)
	}
	if out := commands(1, "diff", "abcd"); !strings.Contains(out, "checkpoints list") {
		t.Errorf("no store: %s", out)
	}
	g := p.start(t, "gateway", "run", "--home", p.home)
	g.ask("", g.key, strings.Join([]string{
		`call: write_file {"path": "` + dir + `/a.txt", "content": "changed\n"}`, `run: rm sub/b.txt`,
		`call: write_file {"path": "` + dir + `/new.txt", "content": "new\n"}`,
	}, "\n"))
	after := map[string]string{"a.txt": "changed\n", "new.txt": "new\n", ".env": "SECRET=mine\n"}
	if d := cmp.Diff(after, testkit.ReadTree(t, dir)); d != "" {
		t.Fatalf("the agent did something else:\n%s", d)
	}
	type entry struct{ Hash, Reason, Time string }
	list := field[struct{ Checkpoints []entry }](t, commands(0, "list", "--json"), "result").Checkpoints
	if len(list) != 1 || !strings.Contains(list[0].Reason, "write_file") || !strings.HasSuffix(list[0].Time, "Z") {
		t.Fatalf("%+v", list)
	}
	hash := list[0].Hash[:10]
	if out := commands(0, "list"); !strings.Contains(out, hash) {
		t.Errorf("list: %s", out)
	}
	diff := field[map[string]any](t, commands(0, "diff", hash, "--json"), "result")
	for _, want := range []string{"-first", "+changed", "-second", "+new"} {
		if text, _ := diff["diff"].(string); diff["changed"] != true || !strings.Contains(text, want) || !strings.Contains(commands(0, "diff", hash), want) {
			t.Errorf("the difference lacks %q: %v", want, diff)
		}
	}
	for _, bad := range [][]string{{"diff", "--", "--output=x"}, {"diff", "xyz"}, {"restore", hash, "--yes", "--file", "../x"}, {"restore", hash, "--yes", "--file", "/etc"}, {"restore"}} {
		commands(2, bad...)
	}
	for _, none := range [][]string{{"restore", hash}, {"restore", "0000", "--yes"}} { // nobody says yes; no such one
		commands(1, none...)
	}
	if d := cmp.Diff(after, testkit.ReadTree(t, dir)); d != "" {
		t.Errorf("it changed something:\n%s", d)
	}
	if out := commands(0, "restore", hash, "--yes", "--file", "a.txt"); !strings.Contains(out, "a.txt") || strings.Contains(out, "new.txt") {
		t.Errorf("one file: %s", out)
	}
	one := map[string]string{"a.txt": "first\n", "new.txt": "new\n", ".env": "SECRET=mine\n"}
	if d := cmp.Diff(one, testkit.ReadTree(t, dir)); d != "" {
		t.Errorf("one file:\n%s", d)
	}
	commands(0, "restore", hash, "--yes")
	if d := cmp.Diff(before, testkit.ReadTree(t, dir)); d != "" {
		t.Errorf("all:\n%s", d)
	}
	if out := commands(0, "restore", hash, "--yes"); !strings.Contains(out, "Nothing differs") {
		t.Errorf("again: %s", out)
	}
	list = field[struct{ Checkpoints []entry }](t, commands(0, "list", "--json"), "result").Checkpoints
	if len(list) != 4 || !strings.Contains(list[1].Reason, "before restoring") {
		t.Fatalf("%+v", list)
	}
	commands(0, "restore", list[1].Hash, "--yes") // what the restore of everything replaced
	if d := cmp.Diff(one, testkit.ReadTree(t, dir)); d != "" {
		t.Errorf("the way back:\n%s", d)
	}
}
