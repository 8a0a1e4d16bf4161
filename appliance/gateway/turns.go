// SPDX-License-Identifier: MIT

package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
)

// keepTurn is how long a turn that is over can be found (gateway spec 1.2).
const keepTurn = 5 * time.Minute

// What is kept of the turns of one profile that are over: so many can be found, and so many of
// their events, with so much text, can be followed; then the oldest go. A turn that lost its
// events has its end yet.
const (
	mostEnded  = 1000
	mostEvents = 50_000
	mostText   = 32 << 20
)

// errGone is the cause of turns that outlived the drain.
var errGone = errors.New("the gateway is stopping")

// Turns are the turns of all profiles that run, and those that ended a short while ago. A turn
// of one profile cannot be found for another. It is safe for concurrent use.
type Turns struct {
	now     func() time.Time
	changed func(active int) // told how many run; nil = nobody

	mu       sync.Mutex
	turns    map[string]*Turn
	active   int
	of       map[string]int    // running turns of each profile
	ended    map[string]*ended // of each profile
	draining bool
	idle     chan struct{} // closed when none runs; made when somebody waits
}

// ended are the turns of a profile that are over and can be found, oldest first.
type ended struct {
	turns []*Turn
	short int    // how many of the turns, the oldest, have lost their events
	kept  weight // of the events of the others
}

// weight is what events take of memory.
type weight struct{ events, text int }

func (w weight) plus(o weight) weight  { return weight{w.events + o.events, w.text + o.text} }
func (w weight) minus(o weight) weight { return weight{w.events - o.events, w.text - o.text} }
func (w weight) over() bool            { return w.events > mostEvents || w.text > mostText }

// NewTurns returns an empty registry.
func NewTurns(now func() time.Time, changed func(active int)) *Turns {
	return &Turns{now: now, changed: changed, turns: map[string]*Turn{}, of: map[string]int{}, ended: map[string]*ended{}}
}

// Start starts a turn. It runs until its runner returns or base ends, whatever becomes of the
// request that started it. most is how many a profile may have at a time; 0 = any number. The
// error is [ErrDraining] or [ErrBusy].
func (s *Turns) Start(base context.Context, profile string, ask Ask, most int, run Runner) (*Turn, error) {
	ctx, cancel := context.WithCancelCause(base)
	t := &Turn{
		ID: cmp.Or(ask.ID, newID("run_")), Profile: profile, Ask: ask, Started: s.now(), Control: &agent.Control{},
		now: s.now, cancel: cancel, done: make(chan struct{}), news: make(chan struct{}),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		cancel(ErrDraining)
		return nil, ErrDraining
	case most > 0 && s.of[profile] >= most:
		cancel(ErrBusy)
		return nil, ErrBusy
	}
	s.sweep()
	s.turns[t.ID] = t
	s.of[profile]++
	s.active++
	s.tell()
	go func() {
		t.run(ctx, run)
		s.over(t)
	}()
	return t, nil
}

func (s *Turns) tell() {
	if s.changed != nil {
		s.changed(s.active)
	}
}

// over notes that a turn has ended.
func (s *Turns) over(t *Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	if s.of[t.Profile]--; s.of[t.Profile] == 0 {
		delete(s.of, t.Profile)
	}
	if t.Ask.Nameless {
		delete(s.turns, t.ID)
	} else {
		e := s.ended[t.Profile]
		if e == nil {
			e = &ended{}
			s.ended[t.Profile] = e
		}
		e.turns = append(e.turns, t)
		e.kept = e.kept.plus(t.weight())
	}
	s.sweep()
	s.tell()
	if s.active == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// sweep forgets turns that ended long ago, and those that are too many. The caller holds mu.
func (s *Turns) sweep() {
	now := s.now()
	for profile, e := range s.ended {
		n := max(0, len(e.turns)-mostEnded)
		for n < len(e.turns) && now.Sub(e.turns[n].ended) > keepTurn { // it is over: nobody writes ended any more
			n++
		}
		for ; e.short < n || e.kept.over() && e.short < len(e.turns)-1; e.short++ {
			e.kept = e.kept.minus(e.turns[e.short].shorten())
		}
		for _, t := range e.turns[:n] {
			delete(s.turns, t.ID)
		}
		e.turns, e.short = slices.Delete(e.turns, 0, n), e.short-n
		if len(e.turns) == 0 {
			delete(s.ended, profile)
		}
	}
}

// Get finds a turn of a profile. The id of another profile's turn is not found (gateway spec
// 1.2: 404, never 403).
func (s *Turns) Get(profile, id string) (*Turn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.turns[id]
	if !ok || t.Profile != profile {
		return nil, false
	}
	return t, true
}

// Running are the turns of a profile that run, "" = of all.
func (s *Turns) Running(profile string) []*Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Turn
	for _, t := range s.turns {
		t.mu.Lock()
		live := t.ended.IsZero()
		t.mu.Unlock()
		if live && (profile == "" || t.Profile == profile) {
			out = append(out, t)
		}
	}
	return out
}

// Waiting wraps err, which says that a turn of the session runs, in a [WaitingError] if that turn
// waits for an approval.
func (s *Turns) Waiting(profile, session string, err error) error {
	for _, t := range s.Running(profile) {
		if t.Session() != session {
			continue
		}
		if open := t.Approvals(); len(open) > 0 {
			return &WaitingError{Run: t.ID, Approvals: open, Err: err}
		}
	}
	return err
}

// Active is how many turns run.
func (s *Turns) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active
}

// Drain takes no more turns and waits for those that run; when ctx ends first it returns its
// error and they run on.
func (s *Turns) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	if s.active == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop takes no more turns, interrupts those that run, and waits until they have recorded
// their ends; when ctx ends first their contexts do, too, and it returns its error.
func (s *Turns) Stop(ctx context.Context, reason string) error {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	for _, t := range s.Running("") {
		t.Stop(reason)
	}
	err := s.Drain(ctx)
	if err != nil {
		for _, t := range s.Running("") {
			t.cancel(errGone)
		}
	}
	return err
}
