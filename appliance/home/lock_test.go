// SPDX-License-Identifier: MIT

//go:build unix

package home

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// lockEnv makes a process of this test binary hold the lock of the home it names.
const lockEnv = "HOME_TEST_LOCK"

// TestLockChild is no test but the other process of the others.
func TestLockChild(t *testing.T) {
	dir := os.Getenv(lockEnv)
	if dir == "" {
		return
	}
	release, err := (Home{Dir: dir, Profile: Default}).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("locked")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

// holdLock starts a process that has the lock when it returns.
func holdLock(t *testing.T, h Home) (cmd *exec.Cmd, let func()) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLockChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", lockEnv+"="+h.Dir)
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
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "locked" {
	}
	if lines.Text() != "locked" {
		t.Fatalf("the other process did not lock: %v", cmd.Wait())
	}
	return cmd, func() { _ = in.Close() }
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestLock(t *testing.T) {
	t.Parallel()
	h := Home{Dir: t.TempDir(), Profile: Default}
	for range 2 {
		release, err := h.Lock(within(t, 2*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(h.State(), "lock"))
		if err != nil || strings.TrimSpace(string(data)) != strconv.Itoa(os.Getpid()) {
			t.Errorf("the lock names %q (%v)", data, err)
		}
		if err := release(); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]os.FileMode{h.State(): 0o700 | os.ModeDir, filepath.Join(h.State(), "lock"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: got %v %v, want %v", path, info, err, want)
		}
	}
}

// TestLockTimeout: the error names the process, and has an exit code of its own.
func TestLockTimeout(t *testing.T) {
	t.Parallel()
	h := Home{Dir: t.TempDir(), Profile: Default}
	cmd, let := holdLock(t, h)
	for name, ctx := range map[string]context.Context{"waits": within(t, 100*time.Millisecond), "does not wait": within(t, 0)} {
		_, err := h.Lock(ctx)
		var locked *LockedError
		if !errors.As(err, &locked) {
			t.Fatalf("%s: got %v, want *LockedError", name, err)
		}
		if locked.Holder != strconv.Itoa(cmd.Process.Pid) || locked.Home != h || !strings.Contains(err.Error(), "process "+locked.Holder) {
			t.Errorf("%s: got %v, want process %d", name, err, cmd.Process.Pid)
		}
		if got := exitcode.Of(err); got != 7 {
			t.Errorf("%s: exit code %d", name, got)
		}
	}
	let()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	release, err := h.Lock(within(t, 0)) // free: no time is needed
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

// TestLockWaits: the second process has it when the first lets go, not before.
func TestLockWaits(t *testing.T) {
	t.Parallel()
	h := Home{Dir: t.TempDir(), Profile: Default}
	cmd, let := holdLock(t, h)
	var free atomic.Bool
	got := make(chan error, 1)
	go func() {
		release, err := h.Lock(within(t, 10*time.Minute))
		if err == nil && !free.Load() {
			err = errors.New("two have the lock")
		}
		if release != nil {
			err = errors.Join(err, release())
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(10 * lockPoll):
	}
	free.Store(true)
	let()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestLockKilled: the kernel lets go for a process that cannot.
func TestLockKilled(t *testing.T) {
	t.Parallel()
	h := Home{Dir: t.TempDir(), Profile: Default}
	cmd, _ := holdLock(t, h)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("survived")
	}
	release, err := h.Lock(within(t, 2*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

func TestLockCanceled(t *testing.T) {
	t.Parallel()
	h := Home{Dir: t.TempDir(), Profile: Default}
	release, err := h.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(3*lockPoll, cancel)
	var locked *LockedError
	if _, err := h.Lock(ctx); !errors.Is(err, context.Canceled) || errors.As(err, &locked) {
		t.Errorf("got %v, want context.Canceled: an interrupt is not a busy home", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

// TestLockRemovedFile: someone clears .appliance away. A process that opened the lock before
// must not take it for the one that others find.
func TestLockRemovedFile(t *testing.T) {
	t.Parallel()
	h := Home{Dir: t.TempDir(), Profile: Default}
	path := filepath.Join(h.State(), "lock")
	take := func() *flock.Flock {
		l, err := h.tryLock(path)
		if err != nil || l == nil {
			t.Fatalf("not locked: %v", err)
		}
		return l
	}
	stale := take()
	if ok, err := current(path, stale); err != nil || !ok {
		t.Fatalf("got %v %v", ok, err)
	}
	if err := os.RemoveAll(h.State()); err != nil {
		t.Fatal(err)
	}
	if ok, err := current(path, stale); err != nil || ok {
		t.Errorf("the file is gone: got %v %v", ok, err)
	}
	fresh := take()
	if ok, err := current(path, stale); err != nil || ok {
		t.Errorf("another file is there: got %v %v", ok, err)
	}
	if l, err := h.tryLock(path); err != nil || l != nil {
		t.Errorf("two have the lock (%v)", err)
	}
	if err := errors.Join(stale.Unlock(), fresh.Unlock()); err != nil {
		t.Fatal(err)
	}
}

// TestLockRemovedByHolder: every holder removes the file before it lets go, and the others try
// without a pause, so that again and again one of them has opened the file that goes.
func TestLockRemovedByHolder(t *testing.T) {
	t.Parallel()
	h := Home{Dir: t.TempDir(), Profile: Default}
	path := filepath.Join(h.State(), "lock")
	const workers, rounds = 8, 400
	var inside, done atomic.Int32
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for done.Load() < rounds && !t.Failed() {
				l, err := h.tryLock(path)
				if err != nil {
					t.Error(err)
				}
				if l == nil {
					continue
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d have the lock at once", n)
				}
				runtime.Gosched()
				inside.Add(-1)
				done.Add(1)
				if err := errors.Join(os.Remove(path), l.Unlock()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestLockOneAtATime: one holder at a time, also of those in one process.
func TestLockOneAtATime(t *testing.T) {
	t.Parallel()
	h := Home{Dir: t.TempDir(), Profile: Default}
	const workers, rounds = 8, 5
	var inside, done atomic.Int32
	var wg sync.WaitGroup
	ctx := within(t, 10*time.Minute)
	for range workers {
		wg.Go(func() {
			for range rounds {
				release, err := h.Lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d have the lock at once", n)
				}
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				done.Add(1)
				if err := release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if done.Load() != workers*rounds {
		t.Errorf("%d of %d had it", done.Load(), workers*rounds)
	}
}

// TestLockNoHome: a home that was deleted is not brought back.
func TestLockNoHome(t *testing.T) {
	t.Parallel()
	h := Home{Dir: filepath.Join(t.TempDir(), "gone"), Profile: Default}
	if _, err := h.Lock(within(t, time.Minute)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(h.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the home is back: %v", err)
	}
}

// TestLockIsNoLink: as root, the process id would be written over whatever a link names.
func TestLockIsNoLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"victim": "text", "home/.appliance/": ""})
	h := Home{Dir: filepath.Join(dir, "home"), Profile: Default}
	if err := os.Symlink("../../victim", filepath.Join(h.State(), "lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Lock(within(t, time.Minute)); err == nil {
		t.Error("locked through a link")
	}
	if data, err := os.ReadFile(filepath.Join(dir, "victim")); err != nil || string(data) != "text" {
		t.Errorf("got %q %v", data, err)
	}
}

func TestHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"pid": "123\n", "empty": "", "text": "rm -rf /"})
	for name, want := range map[string]string{"pid": "123", "empty": "", "text": "", "absent": ""} {
		if got := holder(filepath.Join(dir, name)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := (&LockedError{Home: Home{Dir: "/h"}}).Error(); !strings.Contains(got, "another process") {
		t.Errorf("got %q", got)
	}
}
