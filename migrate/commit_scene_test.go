// SPDX-License-Identifier: MIT

//go:build unix

package migrate_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// scene is a home and what is done to it, for tests that stop it on the way.
type scene struct {
	name       string
	start, end files
	build      func(t testing.TB, dir string) // lays the home, dir/home, in the state start
	verb       string
}

// act does it.
func (s scene) act(ctx context.Context, m migrate.Migrator, h home.Home) (migrate.Result, error) {
	if s.verb == "rollback" {
		return at(m, 5).Rollback(ctx, h)
	}
	return m.Apply(ctx, h, migrate.Options{})
}

// again does it once more after it was stopped, and expects it to be done then.
func (s scene) again(t testing.TB, h home.Home) migrate.Result {
	t.Helper()
	r, err := s.act(t.Context(), migrator(nil), h)
	if s.verb == "rollback" && errors.Is(err, migrate.ErrNoBackup) {
		err = nil // the first run had got that far
	}
	if err != nil {
		t.Fatalf("again: %v", err)
	}
	return r
}

func homeIn(dir string) home.Home {
	return home.Home{Dir: filepath.Join(dir, "home"), Profile: home.Default}
}

func scenes() []scene {
	plain := func(t testing.TB, dir string) { oldFiles().lay(t, filepath.Join(dir, "home")) }
	inPlace := func(t testing.TB, dir string) {
		h := largeOld().lay(t, filepath.Join(dir, "home"))
		mkdir(t, filepath.Join(dir, "other"))
		for _, path := range []string{h.Config(), h.Env()} {
			if err := os.Link(path, filepath.Join(dir, "other", filepath.Base(path))); err != nil {
				t.Fatal(err)
			}
		}
	}
	linked := func(t testing.TB, dir string) {
		h := oldFiles().lay(t, filepath.Join(dir, "home"))
		mkdir(t, filepath.Join(dir, "dotfiles"))
		for _, path := range []string{h.Config(), h.Env()} {
			to := filepath.Join(dir, "dotfiles", "hermes-"+filepath.Base(path))
			if err := errors.Join(os.Rename(path, to), os.Symlink(to, path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	migrated := func(build func(testing.TB, string)) func(testing.TB, string) {
		return func(t testing.TB, dir string) {
			build(t, dir)
			apply(t, migrator(nil), homeIn(dir), migrate.Options{})
		}
	}
	return []scene{
		{"migrate", oldFiles(), newFiles(), plain, "apply"},
		{"migrate in place", largeOld(), largeNew(), inPlace, "apply"},
		{"migrate through links", oldFiles(), newFiles(), linked, "apply"},
		{"rollback", newFiles(), oldFiles(), migrated(plain), "rollback"},
		{"rollback in place", largeNew(), largeOld(), migrated(inPlace), "rollback"},
	}
}

func mkdir(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// stage is a scene on disk, of which every run gets a copy.
type stage struct {
	scene
	model string
	n     int // operations of an undisturbed run
	ops   []string
}

func open(t testing.TB, s scene) *stage {
	t.Helper()
	st := &stage{scene: s, model: filepath.Join(fastDir(t), "model")}
	s.build(t, st.model)
	wantFiles(t, homeIn(st.model), s.start)
	count := &steps{}
	withCopy(t, st.model, func(dir string) {
		if _, err := s.act(t.Context(), migrator(count.hook), homeIn(dir)); err != nil {
			t.Fatal(err)
		}
		st.wantEnd(t, dir)
	})
	st.n, st.ops = len(count.log), count.log
	if st.n < 40 {
		t.Fatalf("only %d operations: %v", st.n, st.ops)
	}
	return st
}

// withCopy runs f on a copy of a directory that lives as long.
func withCopy(t testing.TB, model string, f func(dir string)) {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(model), "copy-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}()
	copyTree(t, model, dir)
	f(dir)
}

// wantDone checks that a run is done, whatever happened on the way: content, links, nothing
// left over.
func (st *stage) wantDone(t testing.TB, dir string) {
	t.Helper()
	wantFiles(t, homeIn(dir), st.end)
	wantClean(t, dir, homeIn(dir))
	st.wantLinks(t, dir)
}

// wantEnd checks that, and that there is a way back that works.
func (st *stage) wantEnd(t testing.TB, dir string) {
	t.Helper()
	h := homeIn(dir)
	st.wantDone(t, dir)
	if st.verb == "rollback" {
		if _, err := migrator(nil).Rollback(t.Context(), h); !errors.Is(err, migrate.ErrNoBackup) {
			t.Errorf("rolled back, but there is more to roll back: %v", err)
		}
		return
	}
	rollback(t, at(migrator(nil), 9), h)
	wantFiles(t, h, st.start)
	st.wantLinks(t, dir)
	wantClean(t, dir, h)
}

// wantLinks checks that links lead where they led and hard links are still one file.
func (st *stage) wantLinks(t testing.TB, dir string) {
	t.Helper()
	h := homeIn(dir)
	for _, path := range []string{h.Config(), h.Env(), h.Soul()} {
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		was, wasErr := os.Readlink(filepath.Join(st.model, rel))
		now, nowErr := os.Readlink(path)
		if (wasErr == nil) != (nowErr == nil) || now != strings.Replace(was, st.model, dir, 1) {
			t.Errorf("%s is a link to %q, was to %q", rel, now, was)
		}
		twin := filepath.Join(dir, "other", filepath.Base(path))
		if one, err := os.Stat(twin); err == nil {
			if two, err := os.Stat(path); err != nil || !os.SameFile(one, two) {
				t.Errorf("%s and its other name are two files now (%v)", rel, err)
			}
		}
	}
}

// oldOrNew says which of the two states a home is in, "mixed" if in neither.
func (st *stage) oldOrNew(t testing.TB, dir string) string {
	t.Helper()
	switch filesOf(t, homeIn(dir)) {
	case st.start:
		return "old"
	case st.end:
		return "new"
	}
	return "mixed"
}

// How a test runs a scene in a process of its own.
const (
	childVerb = "MIGRATE_TEST_CHILD"    // apply, rollback
	childHome = "MIGRATE_TEST_HOME"     // directory
	childKill = "MIGRATE_TEST_KILL_AT"  // number of the operation that kills it, 0 = none
	childSlow = "MIGRATE_TEST_SLOWNESS" // how long every operation takes longer
)

// TestCommitChild is no test but the process that others start, and kill. It says "ready" and
// waits for the end of its input.
func TestCommitChild(t *testing.T) {
	if os.Getenv(childVerb) == "" {
		return
	}
	k, err := strconv.Atoi(os.Getenv(childKill))
	if err != nil {
		t.Fatal(err)
	}
	slow, err := time.ParseDuration(os.Getenv(childSlow))
	if err != nil {
		t.Fatal(err)
	}
	kill := &steps{hit: k, do: func() error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return err
		}
		select {} // dead in a moment
	}}
	m := migrator(func(op atomicfile.Op, path string) error {
		time.Sleep(slow)
		return kill.hook(op, path)
	})
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		t.Fatal(err)
	}
	h := home.Home{Dir: os.Getenv(childHome), Profile: home.Default}
	r, err := scene{verb: os.Getenv(childVerb)}.act(t.Context(), m, h)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("applied=%t\n", r.Applied)
}

// child is a started process of that kind.
type child struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Scanner
}

func startChild(t testing.TB, verb string, h home.Home, killAt int, slow time.Duration) *child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCommitChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", // the race detector's own wait
		childVerb+"="+verb, childHome+"="+h.Dir, childKill+"="+strconv.Itoa(killAt), childSlow+"="+slow.String())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd, in, bufio.NewScanner(out)}
	if !c.says("ready") {
		t.Fatalf("the child did not start: %v", cmd.Wait())
	}
	return c
}

// says reads on until a line.
func (c *child) says(line string) bool {
	for c.out.Scan() {
		if c.out.Text() == line {
			return true
		}
	}
	return false
}

// run lets the child go and waits for its end. It returns whether it applied something.
func (c *child) run(t testing.TB) (applied, killed bool) {
	t.Helper()
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for c.out.Scan() {
		said = append(said, c.out.Text())
		applied = applied || c.out.Text() == "applied=true"
	}
	err := c.cmd.Wait()
	if err == nil {
		return applied, false
	}
	if status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return applied, true
	}
	t.Fatalf("child: %v\n%s", err, strings.Join(said, "\n"))
	return false, false
}
