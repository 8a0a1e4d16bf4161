// SPDX-License-Identifier: MIT

//go:build unix

package home

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func wantFileOwner(t *testing.T, path, want string) {
	t.Helper()
	if got, err := FileOwner(path); err != nil || got != want {
		t.Errorf("%s: got %q %v, want %q", filepath.Base(path), got, err, want)
	}
}

func TestFileOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{
		"plain": "x", "readonly": "x", "groupwrite": "x", "sealed/file": "x", "sub/": "", "dotfiles/real": "x",
	})
	in := func(name string) string { return filepath.Join(dir, name) }
	for link, to := range map[string]string{
		"linked": "dotfiles/real", "to-readonly": "readonly", "to-sealed": "sealed/file", "to-new-in-sealed": "sealed/absent",
		"dangling": "nowhere", "store": "/nix/store/0000-hermes/config.yaml", "store-deep": "store",
		"store-relative": "../../../../../../../../../nix/store/0000-hermes/config.yaml", "to-sub": "sub", "looks-like": "nix/store/x",
	} {
		if err := os.Symlink(to, in(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(in("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(in("readonly"), 0o444), os.Chmod(in("groupwrite"), 0o464), os.Chmod(in("sealed"), 0o555)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(in("sealed"), 0o700) })
	for name, want := range map[string]string{
		"plain": "", "linked": "", "absent": "",
		"readonly": "read-only file", "to-readonly": "read-only file",
		"sealed/file": "read-only directory", "sealed/absent": "read-only directory", "to-sealed": "read-only directory",
		"dangling": "dangling link", "looks-like": "dangling link", "to-new-in-sealed": "dangling link",
		"store": "nix store", "store-deep": "nix store", "store-relative": "nix store",
		"sub": "no regular file", "to-sub": "no regular file", "pipe": "no regular file",
	} {
		wantFileOwner(t, in(name), want)
	}
	if os.Geteuid() == 0 {
		wantFileOwner(t, in("groupwrite"), "")
	} else {
		wantFileOwner(t, in("groupwrite"), "read-only file")
	}
	if _, err := FileOwner(in("no/such/dir/file")); err == nil {
		t.Error("no directory: no error")
	}
	if got, err := DirOwner(dir); err != nil || got != "" {
		t.Errorf("got %q %v", got, err)
	}
	if got, err := DirOwner(in("sealed")); err != nil || got != "read-only directory" {
		t.Errorf("got %q %v", got, err)
	}
}

// TestFileOwnerStore: a store that is there, with files that look as if they could be written.
func TestFileOwnerStore(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	testkit.WriteTree(t, dir, map[string]string{"store/x/config.yaml": "x", "dotfiles/mine.yaml": "x"})
	in := func(name string) string { return filepath.Join(dir, name) }
	for link, to := range map[string]string{
		"plain": "store/x/config.yaml", "deep": "plain",
		"store/x/out": in("dotfiles/mine.yaml"), "out-of-store": "store/x/out", // home-manager's mkOutOfStoreSymlink
	} {
		if err := os.Symlink(to, in(link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"plain": "nix store", "deep": "nix store", "store/x/config.yaml": "nix store", "out-of-store": ""} {
		if got, err := fileOwner(in(name), in("store")+"/"); err != nil || got != want {
			t.Errorf("%s: got %q %v, want %q", name, got, err, want)
		}
	}
}

// TestFileOwnerForeignLink: what its maker could not write, root must not write for them.
func TestFileOwnerForeignLink(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"roots": "x", "theirs": "x"})
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.Symlink("roots", in("bad")), os.Lchown(in("bad"), 4711, 4711),
		os.Chown(in("theirs"), 4711, 4711), os.Symlink("theirs", in("good")), os.Lchown(in("good"), 4711, 4711),
	); err != nil {
		t.Fatal(err)
	}
	wantFileOwner(t, in("bad"), "another user's link")
	wantFileOwner(t, in("good"), "")
}
