// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// Backoff between tries of one route.
const (
	firstWait = 2 * time.Second
	mostWait  = time.Minute
)

// ask calls the model until it answers: again after failures that pass, on the next route
// after others, with a compressed history when it no longer fits.
func (t *turn) ask(ctx context.Context, last bool) (model.Answer, error) {
	if err := t.compressIfFull(ctx); err != nil {
		return model.Answer{}, err
	}
	for {
		a, err := t.tryRoute(ctx, last)
		if err == nil || ctx.Err() != nil {
			return a, err
		}
		failed := (*model.Error)(nil)
		if !errors.As(err, &failed) {
			return a, err
		}
		t.discard()
		if failed.Kind == model.Overflow && t.packed < t.o.Compression.Most {
			if cerr := t.compress(ctx, "The conversation no longer fits the model"); cerr == nil {
				continue
			} else if !errors.Is(cerr, errIncompressible) {
				return a, cerr
			}
		}
		if t.route+1 >= len(t.o.Routes) {
			return a, err
		}
		t.route++
		t.emit(Event{Kind: Notice, Err: err, Text: fmt.Sprintf("%v. Going on with %s.", err, t.routeName())})
		t.o.Log.WarnContext(ctx, "model route failed", "session", t.session.ID(), "error", err.Error(), "next", t.routeName())
	}
}

// discard voids what has been shown of a message that will come again.
func (t *turn) discard() {
	if t.shown {
		t.shown = false
		t.emit(Event{Kind: Discard})
	}
}

func (t *turn) tryRoute(ctx context.Context, last bool) (model.Answer, error) {
	for try := 0; ; try++ {
		a, err := t.call(ctx, last)
		failed := (*model.Error)(nil)
		if err == nil || ctx.Err() != nil || !errors.As(err, &failed) || !failed.Temporary() || try >= t.o.Retries {
			return a, err
		}
		wait := max(backoff(try), failed.RetryAfter)
		if failed.RetryAfter > t.o.MaxWait {
			return a, err
		}
		t.discard()
		t.emit(Event{Kind: Retrying, Err: err, Wait: wait})
		t.o.Log.InfoContext(ctx, "model call is tried again", "session", t.session.ID(), "error", err.Error(), "wait", wait)
		select {
		case <-t.o.Clock.After(wait):
		case <-ctx.Done():
			return model.Answer{}, context.Cause(ctx)
		}
	}
}

// backoff doubles with each try and is spread by half, so that many turns that failed
// together do not come back together.
func backoff(try int) time.Duration {
	d := min(firstWait<<min(try, 10), mostWait)
	return d/2 + time.Duration(rand.Int64N(int64(d))) //nolint:gosec // spreading load needs no secrecy
}

// call makes one call of the model and books it.
func (t *turn) call(ctx context.Context, last bool) (model.Answer, error) {
	r := t.current()
	req := model.Request{System: t.system, Messages: t.history, Tools: t.specs, NoCalls: last, Effort: t.o.Effort}
	t.shown = false
	began := t.o.Clock.Now()
	a, err := t.o.Model.Stream(ctx, r, req, func(d model.Delta) {
		switch {
		case d.Text != "":
			t.shown = true
			t.emit(Event{Kind: TextDelta, Text: d.Text})
		case d.Reasoning != "":
			t.emit(Event{Kind: ReasoningDelta, Text: d.Reasoning})
		case d.Call != "":
			t.emit(Event{Kind: CallDelta, Text: d.Call})
		}
	})
	if err != nil {
		return a, err
	}
	t.steps++
	t.filled = a.Usage.Input + a.Usage.Output
	t.spend(ctx, r, "turn", a.Usage, t.o.Clock.Now().Sub(began))
	t.count("hermes.model_reply_issue.count", "issue", replyIssue(a))
	return a, nil
}

func (t *turn) spend(ctx context.Context, r model.Route, purpose string, u model.Usage, took time.Duration) {
	t.usage = t.usage.Add(u)
	t.emit(Event{Kind: Spent, Usage: u})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	if err := t.session.Spend(ctx, Spending{Provider: r.Provider, Model: r.Model, Purpose: purpose, Usage: u, Took: took}); err != nil {
		t.o.Log.WarnContext(ctx, "usage not recorded", "session", t.session.ID(), "error", err.Error())
	}
}

// replyIssue names what is wrong with an answer, by upstream's words.
func replyIssue(a model.Answer) string {
	m := a.Message
	switch {
	case a.Finish == model.FinishRefusal:
		return "refusal"
	case a.Finish == model.FinishLength:
		return "truncated_length"
	case len(m.Calls) > 0 || m.Text() != "":
		return "none"
	case m.Reasoning != "":
		return "reasoning_only"
	}
	return "empty"
}
