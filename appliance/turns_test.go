// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// kit is a runtime with one profile, whose turns the rehearsal model answers.
type kit struct {
	rt     *Runtime
	tenant *Tenant
	dir    string
}

func newKit(t testing.TB, config string, now func() time.Time) *kit {
	t.Helper()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"config.yaml": "_config_version: 50\n" + config})
	launch, err := home.Locate(dir, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEnvironments(Options{Launch: launch, Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	r := NewRuntime(t.Context(), RuntimeOptions{Environments: e, Log: slog.New(slog.DiscardHandler), Now: now, PID: os.Getpid()})
	t.Cleanup(func() { r.Close(context.WithoutCancel(t.Context())) })
	tenant, err := r.Tenant("")
	if err != nil {
		t.Fatal(err)
	}
	return &kit{r, tenant, dir}
}

func (k *kit) ask(t testing.TB, a gateway.Ask, text string) *gateway.Turn {
	t.Helper()
	a.Source, a.Input = "cli", model.Text(model.User, text)
	turn, err := k.tenant.Ask(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// BenchmarkTurns is a turn of many that run at the same time, without HTTP and without a model
// that takes time.
func BenchmarkTurns(b *testing.B) {
	const together = 500
	k := newKit(b, "", time.Now)
	free := make(chan struct{}, together)
	for b.Loop() {
		free <- struct{}{}
		turn := k.ask(b, gateway.Ask{Stateless: true}, "hello")
		go func() {
			<-turn.Done()
			<-free
		}()
	}
	for range together {
		free <- struct{}{}
	}
}
