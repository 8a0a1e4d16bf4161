// SPDX-License-Identifier: MIT

package migrate

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

const (
	earlierConfig = "# mine\n_config_version: 48\nterminal:\n  backend: docker\n  vercel_runtime: node24\nkey: sk-secret # note\n"
	earlierEnv    = "A=1\nTERMINAL_VERCEL_RUNTIME=node24\nTOKEN=sk-secret\n"
)

// migratedHome is a home that a migration took from 48 to 50, with the state of before.
func migratedHome(t *testing.T) (Migrator, home.Home, Earlier) {
	t.Helper()
	h := home.Home{Dir: t.TempDir(), Profile: home.Default}
	testkit.WriteTree(t, h.Dir, map[string]string{"config.yaml": earlierConfig, ".env": earlierEnv})
	m := Migrator{Ladder: Released(), Getenv: func(string) string { return "" }, Now: time.Now, LockWait: time.Minute}
	if r, err := m.Apply(t.Context(), h, Options{}); err != nil || !r.Applied {
		t.Fatal(r, err)
	}
	return m, h, Earlier{Config: []byte(earlierConfig), Beside: map[string]string{FileEnv: atomicfile.Hash([]byte(earlierEnv))}}
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestReturn goes back over a migration and forth again; nothing is printed that is secret.
func TestReturn(t *testing.T) {
	t.Parallel()
	m, h, to := migratedHome(t)
	after, afterEnv := content(t, h.Config()), content(t, h.Env())
	if afterEnv == earlierEnv || Stamp([]byte(after)) != Latest() {
		t.Fatalf("the migration changed too little:\n%s%s", after, afterEnv)
	}
	seen, err := m.PreviewReturn(h, to)
	if err != nil || content(t, h.Config()) != after {
		t.Fatal(seen, err)
	}
	diff, err := seen.Plan.Diff()
	if err != nil || strings.Contains(diff, "sk-secret") || strings.Contains(diff, "note") || !strings.Contains(diff, "+_config_version: 48") {
		t.Errorf("%v\n%s", err, diff)
	}
	if r, err := m.Return(t.Context(), h, to); err != nil || !r.Applied || r.Plan.From != Latest() || r.Plan.To != 48 {
		t.Fatal(r, err)
	}
	if content(t, h.Config()) != earlierConfig || content(t, h.Env()) != earlierEnv {
		t.Errorf("got\n%s%s", content(t, h.Config()), content(t, h.Env()))
	}
	if r, err := m.Return(t.Context(), h, to); err != nil || r.Applied {
		t.Errorf("a second time: %v %v", r, err)
	}
	if r, err := m.Rollback(t.Context(), h); err != nil || !r.Applied || content(t, h.Config()) != after || content(t, h.Env()) != afterEnv {
		t.Errorf("taken back: %+v %v", r, err)
	}
}

// TestReturnKeepsSecrets: what a person wrote into .env is never taken away.
func TestReturnKeepsSecrets(t *testing.T) {
	t.Parallel()
	m, h, to := migratedHome(t)
	mine := content(t, h.Env()) + "NEW=sk-new\n"
	testkit.WriteTree(t, h.Dir, map[string]string{".env": mine})
	var refusal *Refusal
	_, err := m.Return(t.Context(), h, to)
	if !errors.As(err, &refusal) || !errors.Is(err, ErrChanged) || !strings.Contains(refusal.Fix, h.Backups()) {
		t.Fatalf("got %v", err)
	}
	to.Force = true
	r, err := m.Return(t.Context(), h, to)
	if err != nil || content(t, h.Config()) != earlierConfig || content(t, h.Env()) != mine || len(r.Plan.Advice) != 1 {
		t.Errorf("%+v %v\n%s", r, err, content(t, h.Env()))
	}
	// Where no migration had changed .env an edit is none of our business.
	to = Earlier{Config: []byte("_config_version: 50\n"), Beside: map[string]string{FileEnv: atomicfile.Hash([]byte("OTHER=1\n"))}}
	if _, err := m.Return(t.Context(), h, to); err != nil || content(t, h.Env()) != mine {
		t.Errorf("%v\n%s", err, content(t, h.Env()))
	}
}

// TestReturnRefuses: a home that others manage, one without a config, a damaged backup.
func TestReturnRefuses(t *testing.T) {
	t.Parallel()
	m, h, to := migratedHome(t)
	managed := m
	managed.Getenv = func(name string) string { return map[string]string{home.EnvManaged: "nixos"}[name] }
	if _, err := managed.Return(t.Context(), h, to); !errors.Is(err, ErrManaged) {
		t.Errorf("managed: %v", err)
	}
	entries, err := os.ReadDir(h.Backups())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".env.") {
			testkit.WriteTree(t, h.Backups(), map[string]string{e.Name(): "damaged"})
		}
	}
	if _, err := m.Return(t.Context(), h, to); !errors.Is(err, ErrChanged) {
		t.Errorf("damaged backup: %v", err)
	}
	if err := os.Remove(h.Config()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Return(t.Context(), h, to); !errors.Is(err, ErrChanged) {
		t.Errorf("no config: %v", err)
	}
}

// TestReportRollbackDiffOfEnv: the diff of a rollback that restores .env has no path to show.
func TestReportRollbackDiffOfEnv(t *testing.T) {
	t.Parallel()
	m, h, _ := migratedHome(t)
	r, err := m.PreviewRollback(h)
	if err != nil {
		t.Fatal(err)
	}
	if diff, err := r.Plan.Diff(); err != nil || strings.Contains(diff, "sk-secret") || !strings.Contains(diff, "TERMINAL_VERCEL_RUNTIME=***") {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	a := []byte("_config_version: 49\nterminal:\n  docker_image: a:1\nkey: sk-secret\n")
	b := []byte("_config_version: 50\nterminal:\n  docker_image: b:2\nkey: sk-other\n")
	diff, err := Compare(a, b)
	if err != nil || strings.Contains(diff, "sk-") {
		t.Fatalf("%v\n%s", err, diff)
	}
	for _, want := range []string{"-_config_version: 49", "+_config_version: 50", "-  docker_image: a:1", "+  docker_image: b:2"} {
		if !strings.Contains(diff, want) {
			t.Errorf("no %q in\n%s", want, diff)
		}
	}
	if diff, err := Compare(a, a); err != nil || diff != "" {
		t.Errorf("equal: %q %v", diff, err)
	}
}
