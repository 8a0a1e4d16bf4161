// SPDX-License-Identifier: MIT

package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
)

// errGone says that the client is no longer there.
var errGone = errors.New("the client went away")

// statusGone is what proxies call a request whose client went away.
const statusGone = 499

// sse writes server-sent events. It sends nothing, the status not either, before the first of
// them, so that a turn that fails at once is answered with a status of its own.
type sse struct {
	c     *call
	rc    *http.ResponseController
	buf   bytes.Buffer
	until time.Time // the deadline of writes
	wrote bool      // since the last look of a heartbeat
	err   error
}

func (c *call) stream() *sse { return &sse{c: c, rc: http.NewResponseController(c.w)} }

// begun reports whether the client has seen something.
func (s *sse) begun() bool { return s.c.w.status != 0 || s.buf.Len() > 0 }

// send adds an event. name and id may be empty.
func (s *sse) send(name, id string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		s.err = err
		return
	}
	s.raw(name, id, body)
}

func (s *sse) raw(name, id string, body []byte) {
	if id != "" {
		s.buf.WriteString("id: " + id + "\n")
	}
	if name != "" {
		s.buf.WriteString("event: " + name + "\n")
	}
	s.buf.WriteString("data: ")
	s.buf.Write(body) // JSON has no line breaks
	s.buf.WriteString("\n\n")
}

// comment is what a quiet stream sends.
func (s *sse) comment(text string) { s.buf.WriteString(": " + text + "\n\n") }

// flush hands the client what was added.
func (s *sse) flush() error {
	if s.err != nil || s.buf.Len() == 0 {
		return s.err
	}
	if s.c.w.status == 0 {
		h := s.c.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache, no-transform")
		h.Set("X-Accel-Buffering", "no")
		s.c.w.WriteHeader(http.StatusOK)
	}
	if now := time.Now(); s.until.Sub(now) < writeTime/2 {
		s.until = now.Add(writeTime)
		if err := s.rc.SetWriteDeadline(s.until); err != nil && !errors.Is(err, http.ErrNotSupported) {
			s.err = err
			return err
		}
	}
	s.wrote = true
	_, s.err = s.c.w.Write(s.buf.Bytes())
	s.buf.Reset()
	if s.err == nil {
		if err := s.rc.Flush(); !errors.Is(err, http.ErrNotSupported) {
			s.err = err
		}
	}
	return s.err
}

// follow gives each event of a turn to take until the turn is over; out may be nil. Events
// that are there already are written in one piece. The error is errGone.
func (c *call) follow(t *gateway.Turn, out *sse, take func(gateway.Event)) error {
	ctx := c.r.Context()
	now, cancel := context.WithCancel(ctx)
	cancel() // what Next finds with it is there already
	p := pulse{ctx: ctx, every: c.s.beat}
	defer p.end()
	feed := t.Feed()
	for {
		e, ok, err := feed.Next(now)
		for err != nil {
			if out != nil && out.flush() != nil || ctx.Err() != nil {
				return errGone
			}
			if e, ok, err = feed.Next(p.next()); err != nil && ctx.Err() == nil && out != nil {
				out.quiet()
			}
		}
		if !ok {
			return nil
		}
		take(e)
		if out != nil && out.buf.Len() > 32<<10 && out.flush() != nil {
			return errGone
		}
	}
}

// quiet sends a sign of life if nothing else was sent since it was called last.
func (s *sse) quiet() {
	if !s.wrote {
		s.comment("keepalive")
	}
	s.wrote = false
}

// pulse gives contexts that end with each beat: one for many events, since a timer for each
// would cost more than the event.
type pulse struct {
	ctx    context.Context //nolint:containedctx // that of the request that the pulse belongs to
	every  time.Duration
	beat   context.Context //nolint:containedctx // the present one
	cancel context.CancelFunc
}

func (p *pulse) next() context.Context {
	if p.beat == nil || p.beat.Err() != nil {
		p.end()
		p.beat, p.cancel = context.WithTimeout(p.ctx, p.every)
	}
	return p.beat
}

func (p *pulse) end() {
	if p.cancel != nil {
		p.cancel()
	}
}

// attend follows a turn that belongs to this request: it is stopped when the client goes.
func (c *call) attend(t *gateway.Turn, out *sse, take func(gateway.Event)) error {
	err := c.follow(t, out, take)
	if err != nil {
		t.Stop("the client went away")
	}
	return err
}
