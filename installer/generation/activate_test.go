// SPDX-License-Identifier: MIT

package generation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

func target110() Binary {
	return Binary{Version: "1.1.0", SHA256: atomicfile.Hash([]byte(newProgram))}
}

const (
	before = "1.0.0 48 /one"
	after  = "1.1.0 50 /two"
)

// TestUpdate: the program is replaced, its gateways start on it, and the old one is kept.
func TestUpdate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fleet           func(h host) *gateways
		restart, manual int
	}{
		"supervised": {func(h host) *gateways { return newGateways(h, "systemd") }, 1, 0},
		"by hand":    {func(h host) *gateways { return newGateways(h, "") }, 0, 1},
		"none":       {func(h host) *gateways { return &gateways{h: h} }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			f := c.fleet(h)
			a := h.activation(atomicfile.Writer{}, f)
			out, err := a.Update(t.Context(), target110(), []byte(newProgram))
			if err != nil || len(out.Restart) != c.restart || len(out.Manual) != c.manual || f.asked != c.restart {
				t.Fatalf("%+v %v, asked %d", out, err, f.asked)
			}
			if got := h.whole(t); got != "1.1.0 48 /one" {
				t.Errorf("got %s", got)
			}
			h.clean(t)
			all, err := a.List()
			if err != nil || len(all) != 2 || all[0].Reason != Found || all[1].Reason != Update || !all[0].Kept(h.binary()) {
				t.Errorf("%+v %v", all, err)
			}
		})
	}
}

// TestUpdateGoesBack: whatever fails, the program, the config and the gateway are what they were.
func TestUpdateGoesBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]func(a *Activation, f *gateways){
		"it never serves":   func(_ *Activation, f *gateways) { f.bad = "1.1.0" },
		"it ends at once":   func(_ *Activation, f *gateways) { f.dead = "1.1.0" },
		"it cannot migrate": func(a *Activation, _ *gateways) { a.Migrate = func(context.Context, string) error { return errBroken } },
		"it does not start": func(a *Activation, _ *gateways) { a.Check = func(context.Context, string) error { return errBroken } },
		"the config went along": func(a *Activation, f *gateways) {
			f.bad = "1.1.0"
			a.Migrate = func(ctx context.Context, _ string) error {
				_, err := a.Migrator.Apply(ctx, a.Home, migrate.Options{})
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			f := newGateways(h, "systemd")
			a := h.activation(atomicfile.Writer{}, f)
			c(&a, f)
			_, err := a.Update(t.Context(), target110(), []byte(newProgram))
			var failed *FailedError
			if err == nil || errors.As(err, &failed) && failed.Undo != nil {
				t.Errorf("got %v", err)
			}
			if got := h.whole(t); got != before {
				t.Errorf("got %s", got)
			}
			if !f.on || f.g.Version != "1.0.0" || !f.g.Ready {
				t.Errorf("the gateway: %+v", f.g)
			}
			h.clean(t)
			if config, _ := os.ReadFile(h.home.Config()); string(config) != oldConfig {
				t.Errorf("config:\n%s", config)
			}
		})
	}
}

// TestUpdateKeepsEdit: what somebody wrote while an update failed stays, and is named.
func TestUpdateKeepsEdit(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	f := newGateways(h, "systemd")
	f.bad = "1.1.0"
	a := h.activation(atomicfile.Writer{}, f)
	mine := oldConfig + "new: 1\n"
	a.Migrate = func(context.Context, string) error {
		testkit.WriteTree(t, h.dir, map[string]string{"home/config.yaml": mine})
		return nil
	}
	_, err := a.Update(t.Context(), target110(), []byte(newProgram))
	if err == nil || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("got %v", err)
	}
	if config, _ := os.ReadFile(h.home.Config()); string(config) != mine || h.binary().Version != "1.0.0" {
		t.Errorf("%s %s", h.binary().Version, config)
	}
	h.clean(t)
}

// TestUpdateLinks: a linked program keeps its link, one with more names keeps those, and the
// mode stays.
func TestUpdateLinks(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	link, other := filepath.Join(h.dir, "link"), filepath.Join(h.dir, "bin", "other")
	if err := errors.Join(os.Symlink(h.program, link), os.Link(h.program, other), os.Chmod(h.program, 0o755)); err != nil {
		t.Fatal(err)
	}
	a := h.activation(atomicfile.Writer{}, nil)
	a.Seen.Binary.Path = link
	if _, err := a.Update(t.Context(), target110(), []byte(newProgram)); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != h.program {
		t.Errorf("%s %v", to, err)
	}
	if data, err := os.ReadFile(other); err != nil || string(data) != oldProgram {
		t.Errorf("the other name: %q %v", data, err)
	}
	if got := h.whole(t); got != "1.1.0 48 /one" {
		t.Errorf("got %s", got)
	}
}

// TestRollback goes back over program, config and unit together, and forth again.
func TestRollback(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	a := h.rollbackScene(t)
	reloaded := 0
	a.Reload = func(_ context.Context, units []string) error {
		reloaded += len(units)
		return nil
	}
	p, err := a.PlanRollback(t.Context(), 1, false)
	if err != nil || len(p.Changes) != 3 || strings.Contains(p.ConfigDiff, "sk-secret") || h.whole(t) != after {
		t.Fatalf("%+v %v", p, err)
	}
	out, err := a.Rollback(t.Context(), 1, false)
	if err != nil || out.Recorded.Number != 3 || h.whole(t) != before || reloaded != 1 {
		t.Fatalf("%+v %v: %s, %d", out, err, h.whole(t), reloaded)
	}
	h.clean(t)
	a = h.activation(atomicfile.Writer{}, nil)
	if p, err := a.PlanRollback(t.Context(), 1, false); err != nil || !p.Nothing() {
		t.Errorf("again: %+v %v", p, err)
	}
	if out, err := a.Rollback(t.Context(), 2, false); err != nil || out.Recorded.Number != 4 || h.whole(t) != after {
		t.Errorf("forth: %+v %v: %s", out, err, h.whole(t))
	}
}

// TestReport11_HandEditKept: files that were edited since are noticed; force keeps them as a
// generation (services spec §5, H#11312).
func TestReport11_HandEditKept(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"home/config.yaml", "systemd/user/hermes-gateway.service"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			a := h.rollbackScene(t)
			mine := "_config_version: 50\nmine: yes\n"
			testkit.WriteTree(t, h.dir, map[string]string{name: mine})
			var refusal *Refusal
			_, err := a.Rollback(t.Context(), 1, false)
			if !errors.As(err, &refusal) || !strings.Contains(refusal.Fix, a.root()) || !strings.Contains(refusal.Fix, "--force") {
				t.Fatalf("got %v", err)
			}
			if data, _ := os.ReadFile(filepath.Join(h.dir, name)); string(data) != mine {
				t.Error("a refused rollback changed the file")
			}
			if out, err := a.Rollback(t.Context(), 1, true); err != nil || h.whole(t) != before || out.Recorded.Number != 4 {
				t.Fatalf("%+v %v: %s", out, err, h.whole(t))
			}
			found := false
			for _, text := range testkit.ReadTree(t, a.dir(3)) {
				found = found || text == mine
			}
			if !found {
				t.Error("the edited file is lost")
			}
		})
	}
}

// TestReport16_DryRunIsPure: planning a rollback writes nothing (services spec §5, H#109473).
func TestReport16_DryRunIsPure(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	a := h.rollbackScene(t)
	was := testkit.ReadTree(t, h.dir)
	a.Files.Before = func(op atomicfile.Op, path string) error {
		t.Errorf("%s %s", op, path)
		return errBroken
	}
	if _, err := a.PlanRollback(t.Context(), 1, true); err != nil {
		t.Fatal(err)
	}
	if now := testkit.ReadTree(t, h.dir); len(now) != len(was) {
		t.Errorf("files: %d, were %d", len(now), len(was))
	}
}

// TestRollbackGoesBack: a gateway that does not come up on the old generation brings the present
// one back, units too.
func TestRollbackGoesBack(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	a := h.rollbackScene(t)
	f := newGateways(h, "systemd")
	f.g.Version, f.bad = "1.1.0", "1.0.0"
	a.Fleet = f
	var failed *FailedError
	if _, err := a.Rollback(t.Context(), 1, false); !errors.As(err, &failed) || failed.Undo != nil {
		t.Errorf("got %v", err)
	}
	if got := h.whole(t); got != after || f.g.Version != "1.1.0" || !f.g.Ready {
		t.Errorf("got %s, %+v", got, f.g)
	}
	h.clean(t)
}

// TestRollbackRefuses what cannot be gone back to.
func TestRollbackRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(a *Activation, h host)
		want string
	}{
		"program gone": {func(a *Activation, _ host) {
			os.Remove(kept(Binary{Path: a.Seen.Binary.Path, SHA256: atomicfile.Hash([]byte(oldProgram))}))
		}, "not kept any more"},
		"program damaged": {func(a *Activation, _ host) {
			os.WriteFile(kept(Binary{Path: a.Seen.Binary.Path, SHA256: atomicfile.Hash([]byte(oldProgram))}), []byte("x"), 0o755)
		}, "damaged"},
		"config damaged":  {func(a *Activation, _ host) { os.WriteFile(a.ConfigCopy(1), []byte("x"), 0o600) }, "missing or damaged"},
		"unit damaged":    {func(a *Activation, _ host) { os.WriteFile(a.unitCopy(1, 0), []byte("x"), 0o600) }, "missing or damaged"},
		"another program": {func(a *Activation, h host) { a.Seen.Binary.Path = filepath.Join(h.dir, "bin", "twin") }, "another program"},
		"managed":         {func(a *Activation, _ host) { a.Migrator.Getenv = func(string) string { return "nixos" } }, "managed by nixos"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			a := h.rollbackScene(t)
			testkit.WriteTree(t, h.dir, map[string]string{"bin/twin": newProgram})
			c.do(&a, h)
			if _, err := a.Rollback(t.Context(), 1, true); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			if got := h.whole(t); got != after {
				t.Errorf("got %s", got)
			}
			h.clean(t)
		})
	}
}

// TestActivationsExclude: of two at once the second is refused, and does not settle the first.
func TestActivationsExclude(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	a := h.activation(atomicfile.Writer{}, nil)
	tries := 0
	a.Migrate = func(ctx context.Context, _ string) error {
		tries++
		b := h.activation(atomicfile.Writer{}, nil)
		if _, err := b.Update(ctx, target110(), []byte(newProgram)); exitcode.Of(err) != exitcode.Locked {
			t.Errorf("update: %v", err)
		}
		if _, err := b.Settle(ctx); exitcode.Of(err) != exitcode.Locked {
			t.Errorf("settle: %v", err)
		}
		if s, err := b.Begin(ctx); err != nil || s.Said != "" || s.Again || s.Ready != nil {
			t.Errorf("begin: %+v %v", s, err)
		}
		return nil
	}
	if _, err := a.Update(t.Context(), target110(), []byte(newProgram)); err != nil || tries != 1 {
		t.Errorf("%v, %d", err, tries)
	}
}

// TestRootTakesNoForeignUnit: as root, what another user could have written makes no unit.
func TestRootTakesNoForeignUnit(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	h := newHost(t)
	a := h.rollbackScene(t)
	if err := os.Chown(a.root(), 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Rollback(t.Context(), 1, false); err == nil || !strings.Contains(err.Error(), "root takes no unit") {
		t.Errorf("got %v", err)
	}
	if got := h.whole(t); got != after {
		t.Errorf("got %s", got)
	}
}
