// SPDX-License-Identifier: MIT

package migrate_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// silent is a migrator that fails the test at the first thing it writes.
func silent(t testing.TB) migrate.Migrator {
	t.Helper()
	return migrator((&steps{hit: 1, rest: true, do: func() error {
		t.Error("something was written")
		return errInjected
	}}).hook)
}

// TestDoubleBoot: a second run writes nothing.
func TestDoubleBoot(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, t.TempDir())
	apply(t, migrator(nil), h, migrate.Options{})
	before := look(t, h.Dir)
	for range 2 {
		if r := apply(t, silent(t), h, migrate.Options{}); r.Applied || r.Plan.Pending() || r.Recovered != "" || r.Backup != "" {
			t.Errorf("got %+v", r)
		}
	}
	wantUntouched(t, h.Dir, before)
}

// TestCurrentHome: a home with nothing to do gets no directory of ours; neither does an empty
// one, nor one that is not there.
func TestCurrentHome(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{
		"current/config.yaml": newConfig, "current/.env": newEnv, "empty/": "",
		"env-only/.env": oldEnv, "env-only/SOUL.md": oldSoul,
	})
	before := look(t, dir)
	for _, name := range []string{"current", "empty", "env-only", "absent"} {
		h := home.Home{Dir: filepath.Join(dir, name), Profile: home.Default}
		r := apply(t, silent(t), h, migrate.Options{})
		if r.Applied || r.Plan == nil || r.Plan.Pending() {
			t.Errorf("%s: got %+v", name, r)
		}
	}
	wantUntouched(t, dir, before)
}

// TestPreview: looking changes nothing.
func TestPreview(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, t.TempDir())
	before := look(t, h.Dir)
	r, err := silent(t).Preview(h, migrate.Options{})
	if err != nil || r.Applied || !r.Plan.Pending() || r.Plan.From != 40 || r.Plan.To != 50 {
		t.Errorf("got %+v %v", r, err)
	}
	if _, err := r.Plan.Diff(); err != nil {
		t.Error(err)
	}
	if _, err := silent(t).PreviewRollback(h); !errors.Is(err, migrate.ErrNoBackup) {
		t.Errorf("got %v, want ErrNoBackup", err)
	}
	wantUntouched(t, h.Dir, before)

	apply(t, migrator(nil), h, migrate.Options{})
	before = look(t, h.Dir)
	if r, err := silent(t).PreviewRollback(h); err != nil || r.Applied || r.Backup == "" || r.Plan.From != 50 || r.Plan.To != 40 || len(r.Plan.Changes) != 3 {
		t.Errorf("got %+v %v", r, err)
	}
	wantUntouched(t, h.Dir, before)
}

// TestPreviewOfInterruptedRun: looking at a home in which a run was interrupted says so and
// settles nothing.
func TestPreviewOfInterruptedRun(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, fastDir(t))
	if !crashes(func() { _, _ = migrator(crashAt(50).hook).Apply(t.Context(), h, migrate.Options{}) }) || !hasJournal(t, h) {
		t.Fatal("not interrupted")
	}
	before := look(t, h.Dir)
	for name, f := range map[string]func() (migrate.Result, error){
		"preview":  func() (migrate.Result, error) { return silent(t).Preview(h, migrate.Options{}) },
		"rollback": func() (migrate.Result, error) { return silent(t).PreviewRollback(h) },
	} {
		if r, err := f(); r.Recovered == "" || err != nil && !errors.Is(err, migrate.ErrNoBackup) {
			t.Errorf("%s: got %+v %v", name, r, err)
		}
	}
	wantUntouched(t, h.Dir, before)
}

// TestLeftovers: a run was killed while it staged, and the home was brought to the current
// version by other means. What was staged, a copy of .env, goes all the same; after that
// nothing is written any more.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, fastDir(t))
	if !crashes(func() { _, _ = migrator(crashAt(12).hook).Apply(t.Context(), h, migrate.Options{}) }) || len(staged(t, h.Dir)) == 0 || hasJournal(t, h) {
		t.Fatal("not killed while staging")
	}
	newFiles().lay(t, h.Dir)
	if r := apply(t, migrator(nil), h, migrate.Options{}); r.Applied || r.Recovered != "" {
		t.Errorf("got %+v", r)
	}
	wantClean(t, h.Dir, h)
	wantFiles(t, h, newFiles())
	before := look(t, h.Dir)
	apply(t, silent(t), h, migrate.Options{})
	wantUntouched(t, h.Dir, before)
}

// TestRefusedHomes: what cannot be migrated is not touched either.
func TestRefusedHomes(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		config string
		want   error
		exit   int
	}{
		"newer":       {"_config_version: 51\n", migrate.ErrNewerStamp, 4},
		"below floor": {"_config_version: 11\n", migrate.ErrBelowFloor, 6},
		"bad stamp":   {"_config_version: soon\n", migrate.ErrBadStamp, 6},
		"no yaml":     {"_config_version: 40\n\t- x: [\n", migrate.ErrAmbiguous, 8},
		"a list":      {"- a\n- b\n", migrate.ErrAmbiguous, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := files{row.config, oldEnv, oldSoul}.lay(t, t.TempDir())
			before := look(t, h.Dir)
			_, err := silent(t).Apply(t.Context(), h, migrate.Options{})
			var r *migrate.Refusal
			if !errors.As(err, &r) || !errors.Is(err, row.want) || int(r.ExitCode()) != row.exit {
				t.Errorf("got %v, want %v with exit %d", err, row.want, row.exit)
			}
			wantUntouched(t, h.Dir, before)
		})
	}
}

// TestConfigIsDirectory is what a container engine makes of a mount without a source.
func TestConfigIsDirectory(t *testing.T) {
	t.Parallel()
	h := home.Home{Dir: t.TempDir(), Profile: home.Default}
	testkit.WriteTree(t, h.Dir, map[string]string{"config.yaml/": "", ".env": oldEnv})
	before := look(t, h.Dir)
	_, err := silent(t).Apply(t.Context(), h, migrate.Options{})
	var r *migrate.Refusal
	if !errors.As(err, &r) || !errors.Is(r.Kind, migrate.ErrAmbiguous) || r.File != h.Config() {
		t.Errorf("got %v", err)
	}
	wantUntouched(t, h.Dir, before)

	// The same for .env is no reason to leave config.yaml behind; but it is said.
	h = home.Home{Dir: t.TempDir(), Profile: home.Default}
	testkit.WriteTree(t, h.Dir, map[string]string{"config.yaml": oldConfig, ".env/": "", "SOUL.md": oldSoul})
	res := apply(t, migrator(nil), h, migrate.Options{})
	if !res.Applied || len(res.Plan.Advice) == 0 {
		t.Errorf("got %+v", res)
	}
	if got, err := os.ReadFile(h.Config()); err != nil || string(got) != newConfig {
		t.Errorf("got %q %v", got, err)
	}
	wantClean(t, h.Dir, h)
}
