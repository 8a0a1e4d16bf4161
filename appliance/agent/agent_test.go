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

func call(id, name, args string) modelserver.Call {
	return modelserver.Call{ID: id, Name: name, Args: args}
}

func say(text string) modelserver.Reply { return modelserver.Reply{Text: text} }

func does(calls ...modelserver.Call) modelserver.Reply { return modelserver.Reply{Calls: calls} }

func fails(status int, body string) modelserver.Reply {
	return modelserver.Reply{Status: status, Body: body}
}

func TestTurn(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode model.APIMode) {
		s := modelserver.New(t, modelserver.Reply{Reasoning: "hm", Text: "I look.", Calls: []modelserver.Call{call("c1", "echo", `{"x":1}`), call("c2", "look", `{}`)}}, say("It is fine."))
		d := newDesk(t, route(s, mode, "p"))
		res, err := d.run(t.Context(), t, "how is it?", nil)
		if err != nil || res.Text != "It is fine." || res.Stop != Answered || res.Steps != 2 {
			t.Fatalf("%+v, %v", res, err)
		}
		if got := d.log.shown(); got != "I look.|It is fine.|" {
			t.Errorf("shown %q", got)
		}
		var roles []string
		for _, m := range d.store.messages() {
			roles = append(roles, string(m.Role)+":"+m.Text())
		}
		want := []string{"user:how is it?", "assistant:I look.", `tool:{"output":"hi"}`, `tool:{"output":"same"}`, "assistant:It is fine."}
		if diff := cmp.Diff(want, roles); diff != "" {
			t.Error(diff)
		}
		if len(d.store.spent) != 2 || res.Usage.Input == 0 || res.Usage.Estimated {
			t.Errorf("spent %+v, usage %+v", d.store.spent, res.Usage)
		}
	})
}

// TestPrefixIsStable: every request of a session begins with the bytes of the one before, so
// that the provider's cache holds, over turns and over restarts of the program.
func TestPrefixIsStable(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode model.APIMode) {
		n := 0
		s := modelserver.NewFunc(t, func(modelserver.Request) modelserver.Reply {
			if n++; n%3 != 0 {
				return modelserver.Reply{Reasoning: "I think", Text: "step <1> & 2", Calls: []modelserver.Call{call("c", "echo", `{"b": 1, "a": "<x>"}`), call("c", "echo", `{"broken`)}}
			}
			return say("done")
		})
		d := newDesk(t, route(s, mode, "p"))
		built := 0
		d.Options.Prompt = func(context.Context) (string, error) {
			built++
			return "prompt " + strings.Repeat("x", built), nil
		}
		for range 3 {
			d.log = &events{}
			if _, err := d.run(t.Context(), t, "go", nil); err != nil {
				t.Fatal(err)
			}
		}
		if built != 1 {
			t.Errorf("the prompt was built %d times", built)
		}
		var before string
		for i, r := range s.Requests() {
			var body map[string]json.RawMessage
			if err := json.Unmarshal(r.Body, &body); err != nil {
				t.Fatal(err)
			}
			head := string(body["system"]) + string(body["tools"])
			list := strings.ReplaceAll(string(body["messages"]), `,"cache_control":{"type":"ephemeral"}`, "")
			list = head + strings.TrimSuffix(list, "]")
			if !strings.HasPrefix(list, before) {
				t.Fatalf("request %d does not begin with the one before:\n%s\n%s", i, before, list)
			}
			// The last bytes of the last message may go on: Anthropic's results join.
			before = strings.TrimSuffix(list, "]}")
		}
	})
}

func TestRetries(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode model.APIMode) {
		s := modelserver.New(t,
			modelserver.Reply{Status: 429, Body: `{}`, Header: map[string]string{"Retry-After": "77"}},
			fails(500, "<html>"),
			modelserver.Reply{Text: "half of an answer that is lost", CutAfter: 5, CutHalf: true},
			say("whole"),
		)
		d := newDesk(t, route(s, mode, "p"))
		res, err := d.run(t.Context(), t, "x", nil)
		if err != nil || res.Text != "whole" {
			t.Fatalf("%+v, %v", res, err)
		}
		if got := d.log.shown(); got != "whole|" {
			t.Errorf("the reader sees %q", got)
		}
		if d.log.count(Retrying) != 3 || d.log.count(Discard) != 1 {
			t.Errorf("%v", d.log.kinds())
		}
		w := d.clock.waits
		if len(w) != 3 || w[0] != 77*time.Second || w[1] < 2*time.Second || w[1] > 6*time.Second || w[2] < 4*time.Second || w[2] > 12*time.Second {
			t.Errorf("waits %v", w)
		}
	})
}

// TestReportB29StreamErrorIsPerRequest: after a broken stream the next request streams.
func TestReportB29StreamErrorIsPerRequest(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t, modelserver.Reply{Text: "a b c d", CutAfter: 3}, say("one two"), say("three four"))
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	for range 2 {
		if _, err := d.run(t.Context(), t, "x", nil); err != nil {
			t.Fatal(err)
		}
		d.log.all = nil
	}
	for i, r := range s.Requests() {
		if !strings.Contains(string(r.Body), `"stream":true`) {
			t.Errorf("request %d does not stream: %s", i, r.Body)
		}
	}
}

// TestReportB33AlwaysAnError: whatever fails, the user hears of it.
func TestReportB33AlwaysAnError(t *testing.T) {
	t.Parallel()
	empty := modelserver.Reply{}
	for name, script := range map[string][]modelserver.Reply{
		"auth":       {fails(401, `{"error":{"message":"bad key"}}`)},
		"bad":        {fails(400, `{"error":{"message":"no"}}`)},
		"down":       {fails(500, ""), fails(500, ""), fails(500, ""), fails(500, "")},
		"empty":      {empty, empty, empty},
		"only ideas": {{Reasoning: "hm"}, {Reasoning: "hm"}, {Reasoning: "hm"}},
		"long wait":  {{Status: 429, Body: "{}", Header: map[string]string{"Retry-After": "3600"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWire(t, func(t *testing.T, mode model.APIMode) {
				s := modelserver.New(t, script...)
				d := newDesk(t, route(s, mode, "p"))
				res, err := d.run(t.Context(), t, "x", nil)
				if err == nil || res.Stop != Errored || d.log.all[len(d.log.all)-1].Kind != Failed {
					t.Errorf("%+v, %v", res, err)
				}
				if !strings.Contains(err.Error(), "p/m1") {
					t.Errorf("the error does not name the model: %v", err)
				}
			})
		})
	}
}

func TestFallback(t *testing.T) {
	t.Parallel()
	first := modelserver.New(t, fails(401, `{"error":{"message":"expired"}}`))
	second := modelserver.New(t, modelserver.Reply{Reasoning: "hm", Calls: []modelserver.Call{call("x:y/1", "echo", "{}")}}, fails(400, `{"error":{"message":"no"}}`))
	third := modelserver.New(t, say("here"))
	d := newDesk(t, route(first, model.ChatCompletions, "one"), route(second, model.ChatCompletions, "two"), route(third, model.AnthropicMessages, "three"))
	res, err := d.run(t.Context(), t, "x", nil)
	if err != nil || res.Text != "here" {
		t.Fatalf("%+v, %v", res, err)
	}
	if d.log.count(Notice) != 2 {
		t.Errorf("the user does not hear of it: %v", d.log.kinds())
	}
}

func TestMalformedCall(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode model.APIMode) {
		s := modelserver.New(t, does(call("a", "echo", `{"x": `), call("b", "nothing", `{}`), call("c", "echo", "")), say("sorry"))
		d := newDesk(t, route(s, mode, "p"))
		if _, err := d.run(t.Context(), t, "x", nil); err != nil {
			t.Fatal(err)
		}
		m := d.store.messages()
		if !m[2].Failed || !strings.Contains(m[2].Text(), "no JSON object") || !m[3].Failed || !strings.Contains(m[3].Text(), "the tools are: echo, look") || m[4].Failed {
			t.Errorf("%+v", m)
		}
		want := []string{"model_reply_issue.count issue=none", "model_reply_issue.count issue=none", "tool_recovery.count next_outcome=no_tool_call next_tool=none tool=echo", "tool_recovery.count next_outcome=no_tool_call next_tool=none tool=nothing"}
		if diff := cmp.Diff(want, d.meter.rows); diff != "" {
			t.Error(diff)
		}
	})
}

func TestPanics(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t, does(call("a", "boom", `{}`), call("b", "echo", `{}`)), say("ok"))
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	d.Tools.(*box).tools["boom"] = func(context.Context, json.RawMessage) Output { panic("bang") }
	res, err := d.run(t.Context(), t, "x", nil)
	if err != nil || res.Text != "ok" {
		t.Fatalf("%+v, %v", res, err)
	}
	if m := d.store.messages()[2]; !m.Failed || !strings.Contains(m.Text(), "bang") {
		t.Errorf("%+v", m)
	}
	d.log = &events{}
	d.Options.Prompt = func(context.Context) (string, error) { panic("prompt") }
	d.store = newStore(t)
	if _, err := d.run(t.Context(), t, "x", nil); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("got %v", err)
	}
}

func TestParallelCallsInOrder(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t, does(call("a", "slow", `{}`), call("b", "fast", `{}`), call("c", "echo", `{}`), call("d", "slow", `{}`)), say("ok"))
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	b := d.Tools.(*box)
	met := make(chan struct{})
	order := make(chan string, 10)
	b.tools["slow"] = func(ctx context.Context, _ json.RawMessage) Output {
		select {
		case <-met: // only the fast one, which runs beside it, opens this
		case <-ctx.Done():
		}
		order <- "slow"
		return Output{Text: "slow"}
	}
	b.tools["fast"] = func(context.Context, json.RawMessage) Output {
		close(met)
		order <- "fast"
		return Output{Text: "fast"}
	}
	b.tools["echo"] = func(context.Context, json.RawMessage) Output {
		order <- "echo"
		return Output{Text: "echo"}
	}
	b.traits["slow"], b.traits["fast"] = Traits{Parallel: true}, Traits{Parallel: true}
	if _, err := d.run(t.Context(), t, "x", nil); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range d.store.messages()[2:6] {
		texts = append(texts, m.Text())
	}
	if got := strings.Join(texts, " "); got != "slow fast echo slow" {
		t.Errorf("recorded %s", got)
	}
	close(order)
	var ran []string
	for o := range order {
		ran = append(ran, o)
	}
	if got := strings.Join(ran, " "); got != "fast slow echo slow" && got != "slow fast echo slow" {
		t.Errorf("ran %s: echo must wait for the two and be waited for", got)
	}
}

func TestStepLimit(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode model.APIMode) {
		script := []modelserver.Reply{}
		for i := range 3 {
			script = append(script, does(call("c", "echo", `{"i":`+string(rune('0'+i))+`}`)))
		}
		script = append(script, modelserver.Reply{Text: "That is what I did.", Calls: []modelserver.Call{call("z", "echo", "{}")}})
		s := modelserver.New(t, script...)
		d := newDesk(t, route(s, mode, "p"))
		d.MaxSteps = 3
		res, err := d.run(t.Context(), t, "x", nil)
		if err != nil || res.Stop != StepLimit || res.Text != "That is what I did." {
			t.Fatalf("%+v, %v", res, err)
		}
		asked := s.Requests()
		if last := string(asked[len(asked)-1].Body); !strings.Contains(last, `none`) || !strings.Contains(last, `"tools"`) {
			t.Errorf("the last request does not forbid calls: %s", last)
		}
	})
}

func TestStepLimitWithoutSummary(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t, does(call("c", "echo", `{}`)), fails(400, `{"error":{"message":"no"}}`))
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	d.MaxSteps = 1
	res, err := d.run(t.Context(), t, "x", nil)
	if err != nil || res.Stop != StepLimit || !strings.Contains(res.Text, "limit of 1 steps") {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestLengthLimitGoesOn(t *testing.T) {
	t.Parallel()
	for mode, finish := range map[model.APIMode]string{model.ChatCompletions: "length", model.AnthropicMessages: "max_tokens"} {
		s := modelserver.New(t, modelserver.Reply{Text: "one two ", Finish: finish}, say("three"))
		d := newDesk(t, route(s, mode, "p"))
		res, err := d.run(t.Context(), t, "x", nil)
		if err != nil || res.Text != "one two three" {
			t.Errorf("%+v, %v", res, err)
		}
	}
}

// TestRecordFails: a record that cannot be written stops the turn before a call runs.
func TestRecordFails(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	for _, op := range []string{"history", "prompt", "set prompt", "append user", "append assistant", "append tool"} {
		s := modelserver.New(t, does(call("a", "echo", `{}`), call("b", "look", `{}`), call("c", "look", `{}`)))
		d := newDesk(t, route(s, model.ChatCompletions, "p"))
		ran := 0
		d.Tools.(*box).tools["echo"] = func(context.Context, json.RawMessage) Output { ran++; return Output{Text: "x"} }
		d.store.fail = func(o string) error {
			if o == op {
				return full
			}
			return nil
		}
		a, err := New(d.Options)
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Run(t.Context(), d.store, model.Text(model.User, "x"), nil, d.log.add)
		if !errors.Is(err, full) || d.log.count(Failed) != 1 {
			t.Errorf("%s: got %v, %v", op, err, d.log.kinds())
		}
		if want := op == "append tool"; (ran == 1) != want {
			t.Errorf("%s: the tool ran %d times", op, ran)
		}
	}
	// The books are not worth a turn.
	s := modelserver.New(t, say("ok"))
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	d.store.fail = func(o string) error {
		if o == "spend" {
			return full
		}
		return nil
	}
	if res, err := d.run(t.Context(), t, "x", nil); err != nil || res.Text != "ok" {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestRehearsalTurn is what a newcomer sees: a whole turn with a real call, without a
// provider.
func TestRehearsalTurn(t *testing.T) {
	t.Parallel()
	d := newDesk(t, model.Route{Provider: "rehearsal", Model: "rehearsal", APIMode: model.RehearsalMode})
	d.Tools.(*box).tools["terminal"] = ok(`{"output":"Linux box","exit_code":0}`)
	res, err := d.run(t.Context(), t, "run: uname -a", nil)
	if err != nil || !strings.Contains(res.Text, "Linux box") || res.Steps != 2 || !strings.HasPrefix(res.Text, model.RehearsalName) {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestNewRefusesHalf(t *testing.T) {
	t.Parallel()
	if _, err := New(Options{}); err == nil {
		t.Error("an agent without anything is made")
	}
}
