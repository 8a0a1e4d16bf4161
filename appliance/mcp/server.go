// SPDX-License-Identifier: MIT

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
)

// State is what a server is doing.
type State string

// The states.
const (
	Idle       State = "idle"       // lazy, and not asked for yet
	Connecting State = "connecting" // also while it is brought back
	Ready      State = "ready"
	Waiting    State = "waiting" // it failed and is tried again later, or when it is called
	Failed     State = "failed"  // it is not tried again before its config changes
	Disabled   State = "disabled"
	Stopped    State = "stopped"
)

// server is one server of one profile. One goroutine (run) owns its connection, so that
// there is never a second process.
type server struct {
	host   *Host
	ledger *ledger
	cfg    Server

	end     context.CancelFunc // of run; nil = it does not run
	hurry   chan struct{}      // closed when there is no time for grace
	hurried sync.Once
	done    chan struct{} // closed when run is over and nothing is left
	kick    chan struct{} // try now
	samples window

	mu       sync.Mutex
	slug     string
	state    State
	conn     *conn // in state Ready
	pid      int   // of the process that there is now, whatever the state; 0 = none
	listed   listing
	tools    map[string]tool // by full name
	changes  chan struct{}   // closed and replaced when one of these changes
	tries    int             // finished attempts to connect
	connects int             // successful ones
	since    time.Time       // of state
	err      error           // of the last failure; nil once it is ready again
}

func newServer(h *Host, l *ledger, cfg Server) *server {
	return &server{
		host: h, ledger: l, cfg: cfg, state: Connecting, since: time.Now(),
		hurry: make(chan struct{}), done: make(chan struct{}), kick: make(chan struct{}, 1), changes: make(chan struct{}),
	}
}

// start lets the server run until the host ends or stop is called.
func (s *server) start() {
	started := make(chan struct{})
	s.host.run(func(ctx context.Context) {
		ctx, s.end = context.WithCancel(ctx)
		close(started)
		defer s.end()
		defer close(s.done)
		s.run(ctx)
	})
	<-started
}

// stop ends the server and returns when nothing of it is left; when ctx ends it is killed
// without grace. The error says what could not be ended.
func (s *server) stop(ctx context.Context) error {
	if s.end == nil {
		return nil
	}
	detach := context.AfterFunc(ctx, func() { s.hurried.Do(func() { close(s.hurry) }) })
	defer detach()
	s.end()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	var left *process.LeftError
	if s.state == Failed && errors.As(s.err, &left) {
		return s.err
	}
	return nil
}

// update changes what others see and tells them.
func (s *server) update(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.state
	f()
	if s.state != before {
		s.since = time.Now()
	}
	close(s.changes)
	s.changes = make(chan struct{})
}

func (s *server) run(ctx context.Context) {
	if s.cfg.Lazy {
		s.update(func() { s.state = Idle })
		select {
		case <-s.kick:
		case <-ctx.Done():
		}
	}
	for failures := 0; ctx.Err() == nil; failures++ {
		s.update(func() { s.state = Connecting })
		lasted, err := s.once(ctx)
		if ctx.Err() != nil && !permanent(err) {
			break
		}
		err = s.wrap(err)
		s.host.cfg.Log.Warn("mcp server is gone", "profile", s.ledger.current().Key, "server", s.cfg.Name, "err", err)
		if permanent(err) {
			s.update(func() { s.state, s.err = Failed, err })
			return
		}
		if lasted >= s.host.cfg.Backoff.Max {
			failures = 0
		}
		s.pause(ctx, s.delay(failures, lasted, err), err)
	}
	s.update(func() { s.state, s.tools = Stopped, nil })
}

// delay is how long a server is left alone after the given number of failures before this
// one. One that worked for long is brought back at once, one that wants a credential seldom.
func (s *server) delay(failures int, lasted time.Duration, err error) time.Duration {
	b := s.host.cfg.Backoff
	var auth *AuthError
	switch {
	case errors.As(err, &auth):
		return b.Max
	case lasted >= b.Max:
		return 0
	}
	d := b.First
	for range failures {
		if d *= 2; d >= b.Max {
			return b.Max
		}
	}
	return d
}

// pause waits until the server is to be tried again: after the time, or when a call wants it.
func (s *server) pause(ctx context.Context, d time.Duration, err error) {
	select {
	case <-s.kick: // from before this failure
	default:
	}
	s.update(func() { s.state, s.err = Waiting, err })
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.kick:
	case <-ctx.Done():
	}
}

// once connects, serves until the connection is over, and ends whatever is left of it. It
// returns how long the server was ready and why it is not any more.
func (s *server) once(ctx context.Context) (time.Duration, error) {
	c, listed, err := s.open(ctx)
	if err != nil {
		err = s.wrap(err)
		s.update(func() { s.tries, s.err = s.tries+1, err })
		return 0, err
	}
	began := time.Now()
	s.update(func() {
		s.state, s.conn, s.err = Ready, c, nil
		s.tries++
		s.connects++
		s.take(listed)
	})
	s.host.cfg.Log.Info("mcp server is ready", "profile", s.ledger.current().Key, "server", s.cfg.Name, "tools", len(listed.tools), "pid", c.link.pid())
	err = s.serve(ctx, c)
	s.update(func() { s.state, s.conn = Connecting, nil })
	return time.Since(began), errors.Join(err, s.hangUp(ctx, c))
}

// open connects and lists what the server offers. After an error nothing is left.
func (s *server) open(ctx context.Context) (*conn, listing, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return nil, listing{}, err
	}
	listed, err := s.list(ctx, c)
	if err == nil {
		return c, listed, nil
	}
	if broken(err) {
		err = c.link.explain(ctx, err)
	}
	return nil, listing{}, errors.Join(err, s.hangUp(ctx, c))
}

// serve keeps the connection until it is over and returns why.
func (s *server) serve(ctx context.Context, c *conn) error {
	var tick <-chan time.Time
	if s.cfg.Keepalive > 0 && c.pings() {
		ticker := time.NewTicker(s.cfg.Keepalive)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-c.over:
			return c.why()
		case <-c.changed:
			listed, err := s.list(ctx, c)
			if err != nil { // the old list stays; a dead connection is noticed above
				s.host.cfg.Log.Warn("tools of mcp server cannot be listed again", "profile", s.ledger.current().Key, "server", s.cfg.Name, "err", s.wrap(err))
				continue
			}
			s.update(func() { s.take(listed) })
		case <-tick:
			if err := c.alive(ctx, s.host.waits.ping); err != nil {
				c.fail(err)
			}
		}
	}
}

// wake starts a lazy server.
func (s *server) wake() {
	s.mu.Lock()
	idle := s.state == Idle || s.cfg.Lazy && s.tries == 0
	s.mu.Unlock()
	if idle {
		s.poke()
	}
}

func (s *server) poke() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// await waits until the condition holds, which is asked under the lock. It returns the cause
// of ctx if that ends first.
func (s *server) await(ctx context.Context, holds func() bool) error {
	for {
		s.mu.Lock()
		ok, changes := holds(), s.changes
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// settle waits for the server's first result.
func (s *server) settle(ctx context.Context) {
	//nolint:errcheck // the caller takes what there is
	s.await(ctx, func() bool { return s.tries > 0 || s.final() })
}

// final reports whether the server does not run. The lock is held.
func (s *server) final() bool { return s.state == Failed || s.state == Disabled || s.state == Stopped }

// connected returns a living connection, and waits for one attempt to make it if there is
// none.
func (s *server) connected(ctx context.Context) (*conn, error) {
	s.mu.Lock()
	before := s.tries
	s.mu.Unlock()
	var (
		c   *conn
		err error
	)
	werr := s.await(ctx, func() bool {
		c, err = s.conn, s.err
		if c != nil && c.dead() { // run has not seen it yet
			c = nil
			return false
		}
		if c == nil && (s.state == Waiting || s.state == Idle) {
			s.poke()
		}
		return c != nil || s.final() || s.tries > before
	})
	switch {
	case werr != nil:
		return nil, werr
	case c != nil:
		return c, nil
	case err != nil:
		return nil, err
	}
	return nil, errStopped
}

// call calls one of the server's tools.
func (s *server) call(ctx context.Context, t tool, args json.RawMessage) (Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, &TimeoutError{What: "the call", After: s.cfg.Timeout})
	defer cancel()
	c, err := s.connected(ctx)
	if err != nil {
		return Result{}, s.wrap(err)
	}
	r, err := s.callOn(ctx, c, t, args)
	if err != nil && unsent(err) && ctx.Err() == nil {
		if err = s.await(ctx, func() bool { return s.conn != c }); err == nil {
			if c, err = s.connected(ctx); err == nil {
				r, err = s.callOn(ctx, c, t, args)
			}
		}
	}
	return r, s.wrap(err)
}

func (s *server) callOn(ctx context.Context, c *conn, t tool, args json.RawMessage) (Result, error) {
	within, release := c.within(ctx)
	defer release()
	r, err := t.run(within, c, args)
	switch {
	case err == nil:
		return r, nil
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	case unsent(err):
		return r, err
	case within.Err() == nil && broken(err):
		// The SDK saw the end first; the reason follows in a moment.
		timer := time.NewTimer(2 * s.host.waits.reason)
		defer timer.Stop()
		select {
		case <-within.Done():
		case <-timer.C:
			return r, err
		}
	}
	if within.Err() != nil {
		return r, errors.Join(errors.New("it ended during the call, which may have been carried out"), context.Cause(within))
	}
	return r, err
}
