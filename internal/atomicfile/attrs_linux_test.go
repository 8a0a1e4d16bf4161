// SPDX-License-Identifier: MIT

package atomicfile

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// setAttr needs a file system that keeps attributes of users.
func setAttr(t *testing.T, path, name, value string) {
	t.Helper()
	err := unix.Setxattr(path, name, []byte(value), 0)
	testkit.Need(t, "xattr", err == nil, "no user attributes here")
}

func attrs(t *testing.T, path string) map[string]string {
	t.Helper()
	names, err := listAttrs(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, n := range names {
		value, err := readAttr(path, n)
		if err != nil {
			t.Fatal(err)
		}
		out[n] = string(value)
	}
	return out
}

func TestWriteKeepsAttributes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "old")
	setAttr(t, path, "user.note", "mine")
	setAttr(t, path, "user.empty", "")
	setAttr(t, path, "user.long", strings.Repeat("x", 1000))
	want, ino := attrs(t, path), stat(t, path).Ino
	if want["user.note"] != "mine" || len(want["user.long"]) != 1000 {
		t.Fatalf("the test's own attributes: %v", want)
	}
	if err := (Writer{}).Write(path, []byte("new"), Options{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, attrs(t, path)); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if stat(t, path).Ino == ino {
		t.Error("the file was overwritten, not replaced")
	}
}

// TestWriteKeepsAccessList: an access list lives in an attribute, and its mask in the mode.
func TestWriteKeepsAccessList(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "old")
	// user::rw-, user:4711:r--, group::---, mask::r--, other::---
	acl := []byte{2, 0, 0, 0}
	for _, e := range [][2]uint32{{0x01 | 6<<16, ^uint32(0)}, {0x02 | 4<<16, other}, {0x04, ^uint32(0)}, {0x10 | 4<<16, ^uint32(0)}, {0x20, ^uint32(0)}} {
		for _, v := range e {
			acl = append(acl, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
		}
	}
	err := unix.Setxattr(path, "system.posix_acl_access", acl, 0)
	testkit.Need(t, "xattr", err == nil, "no access lists here")
	mode := stat(t, path).Mode
	if err := (Writer{}).Write(path, []byte("new"), Options{}); err != nil {
		t.Fatal(err)
	}
	if got, err := readAttr(path, "system.posix_acl_access"); err != nil || !bytes.Equal(got, acl) {
		t.Errorf("access list %v (%v), want %v", got, err, acl)
	}
	if got := stat(t, path).Mode; got != mode {
		t.Errorf("mode %o, was %o", got, mode)
	}
}

// mount mounts for the time of a test.
func mount(t *testing.T, source, target, kind string, flags uintptr) {
	t.Helper()
	err := unix.Mount(source, target, kind, flags, "")
	testkit.Need(t, "mount", err == nil, "this process may not mount")
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// TestBindMountedFile is docker -v file:file: nothing can be renamed over a mount point.
func TestBindMountedFile(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"outside/real": strings.Repeat("old", chunk), "home/f": "hidden"})
	real, path := filepath.Join(dir, "outside", "real"), filepath.Join(dir, "home", "f")
	mount(t, real, path, "", unix.MS_BIND)
	ino := stat(t, real).Ino
	s, err := Writer{}.Stage(path, []byte("new"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.InPlace != "" {
		t.Fatalf("in place already: %s", s.InPlace)
	}
	if err := s.Commit(); !errors.Is(err, ErrInPlace) {
		t.Fatalf("got %v, want ErrInPlace", err)
	}
	wantFile(t, path, strings.Repeat("old", chunk))
	if err := errors.Join(s.CommitInPlace(), s.Discard()); err != nil {
		t.Fatal(err)
	}
	if err := (Writer{}).Write(path, []byte("newer"), Options{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, real, "newer")
	wantFile(t, path, "newer")
	if got := stat(t, path).Ino; got != ino {
		t.Errorf("inode %d, want the mounted one %d", got, ino)
	}
	wantNames(t, filepath.Join(dir, "home"), "f")
	wantNames(t, filepath.Join(dir, "outside"), "real")
}

// TestLinkIntoOtherFileSystem: the new content is staged there; a rename between file systems
// is none.
func TestLinkIntoOtherFileSystem(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"tmpfs/": "", "home/": ""})
	mount(t, "tmpfs", filepath.Join(dir, "tmpfs"), "tmpfs", 0)
	real, path := filepath.Join(dir, "tmpfs", "real"), filepath.Join(dir, "home", "f")
	put(t, real, "old")
	if err := os.Symlink(real, path); err != nil {
		t.Fatal(err)
	}
	if stat(t, real).Dev == stat(t, path).Dev {
		t.Fatal("one file system")
	}
	ino := stat(t, real).Ino
	if err := (Writer{}).Write(path, []byte("new"), Options{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, real, "new")
	if to, err := os.Readlink(path); err != nil || to != real {
		t.Errorf("link is %q now (%v)", to, err)
	}
	if stat(t, real).Ino == ino {
		t.Error("the file was overwritten, not replaced")
	}
	wantNames(t, filepath.Join(dir, "tmpfs"), "real")
	wantNames(t, filepath.Join(dir, "home"), "f")
}

// nobodyEnv carries the directory to a test that runs again without root's powers.
const nobodyEnv = "ATOMICFILE_TEST_AS_NOBODY"

// TestOwnerOnlyInPlace: a user who may write a file of somebody else's may not give away a
// new one; the owner stays because the file does.
func TestOwnerOnlyInPlace(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	if dir := os.Getenv(nobodyEnv); dir != "" {
		path := filepath.Join(dir, "f")
		s, err := Writer{}.Stage(path, []byte("new"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(); !errors.Is(err, ErrInPlace) {
			t.Fatalf("got %v, want ErrInPlace", err)
		}
		if err := errors.Join(s.CommitInPlace(), s.Discard()); err != nil {
			t.Fatal(err)
		}
		return
	}
	testkit.NeedRoot(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put(t, path, "old")
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, nobody, nobody), os.Chown(path, other, nobody), os.Chmod(path, 0o660)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestOwnerOnlyInPlace$", "-test.count=1")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", nobodyEnv+"="+dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantFile(t, path, "new")
	if st := stat(t, path); st.Uid != other || st.Gid != nobody || st.Mode&0o777 != 0o660 {
		t.Errorf("owner %d:%d mode %o", st.Uid, st.Gid, st.Mode)
	}
	wantNames(t, dir, "f")
}
