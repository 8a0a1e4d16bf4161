// SPDX-License-Identifier: MIT

package generation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func record(t *testing.T, a Activation, why Reason) Recorded {
	t.Helper()
	r, err := a.Record(t.Context(), why, a.Seen)
	if err != nil || r.Note != "" {
		t.Fatal(r, err)
	}
	return r
}

func numbers(t *testing.T, s Store) []int {
	t.Helper()
	all, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	out := []int{}
	for _, m := range all {
		out = append(out, m.Number)
	}
	return out
}

// TestRecordOnlyChanges: nothing changed is no new generation, each thing that runs makes one.
func TestRecordOnlyChanges(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	a := h.activation(atomicfile.Writer{}, nil)
	if r := record(t, a, Install); !r.New || r.Number != 1 || r.Config.Stamp != 48 || len(r.Units) != 1 {
		t.Fatalf("%+v", r)
	}
	if r := record(t, a, Update); r.New || r.Number != 1 || r.Reason != Install {
		t.Errorf("nothing changed: %+v", r)
	}
	testkit.WriteTree(t, h.dir, map[string]string{"home/.env": "A=2\n"})
	if r := record(t, a, Update); r.New {
		t.Errorf("a secret is nothing that runs: %+v", r)
	}
	for _, c := range []struct {
		name   string
		change func()
	}{
		{"config", func() { testkit.WriteTree(t, h.dir, map[string]string{"home/config.yaml": "_config_version: 50\n"}) }},
		{"unit", func() { testkit.WriteTree(t, h.dir, map[string]string{"systemd/user/hermes-gateway.service": newUnit}) }},
		{"program", func() { testkit.WriteTree(t, h.dir, map[string]string{"bin/hermes-appliance": newProgram}) }},
		{"sandbox", func() { a.Seen.Sandbox = &Sandbox{Image: "a:1"} }},
		{"gone", func() { a.Seen.Units = []string{} }},
	} {
		c.change()
		a.Seen.Binary = h.binary()
		if r := record(t, a, Found); !r.New {
			t.Errorf("%s: no new generation", c.name)
		}
	}
	a.Seen.Sandbox, a.Seen.Units = nil, nil // nobody looked: as they were
	if r := record(t, a, Found); r.New || r.Sandbox.Image != "a:1" {
		t.Errorf("%+v", r)
	}
}

// TestRecordKeepsNoSecret: nothing of .env is copied, and what is copied is private.
func TestRecordKeepsNoSecret(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	testkit.WriteTree(t, h.dir, map[string]string{"home/.env": "TOKEN=very-secret\n"})
	a := h.activation(atomicfile.Writer{}, nil)
	record(t, a, Install)
	for name, text := range testkit.ReadTree(t, h.home.State()) {
		if strings.Contains(text, "very-secret") {
			t.Errorf("%s holds a secret", name)
		}
	}
	for _, p := range []string{a.ConfigCopy(1), a.unitCopy(1, 0), filepath.Join(a.dir(1), manifestName)} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", p, info, err)
		}
	}
}

// TestRecordWholeOrNothing fails a record at each of its steps: the list stays readable, the
// generation is there whole or not at all, and the next try succeeds.
func TestRecordWholeOrNothing(t *testing.T) {
	t.Parallel()
	for fail := 1; ; fail++ {
		h := newHost(t)
		steps := 0
		a := h.activation(atomicfile.Writer{Before: func(atomicfile.Op, string) error {
			if steps++; steps == fail {
				return errBroken
			}
			return nil
		}}, nil)
		_, err := a.Record(t.Context(), Install, a.Seen)
		if steps < fail {
			if err != nil || fail < 10 {
				t.Fatalf("after %d steps: %v", steps, err)
			}
			return
		}
		for _, n := range numbers(t, a.Store) {
			m, err := a.Load(n)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.config(m); err != nil {
				t.Errorf("step %d: %v", fail, err)
			}
		}
		a.Files = atomicfile.Writer{}
		record(t, a, Install)
		if got := numbers(t, a.Store); len(got) != 1 {
			t.Errorf("step %d: %v", fail, got)
		}
		entries, err := os.ReadDir(a.root())
		if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), newPrefix) }) {
			t.Errorf("step %d: %v %v", fail, entries, err)
		}
	}
}

// TestPrune: five generations and two programs are kept, always the present one, and the numbers
// go on.
func TestPrune(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for i := range 9 {
		os.Remove(h.program)
		testkit.WriteTree(t, h.dir, map[string]string{
			"bin/hermes-appliance": fmt.Sprint("program ", i), "home/config.yaml": fmt.Sprintf("_config_version: 50\nn: %d\n", i),
		})
		a := h.activation(atomicfile.Writer{}, nil)
		if r := record(t, a, Update); r.Number != i+1 {
			t.Fatalf("%+v", r)
		}
	}
	a := h.activation(atomicfile.Writer{}, nil)
	if got, want := numbers(t, a.Store), []int{5, 6, 7, 8, 9}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	entries, err := os.ReadDir(keptDir(h.program))
	if err != nil || len(entries) != KeepPrograms {
		t.Errorf("%v %v", entries, err)
	}
	all, _ := a.List()
	for i, m := range all {
		if m.Kept(a.Seen.Binary) != (i >= 3) {
			t.Errorf("generation %d: kept %v", m.Number, m.Kept(a.Seen.Binary))
		}
	}
}

// TestRecordsAtOnce: concurrent records of one state make one generation.
func TestRecordsAtOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	a := h.activation(atomicfile.Writer{}, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := a.Record(t.Context(), Install, a.Seen); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := numbers(t, a.Store); !slices.Equal(got, []int{1}) {
		t.Errorf("got %v", got)
	}
}

// TestDamagedManifest: a manifest that leads somewhere else, or is of another format, is refused
// and named; the others are listed.
func TestDamagedManifest(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	a := h.activation(atomicfile.Writer{}, nil)
	record(t, a, Install)
	path := filepath.Join(a.dir(1), manifestName)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"format":    {`"version": 1`, `"version": 2`},
		"unknown":   {`"number": 1`, `"number": 1, "more": 1`},
		"number":    {`"number": 1`, `"number": 3`},
		"elsewhere": {h.unit, "/etc/passwd"},
		"up":        {h.unit, "/systemd/user/../../etc/passwd"},
		"hash":      {a.Seen.Binary.SHA256, "../../../x"},
		"cut":       {"}", ""},
	} {
		os.WriteFile(path, []byte(strings.Replace(string(good), change[0], change[1], 1)), 0o600)
		var refusal *Refusal
		if all, err := a.List(); !errors.As(err, &refusal) || refusal.File != path || len(all) != 0 {
			t.Errorf("%s: got %v, %v", name, all, err)
		}
	}
	if _, err := a.Load(7); !errors.Is(err, ErrNone) {
		t.Errorf("got %v", err)
	}
}

// TestDiff shows what differs and no value of a config.
func TestDiff(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	a := h.rollbackScene(t)
	one, _ := a.Load(1)
	two, _ := a.Load(2)
	changes, config, err := a.Diff(one, two)
	if err != nil || strings.Contains(config, "sk-secret") || !strings.Contains(config, "+_config_version: 50") {
		t.Errorf("%v\n%s", err, config)
	}
	var what []string
	for _, c := range changes {
		what = append(what, c.What)
	}
	if want := []string{"program", "config", "unit"}; !slices.Equal(what, want) {
		t.Errorf("got %v, want %v", what, want)
	}
	if changes, config, err := a.Diff(two, two); err != nil || config != "" || len(changes) != 0 {
		t.Errorf("%v %q %v", changes, config, err)
	}
}

// TestRecordDuringActivation: while an update is under way it alone records.
func TestRecordDuringActivation(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	a := h.activation(atomicfile.Writer{}, nil)
	a.Migrate = func(ctx context.Context, _ string) error {
		if r, err := a.Record(ctx, Migrate, a.Seen); err != nil || r.New {
			t.Errorf("%+v %v", r, err)
		}
		return nil
	}
	out, err := a.Update(t.Context(), Binary{Version: "1.1.0", SHA256: atomicfile.Hash([]byte(newProgram))}, []byte(newProgram))
	if err != nil || out.Recorded.Reason != Update || out.Recorded.Number != 2 {
		t.Errorf("%+v %v", out, err)
	}
}
