// SPDX-License-Identifier: MIT

package profile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// world is a root home A with the profiles b and c, and a process in A whose home can move.
type world struct {
	root, b, c home.Home
	now        string // HERMES_HOME of the process
	host       *Host
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{
		"config.yaml": "", "profiles/b/config.yaml": "", "profiles/c/.env": "X=1\n", "profiles/.deleted/d": "", "profiles/d/config.yaml": "",
	})
	w := &world{root: home.Home{Dir: dir, Profile: home.Default}, now: dir}
	var err error
	if w.b, err = w.root.NamedProfile("b"); err != nil {
		t.Fatal(err)
	}
	if w.c, err = w.root.NamedProfile("c"); err != nil {
		t.Fatal(err)
	}
	w.host = NewHost(func() string { return w.now })
	return w
}

func TestKeyOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "alias")
	if err := os.Symlink(dir, link); err != nil {
		testkit.Need(t, "link", false, err.Error())
	}
	if KeyOf(dir) != KeyOf(link) || KeyOf(dir) != KeyOf(filepath.Join(dir, "x", "..")) {
		t.Errorf("one home has the keys %q and %q", KeyOf(dir), KeyOf(link))
	}
	if KeyOf(dir) == KeyOf(filepath.Join(dir, "sub")) {
		t.Error("two homes have one key")
	}
	if KeyOf(filepath.Join(dir, "missing")) == "" {
		t.Error("a home that does not exist yet has no key")
	}
	if got, want := KeyOf(filepath.Join(link, "new", "home")), KeyOf(filepath.Join(dir, "new", "home")); got != want {
		t.Errorf("a home that does not exist yet has the keys %q and %q", got, want)
	}
}

func TestRouting(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		set    func(w *world)
		task   func(w *world) Task
		routed bool
		keyed  bool
		closed bool
	}{
		"own task":                       {nil, func(*world) Task { return Task{} }, false, false, false},
		"own home as override":           {nil, func(w *world) Task { return Task{Home: w.root} }, false, false, false},
		"R1 multiplex keys own tasks":    {func(w *world) { w.host.SetMultiplex(true) }, func(*world) Task { return Task{} }, false, true, true},
		"R2 override":                    {nil, func(w *world) Task { return Task{Home: w.b} }, true, true, true},
		"R3 stamped scope":               {nil, func(w *world) Task { return Task{Stamp: KeyOf(w.b.Dir)} }, true, true, true},
		"R4 own stamp":                   {nil, func(w *world) Task { return Task{Stamp: KeyOf(w.root.Dir)} }, false, false, false},
		"routed cron fire":               {nil, func(*world) Task { return Task{Multiplexed: true} }, false, false, true},
		"R5 mirror, pinned: B is routed": {func(w *world) { w.host.Pin(w.root.Dir); w.now = w.b.Dir }, func(w *world) Task { return Task{Home: w.b} }, true, true, true},
		"R5 mirror, pinned: A is not":    {func(w *world) { w.host.Pin(w.root.Dir); w.now = w.b.Dir }, func(w *world) Task { return Task{Home: w.root} }, false, false, false},
		"R6 mirror, never pinned":        {func(w *world) { w.now = w.b.Dir }, func(w *world) Task { return Task{Home: w.b} }, false, false, false},
		"R6 pinned, then cleared":        {func(w *world) { w.host.Pin(w.root.Dir); w.host.Unpin(); w.now = w.b.Dir }, func(w *world) Task { return Task{Home: w.b} }, false, false, false},
		"R12 lost":                       {nil, func(*world) Task { return Task{Lost: true} }, true, true, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tt.set != nil {
				tt.set(w)
			}
			task := tt.task(w)
			if got := w.host.Routed(task); got != tt.routed {
				t.Errorf("routed: got %t, want %t", got, tt.routed)
			}
			if got := w.host.Keyed(task); got != tt.keyed {
				t.Errorf("keyed: got %t, want %t", got, tt.keyed)
			}
			if got := w.host.Isolated(task); got != tt.closed {
				t.Errorf("isolated: got %t, want %t", got, tt.closed)
			}
		})
	}
}

// TestPinLeavesProcessHome is R7: the pin decides who is routed, nothing else.
func TestPinLeavesProcessHome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.Pin(w.root.Dir)
	w.now = w.b.Dir
	if got := w.host.ProcessHome(); got != w.b.Dir {
		t.Errorf("process home: got %s, want the mirrored %s", got, w.b.Dir)
	}
	if got := w.host.LaunchHome(); got != w.root.Dir {
		t.Errorf("launch home: got %s, want the pinned %s", got, w.root.Dir)
	}
}

// TestAutoPin is R8.
func TestAutoPin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.SetMultiplex(true)
	w.now = w.b.Dir
	if w.host.LaunchHome() != w.root.Dir {
		t.Error("switching on did not pin the home of that moment")
	}
	w.host.SetMultiplex(false)
	if w.host.LaunchHome() != w.b.Dir {
		t.Error("switching off kept its own pin")
	}
	w.host.Pin(w.root.Dir)
	w.host.SetMultiplex(true)
	w.host.SetMultiplex(false)
	if w.host.LaunchHome() != w.root.Dir {
		t.Error("a toggle dropped the host's explicit pin")
	}
}

// TestPinDuring is R9.
func TestPinDuring(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.PinDuring(w.c.Dir, func() {
		w.now = w.root.Dir
		if w.host.LaunchHome() != w.c.Dir || !w.host.Routed(Task{Home: w.root}) {
			t.Error("inside the swap the real launch home is not known")
		}
	})
	if w.host.Routed(Task{Home: w.root}) {
		t.Error("the pin outlived the swap")
	}
}

func TestLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own, err := w.host.Ledger(Task{}, "atlassian")
	if err != nil || own != (Ledger{"", "atlassian"}) {
		t.Errorf("own task: got %v %v", own, err)
	}
	b, errB := w.host.Ledger(Task{Home: w.b}, "atlassian")
	c, errC := w.host.Ledger(Task{Home: w.c}, "atlassian")
	if errB != nil || errC != nil || b == c || b == own || b.Home != KeyOf(w.b.Dir) {
		t.Errorf("two profiles share a ledger entry: %v %v", b, c)
	}
	if _, err := w.host.Ledger(Task{Lost: true}, "x"); !errors.Is(err, ErrLost) {
		t.Errorf("lost: got %v", err)
	}
}

// TestBindNamed is R12: a name that does not resolve binds nothing.
func TestBindNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, err := BindNamed(context.Background(), w.root, "b")
	if err != nil || From(ctx).Home.Dir != w.b.Dir {
		t.Errorf("b: %v %v", From(ctx), err)
	}
	for _, id := range []string{"d", "nobody", "../b", ""} {
		ctx, err := BindNamed(ctx, w.root, id)
		if !errors.Is(err, ErrLost) || !From(ctx).Lost || From(ctx).Home.Dir != "" {
			t.Errorf("%q: bound to %v, error %v", id, From(ctx), err)
		}
		if _, err := w.host.Target(From(ctx)); !errors.Is(err, ErrLost) {
			t.Errorf("%q: target error %v", id, err)
		}
	}
	if From(context.Background()) != (Task{}) {
		t.Error("an unbound context has a task")
	}
}

func TestHostConcurrent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				if i%2 == 0 {
					w.host.SetMultiplex(i%4 == 0)
				}
				if w.host.Routed(Task{Home: w.root}) || !w.host.Routed(Task{Home: w.b}) {
					t.Error("routing changed under a toggle")
				}
			}
		})
	}
	wg.Wait()
}
