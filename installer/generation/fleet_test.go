// SPDX-License-Identifier: MIT

package generation

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// many is a fleet of several gateways.
type many []*gateways

func (m many) Running(ctx context.Context) ([]Gateway, error) {
	var out []Gateway
	for _, f := range m {
		if f.on {
			out = append(out, f.g)
		}
	}
	return out, ctx.Err()
}

func (m many) of(h home.Home) *gateways {
	for _, f := range m {
		if f.g.Home == h {
			return f
		}
	}
	return &gateways{}
}

func (m many) Ask(ctx context.Context, h home.Home) (Gateway, bool, error) {
	return m.of(h).Ask(ctx, h)
}

func (m many) Drain(ctx context.Context, g Gateway) (time.Duration, error) {
	return m.of(g.Home).Drain(ctx, g)
}

func (m many) Revive(ctx context.Context, h home.Home) error { return m.of(h).Revive(ctx, h) }

// pair is the gateways of a home and of its profile work.
func pair(t *testing.T, h host) many {
	t.Helper()
	testkit.WriteTree(t, h.dir, map[string]string{"home/profiles/work/config.yaml": "_config_version: 50\n"})
	work, err := h.home.NamedProfile("work")
	if err != nil {
		t.Fatal(err)
	}
	one, two := newGateways(h, "systemd"), newGateways(h, "systemd")
	two.g.Home = work
	return many{one, two}
}

// TestFleet: every gateway of the home is restarted, and if one of them does not come up all go
// back (services spec §2.10).
func TestFleet(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "1.1.0"} {
		h := newHost(t)
		f := pair(t, h)
		f[1].bad = bad
		_, err := h.activation(atomicfile.Writer{}, f).Update(t.Context(), target110(), []byte(newProgram))
		want := "1.1.0"
		if bad != "" {
			want = "1.0.0"
		}
		if (err != nil) != (bad != "") || h.binary().Version != want {
			t.Errorf("bad %q: %v, %s", bad, err, h.binary().Version)
		}
		for _, g := range f {
			if g.g.Version != want || !g.g.Ready || g.g.PID == 100 {
				t.Errorf("bad %q: %+v", bad, g.g)
			}
		}
	}
}

// TestSameProgramGoesBack: where only the config is rolled back the version tells nothing; a
// gateway that started on it is started again on what is put back.
func TestSameProgramGoesBack(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	record(t, h.activation(atomicfile.Writer{}, nil), Install)
	testkit.WriteTree(t, h.dir, map[string]string{"home/config.yaml": "_config_version: 50\n"})
	record(t, h.activation(atomicfile.Writer{}, nil), Migrate)
	f := pair(t, h)
	a := h.activation(atomicfile.Writer{}, f)
	f[1].refuse = errBroken
	if _, err := a.Rollback(t.Context(), 1, false); !errors.Is(err, errBroken) {
		t.Fatalf("got %v", err)
	}
	if config, _ := os.ReadFile(h.home.Config()); string(config) != "_config_version: 50\n" || f[0].asked != 2 {
		t.Errorf("%s, asked %d", config, f[0].asked)
	}
	h.clean(t)
}

// TestSettleWaitsForGateway: an update that was cut off with a gateway on its way is not finished
// before that one serves, and undone if it never does.
func TestSettleWaitsForGateway(t *testing.T) {
	t.Parallel()
	for _, serves := range []bool{true, false} {
		h := newHost(t)
		f := newGateways(h, "systemd")
		a := h.activation(atomicfile.Writer{}, f)
		cut := a
		cut.Files.Before = func(op atomicfile.Op, path string) error {
			if op == atomicfile.OpRemove && path == a.JournalPath() { // the last step of all
				return errBroken
			}
			return nil
		}
		if _, err := cut.Update(t.Context(), target110(), []byte(newProgram)); !errors.Is(err, errBroken) {
			t.Fatalf("got %v", err)
		}
		f.on = false // it ended since
		want := "1.0.0"
		if serves {
			want = "1.1.0"
			f.start()
		} else {
			f.dead = "1.1.0"
		}
		said, err := h.activation(atomicfile.Writer{}, f).Settle(t.Context())
		if (err == nil) != serves || !strings.Contains(said, "cut off") || h.binary().Version != want || !f.on || f.g.Version != want {
			t.Errorf("serves %v: %q %v, %s, %+v", serves, said, err, h.binary().Version, f.g)
		}
		h.clean(t)
	}
}
