// SPDX-License-Identifier: MIT

package migrate_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// mount mounts for the time of a test.
func mount(t *testing.T, source, target, kind string, flags uintptr) {
	t.Helper()
	testkit.NeedRoot(t)
	err := unix.Mount(source, target, kind, flags, "")
	testkit.Need(t, "mount", err == nil, "this process may not mount")
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// readOnly makes a mount read-only. The kernel refuses as long as a file there is open for writing, and one that
// was closed still is in a child of another test, until that is its own program.
func readOnly(t *testing.T, target string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestManagedReadOnlyMount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := oldFiles().lay(t, filepath.Join(dir, "home"))
	mount(t, h.Dir, h.Dir, "", unix.MS_BIND)
	readOnly(t, h.Dir)
	wantLeftAlone(t, silent(t), dir, h, "read-only file system")
}

// TestManagedReadOnlyFileMount is docker -v config.yaml:config.yaml:ro.
func TestManagedReadOnlyFileMount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := oldFiles().lay(t, filepath.Join(dir, "home"))
	testkit.WriteTree(t, dir, map[string]string{"image/config.yaml": oldConfig})
	mount(t, filepath.Join(dir, "image", "config.yaml"), h.Config(), "", unix.MS_BIND)
	readOnly(t, h.Config())
	wantLeftAlone(t, silent(t), dir, h, "config.yaml", "read-only file system")
}

// TestManagedLaterReadOnly: a run was interrupted, and the file system is read-only now.
func TestManagedLaterReadOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := oldFiles().lay(t, filepath.Join(dir, "home"))
	mount(t, h.Dir, h.Dir, "", unix.MS_BIND)
	if !crashes(func() { _, _ = migrator(crashAt(50).hook).Apply(t.Context(), h, migrate.Options{}) }) || !hasJournal(t, h) {
		t.Fatal("not interrupted")
	}
	before := look(t, dir)
	readOnly(t, h.Dir)
	if r, err := silent(t).Apply(t.Context(), h, migrate.Options{}); !errors.Is(err, migrate.ErrManaged) || r.Recovered == "" {
		t.Errorf("got %+v %v", r, err)
	}
	wantUntouched(t, dir, before)
}

// TestBindMountedConfig is docker -v config.yaml:config.yaml: it is migrated in place, and
// rolled back.
func TestBindMountedConfig(t *testing.T) {
	t.Parallel()
	dir := fastDir(t)
	h := oldFiles().lay(t, filepath.Join(dir, "home"))
	testkit.WriteTree(t, dir, map[string]string{"image/config.yaml": oldConfig})
	real := filepath.Join(dir, "image", "config.yaml")
	mount(t, real, h.Config(), "", unix.MS_BIND)
	id := look(t, dir)[filepath.Join("image", "config.yaml")].ID
	apply(t, migrator(nil), h, migrate.Options{})
	wantFiles(t, h, newFiles())
	wantClean(t, dir, h)
	rollback(t, at(migrator(nil), 1), h)
	wantFiles(t, h, oldFiles())
	wantClean(t, dir, h)
	if got := look(t, dir)[filepath.Join("image", "config.yaml")]; got.ID != id || got.Text != oldConfig {
		t.Errorf("the mounted file is %+v, was %s", got, id)
	}

	// The journal learns only at the rename that the file is written in place.
	count := &steps{}
	apply(t, migrator(count.hook), h, migrate.Options{})
	rollback(t, at(migrator(nil), 2), h)
	for k := 1; k <= len(count.log); k++ {
		if !crashes(func() { _, _ = at(migrator(crashAt(k).hook), 2+k).Apply(t.Context(), h, migrate.Options{}) }) {
			t.Fatalf("operation %d was not reached", k)
		}
		apply(t, at(migrator(nil), 2+k), h, migrate.Options{})
		wantFiles(t, h, newFiles())
		wantClean(t, dir, h)
		rollback(t, at(migrator(nil), 3+k), h)
		wantFiles(t, h, oldFiles())
		if t.Failed() {
			t.Fatalf("killed at %d (%s)", k, count.log[k-1])
		}
	}
}

// TestConfigOnOtherFileSystem: H PR#33508, a link to another file system.
func TestConfigOnOtherFileSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := oldFiles().lay(t, filepath.Join(dir, "home"))
	mkdir(t, filepath.Join(dir, "tmpfs"))
	mount(t, "tmpfs", filepath.Join(dir, "tmpfs"), "tmpfs", 0)
	real := filepath.Join(dir, "tmpfs", "config.yaml")
	if err := errors.Join(os.WriteFile(real, []byte(oldConfig), 0o640), os.Remove(h.Config()), os.Symlink(real, h.Config())); err != nil {
		t.Fatal(err)
	}
	apply(t, migrator(nil), h, migrate.Options{})
	wantFiles(t, h, newFiles())
	if to, err := os.Readlink(h.Config()); err != nil || to != real {
		t.Errorf("link to %q (%v)", to, err)
	}
	if info, err := os.Stat(real); err != nil || info.Mode() != 0o640 {
		t.Errorf("got %v %v", info, err)
	}
	wantClean(t, dir, h)
	rollback(t, at(migrator(nil), 1), h)
	wantFiles(t, h, oldFiles())
	wantClean(t, dir, h)
}

func TestManagedImmutable(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	for _, row := range []struct{ flag, what, text string }{{"i", "config.yaml", "immutable file"}, {"a", ".env", "immutable file"}, {"i", ".", "immutable directory"}} {
		dir := t.TempDir()
		h := oldFiles().lay(t, filepath.Join(dir, "home"))
		path := filepath.Join(h.Dir, row.what)
		out, err := exec.CommandContext(t.Context(), "chattr", "+"+row.flag, path).CombinedOutput()
		testkit.Need(t, "chattr", err == nil, "chattr does not work here: "+string(out))
		t.Cleanup(func() {
			if out, err := exec.Command("chattr", "-"+row.flag, path).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		wantLeftAlone(t, silent(t), dir, h, row.text, "chattr -")
	}
}

// nobodyEnv carries the directory to a test that runs again without root's powers.
const nobodyEnv = "MIGRATE_TEST_AS_NOBODY"

// TestOtherUsersHome: who may not write the home gets the plan.
func TestOtherUsersHome(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	if dir := os.Getenv(nobodyEnv); dir != "" {
		wantLeftAlone(t, silent(t), dir, home.Home{Dir: filepath.Join(dir, "files"), Profile: home.Default}, "read-only file")
		wantLeftAlone(t, silent(t), dir, home.Home{Dir: filepath.Join(dir, "dir"), Profile: home.Default}, "read-only directory")
		before := look(t, dir) // only taking the lock finds out
		r, err := silent(t).Apply(t.Context(), home.Home{Dir: filepath.Join(dir, "state"), Profile: home.Default}, migrate.Options{})
		wantManaged(t, "apply", r, err, "run as the user who owns it")
		wantUntouched(t, dir, before)
		return
	}
	testkit.NeedRoot(t)
	dir := t.TempDir()
	errs := []error{os.Chmod(filepath.Dir(dir), 0o755)}
	for _, name := range []string{"files", "dir", "state"} {
		h := oldFiles().lay(t, filepath.Join(dir, name))
		for _, path := range paths(h) {
			errs = append(errs, os.Chmod(path, 0o644))
			if name != "files" {
				errs = append(errs, os.Chown(path, nobody, nobody))
			}
		}
		errs = append(errs, os.Chmod(h.Dir, 0o755))
		if name != "dir" {
			errs = append(errs, os.Chown(h.Dir, nobody, nobody))
		}
	}
	testkit.WriteTree(t, dir, map[string]string{"state/.appliance/lock": "1\n"})
	errs = append(errs, os.Chmod(filepath.Join(dir, "state", ".appliance"), 0o755), os.Chmod(filepath.Join(dir, "state", ".appliance", "lock"), 0o644))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestOtherUsersHome$", "-test.count=1")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", nobodyEnv+"="+dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestRootInUsersHome: what root makes in another user's home belongs to that user, and the
// files keep their owners.
func TestRootInUsersHome(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	const owner = 4711
	h := oldFiles().lay(t, t.TempDir())
	for _, path := range append(paths(h), h.Dir) {
		if err := os.Chown(path, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(h.Env(), 0o640); err != nil {
		t.Fatal(err)
	}
	apply(t, migrator(nil), h, migrate.Options{})
	rollback(t, at(migrator(nil), 1), h)
	apply(t, at(migrator(nil), 2), h, migrate.Options{})
	for name, e := range look(t, h.Dir) {
		if !strings.HasSuffix(e.ID, " of 4711:4711") {
			t.Errorf("%s is %s", name, e.ID)
		}
	}
	if e := look(t, h.Dir)[".env"]; e.Mode != 0o640 {
		t.Errorf(".env has mode %v", e.Mode)
	}
}

// TestRootIsNotLedAway: whoever owns a home cannot make root write outside of it, neither by a
// link nor by a journal.
func TestRootIsNotLedAway(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	const owner = 4711
	dir := t.TempDir()
	h := oldFiles().lay(t, filepath.Join(dir, "home"))
	testkit.WriteTree(t, dir, map[string]string{"roots/passwd": oldEnv, "roots/dir/": ""})
	victim := filepath.Join(dir, "roots", "passwd")
	own := func(paths ...string) {
		t.Helper()
		for _, p := range paths {
			if err := os.Lchown(p, owner, owner); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(os.Remove(h.Env()), os.Symlink(victim, h.Env())); err != nil {
		t.Fatal(err)
	}
	own(h.Dir, h.Config(), h.Env(), h.Soul())
	wantLeftAlone(t, silent(t), dir, h, "another user's link")

	// A journal that asks to put "evil" back into .env.
	const evil = "evil\n"
	testkit.WriteTree(t, h.Dir, map[string]string{
		"backups/config/.env.x": evil, "backups/config/config.yaml.x": "x",
		".appliance/migrate.journal": `{"version":1,"kind":"migrate","from":40,"to":50,"time":"2026-07-01T12:00:00Z","manifest":"manifest.x.json","files":[
{"name":".env","temp":".x.migrate-new","backup":".env.x","before":"` + hash(evil) + `","after":"` + hash(oldEnv) + `"},
{"name":"config.yaml","temp":".x.migrate-new","backup":"config.yaml.x","before":"` + hash("x") + `","after":"` + hash("y") + `"}]}`,
	})
	if _, err := silent(t).Apply(t.Context(), h, migrate.Options{}); !errors.Is(err, migrate.ErrManaged) {
		t.Errorf("got %v, want ErrManaged", err)
	}
	if data, err := os.ReadFile(victim); err != nil || string(data) != oldEnv {
		t.Errorf("%s was written: %q %v", victim, data, err)
	}

	// A directory of ours that is a link of theirs.
	if err := errors.Join(os.Remove(h.Env()), os.WriteFile(h.Env(), []byte(oldEnv), 0o600), os.RemoveAll(h.State()), os.RemoveAll(filepath.Join(h.Dir, "backups"))); err != nil {
		t.Fatal(err)
	}
	own(h.Env())
	for _, link := range []string{h.State(), filepath.Join(h.Dir, "backups")} {
		if err := os.Symlink(filepath.Join(dir, "roots", "dir"), link); err != nil {
			t.Fatal(err)
		}
		own(link)
		if _, err := migrator(nil).Apply(t.Context(), h, migrate.Options{}); err == nil {
			t.Errorf("followed %s", link)
		}
		if made := testkit.ReadTree(t, filepath.Join(dir, "roots", "dir")); len(made) > 0 {
			t.Errorf("made %v through %s", made, link)
		}
		wantFiles(t, h, oldFiles())
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, migrator(nil), h, migrate.Options{})
	wantFiles(t, h, newFiles())
}
