// SPDX-License-Identifier: MIT

package checkpoint_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/checkpoint"
	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// bench is a store with a directory to take checkpoints of.
type bench struct {
	*checkpoint.Store
	dir  string // of the store
	work string
	now  time.Time
	log  *strings.Builder
}

func needGit(t testing.TB) {
	t.Helper()
	_, err := exec.LookPath("git")
	testkit.Need(t, "git", err == nil, "checkpoints are kept by git")
	testkit.Need(t, "posix", runtime.GOOS != "windows", "file names and modes of this test are POSIX's")
}

func setup(t testing.TB, change ...func(*checkpoint.Options)) *bench {
	t.Helper()
	needGit(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{dir: filepath.Join(base, "home", "checkpoints"), work: filepath.Join(base, "area", "work"), now: time.Now(), log: &strings.Builder{}}
	for _, dir := range []string{filepath.Dir(b.dir), b.work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.NewTextHandler(b.log, nil))
	o := checkpoint.Options{
		Dir: b.dir, Env: []string{"PATH=" + os.Getenv("PATH")}, Processes: process.New(log), Log: log,
		Now: func() time.Time { return b.now }, Timeout: checkpoint.MaxTimeout,
	}
	for _, c := range change {
		c(&o)
	}
	b.Store = checkpoint.New(o)
	return b
}

func (b *bench) write(t testing.TB, files map[string]string) {
	t.Helper()
	testkit.WriteTree(t, b.work, files)
}

func (b *bench) take(t testing.TB) checkpoint.Checkpoint {
	t.Helper()
	b.now = b.now.Add(time.Second)
	c, err := b.Take(t.Context(), b.work, "test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (b *bench) restore(t testing.TB, hash string, paths ...string) checkpoint.Restored {
	t.Helper()
	r, err := b.Restore(t.Context(), b.work, hash, paths...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// modes are the permission bits of files.
func modes(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := testkit.ReadTree(t, dir)
	for name := range out {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] += fmt.Sprintf(" exec=%v", info.Mode()&0o100 != 0 && info.Mode().IsRegular())
	}
	return out
}

func same(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s: %q: got %.80q, want %.80q", what, name, got[name], want[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %q is there and should not be", what, name)
		}
	}
}

// git runs the system's git as a user would.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=U", "-c", "user.email=u@example.org", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// sound checks the store with git's own checker.
func (b *bench) sound(t testing.TB) {
	t.Helper()
	git(t, filepath.Join(b.dir, "store"), "--git-dir=.", "fsck", "--full", "--strict", "--no-dangling")
}

func TestRestoreExact(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write(t, map[string]string{
		"a.txt": "one\r\ntwo\n", "bin": "\x00\x01\xff$Id$\r\n", "sub/deep/f": "f", "empty": "", "run.sh": "#!/bin/sh\n", "was-dir/x": "x", "was-file": "file",
		".gitattributes": "* text=auto eol=crlf\n*.u16 working-tree-encoding=UTF-16\nbin ident\na.txt filter=upper\n", "w.u16": "not UTF-16", "same": "same",
	})
	chmod(t, b.work, "run.sh", 0o755)
	symlink(t, "/etc/passwd", b.work, "link")
	symlink(t, "nowhere", b.work, "dangling")
	want := modes(t, b.work)
	first := b.take(t)

	b.write(t, map[string]string{"a.txt": "changed", "bin": "other", "new": "n", "newdir/sub/n": "n"})
	remove(t, b.work, "sub", "was-dir", "was-file", "link", "empty")
	b.write(t, map[string]string{"was-dir": "now a file", "was-file/y": "now a directory", "link/z": "z"})
	chmod(t, b.work, "run.sh", 0o644)
	changed := modes(t, b.work)

	r := b.restore(t, first.Hash[:8])
	same(t, "restored", modes(t, b.work), want)
	if r.Before.Hash == "" || len(r.Kept) > 0 {
		t.Errorf("got %+v, want a checkpoint of before and nothing kept", r)
	}
	for _, dir := range []string{"newdir", "was-file/y"} {
		if _, err := os.Lstat(filepath.Join(b.work, dir)); err == nil {
			t.Errorf("%s is still there", dir)
		}
	}
	b.restore(t, r.Before.Hash)
	same(t, "restored back", modes(t, b.work), changed)
	b.sound(t)
}

func TestRestorePaths(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write(t, map[string]string{"a": "1", "d/x": "1", "d/y": "1", "*": "1", "ab": "1"})
	c := b.take(t)
	b.write(t, map[string]string{"a": "2", "d/x": "2", "d/z": "2", "*": "2", "ab": "2"})
	b.restore(t, c.Hash, "d", "*")
	same(t, "only d and *", testkit.ReadTree(t, b.work), map[string]string{"a": "2", "d/x": "1", "d/y": "1", "*": "1", "ab": "2"})

	for _, bad := range []string{"", " ", "..", "../x", "/etc/passwd", "d/../../x", b.work + "/a", "a\x00b"} {
		if _, err := b.Restore(t.Context(), b.work, c.Hash, bad); !errors.Is(err, checkpoint.ErrInvalid) {
			t.Errorf("path %q: got %v, want it refused", bad, err)
		}
	}
	for _, bad := range []string{"", "abc", "-p", "--patch", "HEAD", "refs/hermes/x", c.Hash + "^", "zzzz", strings.Repeat("a", 65), c.Hash + "\n"} {
		if _, err := b.Restore(t.Context(), b.work, bad); !errors.Is(err, checkpoint.ErrInvalid) {
			t.Errorf("hash %q: got %v, want it refused", bad, err)
		}
		if _, err := b.Diff(t.Context(), b.work, bad); !errors.Is(err, checkpoint.ErrInvalid) {
			t.Errorf("diff of hash %q: got %v, want it refused", bad, err)
		}
	}
	if _, err := b.Restore(t.Context(), b.work, "0123456789"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("an unknown hash: got %v, want ErrNotFound", err)
	}
}

// TestRestoreOtherProject: a checkpoint of one directory cannot be brought into another.
func TestRestoreOtherProject(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write(t, map[string]string{"a": "1"})
	c := b.take(t)
	other := t.TempDir()
	testkit.WriteTree(t, other, map[string]string{"a": "mine"})
	if _, err := b.Take(t.Context(), other, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Restore(t.Context(), other, c.Hash); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

// TestRestoreNeverLosesUnheld: what no checkpoint holds stays, even where it is in the way.
func TestRestoreNeverLosesUnheld(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *checkpoint.Options) { o.MaxFileSize = 100 })
	b.write(t, map[string]string{"grows": "small", "dir/f": "f", "p/q/r": "r", "ok": "1"})
	c := b.take(t)
	big := strings.Repeat("b", 101)
	remove(t, b.work, "dir", "p")
	b.write(t, map[string]string{"grows": big, "dir": big, "p/q/r/.env": "secret", "ok": "2", "alone.log": "l", "huge": big})
	r := b.restore(t, c.Hash)
	slices.Sort(r.Kept)
	if want := []string{"dir/f", "grows", "p/q/r"}; !slices.Equal(r.Kept, want) {
		t.Errorf("kept: got %v, want %v", r.Kept, want)
	}
	same(t, "after", testkit.ReadTree(t, b.work), map[string]string{"grows": big, "dir": big, "p/q/r/.env": "secret", "ok": "1", "alone.log": "l", "huge": big})
}

// TestRestoreThroughLink: a directory that became a link is not written through.
func TestRestoreThroughLink(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write(t, map[string]string{"d/f": "f", "d/g": "g"})
	c := b.take(t)
	outside := t.TempDir()
	testkit.WriteTree(t, outside, map[string]string{"f": "outside", "h": "outside"})
	remove(t, b.work, "d")
	symlink(t, outside, b.work, "d")
	b.restore(t, c.Hash)
	same(t, "outside", testkit.ReadTree(t, outside), map[string]string{"f": "outside", "h": "outside"})
	same(t, "inside", testkit.ReadTree(t, b.work), map[string]string{"d/f": "f", "d/g": "g"})
}

func TestTakeOnlyChanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if c := b.take(t); c.Hash != "" {
		t.Errorf("an empty directory: got %+v, want none", c)
	}
	b.write(t, map[string]string{"a": "1"})
	first := b.take(t)
	if first.Hash == "" {
		t.Fatal("no checkpoint of a new file")
	}
	if c := b.take(t); c.Hash != "" {
		t.Errorf("nothing changed: got %+v, want none", c)
	}
	b.write(t, map[string]string{"a": "2"}) // the same size, within the clock's resolution
	b.take(t)
	remove(t, b.work, "a")
	b.take(t)
	all, err := b.List(t.Context(), b.work)
	if err != nil || len(all) != 3 || all[2].Hash != first.Hash || all[2].Reason != "test" || all[2].Time.Unix() != first.Time.Unix() {
		t.Errorf("got %+v, %v, want three with %s the last", all, err, first.Hash)
	}
	diff, err := b.Diff(t.Context(), b.work, first.Hash)
	if err != nil || !strings.Contains(diff, "deleted file mode") || !strings.Contains(diff, "-1") {
		t.Errorf("got %q, %v, want the deletion of a", diff, err)
	}
	if again, err := b.List(t.Context(), b.work); err != nil || len(again) != 3 {
		t.Errorf("after a diff: got %d, %v, want 3", len(again), err)
	}
}

func TestTakeReason(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i, tt := range []struct{ reason, want string }{
		{"before write_file", "before write_file"},
		{"", "checkpoint"},
		{"--amend\n-F /etc/passwd\x00\x1b[31m", "--amend -F /etc/passwd [31m"},
		{"# comment", "# comment"},
		{strings.Repeat("ä", 300), strings.Repeat("ä", 199) + "…"},
	} {
		b.write(t, map[string]string{"a": fmt.Sprint(i)})
		if _, err := b.Take(t.Context(), b.work, tt.reason); err != nil {
			t.Fatal(err)
		}
		if all, err := b.List(t.Context(), b.work); err != nil || all[0].Reason != tt.want {
			t.Errorf("reason %q: got %q, %v, want %q", tt.reason, all[0].Reason, err, tt.want)
		}
	}
}

func TestTakeExcluded(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *checkpoint.Options) { o.MaxFileSize = 10 })
	b.write(t, map[string]string{
		"kept": "1", ".gitignore": "mine/\n", "sub/.gitignore": "*.tmp\n", "mine/x": "1", "sub/a.tmp": "1", "sub/b": "1",
		".env": "SECRET=1", ".env.local": "1", "x/.env": "1", "node_modules/a/b": "1", "x.log": "1", "x.pyc": "1", "large": "12345678901",
	})
	c := b.take(t)
	if !slices.Equal(c.Left, []string{"large"}) {
		t.Errorf("left: got %v, want large", c.Left)
	}
	got := strings.Fields(git(t, filepath.Join(b.dir, "store"), "--git-dir=.", "ls-tree", "-r", "--name-only", c.Hash))
	if want := []string{".gitignore", "kept", "sub/.gitignore", "sub/b"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestTakeTooMany: a directory beyond the limit is refused, and what the user excludes does not
// count.
func TestTakeTooMany(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for d := range 51 {
		dir := filepath.Join(b.work, "many", fmt.Sprint(d))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for f := range 1000 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(f)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if d == 50 {
				break
			}
		}
	}
	if _, err := b.Take(t.Context(), b.work, "x"); !errors.Is(err, checkpoint.ErrTooMany) {
		t.Errorf("50,001 files: got %v, want ErrTooMany", err)
	}
	b.write(t, map[string]string{".gitignore": "many/\n"})
	if c := b.take(t); c.Hash == "" {
		t.Error("with the many excluded there is no checkpoint")
	}
}

func TestTakeTooBroad(t *testing.T) {
	t.Parallel()
	user := t.TempDir()
	b := setup(t, func(o *checkpoint.Options) { o.Broad = []string{user} })
	for _, dir := range []string{"/", user, filepath.Dir(b.dir), filepath.Dir(filepath.Dir(b.dir))} {
		if _, err := b.Take(t.Context(), dir, "x"); !errors.Is(err, checkpoint.ErrTooBroad) {
			t.Errorf("%s: got %v, want ErrTooBroad", dir, err)
		}
	}
	if _, err := b.Take(t.Context(), "relative", "x"); !errors.Is(err, checkpoint.ErrInvalid) {
		t.Errorf("a relative directory: got %v, want ErrInvalid", err)
	}
	if _, err := os.Lstat(b.dir); err == nil {
		t.Error("a refused directory made the store")
	}
}

func TestTakeHostileNames(t *testing.T) {
	t.Parallel()
	b := setup(t)
	names := []string{
		"-rf", "--help", ":(glob)*", ":!x", "*", "?", "[a]", "new\nline", "tab\tx", "quote\"'", "back\\slash", " lead", "trail ", "ü", "\xff\xfe", "$(id)", "`id`",
		"0 0000000000000000000000000000000000000000\tx", "a\\b", "HEAD", ".gitmodules", "~", "nul", "con", "...",
	}
	files := map[string]string{}
	for _, n := range names {
		files[n] = "1" + n
		files["dir/"+n+"/"+n] = "2" + n
	}
	delete(files, ".gitmodules")
	files[".gitmodules"] = "[submodule \"x\"]\n\tpath = ../../x\n\turl = -u./x\n"
	b.write(t, files)
	want := testkit.ReadTree(t, b.work)
	c := b.take(t)
	if len(c.Left) > 0 {
		t.Errorf("left out: %q", c.Left)
	}
	remove(t, b.work, append(names, "dir")...)
	b.write(t, map[string]string{"-new": "1", "new\n2": "2"})
	b.restore(t, c.Hash)
	same(t, "restored", testkit.ReadTree(t, b.work), want)
}

func TestTakeUnreadable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	testkit.Need(t, "user", os.Geteuid() != 0, "root can read everything")
	b.write(t, map[string]string{"a": "1", "closed": "2"})
	chmod(t, b.work, "closed", 0)
	if c := b.take(t); c.Hash == "" || !slices.Equal(c.Left, []string{"closed"}) {
		t.Errorf("got %+v, want a checkpoint without closed", c)
	}
}

func chmod(t testing.TB, dir, name string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
		t.Fatal(err)
	}
}

func symlink(t testing.TB, to, dir, name string) {
	t.Helper()
	if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := os.RemoveAll(filepath.Join(dir, n)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTakeSameSecond: git compares times by the second; a change of the same size in the second
// of the last checkpoint is seen all the same.
func TestTakeSameSecond(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 10 {
		b.write(t, map[string]string{"a": fmt.Sprintf("%02d", i)})
		if c := b.take(t); c.Hash == "" {
			t.Errorf("change %d was not seen", i)
		}
	}
}
