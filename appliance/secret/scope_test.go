// SPDX-License-Identifier: MIT

package secret

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

func check(t *testing.T, sc *Scope, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, shown(sc)); diff != "" {
		t.Errorf("scope (-want +got):\n%s", diff)
	}
}

func TestScopeLayers(t *testing.T) { // its parts are in order
	d := newDesk(t, "bot")
	d.managed = filepath.Join(t.TempDir(), ".env")
	write(t, d.managed, "M=admin\nBOTH=admin\nPATH=admin\nTERMINAL_ENV=admin\nV2=admin\n")
	d.grants = map[string]string{"GATEWAY_ALLOW_ALL_USERS": "true", "SET": "granted"}
	d.env["SYSTEMD"] = "process"
	for _, p := range []string{home.Default, "bot"} {
		d.dotenv(p, "OWN="+p+"\nBOTH=user\nV1=user\nSET=user\nTERMINAL_ENV=docker\n")
		src := source("vault", Bulk, map[string]string{"V1": "vault", "V2": "vault", "V3": "vault", "PATH": "vault", "HTTPS_PROXY": "vault"})
		src.spec.OverrideExisting = true
		d.sources(p, src)
	}
	common := map[string]string{
		"BOTH": "admin managed", "M": "admin managed", "V1": "vault source:vault", "V2": "admin managed",
		"V3": "vault source:vault", "SET": "user dotenv", "TERMINAL_ENV": "docker dotenv",
	}
	t.Run("S1/launch", func(t *testing.T) {
		want := with(common, "OWN", "default dotenv", "GATEWAY_ALLOW_ALL_USERS", "true grant")
		check(t, d.scope(home.Default), want)
	})
	t.Run("S1/routed has no grant", func(t *testing.T) {
		check(t, d.scope("bot"), with(common, "OWN", "bot dotenv"))
	})
	t.Run("S1/a grant is a default", func(t *testing.T) {
		d.env["GATEWAY_ALLOW_ALL_USERS"] = "false"
		if v, ok := d.scope(home.Default).Lookup("GATEWAY_ALLOW_ALL_USERS"); ok {
			t.Errorf("got %v over the process's own value", v.Origin)
		}
	})
	t.Run("S2/managed", func(t *testing.T) {
		ctx := Bind(t.Context(), d.scope("bot"))
		for _, name := range []string{"M", "BOTH"} {
			if v, ok, err := d.Get(ctx, name); err != nil || !ok || v.Text.Reveal() != "admin" {
				t.Errorf("%s: got %s, %v, %v", name, v.Text.Reveal(), ok, err)
			}
		}
	})
	t.Run("S2/managed unreadable is loud and ignored", func(t *testing.T) {
		if err := os.Remove(d.managed); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(d.managed, "x"), "")
		sc := d.scope("bot")
		if v, _ := sc.Lookup("BOTH"); v.Text.Reveal() != "user" {
			t.Errorf("got %s", v.Text.Reveal())
		}
		if !strings.Contains(d.logged(), "level=ERROR") {
			t.Error("nothing was logged")
		}
	})
}

func with(m map[string]string, pairs ...string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, m)
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

func TestGet(t *testing.T) {
	t.Parallel()
	type lookup struct {
		value string
		ok    bool
		err   bool
	}
	for name, c := range map[string]struct {
		scope          string // "" = none
		routed, freeze bool
		key            string
		want           lookup
	}{
		"S3.1/global, launch":               {home.Default, false, false, "PATH", lookup{"/bin", true, false}},
		"S3.1/global, routed":               {"bot", true, false, "TERMINAL_X", lookup{"process", true, false}},
		"S3.1/global, no scope":             {"", true, true, "PATH", lookup{"/bin", true, false}},
		"S3.1/global, nobody has it":        {"bot", true, false, "HTTPS_PROXY", lookup{}},
		"S3.2/hit":                          {"bot", true, false, "OWN", lookup{"bot", true, false}},
		"S3.2/hit, launch":                  {home.Default, false, false, "OWN", lookup{"default", true, false}},
		"S3.2/hit of an empty value":        {"bot", true, false, "EMPTY", lookup{"", true, false}},
		"S3.3/miss, multiplex":              {"bot", true, false, "SYSTEMD", lookup{}},
		"S3.3/R3/miss, only the stamp":      {"bot", false, false, "SYSTEMD", lookup{}},
		"S3.3/S15/miss, launch, multiplex":  {home.Default, true, false, "SYSTEMD", lookup{}},
		"S3.4/R4/miss, launch":              {home.Default, false, false, "SYSTEMD", lookup{"process", true, false}},
		"S3.4/miss, nobody has it":          {home.Default, false, false, "NONE", lookup{}},
		"S3.5/no scope, multiplex":          {"", true, false, "OWN", lookup{"", false, true}},
		"S3.5/no scope, after Freeze":       {"", false, true, "SYSTEMD", lookup{"", false, true}},
		"S3.6/no scope":                     {"", false, false, "SYSTEMD", lookup{"process", true, false}},
		"S13/process value, after Freeze":   {home.Default, true, true, "SYSTEMD", lookup{"process", true, false}},
		"S13/own file wins, after Freeze":   {home.Default, true, true, "OWN", lookup{"default", true, false}},
		"S13/another profile, after Freeze": {"bot", true, true, "SYSTEMD", lookup{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, "bot")
			d.env = map[string]string{"PATH": "/bin", "TERMINAL_X": "process", "SYSTEMD": "process", "OWN": "process", "EMPTY": "process"}
			d.dotenv(home.Default, "OWN=default\nEMPTY=\n").dotenv("bot", "OWN=bot\nEMPTY=\nTERMINAL_X=bot\n")
			if c.freeze {
				d.Freeze()
			}
			d.routed = c.routed
			ctx := t.Context()
			if c.scope != "" {
				ctx = Bind(ctx, d.scope(c.scope))
			}
			v, ok, err := d.Get(ctx, c.key)
			if diff := cmp.Diff(c.want, lookup{v.Text.Reveal(), ok, err != nil}, cmp.AllowUnexported(lookup{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnscoped(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "bot")
	d.routed = true
	_, _, err := d.Get(Bind(Bind(t.Context(), d.scope("bot")), nil), "SOME_TOKEN") // R12: bound to nothing
	var ue *UnscopedError
	if !errors.As(err, &ue) {
		t.Fatalf("S4: got %v", err)
	}
	if text := err.Error(); strings.Contains(text, "SOME_TOKEN") || strings.Contains(text, ".go") || strings.ContainsAny(text, "\n") || !strings.Contains(text, "restart the gateway") {
		t.Errorf("S4: the message for the chat: %s", text)
	}
	if note := ue.Note(); !strings.Contains(note, "SOME_TOKEN") || !strings.Contains(note, "scope_test.go:") {
		t.Errorf("S4: the note for developers: %s", note)
	}
}

func TestScopeFrozen(t *testing.T) { // its parts are in order
	d := newDesk(t, "bot")
	vault := source("vault", Bulk, map[string]string{"V": "1", "W": "1"})
	d.dotenv("bot", "A=1\nB=1\n").sources("bot", vault)
	sc := d.scope("bot")
	d.dotenv("bot", "A=2\nC=2\n")
	vault.with(func(s *script) { s.values = map[string]string{"V": "2", "X": "2"} })
	t.Run("S7/frozen", func(t *testing.T) {
		check(t, sc, map[string]string{"A": "1 dotenv", "B": "1 dotenv", "V": "1 source:vault", "W": "1 source:vault"})
	})
	t.Run("S11/next turn reads the file", func(t *testing.T) {
		check(t, d.scope("bot"), map[string]string{"A": "2 dotenv", "C": "2 dotenv", "V": "1 source:vault", "W": "1 source:vault"})
	})
	t.Run("S7/refresh replaces", func(t *testing.T) {
		if _, err := d.Refresh(t.Context(), d.tenant("bot")); err != nil {
			t.Fatal(err)
		}
		check(t, sc, map[string]string{"A": "2 dotenv", "C": "2 dotenv", "V": "2 source:vault", "X": "2 source:vault"})
	})
	t.Run("S7/refresh with an unreadable .env", func(t *testing.T) {
		if err := errors.Join(os.Remove(d.home("bot").Env()), os.Mkdir(d.home("bot").Env(), 0o700)); err != nil {
			t.Fatal(err)
		}
		before := shown(sc)
		if _, err := d.Refresh(t.Context(), d.tenant("bot")); err == nil {
			t.Error("no error")
		}
		check(t, sc, before)
		check(t, d.scope("bot"), map[string]string{"V": "2 source:vault", "X": "2 source:vault"}) // P8: merely empty
		d.sources("bot")
		if _, err := d.Refresh(t.Context(), d.tenant("bot")); err != nil {
			t.Error(err)
		}
		check(t, sc, map[string]string{"A": "2 dotenv", "C": "2 dotenv"})
	})
	runtime.KeepAlive(sc)
}

func TestScopeNeverTouchesProcess(t *testing.T) {
	t.Parallel()
	before := os.Environ()
	d := newDesk(t, "bot")
	d.dotenv("bot", "S8_CANARY=1\n").sources("bot", source("vault", Bulk, map[string]string{"S8_VAULT": "1"}))
	check(t, d.scope("bot"), map[string]string{"S8_CANARY": "1 dotenv", "S8_VAULT": "1 source:vault"})
	if _, ok := os.LookupEnv("S8_CANARY"); ok || !slices.Equal(before, os.Environ()) {
		t.Error("S8: the process environment changed")
	}
}

func TestScopeSet(t *testing.T) { // its parts are in order
	d := newDesk(t, "bot")
	d.managed = filepath.Join(t.TempDir(), ".env")
	write(t, d.managed, "M=admin\n")
	over, under := source("over", Mapped, map[string]string{"O": "vault"}), source("under", Bulk, map[string]string{"U": "vault"})
	over.spec.OverrideExisting = true
	d.dotenv("bot", "A=1\n").sources("bot", over, under)
	one, two := d.scope("bot"), d.scope("bot")
	ctx := Bind(t.Context(), one)
	for _, name := range []string{"A", "N", "M", "O", "U"} {
		From(ctx).Set(name, Wrap("written"))
	}
	t.Run("S9/seen by its task", func(t *testing.T) {
		check(t, one, map[string]string{"A": "written dotenv", "N": "written dotenv", "M": "admin managed", "O": "vault source:over", "U": "written dotenv"})
	})
	t.Run("S9/not by others, nor by the file", func(t *testing.T) {
		check(t, two, map[string]string{"A": "1 dotenv", "M": "admin managed", "O": "vault source:over", "U": "vault source:under"})
		check(t, d.scope("bot"), shown(two))
	})
	t.Run("S9/removed again", func(t *testing.T) {
		for _, name := range []string{"A", "N", "M", "O", "U"} {
			From(ctx).Unset(name)
		}
		check(t, one, map[string]string{"M": "admin managed", "O": "vault source:over", "U": "vault source:under"})
	})
	t.Run("S9/no scope", func(t *testing.T) {
		From(t.Context()).Set("A", Wrap("x"))
	})
}

func TestFreeze(t *testing.T) { // its parts are in order
	d := newDesk(t, "bot")
	d.env = map[string]string{"SYSTEMD": "1", "OWN": "process", "PATH": "/bin", "V": "process", "W": "process"}
	over := source("over", Mapped, map[string]string{"W": "vault"})
	over.spec.OverrideExisting = true
	d.dotenv(home.Default, "OWN=file\n").sources(home.Default, source("vault", Bulk, map[string]string{"V": "vault", "X": "vault"}), over)
	live, foreign := d.scope(home.Default), d.scope("bot")
	t.Run("S13/before: an overlay", func(t *testing.T) {
		check(t, live, map[string]string{"OWN": "file dotenv", "W": "vault source:over", "X": "vault source:vault"})
	})
	d.Freeze()
	want := map[string]string{"SYSTEMD": "1 launch-process", "OWN": "file dotenv", "V": "process launch-process", "W": "vault source:over", "X": "vault source:vault"}
	t.Run("S13/after, also a scope that is held", func(t *testing.T) {
		check(t, live, want)
		check(t, d.scope(home.Default), want)
	})
	t.Run("S11/the process changes unseen", func(t *testing.T) {
		d.env["SYSTEMD"] = "2"
		d.Freeze()
		check(t, d.scope(home.Default), want)
	})
	t.Run("S13/not for others", func(t *testing.T) {
		check(t, foreign, map[string]string{})
		check(t, d.scope("bot"), map[string]string{})
	})
	runtime.KeepAlive(live)
	runtime.KeepAlive(foreign)
}

func TestScopeContext(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "bot")
	d.sources("bot", source("vault", Bulk, nil).with(func(s *script) { s.hang = true }))
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if sc, err := d.Scope(ctx, d.tenant("bot")); sc != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", sc, err)
	}
	if From(t.Context()) != nil {
		t.Error("a scope out of nowhere")
	}
}
