// SPDX-License-Identifier: MIT

package secret

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

func failing(r Reason) func(*script) {
	return func(s *script) { s.err = &FetchError{Source: s.spec.Name, Reason: r} }
}

func answers(values map[string]string) func(*script) {
	return func(s *script) { s.err, s.hang, s.values = nil, false, values }
}

func TestStackClaims(t *testing.T) {
	t.Parallel()
	one := func(v string) map[string]string { return map[string]string{"K": v} }
	for name, c := range map[string]struct {
		sources  []Source
		order    []string
		preserve []string
		dotenv   string
		want     map[string]string
		report   func(r []SourceReport) string // "" = good
		warning  string
	}{
		"P3/mapped beats bulk": {
			sources: []Source{source("b", Bulk, one("b")), source("m", Mapped, one("m"))}, order: []string{"b", "m"},
			want: map[string]string{"K": "m source:m"}, warning: "the value is m's; b supplies it too",
			report: func(r []SourceReport) string { return fmt.Sprint(r[1].Claimed) },
		},
		"P3/configured order": {
			sources: []Source{source("b1", Bulk, one("1")), source("b2", Bulk, one("2")), source("b3", Bulk, one("3"))}, order: []string{"b3", "b2"},
			want: map[string]string{"K": "3 source:b3"}, warning: "the value is b3's; b2 supplies it too",
		},
		"P3/registration order": {
			sources: []Source{source("b1", Bulk, one("1")), source("b2", Bulk, one("2"))},
			want:    map[string]string{"K": "1 source:b1"}, warning: "b1's; b2",
		},
		"P3/unknown name in the order": {
			sources: []Source{source("b1", Bulk, one("1"))}, order: []string{"nope"},
			want: map[string]string{"K": "1 source:b1"}, warning: `"nope", which is no source`,
		},
		"P3/override never across sources": {
			sources: []Source{source("m", Mapped, one("m")), source("b", Bulk, one("b")).with(func(s *script) { s.spec.OverrideExisting = true })},
			want:    map[string]string{"K": "m source:m"}, warning: "m's; b",
		},
		"P3/the loser's override does not help the winner": {
			sources: []Source{source("m", Mapped, one("m")), source("b", Bulk, one("b")).with(func(s *script) { s.spec.OverrideExisting = true })},
			dotenv:  "K=own\n", want: map[string]string{"K": "own dotenv"}, warning: "m's; b",
		},
		"P3/fills gaps": {
			sources: []Source{source("b", Bulk, map[string]string{"K": "b", "EMPTY": "b", "L": "b"})}, dotenv: "K=own\nEMPTY=\n",
			want: map[string]string{"K": "own dotenv", "EMPTY": "b source:b", "L": "b source:b"},
		},
		"P3/override": {
			sources: []Source{source("b", Bulk, one("b")).with(func(s *script) { s.spec.OverrideExisting = true })}, dotenv: "K=own\n",
			want: map[string]string{"K": "b source:b"},
		},
		"P3/preserve beats override": {
			sources:  []Source{source("b", Bulk, map[string]string{"K": "b", "L": "b"}).with(func(s *script) { s.spec.OverrideExisting = true })},
			preserve: []string{"K", "L"}, dotenv: "K=own\n", want: map[string]string{"K": "own dotenv", "L": "b source:b"},
		},
		"P3/bootstrap names": {
			sources: []Source{
				source("m", Mapped, map[string]string{"BWS_ACCESS_TOKEN": "m", "op_token": "m", "K": "m"}),
				source("b", Bulk, nil).with(func(s *script) { s.spec.Protected = []string{"BWS_ACCESS_TOKEN", "OP_TOKEN"} }).with(failing(Network)),
			},
			want:   map[string]string{"K": "m source:m"},
			report: func(r []SourceReport) string { return fmt.Sprint(r[0].Protected) },
		},
		"P3/bad names and values": {
			sources: []Source{source("b", Bulk, map[string]string{"": "x", "1A": "x", "A B": "x", "A=B": "x", "Ü": "x", "E": "", "S": " \t", "Z": "a\x00b", "_K2": "ok"})},
			want:    map[string]string{"_K2": "ok source:b"},
			report:  func(r []SourceReport) string { return fmt.Sprint(r[0].Invalid) },
		},
		"S1/global names": {
			sources: []Source{source("b", Bulk, map[string]string{"PATH": "x", "TERMINAL_ENV": "x"})}, want: map[string]string{},
			report: func(r []SourceReport) string { return fmt.Sprint(r[0].Global) },
		},
		"P3/disabled": {
			sources: []Source{source("m", Mapped, one("m")).with(func(s *script) { s.spec.Enabled = false }), source("b", Bulk, one("b"))},
			want:    map[string]string{"K": "b source:b"},
		},
		"P3/bad and double source names": {
			sources: []Source{source("Up", Bulk, one("x")), source("", Bulk, one("x")), source("_u", Bulk, one("x")), source("b", Bulk, one("1")), source("b", Mapped, one("2"))},
			want:    map[string]string{"K": "1 source:b"}, warning: "a second source called b",
		},
		"P3/one fails, hangs or panics, the others go on": {
			sources: []Source{
				source("f", Mapped, one("f")).with(failing(Network)),
				source("e", Mapped, one("e")).with(func(s *script) { s.err = errors.New("dial s3cr3t") }),
				source("h", Mapped, one("h")).with(func(s *script) { s.hang, s.spec.Budget = true, 20*time.Millisecond }),
				source("d", Mapped, one("d")).with(func(s *script) { s.hang, s.deaf, s.spec.Budget = true, 2*time.Second, 20*time.Millisecond }),
				source("p", Mapped, one("p")).with(func(s *script) { s.panics = "s3cr3t" }),
				source("b", Bulk, one("b")),
			},
			want: map[string]string{"K": "b source:b"},
			report: func(r []SourceReport) string {
				var out []string
				for _, x := range r {
					if x.Err != nil {
						out = append(out, string(x.Err.Reason))
					}
				}
				return strings.Join(out, ",")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, "bot")
			d.stacks["bot"] = Stack{Sources: c.sources, Order: c.order, Preserve: c.preserve}
			d.dotenv("bot", c.dotenv)
			check(t, d.scope("bot"), c.want)
			snap, err := d.Load(t.Context(), d.tenant("bot"))
			if err != nil {
				t.Fatal(err)
			}
			if c.warning != "" && (!strings.Contains(strings.Join(snap.Warnings(), "\n"), c.warning) || !strings.Contains(d.logged(), "WARN")) {
				t.Errorf("warnings %q, want %q", snap.Warnings(), c.warning)
			}
			if c.report != nil {
				wants := map[string]string{
					"P3/mapped beats bulk": "[K]", "P3/bootstrap names": "[BWS_ACCESS_TOKEN op_token]", "P3/bad names and values": "8",
					"S1/global names": "[PATH TERMINAL_ENV]", "P3/one fails, hangs or panics, the others go on": "network,error in the source,timeout,timeout,error in the source",
				}
				if got := c.report(snap.Reports()); got != wants[name] {
					t.Errorf("report: got %s, want %s", got, wants[name])
				}
			}
			if strings.Contains(d.logged()+fmt.Sprintf("%+v", snap.Reports()), "s3cr3t") {
				t.Error("a log or report shows an error's text")
			}
		})
	}
}

func TestStackAlias(t *testing.T) {
	t.Parallel()
	bulk := func(pairs ...string) *script { return source("b", Bulk, with(nil, pairs...)) }
	over := func(s *script) { s.spec.OverrideExisting = true }
	for name, c := range map[string]struct {
		sources []Source
		off     bool
		dotenv  string
		want    map[string]string
	}{
		"P4/credential":       {[]Source{bulk("A_API_KEY_MY_BOT", "1", "B_TOKEN_MY_BOT", "2", "C_PASSWORD_MY_BOT", "3")}, false, "", map[string]string{"A_API_KEY_MY_BOT": "1", "A_API_KEY": "1", "B_TOKEN_MY_BOT": "2", "B_TOKEN": "2", "C_PASSWORD_MY_BOT": "3", "C_PASSWORD": "3"}},
		"P4/no credential":    {[]Source{bulk("MODEL_MY_BOT", "1", "_MY_BOT", "2", "MY_BOT", "3")}, false, "", map[string]string{"MODEL_MY_BOT": "1", "_MY_BOT": "2", "MY_BOT": "3"}},
		"P4/another profile":  {[]Source{bulk("A_TOKEN_OTHER", "1")}, false, "", map[string]string{"A_TOKEN_OTHER": "1"}},
		"P4/switched off":     {[]Source{bulk("A_TOKEN_MY_BOT", "1")}, true, "", map[string]string{"A_TOKEN_MY_BOT": "1"}},
		"P4/supplied as such": {[]Source{source("m", Mapped, map[string]string{"A_TOKEN_MY_BOT": "1"}), bulk("A_TOKEN", "2")}, false, "", map[string]string{"A_TOKEN_MY_BOT": "1", "A_TOKEN": "2"}},
		"P4/own value":        {[]Source{bulk("A_TOKEN_MY_BOT", "1")}, false, "A_TOKEN=own\n", map[string]string{"A_TOKEN_MY_BOT": "1", "A_TOKEN": "own"}},
		"P4/own, override":    {[]Source{bulk("A_TOKEN_MY_BOT", "1").with(over)}, false, "A_TOKEN=own\n", map[string]string{"A_TOKEN_MY_BOT": "1", "A_TOKEN": "1"}},
		"P4/not applied":      {[]Source{bulk("A_TOKEN_MY_BOT", "1")}, false, "A_TOKEN_MY_BOT=own\n", map[string]string{"A_TOKEN_MY_BOT": "own"}},
		"P4/protected":        {[]Source{bulk("A_TOKEN_MY_BOT", "1").with(func(s *script) { s.spec.Protected = []string{"A_TOKEN"} })}, false, "", map[string]string{"A_TOKEN_MY_BOT": "1"}},
		"P4/global":           {[]Source{bulk("TERMINAL_KEY_MY_BOT", "1", "A_TOKEN_MY_BOT", "1")}, false, "", map[string]string{"A_TOKEN_MY_BOT": "1", "A_TOKEN": "1"}},
		"P4/first source":     {[]Source{source("m", Mapped, map[string]string{"A_TOKEN_MY_BOT": "1"}), bulk("A_TOKEN_MY_BOT", "2")}, false, "", map[string]string{"A_TOKEN_MY_BOT": "1", "A_TOKEN": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, "my-bot")
			d.stacks["my-bot"] = Stack{Sources: c.sources, NoAlias: c.off}
			d.dotenv("my-bot", c.dotenv)
			got := map[string]string{}
			for _, v := range d.scope("my-bot").Values() {
				got[v.Name] = v.Text.Reveal()
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("P4/not for the default profile", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.sources(home.Default, bulk("A_TOKEN_DEFAULT", "1"))
		check(t, d.scope(home.Default), map[string]string{"A_TOKEN_DEFAULT": "1 source:b"})
	})
}

func TestSuppliedAndApplied(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		profile  string
		env      map[string]string
		dotenv   string
		applied  map[string]string
		supplied []string
	}{
		"N1/routed":                      {"bot", map[string]string{"LOST": "process"}, "HAVE=own\n", map[string]string{"WON": "vault", "LOST": "vault"}, []string{"HAVE", "LOST", "PATH", "WON"}},
		"N1/the process had it (L3, N2)": {home.Default, map[string]string{"LOST": "process"}, "HAVE=own\n", map[string]string{"WON": "vault"}, []string{"HAVE", "LOST", "PATH", "WON"}},
		"L7/nothing applied":             {"bot", nil, "HAVE=own\nLOST=own\nWON=own\n", map[string]string{}, []string{"HAVE", "LOST", "PATH", "WON"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, "bot")
			d.env = c.env
			d.dotenv(c.profile, c.dotenv).sources(c.profile, source("vault", Bulk, map[string]string{"WON": "1", "LOST": "2", "HAVE": "3", "PATH": "4"}))
			sc := d.scope(c.profile)
			if diff := cmp.Diff(c.applied, sc.Applied()); diff != "" {
				t.Errorf("applied: %s", diff)
			}
			if diff := cmp.Diff(c.supplied, sc.Supplied()); diff != "" {
				t.Errorf("supplied: %s", diff)
			}
			sc.Applied()["X"] = "changed by a caller"
			if _, ok := sc.Applied()["X"]; ok {
				t.Error("a caller can change the scope")
			}
		})
	}
	t.Run("N1/no sources", func(t *testing.T) {
		t.Parallel()
		sc := newDesk(t, "bot").dotenv("bot", "A=1\n").scope("bot")
		if len(sc.Applied()) != 0 || len(sc.Supplied()) != 0 {
			t.Error("names out of nowhere")
		}
	})
	t.Run("N1/a value that lost comes back with no vault asked", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, "bot")
		src := source("vault", Bulk, map[string]string{"K": "vault"})
		d.dotenv("bot", "K=own\n").sources("bot", src)
		check(t, d.scope("bot"), map[string]string{"K": "own dotenv"})
		d.dotenv("bot", "")
		check(t, d.scope("bot"), map[string]string{"K": "vault source:vault"})
		if src.calls != 1 {
			t.Errorf("asked %d times", src.calls)
		}
	})
}

// lender returns the same maps every time.
type lender struct {
	spec   Spec
	values map[string]Text
	failed map[string]Reason
}

func (l *lender) Spec() Spec { return l.spec }

func (l *lender) Fetch(context.Context, Input) (Fetched, error) {
	return Fetched{Values: l.values, Failed: l.failed}, nil
}
