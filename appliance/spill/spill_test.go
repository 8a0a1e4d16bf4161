// SPDX-License-Identifier: MIT

package spill

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func newDir(t *testing.T) (*Dir, string) {
	t.Helper()
	home := t.TempDir()
	return New(home, time.Now, slog.New(slog.DiscardHandler)), home
}

func TestSpill(t *testing.T) {
	t.Parallel()
	d, home := newDir(t)
	for _, id := range []string{"call_1", "call_1", "../../etc/passwd", "", "..", strings.Repeat("x", 300), "a b", "a_b", "a\x00b", "é"} {
		text := "result of " + id + "\nwithout a line break at the end"
		path, err := d.Spill(t.Context(), id, text)
		if err != nil {
			t.Fatalf("%q: %v", id, err)
		}
		if filepath.Dir(path) != filepath.Join(home, "cache", "spillover") || len(filepath.Base(path)) > maxStem+20 {
			t.Errorf("%q: %s", id, path)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("%q: got %q, %v", id, got, err)
		}
		if i, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && i.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", i.Mode(), err)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, id := range []string{"a b", "a_b", "a/b", "a.b", "a", "a.", ".a", "", ".", "..", strings.Repeat("y", 121), strings.Repeat("y", 122), "tool_result"} {
		n := name(id)
		if other, twice := seen[n]; twice {
			t.Errorf("%q and %q share %s", id, other, n)
		}
		seen[n] = id
	}
	if name("call_abc-1") != "call_abc-1.txt" {
		t.Error("a harmless id is changed")
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	d, _ := newDir(t)
	old, err := d.Spill(t.Context(), "old", "x")
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := d.Spill(t.Context(), "fresh", "x")
	if err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	if n := d.Prune(t.Context()); n != 1 {
		t.Errorf("removed %d", n)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Error("the old file is still there")
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Error(err)
	}
}

// TestFullDisk: a result that cannot be written is an error, and no file.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	full := errors.New("no space")
	for _, op := range []atomicfile.Op{atomicfile.OpMkdir, atomicfile.OpCreate, atomicfile.OpWrite, atomicfile.OpSync, atomicfile.OpRename} {
		d, _ := newDir(t)
		d.write.Before = func(o atomicfile.Op, _ string) error {
			if o == op {
				return full
			}
			return nil
		}
		if _, err := d.Spill(t.Context(), "x", "text"); !errors.Is(err, full) {
			t.Errorf("%s: got %v", op, err)
		}
		if left, err := filepath.Glob(filepath.Join(d.path, "*")); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", op, left, err)
		}
	}
}

func TestLinkInPlace(t *testing.T) {
	t.Parallel()
	d, home := newDir(t)
	if _, err := d.Spill(t.Context(), "first", "x"); err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(home, "victim")
	if err := os.WriteFile(victim, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := os.Symlink(victim, filepath.Join(d.path, "x.txt"))
	testkit.Need(t, "link", err == nil, fmt.Sprint("no link can be made: ", err))
	if _, err = d.Spill(t.Context(), "x", "text"); err == nil {
		t.Error("a link is followed")
	}
	if got, err := os.ReadFile(victim); err != nil || string(got) != "keep" {
		t.Errorf("got %q, %v", got, err)
	}
}
