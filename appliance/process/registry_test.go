// SPDX-License-Identifier: MIT

//go:build linux

package process

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFenceRace(t *testing.T) {
	t.Parallel()
	needSetsid(t)
	for round := range 3 {
		tag := "TEST_FENCE=" + rand.Text() // no other process has it
		r := newRegistry(t)
		var (
			mu      sync.Mutex
			started []*Child
			work    sync.WaitGroup
			spawned atomic.Int64
		)
		for range 50 {
			work.Go(func() {
				for {
					c := sh(`trap '' TERM; setsid sleep 3600 & sleep 3600`)
					c.Env = append(c.Env, tag)
					child, err := r.Start(c)
					if err != nil {
						if !errors.Is(err, ErrFenced) {
							t.Error(err)
						}
						return
					}
					spawned.Add(1)
					mu.Lock()
					started = append(started, child)
					mu.Unlock()
					if spawned.Load() > 60 {
						return
					}
				}
			})
		}
		eventually(t, time.Second, "some spawned", func() bool { return spawned.Load() > int64(10*round) })
		begin := time.Now()
		r.KillNow()
		if d := time.Since(begin); d > slack*HardDeadline {
			t.Errorf("took %v", d)
		}
		work.Wait()
		if _, err := r.Start(sh("true")); !errors.Is(err, ErrFenced) {
			t.Errorf("after the fence: got %v, want %v", err, ErrFenced)
		}
		eventually(t, HardDeadline, "no child alive", func() bool { return len(withEnv(t, tag)) == 0 })
		for _, c := range started {
			wait(t, c)
		}
		eventually(t, HardDeadline, "registry empty", func() bool { return len(r.Live()) == 0 })
		if n := r.inflight.Load(); n != 0 {
			t.Errorf("got %d in flight, want 0", n)
		}
	}
}

// A spawn that was past the fence when it closed is killed when it turns up, and a hard
// exit does not wait for it for ever.
func TestFenceLateSpawn(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	e, err := r.Enter(Foreground, "late")
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if n := r.KillNow(); n != 0 {
		t.Errorf("got %d, want 0", n)
	}
	if d := time.Since(begin); d < HardDeadline/4 || d > slack*HardDeadline {
		t.Errorf("took %v, want a bounded wait for what is in flight", d)
	}
	k := &fakeKiller{}
	if err := e.Publish(k); !errors.Is(err, ErrFenced) {
		t.Errorf("got %v, want %v", err, ErrFenced)
	}
	if k.now.Load() != 1 {
		t.Error("not killed")
	}
	if live := r.Live(); len(live) > 0 {
		t.Errorf("registry still has %v", live)
	}
	if err := e.Publish(k); err == nil {
		t.Error("published twice")
	}
	e.Leave()
	if n := r.inflight.Load(); n != 0 {
		t.Errorf("got %d in flight, want 0", n)
	}
}

// A spawn that is published while a hard exit waits for it is hit by that exit, which may
// not leave time for the spawn's own kill.
func TestFenceWaitsForSpawn(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.hard = time.Hour // however long this test's own steps take
	e, err := r.Enter(Foreground, "in flight")
	if err != nil {
		t.Fatal(err)
	}
	hits := make(chan int, 1)
	go func() { hits <- r.KillNow() }()
	eventually(t, HardDeadline, "fenced", r.Fenced)
	k := &fakeKiller{}
	e.killer = k // Publish, as far as it is before it looks at the fence
	e.state.Store(published)
	r.live.Store(e, nil)
	r.inflight.Add(-1)
	if n := <-hits; n != 1 || k.now.Load() != 1 {
		t.Errorf("got %d hits, %d kills, want 1, 1", n, k.now.Load())
	}
}

// The fence alone kills nothing that runs.
func TestFence(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	child := startCmd(t, r, sh("sleep 3600"))
	r.Fence()
	if !r.Fenced() {
		t.Error("not fenced")
	}
	if _, err := r.Start(sh("true")); !errors.Is(err, ErrFenced) {
		t.Errorf("got %v, want %v", err, ErrFenced)
	}
	if child.over() || len(r.Live()) != 1 {
		t.Error("the running child is gone")
	}
}

type fakeKiller struct {
	soft, now atomic.Int64
	block     chan struct{}
	err       error
}

func (k *fakeKiller) Kill(context.Context) error { k.soft.Add(1); return k.err }

func (k *fakeKiller) KillNow() {
	k.now.Add(1)
	if k.block != nil {
		<-k.block
	}
}

func TestForeignKiller(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	k := &fakeKiller{block: make(chan struct{}), err: errors.New("no such container")}
	t.Cleanup(func() { close(k.block) })
	e, err := r.Enter(Foreground, "exec in a container")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Publish(k); err != nil {
		t.Fatal(err)
	}
	child := startCmd(t, r, sh(`trap '' TERM; sleep 3600`))
	if err := r.Kill(t.Context(), Server); err != nil || k.soft.Load() != 0 {
		t.Errorf("killed as another kind: %v", err)
	}
	want := []Info{{Name: "exec in a container"}, {Name: "sh", PID: child.PID()}}
	got := r.Live()
	for i := range got {
		got[i].Started = time.Time{}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Live (-want +got):\n%s", d)
	}
	begin := time.Now()
	if n := r.KillNow(); n != 2 {
		t.Errorf("got %d, want 2", n)
	}
	if d := time.Since(begin); d > slack*HardDeadline {
		t.Errorf("a provider that hangs held up the exit for %v", d)
	}
	wait(t, child)
	eventually(t, HardDeadline, "the provider asked", func() bool { return k.now.Load() == 1 })
	if err := r.Kill(t.Context(), Foreground); !errors.Is(err, k.err) {
		t.Errorf("got %v, want %v", err, k.err)
	}
}

func TestKillKinds(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	children := map[string]*Child{}
	for name, kind := range map[string]Kind{"turn": Foreground, "yielded": Foreground, "server": Server} {
		c := sh("exec sleep 3600")
		c.Name, c.Kind = name, kind
		children[name] = startCmd(t, r, c)
	}
	children["yielded"].SetKind(Background)
	if err := r.Kill(t.Context(), Foreground); err != nil {
		t.Fatal(err)
	}
	wait(t, children["turn"])
	if children["yielded"].over() || children["server"].over() {
		t.Fatal("killed more than the turn's")
	}
	if n := r.KillNow(Foreground, Background); n != 1 {
		t.Errorf("got %d, want 1", n)
	}
	wait(t, children["yielded"])
	if children["server"].over() {
		t.Fatal("killed the server")
	}
	if n := r.KillNow(); n != 1 {
		t.Errorf("got %d, want 1", n)
	}
	wait(t, children["server"])
}

// A lock that is never given back does not hold up a hard exit, and the kill gets through
// to the others.
func TestKillNowStuckLock(t *testing.T) {
	t.Parallel()
	needSetsid(t)
	r := newRegistry(t)
	var others []ident
	script := `trap '' TERM; echo $$; ` + `setsid ` + deaf + ` & sleep 3600`
	for range 3 { // before and behind the stuck one, whatever the order
		_, ids := startPrinting(t, r, sh(script), 2)
		others = append(others, ids...)
	}
	stuck := startCmd(t, r, sh(`sleep 3600`))
	stuck.tree.mu.Lock()
	defer stuck.tree.mu.Unlock()
	begin := time.Now()
	r.KillNow()
	if d := time.Since(begin); d > slack*HardDeadline {
		t.Errorf("took %v", d)
	}
	eventually(t, HardDeadline, "the others dead", allDead(others))
	// Its group could not be signalled, but every process of it was, one by one.
	eventually(t, HardDeadline, "the stuck one dead", func() bool { return len(withEnv(t, stuck.tree.id)) == 0 })
}
