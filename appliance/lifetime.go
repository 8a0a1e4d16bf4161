// SPDX-License-Identifier: MIT

package appliance

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// mostIdle is how many sessions of a profile keep what they have open while no turn uses them;
// then those that have been idle longest lose it early. It bounds memory, whatever number of
// sessions there is.
const mostIdle = 1000

// lifetimes ends what a session has open beside its record when no turn has used it for
// terminal.lifetime_seconds: the directory and the exports of its shell, and its task list. A
// background command that runs keeps them (#41225). Afterwards the session goes on like one
// after a restart: its shell begins anew, its task list is read from its record.
type lifetimes struct {
	t *Tenant

	mu     sync.Mutex
	of     map[string]*life
	idle   list.List // of *life: what no turn uses, the longest idle first
	timer  *time.Timer
	closed bool
}

// life is one session.
type life struct {
	session string
	turns   int           // that use it
	since   time.Time     // when it became idle
	place   *list.Element // in lifetimes.idle; nil = it is in use, or over
	over    chan struct{} // closed when it was ended; nil = it is not being
}

// use says that a turn uses a session until done is called. It waits while the session is
// being ended.
func (x *lifetimes) use(session string) (done func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		l := x.of[session]
		if l == nil {
			l = &life{session: session}
			if x.of == nil {
				x.of = map[string]*life{}
			}
			x.of[session] = l
		}
		if l.over == nil {
			if l.place != nil {
				x.idle.Remove(l.place)
				l.place = nil
			}
			l.turns++
			return sync.OnceFunc(func() { x.unused(l) })
		}
		x.mu.Unlock()
		<-l.over
		x.mu.Lock()
	}
}

func (x *lifetimes) unused(l *life) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if l.turns--; l.turns > 0 {
		return
	}
	l.since = x.t.rt.now()
	l.place = x.idle.PushBack(l)
	if x.idle.Len() > mostIdle {
		x.later(0)
		return
	}
	x.later(x.t.term.lifetime())
}

// later has a sweep happen after d, unless one comes sooner. The caller holds mu.
func (x *lifetimes) later(d time.Duration) {
	switch {
	case x.closed:
	case x.timer == nil:
		x.timer = time.AfterFunc(d, x.wake)
	case d == 0:
		x.timer.Reset(0)
	}
}

// wake is the timer's.
func (x *lifetimes) wake() {
	x.mu.Lock()
	x.timer = nil
	if x.closed {
		x.mu.Unlock()
		return
	}
	x.t.rt.chores.Add(1)
	x.mu.Unlock()
	defer x.t.rt.chores.Done()
	x.sweep(x.t.rt.base)
	x.mu.Lock()
	defer x.mu.Unlock()
	if first := x.idle.Front(); first != nil {
		x.later(max(time.Second, x.t.term.lifetime()-x.t.rt.now().Sub(first.Value.(*life).since)))
	}
}

// sweep ends what has been idle for too long.
func (x *lifetimes) sweep(ctx context.Context) {
	now, limit := x.t.rt.now(), x.t.term.lifetime()
	busy := x.t.term.busy()
	var gone []string
	over := make(chan struct{})
	x.mu.Lock()
	most := mostIdle
	if x.idle.Len() > most {
		most -= most / 10 // many at a time: what a shell has kept is removed by a command
	}
	for range x.idle.Len() {
		first := x.idle.Front()
		l := first.Value.(*life)
		if now.Sub(l.since) < limit && x.idle.Len() <= most {
			break
		}
		if busy[l.session] {
			l.since = now
			x.idle.MoveToBack(first)
			continue
		}
		x.idle.Remove(first)
		l.place, l.over = nil, over
		gone = append(gone, l.session)
	}
	x.mu.Unlock()
	if len(gone) > 0 {
		x.t.forget(ctx, gone...)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, session := range gone {
		delete(x.of, session)
	}
	close(over)
}

// close ends the sweeping.
func (x *lifetimes) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.timer != nil {
		x.timer.Stop()
	}
}

// forget ends what sessions have open beside their records. Commands that run go on.
func (t *Tenant) forget(ctx context.Context, sessions ...string) {
	t.term.forget(ctx, sessions...)
	t.opening.Lock()
	defer t.opening.Unlock()
	for _, session := range sessions {
		delete(t.todos, session)
	}
}
