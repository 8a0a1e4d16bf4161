// SPDX-License-Identifier: MIT

package secret

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

func lines() string {
	var b strings.Builder
	for i := range 50 {
		fmt.Fprintf(&b, "# a comment\nSOME_PROVIDER_%d_API_KEY=\"sk-0123456789abcdef0123456789abcdef\" # tail\n", i)
	}
	return b.String()
}

// BenchmarkScopeCold is the first task of a home without sources: key, .env from disk, scope.
func BenchmarkScopeCold(b *testing.B) {
	d := newDesk(b, "bot").dotenv("bot", lines())
	t := d.tenant("bot")
	b.ReportAllocs()
	for b.Loop() {
		d.Forget(home.Key(t.Home.Dir))
		d.c.Files.entries = map[string]envEntry{}
		if _, err := d.Scope(b.Context(), t); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkScopeWarm is a later task of the home.
func BenchmarkScopeWarm(b *testing.B) {
	d := newDesk(b, "bot").dotenv("bot", lines())
	t := d.tenant("bot")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Scope(b.Context(), t); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	d := newDesk(b, "bot").dotenv("bot", lines())
	d.routed = true
	ctx := Bind(b.Context(), d.scope("bot"))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := d.Get(ctx, "SOME_PROVIDER_7_API_KEY"); !ok || err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRefreshLive(b *testing.B) {
	d := newDesk(b).dotenv(home.Default, lines())
	d.sources(home.Default, source("vault", Bulk, map[string]string{"V": "1"}))
	var held []*Scope
	for range 50 {
		held = append(held, d.scope(home.Default))
	}
	for b.Loop() {
		if _, err := d.Refresh(b.Context(), d.tenant(home.Default)); err != nil {
			b.Fatal(err)
		}
	}
	_ = held
}
