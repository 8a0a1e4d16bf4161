// SPDX-License-Identifier: MIT

package home

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

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

// readOnly makes a mount read-only.
func readOnly(t *testing.T, target string) {
	t.Helper()
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
}

func TestFileOwnerReadOnlyMount(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"ro/file": "x", "home/config.yaml": "hidden", "image/config.yaml": "x"})
	in := func(name string) string { return filepath.Join(dir, name) }
	mount(t, in("ro"), in("ro"), "", unix.MS_BIND)
	readOnly(t, in("ro"))
	wantFileOwner(t, in("ro/file"), "read-only file system")
	wantFileOwner(t, in("ro/absent"), "read-only file system")
	if err := os.Symlink("ro/file", in("link")); err != nil {
		t.Fatal(err)
	}
	wantFileOwner(t, in("link"), "read-only file system")

	// docker -v config.yaml:config.yaml:ro, in a directory that can be written
	mount(t, in("image/config.yaml"), in("home/config.yaml"), "", unix.MS_BIND)
	wantFileOwner(t, in("home/config.yaml"), "")
	readOnly(t, in("home/config.yaml"))
	wantFileOwner(t, in("home/config.yaml"), "read-only file system")
	wantFileOwner(t, in("home/.env"), "")
}

// chattr sets an attribute for the time of a test.
func chattr(t *testing.T, flag, path string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "chattr", "+"+flag, path).CombinedOutput()
	testkit.Need(t, "chattr", err == nil, "chattr does not work here: "+string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("chattr", "-"+flag, path).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

func TestFileOwnerImmutable(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"fixed": "x", "append": "x", "free": "x", "sub/file": "x"})
	in := func(name string) string { return filepath.Join(dir, name) }
	chattr(t, "i", in("fixed"))
	chattr(t, "a", in("append"))
	chattr(t, "i", in("sub"))
	wantFileOwner(t, in("free"), "")
	wantFileOwner(t, in("fixed"), "immutable file")
	wantFileOwner(t, in("append"), "immutable file")
	wantFileOwner(t, in("sub/file"), "immutable directory")
	wantFileOwner(t, in("sub/absent"), "immutable directory")
}

// nobodyEnv carries the directory to a test that runs again without root's powers.
const nobodyEnv = "HOME_TEST_AS_NOBODY"

// TestAsNobody is what root cannot see: files and directories that are closed.
func TestAsNobody(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	if dir := os.Getenv(nobodyEnv); dir != "" {
		in := func(name string) string { return filepath.Join(dir, name) }
		wantFileOwner(t, in("roots-file"), "read-only file")
		wantFileOwner(t, in("roots-dir/absent"), "read-only directory")
		wantFileOwner(t, in("mine"), "")
		h := Home{Dir: dir, Profile: Default}
		got, err := h.Profiles()
		if err != nil || len(got) != 2 || got[0].Profile != "closed" || got[1].Profile != "open" {
			t.Errorf("a profile that cannot be looked at is returned: got %v %v", got, err)
		}
		if _, err := h.NamedProfile("closed"); err == nil || errors.Is(err, ErrNoProfile) {
			t.Errorf("got %v, want why it cannot be looked at", err)
		}
		if got, err := (Home{Dir: in("profiles/open"), Profile: "open"}).Manager(env(nil)); err == nil {
			t.Errorf("closed marker: got %q and no error", got)
		}
		if got, err := (Home{Dir: in("stones"), Profile: Default}).Profiles(); !errors.Is(err, os.ErrPermission) {
			t.Errorf("closed tombstones: got %v %v", got, err)
		}
		if release, err := (Home{Dir: in("roots-dir"), Profile: Default}).Lock(t.Context()); !errors.Is(err, os.ErrPermission) {
			t.Errorf("got %v, want a refusal (%t)", err, release != nil)
		}
		return
	}
	testkit.NeedRoot(t)
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{
		"roots-file": "x", "roots-dir/file": "x", "mine": "x", "profiles/closed/config.yaml": "", "profiles/open/config.yaml": "",
		"profiles/open/.managed": "false", "stones/profiles/a/config.yaml": "", "stones/profiles/.deleted/a": "",
	})
	in := func(name string) string { return filepath.Join(dir, name) }
	var errs []error
	for _, open := range []string{"..", ".", "roots-dir", "profiles", "profiles/open", "stones", "stones/profiles", "stones/profiles/a"} {
		errs = append(errs, os.Chmod(in(open), 0o755))
	}
	errs = append(errs, os.Chown(dir, nobody, nobody), os.Chown(in("mine"), nobody, nobody), os.Chmod(in("roots-file"), 0o644))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestAsNobody$", "-test.count=1")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", nobodyEnv+"="+dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
