// SPDX-License-Identifier: MIT

package migrate_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// A home of which a migration changes all three files.
const (
	oldConfig = "# my config\n_config_version: 40\nmodel:\n  default: \"opus\" # the good one\nterminal:\n  backend: docker\n" +
		"  docker_image: nikolaik/python-nodejs:python3.11-nodejs20\n  vercel_runtime: node24\n  cwd: /srv # mine\n" +
		"compression:\n  threshold_tokens: 256000\n  threshold: 0.5\nsecurity:\n  tirith_enabled: true\n  redact_secrets: true\n"
	newConfig = "# my config\n_config_version: 50\nmodel:\n  default: \"opus\" # the good one\nterminal:\n  backend: docker\n" +
		"  cwd: /srv # mine\ncompression:\n  threshold: 0.5\nsecurity:\n  redact_secrets: true\n"
	oldEnv  = "# secrets\nTELEGRAM_BOT_TOKEN=12:ab\nTERMINAL_VERCEL_RUNTIME=node24\nMY_KEY='a b' # kept\n"
	newEnv  = "# secrets\nTELEGRAM_BOT_TOKEN=12:ab\nMY_KEY='a b' # kept\n"
	oldSoul = "# Me\n\nI am kind.\n\n## Messaging other agents\n\nAsk bob.\n\n## Rules\n\nNone.\n"
	newSoul = "# Me\n\nI am kind.\n\n## Rules\n\nNone.\n"
)

// files are the three files of a home.
type files struct{ Config, Env, Soul string }

func oldFiles() files { return files{oldConfig, oldEnv, oldSoul} }
func newFiles() files { return files{newConfig, newEnv, newSoul} }

// largeOld and largeNew are written in several chunks, so that in-place writes tear.
func largeOld() files {
	pad := "#" + strings.Repeat(" a long comment", 900) + "\n"
	return files{"_config_version: 48\n" + pad + "terminal:\n  vercel_runtime: node24\n  cwd: /srv\n", pad + "TERMINAL_VERCEL_RUNTIME=node24\nMY_KEY=a\n" + pad, oldSoul}
}

func largeNew() files {
	pad := "#" + strings.Repeat(" a long comment", 900) + "\n"
	return files{"_config_version: 50\n" + pad + "terminal:\n  cwd: /srv\n", pad + "MY_KEY=a\n" + pad, oldSoul}
}

// lay writes them into a home.
func (f files) lay(t testing.TB, dir string) home.Home {
	t.Helper()
	testkit.WriteTree(t, dir, map[string]string{"config.yaml": f.Config, ".env": f.Env, "SOUL.md": f.Soul})
	return home.Home{Dir: dir, Profile: home.Default}
}

// filesOf reads them back.
func filesOf(t testing.TB, h home.Home) files {
	t.Helper()
	read := func(path string) string {
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return string(data)
	}
	return files{read(h.Config()), read(h.Env()), read(h.Soul())}
}

func wantFiles(t testing.TB, h home.Home, want files) {
	t.Helper()
	if diff := cmp.Diff(want, filesOf(t, h)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", h.Dir, diff)
	}
}

// fastDir is a directory where flushing costs nothing, for tests that write thousands of
// times.
func fastDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "migrate-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// noon is when every test's clock starts.
func noon() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }

// migrator makes one whose clock stands still. hook may be nil.
func migrator(hook func(atomicfile.Op, string) error) migrate.Migrator {
	return migrate.Migrator{
		Ladder: migrate.Released(), Getenv: func(string) string { return "" }, Now: noon,
		LockWait: 5 * time.Minute, Files: atomicfile.Writer{Before: hook}, Program: "test 1",
	}
}

// at moves the clock of a migrator.
func at(m migrate.Migrator, minutes int) migrate.Migrator {
	m.Now = func() time.Time { return noon().Add(time.Duration(minutes) * time.Minute) }
	return m
}

// apply migrates and expects it to work.
func apply(t testing.TB, m migrate.Migrator, h home.Home, o migrate.Options) migrate.Result {
	t.Helper()
	r, err := m.Apply(t.Context(), h, o)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return r
}

// rollback takes back and expects it to work.
func rollback(t testing.TB, m migrate.Migrator, h home.Home) migrate.Result {
	t.Helper()
	r, err := m.Rollback(t.Context(), h)
	if err != nil {
		t.Fatalf("rollback: %v", err)
	}
	if !r.Applied {
		t.Fatal("rollback: nothing was done")
	}
	return r
}

var errInjected = errors.New("injected")

// steps counts the operations of a writer, and does something at one of them or all after it.
type steps struct {
	mu   sync.Mutex
	log  []string
	hit  int  // 1-based, 0 = none
	rest bool // also at every one after it
	do   func() error
}

func (s *steps) hook(op atomicfile.Op, path string) error {
	s.mu.Lock()
	s.log = append(s.log, fmt.Sprintf("%s %s", op, filepath.Base(path)))
	n := len(s.log)
	s.mu.Unlock()
	if n == s.hit || s.rest && s.hit > 0 && n > s.hit {
		return s.do()
	}
	return nil
}

// failAt makes the k-th operation fail.
func failAt(k int) *steps { return &steps{hit: k, do: func() error { return errInjected }} }

// crash is what a simulated kill throws.
type crash struct{ at int }

// crashAt makes everything end at the k-th operation, without any cleaning up: what comes
// after it in the program never runs, except that descriptors are closed, as the kernel does.
func crashAt(k int) *steps { return &steps{hit: k, do: func() error { panic(crash{k}) }} }

// crashes runs f and reports whether a simulated kill ended it.
func crashes(f func()) (killed bool) {
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(crash); !ok {
				panic(v)
			}
			killed = true
		}
	}()
	f()
	return false
}

// staged lists files below dir that no finished run leaves.
func staged(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		name := filepath.Base(path)
		if strings.HasSuffix(name, ".new") || strings.HasSuffix(name, ".migrate-new") || strings.HasSuffix(name, ".migrate-old") {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// hasJournal reports whether a commit is under way.
func hasJournal(t testing.TB, h home.Home) bool {
	t.Helper()
	_, err := os.Lstat(journalOf(h))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func journalOf(h home.Home) string { return filepath.Join(h.State(), "migrate.journal") }

// wantClean checks that nothing of a run is left below dir but files and backups.
func wantClean(t testing.TB, dir string, homes ...home.Home) {
	t.Helper()
	if left := staged(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	for _, h := range homes {
		if hasJournal(t, h) {
			t.Errorf("journal left behind in %s", h.Dir)
		}
	}
}

// backups lists a home's backups by file name.
func backups(t testing.TB, h home.Home) map[string]string {
	t.Helper()
	if _, err := os.Stat(h.Backups()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return testkit.ReadTree(t, h.Backups())
}

// wantBackups checks that a home has backups of these contents under names that begin so,
// and no others.
func wantBackups(t testing.TB, h home.Home, want map[string]string) {
	t.Helper()
	got := backups(t, h)
	short := map[string]string{}
	for name, text := range got {
		for prefix := range want {
			if strings.HasPrefix(name, prefix) {
				name = prefix
			}
		}
		if strings.HasPrefix(name, "manifest.") {
			text = want[name]
		}
		short[name] = text
	}
	if diff := cmp.Diff(want, short); diff != "" {
		t.Errorf("backups %v (-want +got):\n%s", slices.Sorted(maps.Keys(got)), diff)
	}
	if len(got) != len(want) {
		t.Errorf("%d files in backups, want %d: %v", len(got), len(want), slices.Sorted(maps.Keys(got)))
	}
}

// copyTree copies a directory with its links and modes; hard links of one file stay one.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	first := map[string]string{} // by identity, the copy of a file with several names
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dest := filepath.Join(to, rel)
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			if err := os.MkdirAll(dest, 0o700); err != nil {
				return err
			}
			return os.Chmod(dest, info.Mode())
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(strings.Replace(target, from, to, 1), dest)
		}
		id, many := identity(info)
		if one, ok := first[id]; ok && many {
			return os.Link(one, dest)
		}
		first[id] = dest
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(dest, data, info.Mode())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// entry is everything about a file that a run could change.
type entry struct {
	Mode  fs.FileMode
	Time  time.Time
	ID    string // device and inode, owner
	Text  string // content, or where a link leads
	Links bool   // it has several names
}

// look describes every file below dir, so that two looks differ if anything was written.
func look(t testing.TB, dir string) map[string]entry {
	t.Helper()
	out := map[string]entry{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		x := entry{Mode: info.Mode(), Time: info.ModTime()}
		x.ID, x.Links = identity(info)
		switch {
		case info.Mode().IsRegular():
			var data []byte
			data, err = os.ReadFile(path)
			x.Text = string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			x.Text, err = os.Readlink(path)
		}
		rel, rerr := filepath.Rel(dir, path)
		out[rel] = x
		return errors.Join(err, rerr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wantUntouched checks that nothing below dir was written since before.
func wantUntouched(t testing.TB, dir string, before map[string]entry) {
	t.Helper()
	if diff := cmp.Diff(before, look(t, dir)); diff != "" {
		t.Errorf("written to (-before +after):\n%s", diff)
	}
}

func hash(text string) string { return atomicfile.Hash([]byte(text)) }
