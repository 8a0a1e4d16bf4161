// SPDX-License-Identifier: MIT

package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/approval"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// Runner runs the turn: it is the profile's agent. It hands each event to emit, in order, and
// returns when everything the turn started has ended.
type Runner func(ctx context.Context, t *Turn, emit func(agent.Event)) (agent.Result, error)

// Turn is one turn of a profile. It is safe for concurrent use.
type Turn struct {
	ID      string // run_ and 24 hex digits
	Profile string // home key
	Ask     Ask    // without what was said once the turn is over: that is in its session
	Started time.Time
	Control *agent.Control

	now    func() time.Time
	cancel context.CancelCauseFunc
	done   chan struct{}

	mu       sync.Mutex
	events   []Event
	lost     int           // events that were before them
	news     chan struct{} // closed and replaced with each event
	session  string
	stopping bool
	waiting  []*question // approvals, oldest first
	result   agent.Result
	err      error
	ended    time.Time
}

// question is an approval that waits.
type question struct {
	Approval

	answer chan approval.Answer
}

func newID(prefix string) string {
	var b [12]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

// emit adds an event for all who follow.
func (t *Turn) emit(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Kind == SessionNamed || e.Kind == agent.SessionChanged {
		t.session = e.Text
	}
	t.events = append(t.events, e)
	close(t.news)
	t.news = make(chan struct{})
}

// weight is that of the events that are kept.
func (t *Turn) weight() weight {
	t.mu.Lock()
	defer t.mu.Unlock()
	return weigh(t.events)
}

func weigh(events []Event) weight {
	w := weight{events: len(events)}
	for _, e := range events {
		w.text += len(e.Text) + len(e.Call.Args)
	}
	return w
}

// shorten forgets all events but the last, which says how the turn ended, and returns what they
// weighed together.
func (t *Turn) shorten() weight {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := weigh(t.events)
	if n := len(t.events); n > 1 {
		t.events, t.lost = slices.Clone(t.events[n-1:]), t.lost+n-1
	}
	return w
}

// Named tells which session records the turn; the runner calls it before anything else.
func (t *Turn) Named(session string) {
	t.emit(Event{Event: agent.Event{Kind: SessionNamed, Text: session}})
}

// Session is the id of the session that records the turn now, "" before it is known.
func (t *Turn) Session() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session
}

// Feed follows a turn from its first event on. Every feed sees every event, of a turn that
// ended a while ago perhaps only the last one; one that is slow or forgotten holds up nobody.
type Feed struct {
	t    *Turn
	next int
}

// Feed returns a new feed.
func (t *Turn) Feed() *Feed { return &Feed{t: t} }

// Next returns the next event. ok is false when the turn is over and all was seen; the error
// is that of ctx.
func (f *Feed) Next(ctx context.Context) (e Event, ok bool, err error) {
	for {
		f.t.mu.Lock()
		if f.next = max(f.next, f.t.lost); f.next-f.t.lost < len(f.t.events) {
			e = f.t.events[f.next-f.t.lost]
			f.next++
			f.t.mu.Unlock()
			return e, true, nil
		}
		news, over := f.t.news, !f.t.ended.IsZero()
		f.t.mu.Unlock()
		if over {
			return Event{}, false, nil
		}
		select {
		case <-news:
		case <-f.t.done:
		case <-ctx.Done():
			return Event{}, false, ctx.Err()
		}
	}
}

// Done is closed when the turn is over.
func (t *Turn) Done() <-chan struct{} { return t.done }

// Result is what came of the turn; it waits for its end or for ctx.
func (t *Turn) Result(ctx context.Context) (agent.Result, error) {
	select {
	case <-t.done:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.result, t.err
	case <-ctx.Done():
		return agent.Result{}, ctx.Err()
	}
}

// Stop interrupts the turn at the next safe point and denies what waits for an answer. It is
// over when Done is closed, not before.
func (t *Turn) Stop(reason string) {
	t.mu.Lock()
	t.stopping = true
	waiting := t.waiting
	t.waiting = nil
	t.mu.Unlock()
	for _, q := range waiting {
		q.answer <- approval.Deny
	}
	t.Control.Interrupt(reason)
}

// Stopping reports whether the turn was told to stop and has not ended yet.
func (t *Turn) Stopping() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stopping && t.ended.IsZero()
}

// Steer hands the model a text with its next tool result; false = the turn is over.
func (t *Turn) Steer(text string) bool { return t.Control.Steer(text) }

// Approvals are the questions that wait for an answer, oldest first.
func (t *Turn) Approvals() []Approval {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Approval, len(t.waiting))
	for i, q := range t.waiting {
		out[i] = q.Approval
	}
	return out
}

// Answer answers a question, "" = the oldest. Each question is answered once (PR#4973); the
// others go on waiting (H#81026). The error is [ErrNoApproval].
func (t *Turn) Answer(id string, a approval.Answer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, q := range t.waiting {
		if id == "" || q.ID == id {
			t.waiting = slices.Delete(t.waiting, i, i+1)
			q.answer <- a // it has room for one
			return nil
		}
	}
	return ErrNoApproval
}

// Reviewed tells those who follow the turn what a model decided about a command.
func (t *Turn) Reviewed(r Review) {
	t.emit(Event{Event: agent.Event{Kind: Reviewed, Text: r.Reason}, Review: &r})
}

// Subagent tells those who follow the turn what a subagent of it does.
func (t *Turn) Subagent(kind agent.EventKind, s Subagent, e agent.Event) {
	e.Kind = kind
	t.emit(Event{Event: e, Subagent: &s})
}

// Permit asks whether a command may run and waits: for an answer, for the end of the time, or
// for the end of the turn. Nobody there, and everything that is not an answer, is no.
func (t *Turn) Permit(ctx context.Context, ask Question) approval.Answer {
	if !t.Ask.Attended {
		return approval.Deny
	}
	v, timeout := ask.Verdict, ask.Timeout
	if timeout <= 0 {
		timeout = approval.DefaultTimeout
	}
	now := t.now()
	q := &question{answer: make(chan approval.Answer, 1), Approval: Approval{
		ID: newID("apr_"), Command: v.Shown, Reason: v.Reason, Asked: now, Until: now.Add(timeout), Grants: len(v.Grants) > 0,
		Subagent: ask.Subagent,
	}}
	t.mu.Lock()
	if t.stopping {
		t.mu.Unlock()
		return approval.Deny
	}
	t.waiting = append(t.waiting, q)
	t.mu.Unlock()
	asked := q.Approval
	t.emit(Event{Event: agent.Event{Kind: ApprovalAsked, Text: v.Reason}, Approval: &asked})
	answer := approval.Await(ctx, timeout, func(ctx context.Context) (approval.Answer, error) {
		select {
		case a := <-q.answer:
			return a, nil
		case <-ctx.Done():
			return approval.Deny, ctx.Err()
		}
	})
	t.mu.Lock()
	t.waiting = slices.DeleteFunc(t.waiting, func(w *question) bool { return w == q })
	t.mu.Unlock()
	answered := q.Approval
	answered.Answer = answer
	t.emit(Event{Event: agent.Event{Kind: ApprovalDone}, Approval: &answered})
	return answer
}

// run is the turn's life.
func (t *Turn) run(ctx context.Context, run Runner) {
	var result agent.Result
	err := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("internal error: %v", p)
				t.emit(Event{Event: agent.Event{Kind: agent.Failed, Err: err}})
			}
		}()
		result, err = run(ctx, t, func(e agent.Event) { t.emit(Event{Event: e}) })
		return err
	}()
	t.mu.Lock()
	if err != nil && !slices.ContainsFunc(t.events, func(e Event) bool { return e.Kind == agent.Failed || e.Kind == agent.Stopped }) {
		// Whoever follows gets an end in every case (PicoClaw#36).
		t.events = append(t.events, Event{Event: agent.Event{Kind: agent.Failed, Err: err}})
	}
	t.events = slices.Clone(t.events) // no room for more of them
	// It can be found for minutes: the pictures and the past that a client sent need not stay.
	t.Ask.Input, t.Ask.History, t.Ask.Overlay, result.Session = model.Message{}, nil, "", nil
	t.result, t.err, t.ended = result, err, t.now()
	t.mu.Unlock()
	t.cancel(nil)
	close(t.done)
}
