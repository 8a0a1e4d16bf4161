// SPDX-License-Identifier: MIT

//go:build unix

package migrate_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// TestConcurrentProcesses starts eight migrators on one home at once: one does the work, the
// others wait for it and find nothing to do.
func TestConcurrentProcesses(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, fastDir(t))
	const n = 8
	var children []*child
	for range n {
		children = append(children, startChild(t, "apply", h, 0, 2*time.Millisecond)) // slow, so that they meet
	}
	var wg sync.WaitGroup
	applied := make([]bool, n)
	for i, c := range children {
		wg.Go(func() {
			var killed bool
			if applied[i], killed = c.run(t); killed {
				t.Error("killed by someone else")
			}
		})
	}
	wg.Wait()
	count := 0
	for _, a := range applied {
		if a {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d of %d migrated", count, n)
	}
	wantFiles(t, h, newFiles())
	wantClean(t, h.Dir, h)
	if got := len(backups(t, h)); got != 4 {
		t.Errorf("%d files in backups, want one set of 4", got)
	}
}

// TestConcurrentInOneProcess is the same for goroutines.
func TestConcurrentInOneProcess(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, fastDir(t))
	var wg sync.WaitGroup
	var mu sync.Mutex
	count := 0
	for range 8 {
		wg.Go(func() {
			r, err := migrator(nil).Apply(t.Context(), h, migrate.Options{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if r.Applied {
				count++
			}
		})
	}
	wg.Wait()
	if count != 1 {
		t.Errorf("%d migrated", count)
	}
	wantFiles(t, h, newFiles())
	wantClean(t, h.Dir, h)
}

// TestLockedHome: a home that another process is writing is left alone, and the process named.
func TestLockedHome(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, fastDir(t))
	release, err := h.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := migrator(nil)
	m.LockWait = 50 * time.Millisecond
	before := look(t, h.Dir)
	r, err := m.Apply(t.Context(), h, migrate.Options{})
	var locked *home.LockedError
	if !errors.As(err, &locked) || locked.Holder != strconv.Itoa(os.Getpid()) || exitcode.Of(err) != 7 {
		t.Errorf("got %v (exit %d)", err, exitcode.Of(err))
	}
	if r.Plan == nil || !r.Plan.Pending() {
		t.Error("what would be done is not reported")
	}
	wantUntouched(t, h.Dir, before)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := migrator(nil).Apply(ctx, h, migrate.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted while waiting: got %v", err)
	}
	wantUntouched(t, h.Dir, before)
	if err := release(); err != nil {
		t.Fatal(err)
	}
	m.LockWait = 0 // does not wait, but tries
	if r := apply(t, m, h, migrate.Options{}); !r.Applied {
		t.Error("the home is free and was not migrated")
	}
}

// TestSharedFile: two profiles share a .env and a SOUL.md through links, and are migrated at the
// same time. One of them may have to try again; nothing is lost or left behind.
func TestSharedFile(t *testing.T) {
	t.Parallel()
	for range 10 {
		dir := fastDir(t)
		root := oldFiles().lay(t, dir)
		var homes []home.Home
		for _, id := range []string{"one", "two"} {
			h := home.Home{Dir: filepath.Join(dir, "profiles", id), Profile: id}
			mkdir(t, h.Dir)
			if err := errors.Join(os.WriteFile(h.Config(), []byte(oldConfig), 0o600), os.Symlink(root.Env(), h.Env()), os.Symlink(root.Soul(), h.Soul())); err != nil {
				t.Fatal(err)
			}
			homes = append(homes, h)
		}
		var wg sync.WaitGroup
		for _, h := range homes {
			wg.Go(func() {
				for {
					_, err := migrator(nil).Apply(t.Context(), h, migrate.Options{})
					if err == nil {
						return
					}
					if !errors.Is(err, migrate.ErrChanged) {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		for _, h := range homes {
			wantFiles(t, h, newFiles())
			if to, err := os.Readlink(h.Env()); err != nil || to != root.Env() {
				t.Errorf("%s is a link to %q (%v)", h.Env(), to, err)
			}
		}
		wantFiles(t, root, files{oldConfig, newEnv, newSoul})
		wantClean(t, dir, homes...)
	}
}

// TestDeletedMeanwhile: a profile that is deleted while it is being migrated is not brought
// back.
func TestDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	count := &steps{}
	{
		h := oldFiles().lay(t, fastDir(t))
		apply(t, migrator(count.hook), h, migrate.Options{})
	}
	for k := range count.log {
		dir := fastDir(t)
		h := oldFiles().lay(t, filepath.Join(dir, "profiles", "one"))
		h.Profile = "one"
		gone := false
		m := migrator(func(atomicfile.Op, string) error {
			if k--; k < 0 && !gone {
				gone = true
				return os.RemoveAll(h.Dir)
			}
			return nil
		})
		_, err := m.Apply(t.Context(), h, migrate.Options{})
		if _, serr := os.Lstat(h.Dir); !errors.Is(serr, os.ErrNotExist) {
			t.Errorf("operation %d: the profile is back (%v)", k, err)
		}
		if err == nil {
			t.Errorf("operation %d: no error", k)
		}
	}
}
