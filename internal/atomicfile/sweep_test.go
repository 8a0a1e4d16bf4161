// SPDX-License-Identifier: MIT

package atomicfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestSweep: what a killed write left goes, whatever only looks like it stays.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f.json")
	testkit.WriteTree(t, dir, map[string]string{
		"f.json": "x", ".f.json.new": "named", ".f.json.ABCDEFG2.new.bak": "x", ".fxjson.ABCDEFG2.new": "x", ".g.json.ABCDEFG2.new": "x",
		".f.json.abcdefgh.new": "x", ".f.json.ABCDEFG3.new/": "",
	})
	want := []string{".f.json.ABCDEFG2.new.bak", ".f.json.ABCDEFG3.new", ".f.json.abcdefgh.new", ".f.json.new", ".fxjson.ABCDEFG2.new", ".g.json.ABCDEFG2.new", "f.json"}
	for range 2 {
		if _, err := (Writer{}).Stage(path, []byte("killed"), Options{}); err != nil { // and never ended
			t.Fatal(err)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != len(want)+2 {
		t.Fatalf("nothing is left to sweep: %v, %v", names, err)
	}
	if err := (Writer{}).Sweep(path); err != nil {
		t.Error(err)
	}
	wantNames(t, dir, want...)
	if err := (Writer{}).Sweep(filepath.Join(dir, "none", "f")); err != nil {
		t.Errorf("no directory: %v", err)
	}
}
