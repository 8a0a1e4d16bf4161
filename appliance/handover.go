// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Budgets of a handover.
const (
	handOverLeast = time.Second     // that requests may take to end, whatever the drain is
	handOverMost  = 5 * time.Second // after which connections are taken again
)

// held is a listener that the service manager keeps open: it can be paused, and connections
// then wait in it for the next gateway, or until it is resumed.
type held struct {
	net.Listener

	mu     sync.Mutex
	news   *sync.Cond // of mu: anything below changed
	paused bool
	parked bool // nobody is inside Accept, and nobody will be until it is resumed
	ended  bool
	open   int // connections that were taken and are not closed
}

func newHeld(l net.Listener) *held {
	h := &held{Listener: l}
	h.news = sync.NewCond(&h.mu)
	return h
}

// Accept implements [net.Listener].
func (h *held) Accept() (net.Conn, error) {
	for {
		h.mu.Lock()
		for h.paused && !h.ended {
			h.parked = true
			h.news.Broadcast()
			h.news.Wait()
		}
		h.parked = false
		ended := h.ended
		h.mu.Unlock()
		if ended {
			return nil, net.ErrClosed
		}
		c, err := h.Listener.Accept()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return nil, err
		}
		h.count(1)
		return &heldConn{Conn: c, closed: sync.OnceFunc(func() { h.count(-1) })}, nil
	}
}

func (h *held) count(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open += n
	h.news.Broadcast()
}

// Close implements [net.Listener]. The manager's end stays open.
func (h *held) Close() error {
	h.mu.Lock()
	h.ended = true
	h.news.Broadcast()
	h.mu.Unlock()
	return h.Listener.Close()
}

// deadline ends an Accept that waits; the zero time lets it wait.
func (h *held) deadline(at time.Time) {
	if l, ok := h.Listener.(interface{ SetDeadline(at time.Time) error }); ok {
		l.SetDeadline(at) //nolint:errcheck // one that is closed takes no connections either
	}
}

// pause stops taking connections. Those that were taken before it returns are all counted.
func (h *held) pause(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paused = true
	h.deadline(time.Unix(1, 0))
	h.await(ctx, func() bool { return h.parked })
}

// resume takes connections again, those that waited first.
func (h *held) resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paused = false
	h.deadline(time.Time{})
	h.news.Broadcast()
}

// quiet waits until no connection is open any more; it reports whether that was so in time.
func (h *held) quiet(ctx context.Context) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.await(ctx, func() bool { return h.open == 0 })
}

// await waits for something; the caller holds mu.
func (h *held) await(ctx context.Context, ok func() bool) bool {
	stop := context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.news.Broadcast()
	})
	defer stop()
	for !ok() && !h.ended && ctx.Err() == nil {
		h.news.Wait()
	}
	return ok()
}

// heldConn tells its listener when it is closed.
type heldConn struct {
	net.Conn

	closed func()
}

// Close implements [net.Conn].
func (c *heldConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// handOver has new connections wait in the manager's sockets for the next gateway, and lets the
// requests and turns that are there end, within limit. What takes longer may need an answer from
// outside, an approval say: then it reports false and connections are taken again, and whoever
// wants a new turn is told to come back.
func (s *server) handOver(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	all := s.heldListeners()
	for _, a := range all {
		a.held.pause(ctx)
		a.server.Retire()
	}
	quiet := len(all) > 0
	for _, a := range all {
		quiet = a.held.quiet(ctx) && quiet
	}
	return quiet && s.rt.Turns.Drain(ctx) == nil
}

// takeAgain ends what handOver began.
func (s *server) takeAgain() {
	for _, a := range s.heldListeners() {
		a.held.resume()
	}
}

func (s *server) heldListeners() (out []*listener) {
	for _, a := range []*listener{s.api, s.hooks} {
		if a != nil && a.held != nil {
			out = append(out, a)
		}
	}
	return out
}
