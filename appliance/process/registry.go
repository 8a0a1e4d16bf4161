// SPDX-License-Identifier: MIT

package process

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Killer ends a command. A [Child] is one; a backend whose commands run where no local
// signal reaches them (a container, a provider) brings its own.
type Killer interface {
	// Kill ends the command politely and returns when it is gone. When ctx ends the rest of
	// the politeness is skipped.
	Kill(ctx context.Context) error
	// KillNow ends it at once. It may block: a hard exit stops waiting for it at
	// HardDeadline.
	KillNow()
}

// Registry knows every live command and holds the exit fence. It is safe for concurrent
// use. What a hard exit does with it takes no lock.
type Registry struct {
	log      *slog.Logger
	hard     time.Duration // HardDeadline; tests that are about something else give more
	fenced   atomic.Bool
	inflight atomic.Int64           // past the fence, not yet published
	live     sync.Map               // *Entry -> nil
	ledger   atomic.Pointer[ledger] // nil = nobody asked for it

	late     sync.Map      // *tree -> nil: killed behind the fence, not yet swept
	sweeping chan struct{} // held by whoever sweeps them; no hard exit waits for it
}

// New returns an empty registry, with the fence open.
func New(log *slog.Logger) *Registry {
	return &Registry{log: log, hard: HardDeadline, sweeping: make(chan struct{}, 1)}
}

// Info is a live command as others may see it.
type Info struct {
	Name    string
	Kind    Kind
	PID     int // 0 = not a process of this host
	Started time.Time
}

// Live lists the published commands, the oldest first.
func (r *Registry) Live() []Info {
	var out []Info
	r.live.Range(func(key, _ any) bool {
		e := key.(*Entry)
		i := Info{Name: e.name, Kind: Kind(e.kind.Load()), Started: e.started}
		if c, ok := e.killer.(*Child); ok {
			i.PID = c.PID()
		}
		out = append(out, i)
		return true
	})
	slices.SortFunc(out, func(a, b Info) int { return a.Started.Compare(b.Started) })
	return out
}

// Fence closes the registry for ever: nothing can be started any more, and what was about
// to start is killed. What runs goes on running.
func (r *Registry) Fence() { r.fenced.Store(true) }

// Fenced reports whether the fence is closed.
func (r *Registry) Fenced() bool { return r.fenced.Load() }

// Kill ends the live commands of these kinds, or all if none is named, politely and at the
// same time, and returns when they are gone. It does not close the fence. When ctx ends the
// rest of the grace is skipped.
func (r *Registry) Kill(ctx context.Context, kinds ...Kind) error {
	var (
		work sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	r.live.Range(func(key, _ any) bool {
		e := key.(*Entry)
		if !e.is(kinds) {
			return true
		}
		work.Go(func() {
			if err := e.killer.Kill(ctx); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
		return true
	})
	work.Wait()
	return errors.Join(errs...)
}

// KillNow is the hard exit's kill: it closes the fence, sends SIGKILL to the groups of all
// live commands of these kinds (all if none is named), waits for spawns that are already
// past the fence, looks for descendants that left their group, and asks every other Killer.
// It returns after HardDeadline at the latest, with the number of commands it has hit; should
// the program live on, so does the look for descendants, for KillDeadline more. It takes no lock
// without a deadline and logs nothing. Calling it again is harmless.
func (r *Registry) KillNow(kinds ...Kind) int {
	r.fenced.Store(true)
	start := time.Now()
	deadline := start.Add(r.hard)
	hit := map[*Entry]bool{}
	var work sync.WaitGroup
	r.strike(hit, kinds, deadline, &work)
	for r.inflight.Load() > 0 && time.Since(start) < r.hard/2 {
		time.Sleep(time.Millisecond)
	}
	r.strike(hit, kinds, deadline, &work)
	within(deadline, work.Wait)
	return len(hit)
}

// strike kills what is live and not yet hit. Local groups are killed before it returns; the
// rest goes on in work.
func (r *Registry) strike(hit map[*Entry]bool, kinds []Kind, deadline time.Time, work *sync.WaitGroup) {
	var trees []*tree
	r.live.Range(func(key, _ any) bool {
		e := key.(*Entry)
		if hit[e] || !e.is(kinds) {
			return true
		}
		hit[e] = true
		c, ok := e.killer.(*Child)
		if !ok {
			work.Go(e.killer.KillNow)
			return true
		}
		c.note()
		if !c.tree.strike(time.Time{}) { // must not hold up the others
			work.Go(func() { c.tree.strike(deadline) })
		}
		trees = append(trees, c.tree)
		return true
	})
	if len(trees) > 0 {
		work.Go(func() { sweep(trees, deadline.Add(KillDeadline)) })
	}
}

// within calls f and returns when f does, or at the deadline.
func within(deadline time.Time, f func()) {
	done := make(chan struct{})
	go func() { f(); close(done) }()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// Entry is a command's place in the registry.
type Entry struct {
	r       *Registry
	name    string
	started time.Time
	kind    atomic.Int32
	state   atomic.Int32
	killer  Killer // set before the entry is published
}

const (
	entered int32 = iota
	published
	left
)

func (e *Entry) is(kinds []Kind) bool {
	return len(kinds) == 0 || slices.Contains(kinds, Kind(e.kind.Load()))
}

// Enter announces that a command is about to start. It fails with [ErrFenced] once the
// fence is closed. The caller must Publish or Leave, and soon: a hard exit waits for it.
func (r *Registry) Enter(kind Kind, name string) (*Entry, error) {
	if r.fenced.Load() {
		return nil, ErrFenced
	}
	r.inflight.Add(1)
	if r.fenced.Load() { // closed between the two: KillNow may not have seen us
		r.inflight.Add(-1)
		return nil, ErrFenced
	}
	e := &Entry{r: r, name: name, started: time.Now()}
	e.kind.Store(int32(kind))
	return e, nil
}

// Publish says that the command runs and how it is killed. If the fence was closed in the
// meantime it is killed at once and the error is [ErrFenced].
func (e *Entry) Publish(k Killer) error {
	e.killer = k
	if !e.state.CompareAndSwap(entered, published) {
		return errors.New(e.name + ": already published, or gone")
	}
	e.r.live.Store(e, nil)
	e.r.inflight.Add(-1)
	if !e.r.fenced.Load() {
		return nil
	}
	if c, ok := k.(*Child); ok {
		e.r.killLate(c)
	} else {
		k.KillNow()
		e.Leave()
	}
	return ErrFenced
}

// killLate kills a child that raced the fence. Many may come at once, and each look at the
// process table serves all of them.
func (r *Registry) killLate(c *Child) {
	c.note()
	c.tree.strike(time.Now().Add(HardDeadline))
	r.late.Store(c.tree, nil)
	r.sweeping <- struct{}{}
	defer func() { <-r.sweeping }()
	if _, ok := r.late.Load(c.tree); !ok {
		return
	}
	var trees []*tree
	r.late.Range(func(key, _ any) bool {
		r.late.Delete(key)
		trees = append(trees, key.(*tree))
		return true
	})
	sweep(trees, time.Now().Add(KillDeadline))
}

// SetKind says that the command now lives on other terms: a foreground command that its
// turn no longer waits for becomes a background one.
func (e *Entry) SetKind(k Kind) { e.kind.Store(int32(k)) }

// Leave removes the command. Calling it again is harmless.
func (e *Entry) Leave() {
	switch e.state.Swap(left) {
	case entered:
		e.r.inflight.Add(-1)
	case published:
		e.r.live.Delete(e)
	}
}
