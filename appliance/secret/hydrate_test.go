// SPDX-License-Identifier: MIT

package secret

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

func TestRefreshFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then func(vault, other *script)
		want map[string]string
	}{
		"N5/vault down":             {func(v, _ *script) { failing(Network)(v) }, map[string]string{"A": "1", "B": "1", "O": "2"}},
		"N5/vault refuses":          {func(v, _ *script) { failing(AuthFailed)(v) }, map[string]string{"A": "1", "B": "1", "O": "2"}},
		"N5/vault hangs":            {func(v, _ *script) { v.hang, v.spec.Budget = true, 10*time.Millisecond }, map[string]string{"A": "1", "B": "1", "O": "2"}},
		"N5/no longer configured":   {func(v, _ *script) { failing(NotConfigured)(v) }, map[string]string{"O": "2"}},
		"N5/one name fails":         {func(v, _ *script) { v.values, v.failed = map[string]string{"A": "2"}, map[string]Reason{"B": TimedOut} }, map[string]string{"A": "2", "B": "1", "O": "2"}},
		"S7/one name is gone":       {func(v, _ *script) { v.values, v.failed = map[string]string{"A": "2"}, map[string]Reason{"B": NotFound} }, map[string]string{"A": "2", "O": "2"}},
		"S7/one name is unsupplied": {func(v, _ *script) { v.values = map[string]string{"A": "2"} }, map[string]string{"A": "2", "O": "2"}},
		"N5/down, another account":  {func(v, _ *script) { failing(Network)(v); v.spec.Place = "elsewhere" }, map[string]string{"O": "2"}},
		"N5/down, mapping changed": {func(v, _ *script) {
			failing(Network)(v)
			v.spec.Refs = map[string]string{"A": "ref://A", "B": "ref://else"}
		}, map[string]string{"A": "1", "O": "2"}},
		"N5/down, mapping removed": {func(v, _ *script) { failing(Network)(v); v.spec.Refs = map[string]string{"B": "ref://B"} }, map[string]string{"B": "1", "O": "2"}},
		"N5/kept claims stay":      {func(v, o *script) { failing(Network)(v); o.values = map[string]string{"A": "theirs", "O": "2"} }, map[string]string{"A": "1", "B": "1", "O": "2"}},
		"N3/disabled":              {func(v, _ *script) { v.spec.Enabled = false }, map[string]string{"O": "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, "bot")
			vault, other := source("vault", Mapped, map[string]string{"A": "1", "B": "1"}), source("other", Bulk, map[string]string{"O": "1"})
			d.sources("bot", vault, other)
			sc := d.scope("bot")
			other.with(answers(map[string]string{"O": "2"}))
			vault.with(func(v *script) { c.then(v, other) })
			if _, err := d.Refresh(t.Context(), d.tenant("bot")); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, v := range sc.Values() {
				got[v.Name] = v.Text.Reveal()
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			// A second failure keeps as much as the first.
			if _, err := d.Refresh(t.Context(), d.tenant("bot")); err != nil {
				t.Fatal(err)
			}
			if len(sc.Values()) != len(c.want) {
				t.Errorf("after the second refresh: %v", shown(sc))
			}
			runtime.KeepAlive(sc)
		})
	}
}

func TestHydrationMarks(t *testing.T) { // its parts are in order
	d := newDesk(t, "bot")
	src := source("vault", Bulk, map[string]string{"V": "1"})
	d.dotenv("bot", "A=1\n").sources("bot", src)
	broken := &ConfigError{[]string{"secrets", "sources"}, "a list"}
	d.broken["bot"] = broken
	t.Run("P5/config error: not applied, turn goes on", func(t *testing.T) {
		check(t, d.scope("bot"), map[string]string{"A": "1 dotenv"})
		if snap, err := d.Load(t.Context(), d.tenant("bot")); snap != nil || !errors.Is(err, broken) || src.calls != 0 {
			t.Errorf("got %v, %v", snap, err)
		}
	})
	t.Run("P5/fixed: applied at once", func(t *testing.T) {
		delete(d.broken, "bot")
		check(t, d.scope("bot"), map[string]string{"A": "1 dotenv", "V": "1 source:vault"})
	})
	t.Run("P5/once per process", func(t *testing.T) {
		d.wait(24 * time.Hour)
		d.scope("bot")
		if src.calls != 1 {
			t.Errorf("asked %d times", src.calls)
		}
	})
	t.Run("N5/config error on refresh", func(t *testing.T) {
		d.broken["bot"] = broken
		before := shown(d.scope("bot"))
		if _, err := d.Refresh(t.Context(), d.tenant("bot")); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		check(t, d.scope("bot"), before)
		delete(d.broken, "bot")
	})
	t.Run("gap/a cold start with a vault that is down is made up for", func(t *testing.T) {
		d := newDesk(t, "bot")
		src := source("vault", Bulk, map[string]string{"V": "1"}).with(failing(Network))
		d.sources("bot", src)
		check(t, d.scope("bot"), map[string]string{})
		src.with(answers(map[string]string{"V": "1"}))
		check(t, d.scope("bot"), map[string]string{}) // not yet
		d.wait(d.c.Retry)
		check(t, d.scope("bot"), map[string]string{"V": "1 source:vault"})
		d.wait(24 * time.Hour)
		d.scope("bot")
		if src.calls != 2 {
			t.Errorf("asked %d times", src.calls)
		}
	})
	t.Run("gap/tries become rarer", func(t *testing.T) {
		d := newDesk(t, "bot")
		src := source("vault", Bulk, nil).with(failing(Network))
		d.sources("bot", src)
		for range 24 * 60 {
			d.scope("bot")
			d.wait(time.Minute)
		}
		if src.calls < 40 || src.calls > 55 {
			t.Errorf("asked %d times in a day", src.calls)
		}
	})
	t.Run("S6/unreadable .env is no missing token", func(t *testing.T) {
		d := newDesk(t, "bot")
		src := source("vault", Bulk, map[string]string{"V": "1"})
		d.sources("bot", src)
		path := d.home("bot").Env()
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		check(t, d.scope("bot"), map[string]string{})
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		d.dotenv("bot", "A=1\n")
		check(t, d.scope("bot"), map[string]string{"A": "1 dotenv", "V": "1 source:vault"})
	})
	t.Run("forgotten", func(t *testing.T) {
		d.Forget(home.Key(d.home("bot").Dir))
		d.scope("bot")
		if src.calls != 2 {
			t.Errorf("asked %d times", src.calls)
		}
	})
}

func TestControlNames(t *testing.T) {
	t.Parallel()
	const portal = "HERMES_PORTAL_BASE_URL"
	for _, shape := range []Shape{Mapped, Bulk} {
		t.Run("N6/"+shape.String(), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, "bot")
			src := source("vault", shape, map[string]string{strings.ToLower(portal): "https://evil", "V": "1"})
			d.sources("bot", src, source("other", Bulk, map[string]string{"O": "1"}))
			for range 3 { // refused again
				check(t, d.scope("bot"), map[string]string{})
				var ce *ControlNameError
				if _, err := d.Load(t.Context(), d.tenant("bot")); !errors.As(err, &ce) || ce.Source != "vault" || strings.Contains(err.Error(), "evil") {
					t.Errorf("got %v", err)
				}
				d.wait(10 * time.Minute)
			}
			if shape == Mapped && src.calls != 0 {
				t.Error("a mapping that is refused was fetched")
			}
			src.with(answers(map[string]string{"V": "1"})).with(func(s *script) { s.spec.Refs = refs(s.values) })
			d.wait(10 * time.Minute)
			sc := d.scope("bot")
			check(t, sc, map[string]string{"V": "1 source:vault", "O": "1 source:other"})
			// And again on a refresh: what there was stays.
			src.with(answers(map[string]string{portal: "https://evil", "V": "2"})).with(func(s *script) { s.spec.Refs = refs(s.values) })
			if _, err := d.Refresh(t.Context(), d.tenant("bot")); err == nil {
				t.Error("published")
			}
			check(t, sc, map[string]string{"V": "1 source:vault", "O": "1 source:other"})
		})
	}
	t.Run("N6/launch profile may", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.sources(home.Default, source("vault", Bulk, map[string]string{portal: "https://own"}))
		check(t, d.scope(home.Default), map[string]string{portal: "https://own source:vault"})
	})
}

func TestDiscovered(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "bot")
	plain := source("vault", Bulk, map[string]string{"V": "1"})
	plug := source("plug", Mapped, map[string]string{"P": "1"}).with(func(s *script) { s.spec.Plugin = true })
	discover := func(want bool, wantErr error) {
		t.Helper()
		got, err := d.Discovered(t.Context(), d.tenant("bot"))
		if got != want || !errors.Is(err, wantErr) {
			t.Errorf("got %v, %v; want %v, %v", got, err, want, wantErr)
		}
	}
	d.sources("bot", plain)
	discover(false, nil)
	sc := d.scope("bot")
	discover(false, nil)
	if plain.calls != 1 {
		t.Errorf("N3: a home without plugin sources was asked %d times", plain.calls)
	}
	d.sources("bot", plain, plug)
	discover(true, nil)
	all := map[string]string{"V": "1 source:vault", "P": "1 source:plug"}
	check(t, sc, all)
	d.sources("bot", plain)
	d.broken["bot"] = errors.New("half-written config")
	discover(false, d.broken["bot"])
	check(t, sc, all) // N4: the marker stays, the next discovery tries again
	delete(d.broken, "bot")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Discovered(canceled, d.tenant("bot")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	check(t, sc, all)
	discover(true, nil)
	check(t, sc, map[string]string{"V": "1 source:vault"})
	check(t, d.scope("bot"), map[string]string{"V": "1 source:vault"})
	if got := sc.Supplied(); !slices.Equal(got, []string{"V"}) {
		t.Errorf("N3: supplied %v", got)
	}
	calls := plain.calls
	discover(false, nil)
	if plain.calls != calls {
		t.Error("N3: reconciled twice")
	}
}

func TestSourceKeepsItsMaps(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "bot")
	l := &lender{Spec{Name: "l", Shape: Bulk, Enabled: true}, map[string]Text{"A": Wrap("1"), "B": Wrap("1")}, nil}
	d.sources("bot", l)
	d.scope("bot")
	l.values, l.failed = map[string]Text{"A": Wrap("2")}, map[string]Reason{"B": Network}
	if _, err := d.Refresh(t.Context(), d.tenant("bot")); err != nil {
		t.Fatal(err)
	}
	check(t, d.scope("bot"), map[string]string{"A": "2 source:l", "B": "1 source:l"})
	if len(l.values) != 1 {
		t.Error("the source's own map was changed")
	}
}
