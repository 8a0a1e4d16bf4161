// SPDX-License-Identifier: MIT

//go:build unix

package atomicfile

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

const other, third = 4711, 4712 // user ids that are not ours

func stat(t testing.TB, path string) *syscall.Stat_t {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t)
}

func wantOwner(t testing.TB, path string, uid uint32) {
	t.Helper()
	if st := stat(t, path); st.Uid != uid || st.Gid != uid {
		t.Errorf("%s belongs to %d:%d, want %d:%d", path, st.Uid, st.Gid, uid, uid)
	}
}

func TestWriteKeepsMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o600, 0o640, 0o644, 0o666, 0o755, 0o640 | os.ModeSetgid} {
		path := filepath.Join(t.TempDir(), "f")
		put(t, path, "old")
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := (Writer{}).Write(path, []byte("new"), Options{Mode: 0o611}); err != nil {
			t.Fatal(err)
		}
		wantFile(t, path, "new")
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("got mode %v (%v), want %v", info.Mode(), err, mode)
		}
	}
}

// TestStagedIsPrivate: the staged file is as closed as the one it replaces at every moment, and
// never opens what the old one kept closed.
func TestStagedIsPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put(t, path, "old")
	seen := 0
	w := Writer{Before: func(_ Op, p string) error {
		if info, err := os.Lstat(p); err == nil && strings.HasSuffix(p, ".new") {
			seen++
			if info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", p, info.Mode())
			}
		}
		return nil
	}}
	if err := w.Write(path, []byte("secret"), Options{}); err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Error("no staged file was seen")
	}
}

func TestNewFileMode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, o := range map[string]Options{"plain": {}, "given": {Mode: 0o640}} {
		want := o.Mode
		if want == 0 {
			want = 0o600
		}
		path := filepath.Join(dir, name)
		if err := (Writer{}).Write(path, []byte("x"), o); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: got mode %v (%v), want %v", name, info.Mode(), err, want)
		}
	}
}

func TestWriteKeepsOwner(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put(t, path, "old")
	if err := errors.Join(os.Chown(path, other, other), os.Chmod(path, 0o640)); err != nil {
		t.Fatal(err)
	}
	before := stat(t, path)
	if err := (Writer{}).Write(path, []byte("new"), Options{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "new")
	wantOwner(t, path, other)
	after := stat(t, path)
	if after.Mode != before.Mode {
		t.Errorf("mode %o, was %o", after.Mode, before.Mode)
	}
	if after.Ino == before.Ino {
		t.Error("the file was overwritten, not replaced")
	}
}

// TestNewBelongsToDirectory: what root makes in another user's directory belongs to that user.
func TestNewBelongsToDirectory(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	dir := t.TempDir()
	if err := os.Chown(dir, other, other); err != nil {
		t.Fatal(err)
	}
	var w Writer
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(w.Write(in("file"), []byte("x"), Options{}), w.Touch(in("touched"), 0o600), w.Mkdir(in("sub"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "touched", "sub"} {
		wantOwner(t, in(name), other)
	}
}

// TestKilledBeforeGiving: root was killed after it made a directory or a lock file and before
// it gave it away. The next run gives it; what holds something is left as it is.
func TestKilledBeforeGiving(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	dir := t.TempDir()
	if err := os.Chown(dir, other, other); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	stop := Writer{Before: func(op Op, _ string) error {
		if op == OpOwner {
			return errInjected
		}
		return nil
	}}
	if err := stop.Mkdir(in("empty"), 0o700); !errors.Is(err, errInjected) {
		t.Fatal(err)
	}
	if err := stop.Touch(in("lock"), 0o600); !errors.Is(err, errInjected) {
		t.Fatal(err)
	}
	testkit.WriteTree(t, dir, map[string]string{"full/file": "x", "used": "text"})
	for _, name := range []string{"empty", "lock", "full", "used"} {
		wantOwner(t, in(name), 0)
	}
	var w Writer
	for name, want := range map[string]uint32{"empty": other, "lock": other, "full": 0, "used": 0} {
		do := func(path string) error { return w.Mkdir(path, 0o700) }
		if name == "lock" || name == "used" {
			do = func(path string) error { return w.Touch(path, 0o600) }
		}
		if err := do(in(name)); err != nil {
			t.Fatal(err)
		}
		wantOwner(t, in(name), want)
	}
}

func TestWriteThroughLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"dotfiles/real": "old", "home/": "", "mid/": ""})
	for link, to := range map[string]string{"home/f": "../mid/f", "mid/f": filepath.Join(dir, "dotfiles", "real")} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	var staged string
	w := Writer{Before: func(op Op, path string) error {
		if op == OpCreate {
			staged = path
		}
		return nil
	}}
	if err := w.Write(filepath.Join(dir, "home", "f"), []byte("new"), Options{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(dir, "dotfiles", "real"), "new")
	for link, to := range map[string]string{"home/f": "../mid/f", "mid/f": filepath.Join(dir, "dotfiles", "real")} {
		if got, err := os.Readlink(filepath.Join(dir, link)); err != nil || got != to {
			t.Errorf("%s -> %q (%v), want %q", link, got, err, to)
		}
	}
	if filepath.Base(filepath.Dir(staged)) != "dotfiles" {
		t.Errorf("staged as %s, want beside the file", staged)
	}
	for _, sub := range []string{"home", "mid"} {
		wantNames(t, filepath.Join(dir, sub), "f")
	}
	wantNames(t, filepath.Join(dir, "dotfiles"), "real")
}

// TestHardLinks: a rename would part the names of one file.
func TestHardLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	put(t, one, strings.Repeat("old", 2*chunk))
	if err := os.Link(one, two); err != nil {
		t.Fatal(err)
	}
	ino := stat(t, one).Ino
	s, err := Writer{}.Stage(one, []byte("new"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(); !errors.Is(err, ErrInPlace) || s.InPlace == "" {
		t.Fatalf("got %v, want ErrInPlace", err)
	}
	if err := s.CommitInPlace(); err != nil {
		t.Fatal(err)
	}
	wantFile(t, s.Temp, "new") // what the caller may need to mend a torn file
	if err := s.Discard(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{one, two} {
		wantFile(t, path, "new")
		if st := stat(t, path); st.Ino != ino || st.Nlink != 2 {
			t.Errorf("%s: inode %d with %d links, want %d with 2", path, st.Ino, st.Nlink, ino)
		}
	}
	if err := (Writer{}).Write(two, []byte("newer"), Options{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, one, "newer")
	wantNames(t, dir, "one", "two")
}

// TestPipe: opening a pipe waits for its other end, for ever.
func TestPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		testkit.Need(t, "pipe", false, err.Error())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	go func() {
		defer cancel()
		if _, _, err := Read(path); !errors.Is(err, ErrNotRegular) {
			t.Errorf("read: got %v, want ErrNotRegular", err)
		}
		if err := (Writer{}).Write(path, []byte("x"), Options{}); !errors.Is(err, ErrNotRegular) {
			t.Errorf("write: got %v, want ErrNotRegular", err)
		}
		if err := (Writer{}).Overwrite(path, []byte("x")); err == nil {
			t.Error("overwrote a pipe")
		}
		if err := (Writer{}).Touch(path, 0o600); !errors.Is(err, ErrNotRegular) {
			t.Errorf("touch: got %v, want ErrNotRegular", err)
		}
	}()
	<-ctx.Done()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Fatal("still waiting for the pipe's other end")
	}
	wantNames(t, dir, "pipe")
}

// TestSocket cannot even be opened.
func TestSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "af") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, _, err := Read(path); !errors.Is(err, ErrNotRegular) {
		t.Errorf("read: got %v, want ErrNotRegular", err)
	}
	if err := (Writer{}).Write(path, []byte("x"), Options{}); !errors.Is(err, ErrNotRegular) {
		t.Errorf("write: got %v, want ErrNotRegular", err)
	}
}

// TestOverwriteFollowsNoLink: the path is resolved already; a link there is somebody's trick.
func TestOverwriteFollowsNoLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "victim"), "text")
	if err := os.Symlink("victim", filepath.Join(dir, "f")); err != nil {
		t.Fatal(err)
	}
	if err := (Writer{}).Overwrite(filepath.Join(dir, "f"), []byte("x")); err == nil {
		t.Error("followed a link")
	}
	wantFile(t, filepath.Join(dir, "victim"), "text")
}

// TestForeignLink: root does not follow a link to where its maker could not write.
func TestForeignLink(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	for _, row := range []struct {
		name                       string
		linkOwner, target, midLink int
		ok                         bool
	}{
		{"root's link", 0, other, 0, true},
		{"root's link to root's file", 0, 0, 0, true},
		{"the owner's link", other, other, other, true},
		{"a user's link to root's file", other, 0, 0, false},
		{"a user's link to another user's file", other, third, 0, false},
		{"root's link to a user's link to root's file", 0, 0, other, false},
		{"root's link to the owner's link", 0, other, other, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			in := func(name string) string { return filepath.Join(dir, name) }
			put(t, in("target"), "old")
			if err := errors.Join(
				os.Symlink("target", in("mid")), os.Symlink("mid", in("link")), os.Mkdir(in("dir"), 0o700), os.Symlink("dir", in("dirlink")),
				os.Lchown(in("target"), row.target, row.target), os.Lchown(in("mid"), row.midLink, row.midLink),
				os.Lchown(in("link"), row.linkOwner, row.linkOwner),
				os.Lchown(in("dir"), row.target, row.target), os.Lchown(in("dirlink"), max(row.linkOwner, row.midLink), 0),
			); err != nil {
				t.Fatal(err)
			}
			var w Writer
			err := w.Write(in("link"), []byte("new"), Options{})
			derr := w.Mkdir(in("dirlink"), 0o700)
			if row.ok {
				if err != nil || derr != nil {
					t.Errorf("got %v, %v", err, derr)
				}
				wantFile(t, in("target"), "new")
				return
			}
			if !errors.Is(err, ErrForeignLink) || !errors.Is(derr, ErrForeignLink) {
				t.Errorf("got %v, %v, want ErrForeignLink", err, derr)
			}
			wantFile(t, in("target"), "old")
			if _, _, err := Read(in("link")); err != nil {
				t.Errorf("reading is not writing: %v", err)
			}
		})
	}
}

// TestNewFileByUmask: with Umask the kernel takes the process's umask off the mode, and an
// existing file keeps its own.
func TestNewFileByUmask(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	probe, path := filepath.Join(dir, "probe"), filepath.Join(dir, "f")
	if err := (Writer{}).Touch(probe, 0o666); err != nil {
		t.Fatal(err)
	}
	want := stat(t, probe).Mode & 0o777
	o := Options{Mode: 0o666, Umask: true}
	if err := (Writer{}).Write(path, []byte("new"), o); err != nil {
		t.Fatal(err)
	}
	if got := stat(t, path).Mode & 0o777; got != want {
		t.Errorf("new file has mode %o, want %o as any other", got, want)
	}
	if err := errors.Join(os.Chmod(path, 0o604), (Writer{}).Write(path, []byte("newer"), o)); err != nil {
		t.Fatal(err)
	}
	if got := stat(t, path).Mode & 0o777; got != 0o604 {
		t.Errorf("mode %o after a write, was 604", got)
	}
}
