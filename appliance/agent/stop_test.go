// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

func TestInterruptWhileModelSpeaks(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode model.APIMode) {
		held := make(chan struct{})
		s := modelserver.New(t, modelserver.Reply{Text: "one two three four", Hold: make(chan struct{}), Held: held, HoldAfter: 6}, say("fresh"))
		d := newDesk(t, route(s, mode, "p"))
		control := &Control{}
		go func() {
			<-held
			control.Interrupt("stop")
		}()
		res, err := d.run(t.Context(), t, "x", control)
		if err != nil || res.Stop != Interrupted {
			t.Fatalf("%+v, %v", res, err)
		}
		// What was said is on record, and the conversation goes on.
		if m := d.store.messages(); res.Text != "" && !strings.HasPrefix(m[len(m)-1].Text(), res.Text) {
			t.Errorf("%+v", m)
		}
		d.log = &events{}
		if res, err := d.run(t.Context(), t, "again", nil); err != nil || res.Text != "fresh" {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

func TestInterruptWhileToolsRun(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t, does(call("a", "echo", "{}"), call("b", "stop", "{}"), call("c", "echo", "{}"), call("d", "echo", "{}")))
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	d.Options.Clock = frozen{d.clock}
	control := &Control{}
	ran := 0
	b := d.Tools.(*box)
	b.tools["echo"] = func(context.Context, json.RawMessage) Output { ran++; return Output{Text: "done"} }
	b.tools["stop"] = func(ctx context.Context, _ json.RawMessage) Output {
		control.Interrupt("stop")
		<-ctx.Done()
		return Output{Text: "killed", Failed: true}
	}
	res, err := d.run(t.Context(), t, "x", control)
	if err != nil || res.Stop != Interrupted || ran != 1 {
		t.Fatalf("%+v, %v, ran %d", res, err, ran)
	}
	var got []string
	for _, m := range d.store.messages()[2:] {
		got = append(got, m.CallID+"="+m.Text())
	}
	want := []string{"a=done", "b=killed", "c=" + model.InterruptedText, "d=" + model.InterruptedText}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestStubbornTool: a tool that ignores its interrupt does not hold the user up.
func TestStubbornTool(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t, does(call("a", "stuck", "{}")))
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	control := &Control{}
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	d.Tools.(*box).tools["stuck"] = func(context.Context, json.RawMessage) Output {
		control.Interrupt("stop")
		<-release
		return Output{Text: "late"}
	}
	res, err := d.run(t.Context(), t, "x", control)
	if err != nil || res.Stop != Interrupted {
		t.Fatalf("%+v, %v", res, err)
	}
	if m := d.store.messages()[2]; m.Text() != model.InterruptedText {
		t.Errorf("%+v", m)
	}
	if w := d.clock.waits; len(w) != 1 || w[0] != DefaultToolGrace {
		t.Errorf("waits %v", w)
	}
}

func TestInterruptWhileWaiting(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t, fails(500, ""))
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	control := &Control{}
	d.Options.Clock = frozen{&quick{}}
	a, err := New(d.Options)
	if err != nil {
		t.Fatal(err)
	}
	res, err := a.Run(t.Context(), d.store, model.Text(model.User, "x"), control, func(e Event) {
		if e.Kind == Retrying {
			control.Interrupt("no patience")
		}
	})
	if err != nil || res.Stop != Interrupted {
		t.Errorf("%+v, %v", res, err)
	}
}

// frozen is a clock that never gets anywhere.
type frozen struct{ Clock }

func (frozen) After(time.Duration) <-chan time.Time { return nil }

func TestShutdownIsTheCause(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t, does(call("a", "stop", "{}")))
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	bye := errors.New("the gateway stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	d.Tools.(*box).tools["stop"] = func(ctx context.Context, _ json.RawMessage) Output {
		cancel(bye)
		<-ctx.Done()
		return Output{Text: "x"}
	}
	if res, err := d.run(ctx, t, "x", nil); !errors.Is(err, bye) || res.Stop != Interrupted {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestInterruptBeforeTurn(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t)
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	control := &Control{}
	control.Interrupt("changed my mind")
	if res, err := d.run(t.Context(), t, "x", control); err != nil || res.Stop != Interrupted {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestSteer(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode model.APIMode) {
		s := modelserver.New(t, does(call("a", "steered", "{}"), call("b", "echo", "{}")), say("ok"))
		d := newDesk(t, route(s, mode, "p"))
		control := &Control{}
		d.Tools.(*box).tools["steered"] = func(context.Context, json.RawMessage) Output {
			if !control.Steer("use the other file") {
				t.Error("steering is refused in the middle of a turn")
			}
			return Output{Text: "{}"}
		}
		d.Options.Model = steerAtEnd{d.Options.Model, control}
		res, err := d.run(t.Context(), t, "x", control)
		if err != nil {
			t.Fatal(err)
		}
		m := d.store.messages()
		if !strings.Contains(m[2].Text(), "use the other file") || strings.Contains(m[3].Text(), "other file") {
			t.Errorf("%+v", m)
		}
		if diff := cmp.Diff([]string{"too late for a result"}, res.Unsteered); diff != "" {
			t.Error(diff)
		}
		if control.Steer("after the end") {
			t.Error("steering is accepted after the turn")
		}
	})
}

// steerAtEnd steers when the answer is there.
type steerAtEnd struct {
	Model
	control *Control
}

func (s steerAtEnd) Stream(ctx context.Context, r model.Route, req model.Request, emit func(model.Delta)) (model.Answer, error) {
	a, err := s.Model.Stream(ctx, r, req, emit)
	if len(a.Message.Calls) == 0 {
		s.control.Steer("too late for a result")
	}
	return a, err
}

// TestCrashLeftCalls: a session whose program died in the middle of its calls goes on.
func TestCrashLeftCalls(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode model.APIMode) {
		s := modelserver.New(t, say("ok"))
		d := newDesk(t, route(s, mode, "p"))
		c1, c2 := model.Call{ID: "a", Name: "echo", Args: "{}"}, model.Call{ID: "b", Name: "echo", Args: "{}"}
		for _, m := range []model.Message{model.Text(model.User, "x"), {Role: model.Assistant, Calls: []model.Call{c1, c2}}, model.Result(c1, "done", false)} {
			if err := d.store.Append(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.run(t.Context(), t, "what happened?", nil); err != nil {
			t.Fatal(err)
		}
		if m := d.store.messages()[3]; m.CallID != "b" || m.Text() != model.InterruptedText {
			t.Errorf("%+v", m)
		}
	})
}

// TestRetryWithoutMessage asks the last question again.
func TestRetryWithoutMessage(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t, fails(401, `{}`), say("now it works"))
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	if _, err := d.run(t.Context(), t, "question", nil); err == nil {
		t.Fatal("no error")
	}
	a, err := New(d.Options)
	if err != nil {
		t.Fatal(err)
	}
	res, err := a.Run(t.Context(), d.store, model.Message{}, nil, nil)
	if err != nil || res.Text != "now it works" || len(d.store.rows) != 2 {
		t.Errorf("%+v, %v, %d rows", res, err, len(d.store.rows))
	}
}
