// SPDX-License-Identifier: MIT

//go:build unix

package migrate_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// TestReportsCommit has a row for each public report about writing a home. Each lays the home
// that was reported and checks what should have happened.
func TestReportsCommit(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		test func(t *testing.T, dir string)
	}{
		{"H#51579 H PR#51675 every boot strips .env while config.yaml is 0444", reportReadOnlyBoots},
		{"H#51579 H PR#51675 .env is changed, then config.yaml cannot be written", reportHalfWritten},
		{"H PR#111286 steps land on disk and the stamp does not", reportHalfWritten},
		{"H#26804 sections of .env are gone", reportEnvSections},
		{"H#16743 H PR#16980 config.yaml is a link into a dotfiles repository", reportDotfiles},
		{"agent-of-empires#3186 some writes follow links and some do not", reportDotfiles},
		{"omarchy PR#9372 the file has the mode of the staged one", reportMode},
		{"H#119658 a step fails and the file is stamped all the same", reportFailedStep},
		{"H#92554 there is no backup", reportBackup},
		{"home-manager#4814 config.yaml is a link into the store", reportStore},
		{"H#12864 HERMES_MANAGED=false is a manager called false", reportManagedFalse},
		{"llm-agents.nix PR#7057 HERMES_MANAGED blocks every write and says nothing", reportManagedSilent},
		{"O#136071 half of the keys are migrated and an older file comes back", reportAllOrNothing},
		{"O#134730 O#133997 the live file is replaced by an older snapshot", reportOlderSnapshot},
		{"O#71866 the config shrinks", reportShrink},
		{"O#72527 O PR#72535 an older program writes a newer file", reportDowngrade},
		{"H#20438 H#54926 H#79048 H PR#62492 one bad profile hides the others", reportSiblings},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.test(t, fastDir(t))
		})
	}
}

func reportReadOnlyBoots(t *testing.T, dir string) {
	h := oldFiles().lay(t, dir)
	if err := os.Chmod(h.Config(), 0o444); err != nil {
		t.Fatal(err)
	}
	before := look(t, dir)
	for range 3 {
		if _, err := migrator(nil).Apply(t.Context(), h, migrate.Options{}); !errors.Is(err, migrate.ErrManaged) {
			t.Errorf("got %v, want ErrManaged", err)
		}
		wantUntouched(t, dir, before)
	}
}

func reportHalfWritten(t *testing.T, dir string) {
	h := oldFiles().lay(t, dir)
	for boot := range 3 {
		envWas := ""
		m := migrator(func(op atomicfile.Op, path string) error {
			if op != atomicfile.OpRename || path != h.Config() {
				return nil
			}
			envWas = filesOf(t, h).Env
			return errInjected
		})
		if _, err := m.Apply(t.Context(), h, migrate.Options{}); !errors.Is(err, errInjected) {
			t.Fatalf("boot %d: got %v", boot, err)
		}
		if envWas != newEnv {
			t.Fatalf("boot %d: .env was not written before: %q", boot, envWas)
		}
		wantFiles(t, h, oldFiles())
		wantClean(t, dir, h)
	}
}

func reportEnvSections(t *testing.T, dir string) {
	const around = "\xef\xbb\xbf# --- Telegram ---\r\nTELEGRAM_BOT_TOKEN=\"12:ab\"\r\n\r\n#TERMINAL_VERCEL_RUNTIME=node24\r\n|export  MY_KEY = x # mine\n\tODD LINE\nTERMINAL_VERCEL_RUNTIME=node22\nLATIN=\xe9\xff"
	h := oldFiles().lay(t, dir)
	if err := os.WriteFile(h.Env(), []byte(strings.Replace(around, "|", "TERMINAL_VERCEL_RUNTIME=node24\r\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	apply(t, migrator(nil), h, migrate.Options{})
	if got, want := filesOf(t, h).Env, strings.Replace(around, "|", "", 1); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func reportDotfiles(t *testing.T, dir string) {
	h := oldFiles().lay(t, filepath.Join(dir, "home"))
	mkdir(t, filepath.Join(dir, "away"))
	links := map[string]string{}
	for _, path := range paths(h) {
		if err := away(path); err != nil {
			t.Fatal(err)
		}
		to, err := os.Readlink(path)
		if err != nil {
			t.Fatal(err)
		}
		links[path] = to
	}
	check := func(want files) {
		t.Helper()
		wantFiles(t, h, want)
		for path, to := range links {
			if got, err := os.Readlink(path); err != nil || got != to {
				t.Errorf("%s is a link to %q (%v), want %q", path, got, err, to)
			}
		}
		for i, text := range want.parts() {
			if got, err := os.ReadFile(links[paths(h)[i]]); err != nil || string(got) != text {
				t.Errorf("%s is %q (%v)", links[paths(h)[i]], got, err)
			}
		}
		wantClean(t, dir, h)
	}
	apply(t, migrator(nil), h, migrate.Options{})
	check(newFiles())
	rollback(t, at(migrator(nil), 1), h)
	check(oldFiles())
}

func reportMode(t *testing.T, dir string) {
	h := oldFiles().lay(t, dir)
	for _, mode := range []os.FileMode{0o644, 0o640, 0o660} {
		oldFiles().lay(t, dir)
		for _, path := range paths(h) {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		apply(t, migrator(nil), h, migrate.Options{})
		for _, path := range paths(h) {
			if got := modeOf(t, path); got != mode {
				t.Errorf("%s has mode %v, want %v", path, got, mode)
			}
		}
		for name := range backups(t, h) { // they hold what the files hold
			if got := modeOf(t, filepath.Join(h.Backups(), name)); got != 0o600 {
				t.Errorf("backup %s has mode %v", name, got)
			}
		}
	}
}

func reportFailedStep(t *testing.T, dir string) {
	twice := strings.Replace(oldConfig, "threshold_tokens: 256000\n", "threshold_tokens: 256000\n  threshold_tokens: 256000\n", 1)
	h := files{twice, oldEnv, oldSoul}.lay(t, dir)
	before := look(t, dir)
	_, err := silent(t).Apply(t.Context(), h, migrate.Options{})
	var r *migrate.Refusal
	if !errors.As(err, &r) || r.ExitCode() != 8 || r.Line == 0 {
		t.Errorf("got %v, want a refusal with a line", err)
	}
	wantUntouched(t, dir, before)
}

func reportBackup(t *testing.T, dir string) {
	h := oldFiles().lay(t, dir)
	r := apply(t, migrator(nil), h, migrate.Options{})
	if filepath.Dir(r.Backup) != h.Backups() {
		t.Errorf("the backup is in %s", r.Backup)
	}
	wantBackups(t, h, map[string]string{".env.migrate-40-50.": oldEnv, "SOUL.md.migrate-40-50.": oldSoul, "config.yaml.migrate-40-50.": oldConfig, filepath.Base(r.Backup): ""})
}

func reportStore(t *testing.T, dir string) {
	h := oldFiles().lay(t, dir)
	const store = "/nix/store/0000-home-manager-files/.hermes/config.yaml"
	if err := errors.Join(os.Remove(h.Config()), os.Symlink(store, h.Config())); err != nil {
		t.Fatal(err)
	}
	before := look(t, dir)
	_, err := silent(t).Apply(t.Context(), h, migrate.Options{})
	var r *migrate.Refusal
	if !errors.As(err, &r) || !errors.Is(r.Kind, migrate.ErrManaged) || r.ExitCode() != 5 || !strings.Contains(r.Fix, "generated") {
		t.Errorf("got %v", err)
	}
	wantUntouched(t, dir, before)
}

func reportManagedFalse(t *testing.T, dir string) {
	h := oldFiles().lay(t, dir)
	m := migrator(nil)
	m.Getenv = func(name string) string { return map[string]string{home.EnvManaged: "false"}[name] }
	apply(t, m, h, migrate.Options{})
	wantFiles(t, h, newFiles())
}

func reportManagedSilent(t *testing.T, dir string) {
	h := oldFiles().lay(t, dir)
	m := silent(t)
	m.Getenv = func(name string) string { return map[string]string{home.EnvManaged: "1"}[name] }
	wantLeftAlone(t, m, dir, h, "managed by nixos", "services.hermes-agent.settings.compression.threshold_tokens")
}

func reportAllOrNothing(t *testing.T, dir string) {
	h := oldFiles().lay(t, dir)
	m := migrator(func(op atomicfile.Op, path string) error {
		if op == atomicfile.OpRename && path == h.Config() {
			panic(crash{})
		}
		return nil
	})
	if !crashes(func() { _, _ = m.Apply(t.Context(), h, migrate.Options{}) }) || filesOf(t, h) != (files{oldConfig, newEnv, newSoul}) {
		t.Fatal("not interrupted half way")
	}
	broken := migrator(func(op atomicfile.Op, path string) error {
		if op == atomicfile.OpCreate && strings.HasSuffix(path, ".migrate-new") {
			return errInjected // what comes after the recovery does not work
		}
		return nil
	})
	if r, err := broken.Apply(t.Context(), h, migrate.Options{}); !errors.Is(err, errInjected) || !strings.Contains(r.Recovered, "was undone") {
		t.Errorf("got %+v %v", r, err)
	}
	wantFiles(t, h, oldFiles())
}

func reportOlderSnapshot(t *testing.T, dir string) {
	h := oldFiles().lay(t, dir)
	apply(t, migrator(nil), h, migrate.Options{})
	appendTo(t, h.Config(), "mine: 1\n")
	before := look(t, dir)
	if _, err := silent(t).Rollback(t.Context(), h); !errors.Is(err, migrate.ErrChanged) {
		t.Errorf("got %v, want ErrChanged", err)
	}
	wantUntouched(t, dir, before)
}

func reportShrink(t *testing.T, dir string) {
	long := strings.Repeat("# one of three thousand lines of comment\n", 3000)
	h := files{oldConfig + long, oldEnv, oldSoul}.lay(t, dir)
	apply(t, migrator(nil), h, migrate.Options{})
	if got := filesOf(t, h).Config; got != newConfig+long {
		t.Errorf("%d bytes, want %d", len(got), len(newConfig+long))
	}
	// Somebody's editor truncates the file while it is being migrated.
	h = oldFiles().lay(t, filepath.Join(dir, "two"))
	m := migrator((&steps{hit: 10, do: func() error { return os.Truncate(h.Config(), 30) }}).hook)
	if _, err := m.Apply(t.Context(), h, migrate.Options{}); !errors.Is(err, migrate.ErrChanged) {
		t.Errorf("got %v, want ErrChanged", err)
	}
	wantFiles(t, h, files{oldConfig[:30], oldEnv, oldSoul})
}

func reportDowngrade(t *testing.T, dir string) {
	h := files{"_config_version: 60\nfuture: true\n", oldEnv, oldSoul}.lay(t, dir)
	before := look(t, dir)
	_, err := silent(t).Apply(t.Context(), h, migrate.Options{})
	var r *migrate.Refusal
	if !errors.As(err, &r) || !errors.Is(r.Kind, migrate.ErrNewerStamp) || r.ExitCode() != 4 || !strings.Contains(err.Error(), "60") {
		t.Errorf("got %v", err)
	}
	wantUntouched(t, dir, before)
}

func reportSiblings(t *testing.T, dir string) {
	root := oldFiles().lay(t, dir)
	for _, id := range []string{"a", "b", "c"} {
		oldFiles().lay(t, filepath.Join(dir, "profiles", id))
	}
	testkit.WriteTree(t, dir, map[string]string{"profiles/b/config.yaml": "a: [\n"})
	profiles, err := root.Profiles()
	if err != nil {
		t.Fatal(err)
	}
	got := applyAll(t, migrator(nil), append([]home.Home{root}, profiles...))
	for id, o := range got {
		switch {
		case id == "b" && !errors.Is(o.err, migrate.ErrAmbiguous):
			t.Errorf("b: got %v, want ErrAmbiguous", o.err)
		case id != "b" && (o.err != nil || !o.Applied):
			t.Errorf("%s: got %+v", id, o)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d results", len(got))
	}
}
