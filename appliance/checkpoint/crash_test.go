// SPDX-License-Identifier: MIT

package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/checkpoint"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestMain is also the other process of the tests below.
func TestMain(m *testing.M) {
	if work := os.Getenv("CHECKPOINT_TEST_TAKE"); work != "" {
		if err := takeAsChild(work); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// takeAsChild changes and takes ten times.
func takeAsChild(work string) error {
	log := slog.New(slog.DiscardHandler)
	s := checkpoint.New(checkpoint.Options{
		Dir: os.Getenv("CHECKPOINT_TEST_DIR"), Git: os.Getenv("CHECKPOINT_TEST_GIT"), Env: []string{"PATH=" + os.Getenv("PATH")},
		Processes: process.New(log), Log: log, Now: time.Now, Timeout: checkpoint.MaxTimeout,
	})
	for i := range 10 {
		name := filepath.Join(work, fmt.Sprintf("%d-%d", os.Getpid(), i))
		if err := os.WriteFile(name, []byte(name), 0o600); err != nil {
			return err
		}
		if _, err := s.Take(context.Background(), work, "child"); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) child(t *testing.T, git string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "CHECKPOINT_TEST_TAKE=" + b.work, "CHECKPOINT_TEST_DIR=" + b.dir, "CHECKPOINT_TEST_GIT=" + git}
	cmd.Stderr = os.Stderr
	return cmd
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write(t, map[string]string{"a": "1"})
	one, two := b.child(t, ""), b.child(t, "")
	for _, c := range []*exec.Cmd{one, two} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*exec.Cmd{one, two} {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	b.take(t)
	all, err := b.List(t.Context(), b.work)
	if err != nil || len(all) < 10 {
		t.Errorf("got %d checkpoints, %v, want at least ten", len(all), err)
	}
	got := strings.Fields(git(t, filepath.Join(b.dir, "store"), "--git-dir=.", "ls-tree", "-r", "--name-only", all[0].Hash))
	if len(got) != 21 {
		t.Errorf("the last checkpoint has %d files, want 21", len(got))
	}
	b.sound(t)
}

// TestKilledInTheMiddle: the process is killed with SIGKILL as each of its git commands begins;
// the next one takes a checkpoint as if nothing had been.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		for _, verb := range []string{"init", "log", "ls-files", "update-index", "write-tree", "commit-tree", "update-ref"} {
			if verb == "init" && !first {
				continue
			}
			t.Run(fmt.Sprintf("%s/first=%v", verb, first), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.write(t, map[string]string{"a": "1"})
				if !first {
					b.take(t)
				}
				wrapper := filepath.Join(t.TempDir(), "git")
				script := "#!/bin/sh\ncase \" $* \" in *' " + verb + " '*) kill -9 $PPID; exit 1;; esac\nexec git \"$@\"\n"
				testkit.WriteFile(t, wrapper, []byte(script), 0o700)
				if err := b.child(t, wrapper).Run(); err == nil || !strings.Contains(err.Error(), "killed") {
					t.Fatalf("the child ended with %v, want it killed", err)
				}
				if c := b.take(t); c.Hash == "" {
					t.Error("no checkpoint after the kill")
				}
				b.sound(t)
			})
		}
	}
}

// TestLeavingsOfAKilledGit: locks and half-written files of a git that was killed are in nobody's
// way, and are removed once nobody alive can own them.
func TestLeavingsOfAKilledGit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write(t, map[string]string{"a": "1"})
	b.take(t)
	store := filepath.Join(b.dir, "store")
	refs, err := filepath.Glob(filepath.Join(store, "refs", "hermes", "*"))
	if err != nil || len(refs) != 1 {
		t.Fatalf("refs: %v, %v", refs, err)
	}
	id := filepath.Base(refs[0])
	old := time.Now().Add(-time.Hour)
	leavings := []string{refs[0] + ".lock", filepath.Join(store, "indexes", id+".lock"), filepath.Join(store, "indexes", id+".tmp1-x"), filepath.Join(store, "objects", "pack", "tmp_pack_x")}
	for _, path := range leavings {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	b.write(t, map[string]string{"a": "2"})
	if c := b.take(t); c.Hash == "" {
		t.Error("no checkpoint")
	}
	if _, err := b.Prune(t.Context(), checkpoint.PruneOptions{}); err != nil {
		t.Error(err)
	}
	for _, path := range leavings {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	b.sound(t)
}

// TestDamagedStore: an index or a tip that makes no sense costs the history at most, never the
// next checkpoint.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, glob, text string }{
		{"index", "indexes/*", "rubbish"},
		{"empty index", "indexes/*", ""},
		{"ref", "refs/hermes/*", "0123456789012345678901234567890123456789\n"},
		{"project", "projects/*", "{half"},
		{"attributes", "info/attributes", "* text\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write(t, map[string]string{"a": "1\r\n"})
			b.take(t)
			found, err := filepath.Glob(filepath.Join(b.dir, "store", filepath.FromSlash(tt.glob)))
			if err != nil || len(found) == 0 {
				t.Fatal(found, err)
			}
			if err := os.WriteFile(found[0], []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			b.write(t, map[string]string{"a": "2\r\n"})
			c := b.take(t)
			b.write(t, map[string]string{"a": "3"})
			b.restore(t, c.Hash)
			same(t, "restored", readAll(t, b.work), map[string]string{"a": "2\r\n"})
		})
	}
}

// TestStoreLock: nobody reads a half-made state: while another holds the store's lock everything
// waits, for no longer than its context.
func TestStoreLock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write(t, map[string]string{"a": "1"})
	c := b.take(t)
	release, err := home.LockFile(t.Context(), filepath.Join(b.dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, map[string]string{"a": "2"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for name, do := range map[string]func() error{
		"take":    func() error { _, err := b.Take(ctx, b.work, "x"); return err },
		"diff":    func() error { _, err := b.Diff(ctx, b.work, c.Hash); return err },
		"restore": func() error { _, err := b.Restore(ctx, b.work, c.Hash); return err },
		"prune":   func() error { _, err := b.Prune(ctx, checkpoint.PruneOptions{}); return err },
	} {
		if err := do(); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "another process") {
			t.Errorf("%s: got %v, want it to wait for the other", name, err)
		}
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	same(t, "untouched", readAll(t, b.work), map[string]string{"a": "2"})
	if c := b.take(t); c.Hash == "" {
		t.Error("no checkpoint after the release")
	}
}

// TestIndexKeepsItsTime: git tells by an index's time which files may have changed in the same
// second; a copy with a newer time would hide changes.
func TestIndexKeepsItsTime(t *testing.T) {
	t.Parallel()
	wrapper := filepath.Join(t.TempDir(), "git")
	seen := wrapper + ".seen"
	script := "#!/bin/sh\ncase \" $* \" in\n*' ls-files '*) stat -c %Y \"$GIT_INDEX_FILE\" >" + seen + ";;\n" +
		"*' write-tree '*) git \"$@\"; rc=$?; touch -d @1000000000 \"$GIT_INDEX_FILE\"; exit $rc;;\nesac\nexec git \"$@\"\n"
	testkit.WriteFile(t, wrapper, []byte(script), 0o700)
	b := setup(t, func(o *checkpoint.Options) { o.Git = wrapper })
	_, err := exec.CommandContext(t.Context(), "stat", "-c", "%Y", "/").Output()
	testkit.Need(t, "gnu", err == nil, "the test asks GNU stat and touch for times")
	b.write(t, map[string]string{"a": "1"})
	b.take(t)
	b.take(t)
	if got, err := os.ReadFile(seen); err != nil || strings.TrimSpace(string(got)) != "1000000000" {
		t.Errorf("the copy that git works on is of %q, %v, want the time that git gave it", got, err)
	}
}
