// SPDX-License-Identifier: MIT

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
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
