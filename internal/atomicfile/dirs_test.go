// SPDX-License-Identifier: MIT

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestMkdir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "sub")
	for range 2 {
		if err := (Writer{}).Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		t.Fatalf("got %v %v", info, err)
	}
	if err := (Writer{}).Mkdir(filepath.Join(dir, "gone", "sub"), 0o700); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("deleted parent: got %v, want fs.ErrNotExist", err)
	}
	wantNames(t, dir, "sub")
	put(t, filepath.Join(dir, "file"), "x")
	if err := (Writer{}).Mkdir(filepath.Join(dir, "file"), 0o700); err == nil {
		t.Error("made a directory of a file")
	}
}

func TestTouch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := (Writer{}).Touch(path, 0o600); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "")
	put(t, path, "text")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := (Writer{}).Touch(path, 0o644); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "text")
	if after, err := os.Stat(path); err != nil || after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("an existing file changed: %v %v, was %v (%v)", after.Mode(), after.ModTime(), before, err)
	}
	if err := os.Symlink("elsewhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "."} {
		if err := (Writer{}).Touch(filepath.Join(dir, name), 0o600); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: got %v, want ErrNotRegular", name, err)
		}
	}
	if err := (Writer{}).Touch(filepath.Join(dir, "gone", "f"), 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("deleted directory: got %v", err)
	}
	wantNames(t, dir, "f", "link")
}

func TestRemove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put(t, path, "x")
	fail := &ops{fail: 1}
	if err := (Writer{Before: fail.before}).Remove(path); !errors.Is(err, errInjected) {
		t.Errorf("got %v", err)
	}
	wantNames(t, dir, "f")
	for range 2 {
		if err := (Writer{}).Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	wantNames(t, dir)
}

// TestStagedStaysInItsDirectory: a directory that is exchanged for another between the steps of a
// write neither gets the file nor keeps what was staged.
func TestStagedStaysInItsDirectory(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "posix", runtime.GOOS != "windows", "a directory with an open file cannot be renamed there")
	for name, end := range map[string]func(*Staged) error{"commit": (*Staged).Commit, "discard": (*Staged).Discard} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			testkit.WriteTree(t, top, map[string]string{"a/f": "old", "b/f": "another's", "b/.f.new": "another's"})
			dir := func(s string) string { return filepath.Join(top, s) }
			st, err := Writer{}.Stage(filepath.Join(dir("a"), "f"), []byte("new"), Options{Temp: ".f.new"})
			if err == nil {
				err = errors.Join(os.Rename(dir("a"), dir("moved")), os.Rename(dir("b"), dir("a")))
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(end(st), st.Discard()); err != nil {
				t.Error(err)
			}
			want := map[string]string{"a/f": "another's", "a/.f.new": "another's", "moved/f": "old"}
			if name == "commit" {
				want["moved/f"] = "new"
			}
			if diff := cmp.Diff(want, testkit.ReadTree(t, top)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
