// SPDX-License-Identifier: MIT

package secret

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// TestReadersSeeNoPartialScope changes every value of a home again and again, while tasks read.
func TestReadersSeeNoPartialScope(t *testing.T) {
	t.Parallel()
	const count = 20
	d := newDesk(t, "bot")
	generation := func(g int) map[string]string {
		out := map[string]string{fmt.Sprintf("ONLY%d", g): fmt.Sprint(g)}
		for i := range count {
			out[fmt.Sprintf("K%d", i)] = fmt.Sprint(g)
		}
		return out
	}
	src := source("vault", Bulk, generation(0))
	d.sources("bot", src)
	sc := d.scope("bot")
	ctx := Bind(t.Context(), sc)
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !done.Load() {
				seen := map[string]bool{}
				for _, v := range sc.Values() {
					seen[v.Text.Reveal()] = true
				}
				if n := len(sc.Values()); len(seen) != 1 || n != count+1 {
					t.Errorf("S7: a mixture of %v, %d names", seen, n)
					return
				}
				if _, ok, err := d.Get(ctx, "K7"); !ok || err != nil {
					t.Errorf("S7: a name was missing for a moment (%v)", err)
					return
				}
			}
		})
	}
	for g := range 60 {
		src.with(answers(generation(g + 1)))
		if _, err := d.Refresh(t.Context(), d.tenant("bot")); err != nil {
			t.Error(err)
		}
	}
	done.Store(true)
	wg.Wait()
}

// TestProfilesInParallel serves eight profiles at once, each from many tasks that hop between
// goroutines, while files and vaults change and other homes fail.
func TestProfilesInParallel(t *testing.T) {
	t.Parallel()
	profiles := []string{home.Default, "p1", "p2", "p3", "p4", "p5", "p6", "p7"}
	d := newDesk(t, profiles[1:]...)
	d.env["PROCESS"] = home.Default + ":process"
	for _, p := range profiles {
		d.dotenv(p, "OWN="+p+":own\nLOST="+p+":own\nWRITTEN="+p+":written\n")
		bulk := source("vault", Bulk, map[string]string{"VAULT": p + ":vault", "LOST": p + ":vault", "SHARED": p + ":vault"})
		mapped := source("mapped", Mapped, map[string]string{"SHARED": p + ":mapped"})
		if p == "p3" {
			bulk.with(func(s *script) { s.hang, s.spec.Budget = true, time.Millisecond })
		}
		d.sources(p, bulk, mapped)
	}
	var wg sync.WaitGroup
	for _, p := range profiles {
		for task := range 3 {
			wg.Go(func() {
				for i := range 25 {
					if err := d.task(t.Context(), p, task == 0 && i%5 == 0); err != nil {
						t.Errorf("%s: %v", p, err)
						return
					}
				}
			})
		}
	}
	wg.Go(func() {
		time.Sleep(20 * time.Millisecond)
		d.Freeze()
	})
	wg.Wait()
}

func (d *desk) task(ctx context.Context, profile string, refresh bool) error {
	sc, err := d.Scope(ctx, d.tenant(profile))
	if err != nil {
		return err
	}
	ctx = Bind(ctx, sc)
	sc.Set("WRITTEN", Wrap(profile+":written"))
	if refresh {
		if _, err := d.Refresh(ctx, d.tenant(profile)); err != nil {
			return err
		}
	}
	errs := make(chan error, 2)
	for range 2 {
		go func() { errs <- d.reads(ctx, profile) }()
	}
	return errors.Join(<-errs, <-errs)
}

func (d *desk) reads(ctx context.Context, profile string) error {
	for name, want := range map[string]string{"OWN": "own", "LOST": "own", "SHARED": "mapped", "WRITTEN": "written"} {
		v, ok, err := d.Get(ctx, name)
		if err != nil || !ok || v.Text.Reveal() != profile+":"+want {
			return fmt.Errorf("%s: got %q, %v, %w", name, v.Text.Reveal(), ok, err)
		}
	}
	for _, v := range From(ctx).Values() {
		if !strings.HasPrefix(v.Text.Reveal(), profile+":") {
			return fmt.Errorf("foreign value %s", v.Text.Reveal())
		}
	}
	if v, ok, _ := d.Get(ctx, "PROCESS"); ok && profile != home.Default {
		return fmt.Errorf("the launch profile's value %s", v.Text.Reveal())
	}
	return nil
}

// TestFirstTasksAskOnce starts many tasks of a cold home: its sources are asked once.
func TestFirstTasksAskOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "bot")
	src := source("vault", Bulk, map[string]string{"V": "1"})
	src.during = func() { time.Sleep(50 * time.Millisecond) }
	d.sources("bot", src)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if sc := d.scope("bot"); len(sc.Values()) != 1 {
				t.Errorf("got %v", shown(sc))
			}
		})
	}
	wg.Wait()
	if src.calls != 1 {
		t.Errorf("asked %d times", src.calls)
	}
}

// TestRetryHoldsUpOneTask has a vault that hangs: of the tasks that come when it may be tried
// again, one waits and the others go on with what there is.
func TestRetryHoldsUpOneTask(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "bot")
	src := source("vault", Bulk, nil).with(failing(Network))
	d.sources("bot", src)
	d.scope("bot")
	src.with(func(s *script) { s.err, s.hang, s.spec.Budget = nil, true, time.Hour })
	d.wait(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() {
		_, err := d.Scope(ctx, d.tenant("bot"))
		first <- err
	}()
	for calls := 0; calls < 2; time.Sleep(time.Millisecond) {
		src.with(func(s *script) { calls = s.calls })
	}
	d.scope("bot") // does not wait
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
