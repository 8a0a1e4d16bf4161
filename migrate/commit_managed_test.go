// SPDX-License-Identifier: MIT

//go:build unix

package migrate_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// wantLeftAlone checks that every verb reports what it would do, refuses with exit 5 and
// writes nothing below dir.
func wantLeftAlone(t *testing.T, m migrate.Migrator, dir string, h home.Home, texts ...string) {
	t.Helper()
	before := look(t, dir)
	for verb, f := range map[string]func() (migrate.Result, error){
		"preview": func() (migrate.Result, error) { return m.Preview(h, migrate.Options{}) },
		"apply":   func() (migrate.Result, error) { return m.Apply(t.Context(), h, migrate.Options{}) },
	} {
		r, err := f()
		wantManaged(t, verb, r, err, texts...)
	}
	wantUntouched(t, dir, before)
}

func wantManaged(t *testing.T, verb string, r migrate.Result, err error, texts ...string) {
	t.Helper()
	var refusal *migrate.Refusal
	if !errors.As(err, &refusal) || !errors.Is(refusal.Kind, migrate.ErrManaged) || refusal.ExitCode() != 5 {
		t.Fatalf("%s: got %v, want ErrManaged with exit 5", verb, err)
	}
	if refusal.Fix == "" {
		t.Errorf("%s: the refusal says not what to do: %v", verb, err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %q does not say %q", verb, err, text)
		}
	}
	if r.Applied || r.Plan == nil || !r.Plan.Pending() {
		t.Errorf("%s: got %+v, want the plan", verb, r)
	}
}

func TestManaged(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, env string
		lay       func(h home.Home) error
		texts     []string
	}{
		{"HERMES_MANAGED", "true", nothing, []string{"managed by nixos", "services.hermes-agent.settings.terminal.docker_image", "services.hermes-agent.environment.TERMINAL_VERCEL_RUNTIME"}},
		{"HERMES_MANAGED with a name", "Home-Manager", nothing, []string{"managed by home-manager"}},
		{".managed", "", func(h home.Home) error { return os.WriteFile(filepath.Join(h.Dir, ".managed"), nil, 0o600) }, []string{"managed by nixos"}},
		{".managed with a name", "", func(h home.Home) error {
			return os.WriteFile(filepath.Join(h.Dir, ".managed"), []byte("\xef\xbb\xbfAnsible\r\n"), 0o600)
		}, []string{"managed by ansible"}},
		{"config.yaml 0444", "", func(h home.Home) error { return os.Chmod(h.Config(), 0o444) }, []string{"config.yaml", "read-only file", "chmod u+w"}},
		{".env 0444", "", func(h home.Home) error { return os.Chmod(h.Env(), 0o444) }, []string{".env", "read-only file"}},
		{"SOUL.md 0400", "", func(h home.Home) error { return os.Chmod(h.Soul(), 0o400) }, []string{"SOUL.md", "read-only file"}},
		{"home 0555", "", func(h home.Home) error { return os.Chmod(h.Dir, 0o555) }, []string{"read-only directory"}},
		{"home 0555, files elsewhere", "", func(h home.Home) error {
			return errors.Join(away(h.Config()), away(h.Env()), away(h.Soul()), os.Chmod(h.Dir, 0o555))
		}, []string{"read-only directory"}},
		{"link to a 0444 file", "", func(h home.Home) error { return errors.Join(away(h.Config()), os.Chmod(h.Config(), 0o444)) }, []string{"read-only file"}},
		{"link into a 0555 directory", "", func(h home.Home) error {
			return errors.Join(away(h.Config()), os.Chmod(filepath.Join(filepath.Dir(h.Dir), "away"), 0o555))
		}, []string{"read-only directory"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := fastDir(t)
			h := oldFiles().lay(t, filepath.Join(dir, "home"))
			mkdir(t, filepath.Join(dir, "away"))
			if err := row.lay(h); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = errors.Join(os.Chmod(h.Dir, 0o700), os.Chmod(filepath.Join(dir, "away"), 0o700)) })
			m := silent(t)
			m.Getenv = func(name string) string { return map[string]string{"HERMES_MANAGED": row.env}[name] }
			wantLeftAlone(t, m, dir, h, row.texts...)
		})
	}
}

func nothing(home.Home) error { return nil }

// away moves a file of a home to ../away and links to it.
func away(path string) error {
	to := filepath.Join(filepath.Dir(filepath.Dir(path)), "away", filepath.Base(path))
	return errors.Join(os.Rename(path, to), os.Symlink(to, path))
}

// TestNotManaged: H#12864, a variable that says false is no manager of that name.
func TestNotManaged(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"false", "0", "no", "off", "homebrew", ""} {
		h := oldFiles().lay(t, fastDir(t))
		m := migrator(nil)
		m.Getenv = func(name string) string { return map[string]string{"HERMES_MANAGED": value}[name] }
		if r := apply(t, m, h, migrate.Options{}); !r.Applied {
			t.Errorf("%q: not migrated", value)
		}
		wantFiles(t, h, newFiles())
	}
}

// TestManagedNothingToDo: a managed home that is current is no reason to complain.
func TestManagedNothingToDo(t *testing.T) {
	t.Parallel()
	h := newFiles().lay(t, fastDir(t))
	m := silent(t)
	m.Getenv = func(string) string { return "true" }
	before := look(t, h.Dir)
	for _, f := range []func() (migrate.Result, error){
		func() (migrate.Result, error) { return m.Preview(h, migrate.Options{}) },
		func() (migrate.Result, error) { return m.Apply(t.Context(), h, migrate.Options{}) },
	} {
		if r, err := f(); err != nil || r.Plan.Pending() {
			t.Errorf("got %+v %v", r, err)
		}
	}
	wantUntouched(t, h.Dir, before)
}

// TestManagedMarkerUnreadable: a marker that cannot be read is not taken for an absent one.
func TestManagedMarkerUnreadable(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, fastDir(t))
	testkit.WriteTree(t, h.Dir, map[string]string{".managed/": ""})
	before := look(t, h.Dir)
	if _, err := silent(t).Apply(t.Context(), h, migrate.Options{}); err == nil {
		t.Error("migrated")
	}
	wantUntouched(t, h.Dir, before)
}

// TestManagedRollback: going back is a change like any other.
func TestManagedRollback(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, fastDir(t))
	apply(t, migrator(nil), h, migrate.Options{})
	m := silent(t)
	m.Getenv = func(name string) string { return map[string]string{"HERMES_MANAGED": "nixos"}[name] }
	before := look(t, h.Dir)
	r, err := m.Rollback(t.Context(), h)
	wantManaged(t, "rollback", r, err, "managed by nixos", "services.hermes-agent.settings", "services.hermes-agent.environment", "services.hermes-agent.documents")
	if err := os.Chmod(h.Env(), 0o444); err != nil {
		t.Fatal(err)
	}
	before[".env"] = look(t, h.Dir)[".env"]
	r, err = silent(t).Rollback(t.Context(), h)
	wantManaged(t, "rollback", r, err, ".env", "read-only file")
	wantUntouched(t, h.Dir, before)
}

// TestManagedAfterKill: a home that got a manager while a run was interrupted is the manager's.
func TestManagedAfterKill(t *testing.T) {
	t.Parallel()
	for verb, act := range map[string]func(m migrate.Migrator, h home.Home) (migrate.Result, error){
		"apply": func(m migrate.Migrator, h home.Home) (migrate.Result, error) {
			return m.Apply(t.Context(), h, migrate.Options{})
		},
		"rollback": func(m migrate.Migrator, h home.Home) (migrate.Result, error) { return m.Rollback(t.Context(), h) },
	} {
		h := oldFiles().lay(t, fastDir(t))
		if !crashes(func() { _, _ = migrator(crashAt(50).hook).Apply(t.Context(), h, migrate.Options{}) }) || !hasJournal(t, h) {
			t.Fatal("not interrupted")
		}
		before := look(t, h.Dir)
		m := silent(t)
		m.Getenv = func(name string) string { return map[string]string{"HERMES_MANAGED": "nixos"}[name] }
		r, err := act(m, h)
		if !errors.Is(err, migrate.ErrManaged) || r.Recovered == "" {
			t.Errorf("%s: got %+v %v, want ErrManaged and what is unsettled", verb, r, err)
		}
		wantUntouched(t, h.Dir, before)
		// The same for a file that cannot be written now; only the lock is taken.
		if err := os.Chmod(h.Env(), 0o444); err != nil {
			t.Fatal(err)
		}
		now := filesOf(t, h)
		if _, err := act(silent(t), h); !errors.Is(err, migrate.ErrManaged) {
			t.Errorf("%s: got %v, want ErrManaged", verb, err)
		}
		wantFiles(t, h, now)
		if err := os.Chmod(h.Env(), 0o600); err != nil {
			t.Fatal(err)
		}
		apply(t, migrator(nil), h, migrate.Options{})
		wantFiles(t, h, newFiles())
	}
}

// TestDanglingConfig: there is nothing to plan with, and nothing is made.
func TestDanglingConfig(t *testing.T) {
	t.Parallel()
	for to, text := range map[string]string{"nowhere": "leads nowhere", "/nix/store/0000-hermes/config.yaml": "Nix store"} {
		h := oldFiles().lay(t, fastDir(t))
		if err := errors.Join(os.Remove(h.Config()), os.Symlink(to, h.Config())); err != nil {
			t.Fatal(err)
		}
		before := look(t, h.Dir)
		_, err := silent(t).Apply(t.Context(), h, migrate.Options{})
		if !errors.Is(err, migrate.ErrManaged) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v", to, err)
		}
		wantUntouched(t, h.Dir, before)
	}
}

// TestOddEnv: a .env that is a pipe (a password manager), or a link to nothing, is not ours to
// edit; config.yaml is migrated, and it is said.
func TestOddEnv(t *testing.T) {
	t.Parallel()
	for name, lay := range map[string]func(path string) error{
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"dangling":  func(path string) error { return os.Symlink("nowhere", path) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		h := oldFiles().lay(t, fastDir(t))
		if err := errors.Join(os.Remove(h.Env()), lay(h.Env())); err != nil {
			t.Fatal(err)
		}
		was := look(t, h.Dir)[".env"]
		r := apply(t, migrator(nil), h, migrate.Options{})
		if advice := strings.Join(r.Plan.Advice, "\n"); !strings.Contains(advice, ".env is no file") {
			t.Errorf("%s: advice %q", name, advice)
		}
		if got, err := os.ReadFile(h.Config()); err != nil || string(got) != newConfig {
			t.Errorf("%s: got %q %v", name, got, err)
		}
		if now := look(t, h.Dir)[".env"]; now != was {
			t.Errorf("%s: .env is %+v, was %+v", name, now, was)
		}
		wantClean(t, h.Dir, h)
		rollback(t, at(migrator(nil), 1), h)
		if got, err := os.ReadFile(h.Config()); err != nil || string(got) != oldConfig {
			t.Errorf("%s: got %q %v", name, got, err)
		}
	}
}
