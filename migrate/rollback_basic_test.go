// SPDX-License-Identifier: MIT

package migrate_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// TestRollback returns all three files, with their modes, and migrating works again.
func TestRollback(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, t.TempDir())
	modes := map[string]os.FileMode{h.Config(): 0o644, h.Env(): 0o640, h.Soul(): 0o600}
	for path, mode := range modes {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]os.FileMode{}
	for path := range modes {
		want[path] = modeOf(t, path)
	}
	for round := range 3 {
		m := at(migrator(nil), 2*round)
		r := apply(t, m, h, migrate.Options{})
		wantFiles(t, h, newFiles())
		if name := filepath.Base(r.Backup); !strings.HasPrefix(name, "manifest.migrate-40-50.") {
			t.Errorf("backup is %s", r.Backup)
		}
		back := rollback(t, at(m, 2*round+1), h)
		wantFiles(t, h, oldFiles())
		if back.Backup != r.Backup || back.Plan.From != 50 || back.Plan.To != 40 {
			t.Errorf("got %+v, want a way back through %s", back, r.Backup)
		}
		for path := range modes {
			if got := modeOf(t, path); got != want[path] {
				t.Errorf("%s has mode %v, want %v", path, got, want[path])
			}
		}
		wantClean(t, h.Dir, h)
		if _, err := m.Rollback(t.Context(), h); !errors.Is(err, migrate.ErrNoBackup) {
			t.Errorf("rolled back twice: got %v, want ErrNoBackup", err)
		}
	}
}

func modeOf(t testing.TB, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

// TestRollbackStacked takes back one migration after the other.
func TestRollbackStacked(t *testing.T) {
	t.Parallel()
	for name, minute := range map[string]int{"clock goes forward": 1, "clock stands still": 0, "clock goes back": -60} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := oldFiles().lay(t, fastDir(t))
			var states []files
			var last string
			for i, to := range []int{46, 48, 0} {
				states = append(states, filesOf(t, h))
				last = apply(t, at(migrator(nil), i*minute), h, migrate.Options{To: to}).Backup
			}
			wantFiles(t, h, newFiles())
			if states[1] == states[2] || states[2] == newFiles() {
				t.Fatal("a step changed nothing")
			}
			slices.Reverse(states)
			for i, want := range states {
				r := rollback(t, at(migrator(nil), 10+i), h)
				if i == 0 && r.Backup != last {
					t.Errorf("took back %s, want %s", r.Backup, last)
				}
				wantFiles(t, h, want)
			}
			if _, err := migrator(nil).Rollback(t.Context(), h); !errors.Is(err, migrate.ErrNoBackup) {
				t.Errorf("got %v, want ErrNoBackup", err)
			}
			apply(t, at(migrator(nil), 20), h, migrate.Options{})
			wantFiles(t, h, newFiles())
			wantClean(t, h.Dir, h)
		})
	}
}

// TestRollbackByHand: a migration that was taken back by hand stands in the way of none that is
// older, if the files fit that one.
func TestRollbackByHand(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, fastDir(t))
	apply(t, migrator(nil), h, migrate.Options{To: 46})
	middle := filesOf(t, h)
	apply(t, at(migrator(nil), 1), h, migrate.Options{})
	middle.lay(t, h.Dir)
	rollback(t, at(migrator(nil), 2), h)
	wantFiles(t, h, oldFiles())
}

// TestRollbackRefusesChanged: what was written since the migration is not thrown away. The
// refusal names the backup.
func TestRollbackRefusesChanged(t *testing.T) {
	t.Parallel()
	for i, name := range []string{".env", "SOUL.md", "config.yaml"} {
		h := oldFiles().lay(t, fastDir(t))
		apply(t, migrator(nil), h, migrate.Options{})
		path := filepath.Join(h.Dir, name)
		appendText(t, path, "mine\n")
		before := look(t, h.Dir)
		for verb, f := range map[string]func() error{
			"preview":  func() error { _, err := silent(t).PreviewRollback(h); return err },
			"rollback": func() error { _, err := silent(t).Rollback(t.Context(), h); return err },
		} {
			err := f()
			var r *migrate.Refusal
			if !errors.As(err, &r) || !errors.Is(r.Kind, migrate.ErrChanged) || r.File != path {
				t.Fatalf("%s of %s: got %v, want ErrChanged", verb, name, err)
			}
			if exitcode.Of(err) != exitcode.Error {
				t.Errorf("exit code %d", exitcode.Of(err))
			}
			named := ""
			for backup, text := range backups(t, h) {
				if strings.Contains(r.Fix, filepath.Join(h.Backups(), backup)+";") {
					named = text
				}
			}
			if want := []string{oldEnv, oldSoul, oldConfig}[i]; named != want {
				t.Errorf("%s of %s: the refusal names a file with %q, want %q: %s", verb, name, named, want, r.Fix)
			}
		}
		wantUntouched(t, h.Dir, before)
	}
}

func appendText(t testing.TB, path, text string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(data, text...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRollbackRefusesRemoved: so is a file that was removed.
func TestRollbackRefusesRemoved(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, fastDir(t))
	apply(t, migrator(nil), h, migrate.Options{})
	if err := os.Remove(h.Soul()); err != nil {
		t.Fatal(err)
	}
	before := look(t, h.Dir)
	if _, err := silent(t).Rollback(t.Context(), h); !errors.Is(err, migrate.ErrChanged) {
		t.Errorf("got %v, want ErrChanged", err)
	}
	wantUntouched(t, h.Dir, before)
}

func TestRollbackRefusesBadBackup(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"missing": os.Remove,
		"damaged": func(path string) error { return os.WriteFile(path, []byte("damaged"), 0o600) },
		"empty":   func(path string) error { return os.Truncate(path, 0) },
	} {
		for _, file := range []string{".env", "SOUL.md", "config.yaml"} {
			h := oldFiles().lay(t, fastDir(t))
			apply(t, migrator(nil), h, migrate.Options{})
			backup := filepath.Join(h.Backups(), file+".migrate-40-50.20260701-120000")
			if err := spoil(backup); err != nil {
				t.Fatal(err)
			}
			before := look(t, h.Dir)
			_, err := silent(t).Rollback(t.Context(), h)
			var r *migrate.Refusal
			if !errors.As(err, &r) || !errors.Is(r.Kind, migrate.ErrChanged) || r.File != backup {
				t.Errorf("%s %s: got %v", name, file, err)
			}
			wantUntouched(t, h.Dir, before)
		}
	}
}

// TestRollbackNoBackup: a home that was never migrated, or whose backups are gone.
func TestRollbackNoBackup(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, fastDir(t))
	before := look(t, h.Dir)
	if _, err := silent(t).Rollback(t.Context(), h); !errors.Is(err, migrate.ErrNoBackup) {
		t.Errorf("got %v, want ErrNoBackup", err)
	}
	wantUntouched(t, h.Dir, before)
	apply(t, migrator(nil), h, migrate.Options{})
	if err := os.RemoveAll(h.Backups()); err != nil {
		t.Fatal(err)
	}
	if _, err := silent(t).Rollback(t.Context(), h); !errors.Is(err, migrate.ErrNoBackup) {
		t.Errorf("got %v, want ErrNoBackup", err)
	}
}

// TestOddPaths: a home's path may hold what means something in patterns, and its backups are
// found and never overwritten all the same.
func TestOddPaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a[b]c", "[", "x*y", "q?", "with space", `back\slash`, "ünï"} {
		if strings.ContainsAny(name, `*?\`) && filepath.Separator == '\\' {
			continue
		}
		h := oldFiles().lay(t, filepath.Join(fastDir(t), name))
		first := apply(t, migrator(nil), h, migrate.Options{})
		rollback(t, migrator(nil), h) // at the same second
		oldFiles().with2(strings.Replace(oldConfig, "/srv", "/srv2", 1)).lay(t, h.Dir)
		second := apply(t, migrator(nil), h, migrate.Options{})
		if first.Backup == second.Backup {
			t.Errorf("%s: one backup for two migrations", name)
		}
		kept := 0
		for file, text := range backups(t, h) {
			if strings.HasPrefix(file, "config.yaml.migrate-") && (text == oldConfig || strings.Contains(text, "/srv2")) {
				kept++
			}
		}
		if kept != 2 {
			t.Errorf("%s: %d backups of config.yaml, want 2: %v", name, kept, backups(t, h))
		}
		rollback(t, migrator(nil), h)
		if got := filesOf(t, h).Config; !strings.Contains(got, "/srv2") {
			t.Errorf("%s: the wrong backup came back:\n%s", name, got)
		}
	}
}

func (f files) with2(config string) files {
	f.Config = config
	return f
}

// TestManifest is the format on disk, which later versions must read. It holds no path: the home
// may be found elsewhere later.
func TestManifest(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, fastDir(t))
	path := apply(t, migrator(nil), h, migrate.Options{}).Backup
	entry := func(name, before, after string) string {
		return "    {\n      \"name\": \"" + name + "\",\n      \"backup\": \"" + name + ".migrate-40-50.20260701-120000\",\n" +
			"      \"before\": \"" + hash(before) + "\",\n      \"after\": \"" + hash(after) + "\"\n    }"
	}
	want := "{\n  \"version\": 1,\n  \"program\": \"test 1\",\n  \"from\": 40,\n  \"to\": 50,\n  \"time\": \"2026-07-01T12:00:00Z\",\n  \"files\": [\n" +
		entry(".env", oldEnv, newEnv) + ",\n" + entry("SOUL.md", oldSoul, newSoul) + ",\n" + entry("config.yaml", oldConfig, newConfig) + "\n  ]"
	for _, end := range []string{"\n}\n", ",\n  \"rolled_back\": \"2026-07-01T12:01:00Z\"\n}\n"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want+end, string(data)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if end == "\n}\n" {
			rollback(t, at(migrator(nil), 1), h)
		}
	}
}
