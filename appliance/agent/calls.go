// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// running is a call under way.
type running struct {
	call   model.Call
	traits Traits
	began  time.Time
	done   chan Output
}

// runCalls runs what a message asks for and records one result for each call, in the order
// of the calls, each as soon as it and those before it are there. It returns why the guard
// stopped the turn, "" otherwise.
func (t *turn) runCalls(ctx context.Context, calls []model.Call) (halt string, err error) {
	budget := 2 * t.o.SpillOver // of all results together
	for i := 0; i < len(calls); {
		group := t.group(calls[i:])
		i += len(group)
		if halt != "" || ctx.Err() != nil || err != nil {
			err = t.skip(ctx, group, halt, err)
			continue
		}
		slots := make(chan struct{}, t.o.Parallel)
		var started []*running
		for _, c := range group {
			started = append(started, t.start(ctx, c, slots))
		}
		for _, r := range started {
			out := t.wait(ctx, r)
			if err != nil {
				continue // the record is broken; wait for the others all the same
			}
			var why string
			if why, err = t.finish(ctx, r, out, &budget); why != "" {
				halt = why
			}
		}
	}
	return halt, err
}

// group returns the calls at the beginning that may run at the same time.
func (t *turn) group(calls []model.Call) []model.Call {
	n := 0
	for n < len(calls) && t.traits(calls[n]).Parallel {
		n++
	}
	return calls[:max(n, 1)]
}

func (t *turn) traits(c model.Call) (tr Traits) {
	defer func() {
		if recover() != nil {
			tr = Traits{}
		}
	}()
	return t.o.Tools.Traits(c)
}

// skip records calls that are not run.
func (t *turn) skip(ctx context.Context, calls []model.Call, halt string, err error) error {
	if err != nil {
		return err
	}
	for _, c := range calls {
		m := model.Interrupted(c)
		if halt != "" {
			m = model.Result(c, failure("not run: "+halt), true)
		}
		if err := t.record(ctx, m); err != nil {
			return err
		}
		t.emit(Event{Kind: ToolFinished, Call: c, Text: m.Text(), Failed: true})
	}
	return nil
}

// failure is the result of a call that went wrong.
func failure(text string) string {
	b, err := json.Marshal(map[string]string{"error": text})
	if err != nil {
		return `{"error": "unknown"}`
	}
	return string(b)
}

// start begins a call. Its output comes on done, whatever happens.
func (t *turn) start(ctx context.Context, c model.Call, slots chan struct{}) *running {
	r := &running{call: c, traits: t.traits(c), began: t.o.Clock.Now(), done: make(chan Output, 1)}
	t.emit(Event{Kind: ToolStarted, Call: c})
	if refused := t.refusal(c, r.traits); refused != "" {
		r.done <- Output{Text: failure(refused), Failed: true}
		return r
	}
	args, err := c.Input()
	if err != nil {
		r.done <- Output{Text: failure(err.Error() + ". Nothing was run. Send the call again with the arguments as one complete JSON object."), Failed: true}
		return r
	}
	log := t.o.Log.With("session", t.session.ID(), "tool", c.Name)
	go func() {
		out := Output{Text: model.InterruptedText, Failed: true}
		defer func() {
			if p := recover(); p != nil {
				log.ErrorContext(ctx, "panic in a tool", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				out = Output{Text: failure(fmt.Sprintf("%s failed: internal error: %v", c.Name, p)), Failed: true}
			}
			r.done <- out
		}()
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return
		}
		if ctx.Err() == nil {
			out = t.o.Tools.Call(ctx, c, args)
		}
	}()
	return r
}

// refusal says why a call is not run at all, "" = it is.
func (t *turn) refusal(c model.Call, tr Traits) string {
	var names []string
	for _, s := range t.specs {
		if s.Name == c.Name || s.Name == tr.Name {
			return t.guard.before(c, tr)
		}
		names = append(names, s.Name)
	}
	return fmt.Sprintf("unknown tool %q; the tools are: %s", c.Name, strings.Join(names, ", "))
}

// wait returns the output of a call. After an interrupt, a tool that does not end in time is
// left alone: the user must get an answer, and the record a result.
func (t *turn) wait(ctx context.Context, r *running) Output {
	select {
	case out := <-r.done:
		return out
	case <-ctx.Done():
	}
	select {
	case out := <-r.done:
		return out
	case <-t.o.Clock.After(t.o.ToolGrace):
		t.o.Log.WarnContext(ctx, "tool ignores its interrupt", "session", t.session.ID(), "tool", r.call.Name)
		return Output{Text: model.InterruptedText, Failed: true}
	}
}

// finish records the result of a call.
func (t *turn) finish(ctx context.Context, r *running, out Output, budget *int) (halt string, err error) {
	text := t.o.Redact(out.Text)
	verdict := t.guard.after(r.call, r.traits, out)
	text = t.spill(ctx, r, text, budget)
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	if verdict.warn != "" {
		text += "\n\n[" + verdict.warn + "]"
	}
	for _, s := range t.control.taken() {
		text += "\n\n[The user says, while you work: " + s + "]"
	}
	m := model.Result(r.call, text, out.Failed)
	for _, img := range out.Images {
		m.Parts = append(m.Parts, model.Part{Image: &img})
	}
	t.recovery.result(r.call, out.Failed)
	for _, d := range verdict.detectors {
		t.count("hermes.loop_guard.count", "signal", d.signal, "detector", d.name)
	}
	if err := t.record(ctx, m); err != nil {
		return "", err
	}
	t.emit(Event{Kind: ToolFinished, Call: r.call, Text: text, Failed: out.Failed, Took: t.o.Clock.Now().Sub(r.began)})
	return verdict.halt, nil
}
