// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// recordTime bounds one write of the record after the turn was stopped.
const recordTime = 30 * time.Second

// turn is one run of the loop.
type turn struct {
	*Agent
	session Session
	control *Control
	emit    func(Event)

	system  string
	specs   []model.ToolSpec
	history []model.Message
	route   int   // of o.Routes; a failed one is not tried again in this turn
	filled  int64 // tokens of the last prompt and its answer; 0 = unknown
	packed  int   // compressions so far

	steps    int
	usage    model.Usage
	shown    bool // text of the message that is being streamed has been shown
	guard    *guard
	recovery recovery
}

// Run takes a message of the user through the model and its tools to an answer. A message
// without parts goes on from the history as it is: the last question is asked again. Run
// returns when everything it started has ended, a tool that ignores its interrupt excepted.
// control and emit may be nil.
//
// After an interrupt through control the error is nil and Result.Stop says so; when ctx was
// cancelled, the error is its cause. With any other error there is no answer, and the error
// is fit to be shown to the user.
func (a *Agent) Run(ctx context.Context, s Session, input model.Message, control *Control, emit func(Event)) (Result, error) {
	if control == nil {
		control = &Control{}
	}
	if emit == nil {
		emit = func(Event) {}
	}
	t := &turn{Agent: a, session: s, control: control, emit: emit, guard: newGuard(a.o.Guard), specs: a.o.Tools.Specs()}
	ctx, cancel := control.bind(ctx)
	defer cancel(nil)
	text, stop, err := t.guarded(ctx, input)
	t.recovery.end(t)
	res := Result{Text: text, Stop: stop, Session: t.session, Steps: t.steps, Usage: t.usage, Unsteered: control.finish()}
	switch cause := context.Cause(ctx); {
	case err == nil && stop == Interrupted:
		emit(Event{Kind: Stopped, Text: text})
		if by := (*InterruptError)(nil); !errors.As(cause, &by) {
			err = cause
		}
	case err == nil:
		emit(Event{Kind: Final, Text: text})
	default:
		res.Stop = Errored
		emit(Event{Kind: Failed, Text: text, Err: err})
	}
	return res, err
}

// guarded turns a panic into an error: one broken turn must not take the others down.
func (t *turn) guarded(ctx context.Context, input model.Message) (text string, stop StopReason, err error) {
	defer func() {
		if p := recover(); p != nil {
			t.o.Log.ErrorContext(ctx, "panic in a turn", "session", t.session.ID(), "panic", fmt.Sprint(p))
			err = fmt.Errorf("the turn failed: internal error: %v", p)
		}
	}()
	if err := t.begin(ctx, input); err != nil {
		if ctx.Err() != nil {
			return "", Interrupted, nil
		}
		return "", Errored, err
	}
	return t.loop(ctx)
}

// begin reads the session and records the message.
func (t *turn) begin(ctx context.Context, input model.Message) error {
	var err error
	if t.history, err = t.session.History(ctx); err != nil {
		return fmt.Errorf("read the session: %w", err)
	}
	if err := t.loadPrompt(ctx); err != nil {
		return err
	}
	// A program that ended in the middle of a call left it without a result.
	for _, c := range unanswered(t.history) {
		if err := t.record(ctx, model.Interrupted(c)); err != nil {
			return err
		}
	}
	if len(input.Parts) == 0 {
		return nil
	}
	input.Role = model.User
	return t.record(ctx, input)
}

// unanswered returns the calls at the end of a history that have no result.
func unanswered(history []model.Message) []model.Call {
	answered := map[string]bool{}
	for _, m := range slices.Backward(history) {
		if m.Role == model.Tool {
			answered[m.CallID] = true
			continue
		}
		var open []model.Call
		for _, c := range m.Calls {
			if !answered[c.ID] {
				open = append(open, c)
			}
		}
		return open
	}
	return nil
}

func (t *turn) loadPrompt(ctx context.Context) error {
	text, err := t.session.Prompt(ctx)
	if err != nil {
		return fmt.Errorf("read the session: %w", err)
	}
	if text == "" {
		if text, err = t.o.Prompt(ctx); err != nil {
			return fmt.Errorf("build the system prompt: %w", err)
		}
		if err = t.session.SetPrompt(ctx, text); err != nil {
			return fmt.Errorf("write the session: %w", err)
		}
	}
	t.system = text
	return nil
}

// record adds a message to the session and to the history of the turn. It works after an
// interrupt too: what has happened must be on record.
func (t *turn) record(ctx context.Context, m model.Message) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	if err := t.session.Append(ctx, m); err != nil {
		return fmt.Errorf("write the session: %w", err)
	}
	t.history = append(t.history, m)
	return nil
}

// loop goes on until there is an answer.
func (t *turn) loop(ctx context.Context) (string, StopReason, error) {
	var answer strings.Builder // pieces of one that was cut off at its length limit
	empty, cut := 0, 0
	for range t.o.MaxSteps {
		a, err := t.ask(ctx, false)
		if ctx.Err() != nil {
			return t.stopped(ctx, answer.String(), a)
		}
		if err != nil {
			return answer.String() + a.Message.Text(), Errored, err
		}
		m := a.Message
		if len(m.Calls) == 0 && m.Text() == "" {
			if empty++; empty > 2 {
				return answer.String(), Errored, fmt.Errorf("%s gave no answer, %d times in a row (%s)", t.routeName(), empty, a.Finish)
			}
			t.emit(Event{Kind: Discard})
			continue
		}
		empty = 0
		t.recovery.round(t, m.Calls)
		if err := t.record(ctx, m); err != nil {
			return m.Text(), Errored, err
		}
		t.emit(Event{Kind: MessageDone, Text: m.Text()})
		if len(m.Calls) > 0 {
			answer.Reset()
			halt, err := t.runCalls(ctx, m.Calls)
			switch {
			case err != nil:
				return m.Text(), Errored, err
			case ctx.Err() != nil:
				return m.Text(), Interrupted, nil //nolint:nilerr // an interrupt is no failure; Run tells its cause
			case halt != "":
				return t.closing(ctx, Looping, "The same tool calls were repeated without progress and no more calls are allowed in this turn ("+halt+").")
			}
			continue
		}
		answer.WriteString(m.Text())
		if a.Finish != model.FinishLength {
			return answer.String(), Answered, nil
		}
		if cut++; cut > 2 {
			t.emit(Event{Kind: Notice, Text: "The answer was cut off at the model's length limit."})
			return answer.String(), Answered, nil
		}
		if err := t.record(ctx, model.Text(model.User, "[Your answer was cut off at its length limit. Go on exactly where it stopped, without repeating anything.]")); err != nil {
			return answer.String(), Errored, err
		}
	}
	t.count("hermes.loop_guard.count", "signal", "iteration_cap", "detector", "iteration_budget")
	return t.closing(ctx, StepLimit, fmt.Sprintf("The limit of %d steps for this turn is reached and no more calls are allowed.", t.o.MaxSteps))
}

// stopped records what the model had said when it was interrupted.
func (t *turn) stopped(ctx context.Context, before string, a model.Answer) (string, StopReason, error) {
	text := a.Message.Text()
	if strings.TrimSpace(text) != "" {
		if err := t.record(ctx, model.Text(model.Assistant, text+"\n\n[interrupted here]")); err != nil {
			return before + text, Errored, err
		}
	}
	return before + text, Interrupted, nil
}

// closing asks for a last answer without tools.
func (t *turn) closing(ctx context.Context, why StopReason, note string) (string, StopReason, error) {
	if err := t.record(ctx, model.Text(model.User, "["+note+" Tell the user now what was done, what was found, and what is left.]")); err != nil {
		return "", Errored, err
	}
	a, err := t.ask(ctx, true)
	if ctx.Err() != nil {
		return t.stopped(ctx, "", a)
	}
	text := a.Message.Text()
	if err != nil || text == "" {
		t.emit(Event{Kind: Discard})
		text = note + " The model gave no summary"
		if err != nil {
			text += ": " + err.Error()
		}
		text += ". What the tools did is in the history of this session; send a message to go on."
		a.Message = model.Text(model.Assistant, text)
	}
	a.Message.Calls = nil
	a.Message.Origin = nil // its blocks may hold calls that were not allowed
	if err := t.record(ctx, a.Message); err != nil {
		return text, Errored, err
	}
	t.emit(Event{Kind: MessageDone, Text: text})
	return text, why, nil
}

func (t *turn) current() model.Route { return t.o.Routes[min(t.route, len(t.o.Routes)-1)] }

func (t *turn) routeName() string {
	r := t.current()
	return r.Provider + "/" + r.Model
}

// count adds one to a counter, with the route and pairs of dimensions.
func (t *turn) count(name string, pairs ...string) {
	r := t.current()
	dims := map[string]string{"provider": r.Provider, "model": r.Model}
	for i := 0; i < len(pairs); i += 2 {
		dims[pairs[i]] = pairs[i+1]
	}
	t.o.Meter.Count(name, dims)
}
