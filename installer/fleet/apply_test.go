// SPDX-License-Identifier: MIT

package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// fleets are the ways in which gateways may run at first.
func fleets() map[string]map[string]seed {
	return map[string]map[string]seed{
		"user units":       {"default": {user: true}, "work": {user: true}, "fun": {user: true}},
		"no default":       {"default": {}, "work": {system: true}, "fun": {detached: true}},
		"detached":         {"default": {detached: true}, "work": {detached: true}, "fun": {}},
		"default detached": {"default": {detached: true}, "work": {system: true}, "fun": {system: true}},
		"both scopes":      {"default": {system: true}, "work": {user: true, system: true}, "fun": {}},
		"not enabled":      {"default": {user: true, off: true}, "work": {user: true, off: true}, "fun": {user: true}},
		"default alone":    {"default": {user: true}, "work": {}, "fun": {}},
	}
}

// multiplexed fails the test unless one gateway serves all.
func (w *world) multiplexed(t testing.TB) {
	t.Helper()
	o, err := w.fleet().Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if on := o.FlagOn; !on || o.Manifest == nil || len(o.standalone()) > 0 || !reflect.DeepEqual(o.Served, []string{"default", "fun", "work"}) {
		t.Errorf("not one gateway for all: flag %v, manifest %v, beside it %v, served %v", on, o.Manifest != nil, o.standalone(), o.Served)
	}
}

// TestThereAndBack: the way to one gateway and back brings back every file byte for byte and
// every gateway, however they ran.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	for name, seeds := range fleets() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seeds)
			before := w.lasting(t)
			p, r, err := w.apply(t.Context(), multiplex)
			if err != nil || p.Action != Migrate || len(r.Served) != 3 {
				t.Fatalf("%v, %+v, %v", p.Action, r, err)
			}
			w.multiplexed(t)
			if p, _, err := w.apply(t.Context(), multiplex); err != nil || p.Action != Nothing {
				t.Errorf("a second time: %v, %v", p.Action, err)
			}
			if p, _, err := w.apply(t.Context(), standalone); err != nil || p.Action != Restore {
				t.Fatalf("back: %v, %v", p.Action, err)
			}
			if diff := cmp.Diff(before, w.lasting(t)); diff != "" {
				t.Errorf("not as before (-before +after):\n%s", diff)
			}
			if p, _, err := w.apply(t.Context(), standalone); err != nil || p.Action != Nothing {
				t.Errorf("back a second time: %v, %v", p.Action, err)
			}
		})
	}
}

// TestReport16_DryRunIsPure: H#109473. Plans of both ways, looked at and not carried out, leave
// every byte and mode of the tree.
func TestReport16_DryRunIsPure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleets()["user units"])
	w.hook = func(at string) error { return errors.New("a dry run did " + at) }
	look := func() {
		t.Helper()
		before := testkit.ReadTree(t, w.dir)
		o, err := w.fleet().Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		o.Multiplex(false)
		o.Multiplex(true)
		o.Standalone()
		if diff := cmp.Diff(before, testkit.ReadTree(t, w.dir)); diff != "" {
			t.Errorf("a plan changed the tree:\n%s", diff)
		}
	}
	look()
	w.hook = nil
	if _, _, err := w.apply(t.Context(), multiplex); err != nil {
		t.Fatal(err)
	}
	w.hook = func(at string) error { return errors.New("a dry run did " + at) }
	look()
}

// TestReport16_ClaimIsClearedFirst: H#109473. A profile's gateway that finds itself in the
// multiplexer's list parks; so the list is cleared before it starts, nothing else in the file
// changes, and the default gateway is restarted after everything else.
func TestReport16_ClaimIsClearedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleets()["user units"])
	if _, _, err := w.apply(t.Context(), multiplex); err != nil {
		t.Fatal(err)
	}
	var ops []string
	w.hook = func(at string) error {
		if op, ok := strings.CutSuffix(at, " before"); ok {
			ops = append(ops, op)
		}
		if at == "install work before" || at == "install fun before" {
			var s map[string]any
			w.load(statePath(w.root()), &s)
			var p procState
			w.load(w.proc("default"), &p)
			if s["pid"] != float64(p.PID) || s["writer_pid"] != s["pid"] || s["unknown"] != "stays" || s["desired_state"] != "running" {
				t.Errorf("what the gateway wrote of itself changed: %v", s)
			}
			if got := fmt.Sprint(s["served_profiles"]); got != "[]" {
				t.Errorf("still claimed: %s", got)
			}
			if keys := slices.Sorted(maps.Keys(s["platforms"].(map[string]any))); !reflect.DeepEqual(keys, []string{"telegram"}) {
				t.Errorf("platforms: %v", keys)
			}
		}
		return nil
	}
	if _, _, err := w.apply(t.Context(), standalone); err != nil {
		t.Fatal(err)
	}
	if last := ops[len(ops)-1]; last != "restart default" {
		t.Errorf("the last of %v", ops)
	}
}

// TestSurvivorIsEnabledFirst: what cannot be enabled is found out before anything is written.
func TestSurvivorIsEnabledFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleets()["user units"])
	before := w.lasting(t)
	broken := errors.New("enable: exit 1")
	w.hook = func(at string) error {
		if at == "enable default before" {
			return broken
		}
		if op, _, _ := strings.Cut(at, " "); slices.Contains([]string{"uninstall", "flag", "restart", "stop"}, op) {
			t.Errorf("%s after a refusal", at)
		}
		return nil
	}
	_, _, err := w.apply(t.Context(), multiplex)
	if _, ok := errors.AsType[*BlockedError](err); !ok {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff(before, w.lasting(t)); diff != "" {
		t.Errorf("a refusal changed:\n%s", diff)
	}
	// A run that finishes another one goes on and says so.
	w.hook = nil
	if _, _, err := w.apply(t.Context(), multiplex); err != nil {
		t.Fatal(err)
	}
	w.stop(w.root(), "")
	w.hook = func(at string) error {
		if at == "enable default before" {
			return broken
		}
		return nil
	}
	p, r, err := w.apply(t.Context(), multiplex)
	if err != nil || p.Action != Resume || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "exit 1") {
		t.Errorf("%v, %+v, %v", p.Action, r, err)
	}
	w.multiplexed(t)
}

// TestReport17_BringUpFails: H#110850. Whatever part of the bring-up fails for good, everything
// is taken back and every gateway runs again.
func TestReport17_BringUpFails(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ fleet, at string }{
		"system unit cannot be installed": {"default detached", "install default before"},
		"unit does not start":             {"default detached", "start default before"},
		"restart fails":                   {"user units", "restart default before"},
		"a profile does not stop":         {"user units", "uninstall work before"},
		"the flag cannot be written":      {"user units", "rename config.yaml"},
		"spawn fails":                     {"detached", "spawn default before"},
		"the survivor was not enabled":    {"not enabled", "restart default before"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fleets()[row.fleet])
			before, failed := w.lasting(t), false
			w.hook = func(at string) error {
				if at == row.at && !failed {
					failed = true
					return errors.New("broken")
				}
				return nil
			}
			_, r, err := w.apply(t.Context(), multiplex)
			if err == nil || !r.RolledBack || !failed {
				t.Fatalf("%+v, %v", r, err)
			}
			if diff := cmp.Diff(before, w.lasting(t)); diff != "" {
				t.Errorf("not taken back:\n%s", diff)
			}
		})
	}
}

// TestWayBackFails: where the way back fails, too, the manifest stays and the next run ends it.
func TestWayBackFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleets()["user units"])
	before := w.lasting(t)
	w.hook = func(at string) error {
		if at == "restart default before" || at == "install work before" {
			return errors.New("broken")
		}
		return nil
	}
	_, r, err := w.apply(t.Context(), multiplex)
	if err == nil || r.RolledBack || !strings.Contains(err.Error(), "--standalone") {
		t.Fatalf("%+v, %v", r, err)
	}
	if w.On(); w.unitsOf("fun") == 0 {
		t.Error("one profile's failure kept another from its gateway")
	}
	w.hook = nil
	p, _, err := w.apply(t.Context(), multiplex)
	if _, ok := errors.AsType[*BlockedError](err); !ok || p.Blockers[0].Kind != "unfinished-return" {
		t.Errorf("forward over an unfinished way back: %+v, %v", p.Blockers, err)
	}
	if _, _, err := w.apply(t.Context(), standalone); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, w.lasting(t)); diff != "" {
		t.Errorf("not as before:\n%s", diff)
	}
}

// TestDefaultDoesNotComeBack: the default gateway is the last to come back, and until it has the
// manifest is there, by which upstream's program can go on as well.
func TestDefaultDoesNotComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleets()["user units"])
	before := w.lasting(t)
	if _, _, err := w.apply(t.Context(), multiplex); err != nil {
		t.Fatal(err)
	}
	w.hook = func(at string) error {
		if at == "restart default before" {
			return errors.New("broken")
		}
		return nil
	}
	if _, _, err := w.apply(t.Context(), standalone); err == nil || w.unitsOf("work") == 0 {
		t.Errorf("%v, %d units of work", err, w.unitsOf("work"))
	}
	if data, err := os.ReadFile(manifestPath(w.root())); err != nil || !strings.Contains(string(data), `"work"`) {
		t.Errorf("the manifest: %v %s", err, data)
	}
	w.hook = nil
	if _, _, err := w.apply(t.Context(), standalone); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, w.lasting(t)); diff != "" {
		t.Errorf("not as before:\n%s", diff)
	}
}

func (w *world) unitsOf(name string) (n int) {
	for _, scope := range []string{"user", "system"} {
		if _, err := os.Stat(w.unit(name, scope)); err == nil {
			n++
		}
	}
	return n
}

// TestUnconfirmed: a gateway that does not say whom it serves is not taken back: it may be slow.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleets()["user units"])
	w.mute = true
	_, r, err := w.apply(t.Context(), multiplex)
	if u, ok := errors.AsType[*UnconfirmedError](err); !ok || !reflect.DeepEqual(u.Missing, []string{"default", "fun", "work"}) || r.RolledBack {
		t.Fatalf("%+v, %v", r, err)
	}
	if on, _ := w.On(); !on {
		t.Error("the flag went back")
	}
	w.mute = false
	if p, _, err := w.apply(t.Context(), multiplex); err != nil || p.Action != Resume {
		t.Fatalf("again: %v, %v", p.Action, err)
	}
	w.multiplexed(t)
}

// TestEditedMeanwhile: a config that was edited after the migration keeps that edit on the way
// back; only the key goes.
func TestEditedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleets()["user units"])
	if _, _, err := w.apply(t.Context(), multiplex); err != nil {
		t.Fatal(err)
	}
	w.put(w.root().Config(), w.config()+"mine: 1\n")
	if _, _, err := w.apply(t.Context(), standalone); err != nil {
		t.Fatal(err)
	}
	if got, want := w.config(), "# top\nmodel: x   # keep\nmine: 1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestChangedMeanwhile: what was not shown is not done.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleets()["user units"])
	f := w.fleet()
	o, err := f.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := multiplex(o)
	w.must(w.Uninstall(t.Context(), w.home("work"), Service{"systemd", false}))
	before := w.lasting(t)
	if _, err := f.Apply(t.Context(), p, multiplex); err == nil || !strings.Contains(err.Error(), "run again") {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, w.lasting(t)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

// TestOneAtATime: a second run is told that there is a first.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleets()["user units"])
	f := w.fleet()
	release, err := f.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { w.must(release()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err = w.apply(ctx, multiplex)
	if _, ok := errors.AsType[*home.LockedError](err); !ok {
		t.Errorf("got %v", err)
	}
}
