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

// sse writes server-sent events. It sends nothing, the status not either, before the first of
// them, so that a turn that fails at once is answered with a status of its own.
type sse struct {
	c   *call
	rc  *http.ResponseController
	buf bytes.Buffer
	err error
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
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.err = err
		return err
	}
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
	feed := t.Feed()
	for {
		e, ok, err := feed.Next(now)
		if err != nil {
			if e, ok, err = c.wait(ctx, feed, out); err != nil {
				return err
			}
			if e.Kind == "" && ok {
				continue
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

// wait flushes and waits for the next event. An empty event with ok is a sign of life that
// was sent.
func (c *call) wait(ctx context.Context, feed *gateway.Feed, out *sse) (gateway.Event, bool, error) {
	if out == nil {
		e, ok, err := feed.Next(ctx)
		if err != nil {
			return e, false, errGone
		}
		return e, ok, nil
	}
	if out.flush() != nil {
		return gateway.Event{}, false, errGone
	}
	quiet, cancel := context.WithTimeout(ctx, c.s.beat)
	defer cancel()
	e, ok, err := feed.Next(quiet)
	switch {
	case ctx.Err() != nil && err != nil:
		return e, false, errGone
	case err != nil:
		out.comment("keepalive")
		return gateway.Event{}, true, nil
	}
	return e, ok, nil
}

// attend follows a turn that belongs to this request: it is stopped when the client goes.
func (c *call) attend(t *gateway.Turn, out *sse, take func(gateway.Event)) error {
	err := c.follow(t, out, take)
	if err != nil {
		t.Stop("the client went away")
	}
	return err
}
