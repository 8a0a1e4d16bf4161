// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

func tooLong(mode model.APIMode) modelserver.Reply {
	if mode == model.AnthropicMessages {
		return fails(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}`)
	}
	return fails(400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`)
}

// talked fills a session with turns.
func talked(t *testing.T, d *desk, turns int) {
	t.Helper()
	for range turns {
		c := model.Call{ID: "c", Name: "echo", Args: `{}`}
		for _, m := range []model.Message{
			model.Text(model.User, "earlier question "+strings.Repeat("q", 300)),
			{Role: model.Assistant, Calls: []model.Call{c}},
			model.Result(c, strings.Repeat("r", 3000), false),
			model.Text(model.Assistant, "earlier answer"),
		} {
			if err := d.store.Append(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestOverflowCompresses(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode model.APIMode) {
		s := modelserver.New(t, tooLong(mode), does(call("z", "echo", "{}")), say("all good"), say("and on"))
		aux := modelserver.New(t, say("They talked about q."))
		d := newDesk(t, route(s, mode, "p"))
		d.Auxiliary = route(aux, mode, "aux")
		d.Compression.Keep = 100
		built := 0
		d.Options.Prompt = func(context.Context) (string, error) { built++; return "prompt", nil }
		talked(t, d, 5)
		before := len(d.store.rows)
		res, err := d.run(t.Context(), t, "the new question", nil)
		if err != nil || res.Text != "all good" {
			t.Fatalf("%+v, %v", res, err)
		}
		child := d.current(res)
		if child.parent != d.store || len(d.store.rows) != before+1 || d.log.count(SessionChanged) != 1 || built != 2 {
			t.Errorf("no child session: %+v, built %d", child, built)
		}
		m := child.messages()
		if !strings.Contains(m[0].Text(), "They talked about q.") || m[2].Text() != "the new question" || m[1].Text() != "earlier answer" {
			t.Errorf("%+v", m[:3])
		}
		if sp := child.spent[0]; sp.Purpose != "turn" && d.store.spent[0].Purpose != "compression" {
			t.Errorf("spent %+v, %+v", d.store.spent, child.spent)
		}
		d.store, d.log = child, &events{}
		if res, err := d.run(t.Context(), t, "more", nil); err != nil || res.Text != "and on" {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// TestOverflowInTheMiddle: a turn whose own tool results are too much keeps its question.
func TestOverflowInTheMiddle(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t, does(call("a", "big", "{}")), does(call("b", "big", "{}")), does(call("c", "big", "{}")), tooLong(model.ChatCompletions), say("ok"))
	aux := modelserver.New(t, say("Two big results came."))
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	d.Auxiliary = route(aux, model.ChatCompletions, "aux")
	d.Compression.Keep = 100
	d.Tools.(*box).tools["big"] = ok(strings.Repeat("x", 40_000))
	res, err := d.run(t.Context(), t, "the question", nil)
	if err != nil || res.Text != "ok" {
		t.Fatalf("%+v, %v", res, err)
	}
	m := d.current(res).messages()
	if m[1].Text() != "the question" || len(m[2].Calls) != 1 || m[2].Calls[0].ID != "c" {
		t.Errorf("%+v", m)
	}
}

func TestSummaryFails(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t, tooLong(model.ChatCompletions), tooLong(model.ChatCompletions), say("ok"))
	aux := modelserver.New(t, tooLong(model.ChatCompletions), modelserver.Reply{})
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	d.Auxiliary = route(aux, model.ChatCompletions, "aux")
	d.Compression.Keep = 100
	talked(t, d, 3)
	res, err := d.run(t.Context(), t, "x", nil)
	if err != nil || res.Text != "ok" {
		t.Fatalf("%+v, %v", res, err)
	}
	if m := d.current(res).messages()[0].Text(); !strings.Contains(m, "earlier question") || !strings.Contains(m, "echo was called 3 times") {
		t.Errorf("the list of what happened is missing: %s", m)
	}
}

// TestOverflowWithoutHistory: what cannot be made shorter is an error, at once.
func TestOverflowWithoutHistory(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode model.APIMode) {
		s := modelserver.New(t, tooLong(mode))
		d := newDesk(t, route(s, mode, "p"))
		_, err := d.run(t.Context(), t, strings.Repeat("x", 10_000), nil)
		if e := (*model.Error)(nil); !errors.As(err, &e) || e.Kind != model.Overflow {
			t.Errorf("got %v", err)
		}
	})
}

func TestOverflowForEver(t *testing.T) {
	t.Parallel()
	n := 0
	s := modelserver.NewFunc(t, func(r modelserver.Request) modelserver.Reply {
		if n++; strings.Contains(string(r.Body), "You summarise") {
			return say("short")
		}
		return tooLong(model.ChatCompletions)
	})
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	d.Compression.Keep = 100
	talked(t, d, 20)
	if _, err := d.run(t.Context(), t, "x", nil); err == nil || n > 10 {
		t.Errorf("got %v after %d requests", err, n)
	}
}

func TestCompressesBeforeItOverflows(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"window", "tokens", "off"} {
		script := []modelserver.Reply{say("short summary"), say("ok")}
		if limit == "off" {
			script = script[1:]
		}
		s := modelserver.New(t, script...)
		r := route(s, model.ChatCompletions, "p")
		d := newDesk(t, r)
		switch limit {
		case "window":
			d.Routes[0].Context = 4000
		case "tokens":
			d.Compression.Tokens = 2000
		case "off":
			d.Routes[0].Context, d.Compression.Off = 4000, true
		}
		d.Compression.Keep = 100
		talked(t, d, 6)
		res, err := d.run(t.Context(), t, "x", nil)
		if err != nil || (d.current(res) != d.store) != (limit != "off") {
			t.Errorf("%s: %+v, %v", limit, res, err)
		}
	}
}

func TestCompressionCannotBeWritten(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	s := modelserver.New(t, tooLong(model.ChatCompletions), say("summary"))
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	d.Compression.Keep = 100
	talked(t, d, 3)
	d.store.fail = func(op string) error {
		if op == "compress" {
			return full
		}
		return nil
	}
	if _, err := d.run(t.Context(), t, "x", nil); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

// shelf is a spiller.
type shelf struct {
	files map[string]string
	err   error
}

func (s *shelf) Spill(_ context.Context, id, text string) (string, error) {
	if s.err != nil {
		return "", s.err
	}
	path := "/cache/spillover/" + id + ".txt"
	s.files[path] = text
	return path, nil
}

func TestSpill(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("a line of output\n", 1000)
	mcp, err := json.Marshal(map[string]any{"result": big, "_meta": map[string]int{"n": 1}})
	if err != nil {
		t.Fatal(err)
	}
	other, err := json.Marshal(map[string]any{"result": big, "more": 1})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, text, file string
		traits           Traits
		fail             error
		want             string
	}{
		{"big", big, big, Traits{}, nil, "<persisted-output>\nThis tool result was too large (17,000 characters, 16.6 KB).\nFull output saved to: /cache/spillover/a.txt\n"},
		{"MCP", string(mcp), big + "\n\n<mcp-result-metadata>\n{\n \"_meta\": {\n  \"n\": 1\n }\n}\n</mcp-result-metadata>\n", Traits{}, nil, "<persisted-output>"},
		{"other JSON", string(other), string(other), Traits{}, nil, "<persisted-output>"},
		{"the way to read it", big, "", Traits{Inline: true}, nil, big},
		{"no room", big, "", Traits{}, errors.New("disk full"), "could not be saved"},
		{"small", "x", "", Traits{}, nil, "x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := modelserver.New(t, does(call("a", "echo", "{}")), say("ok"))
			d := newDesk(t, route(s, model.ChatCompletions, "p"))
			sh := &shelf{files: map[string]string{}, err: tt.fail}
			d.Spill, d.SpillOver = sh, 10_000
			d.Tools = &box{tools: map[string]func(context.Context, json.RawMessage) Output{"echo": ok(tt.text)}, traits: map[string]Traits{"echo": tt.traits}}
			if _, err := d.run(t.Context(), t, "x", nil); err != nil {
				t.Fatal(err)
			}
			got := d.store.messages()[2].Text()
			if !strings.Contains(got, tt.want) || len(got) > 4000 && tt.want != big {
				t.Errorf("got %d bytes: %.300s", len(got), got)
			}
			if sh.files["/cache/spillover/a.txt"] != tt.file {
				t.Errorf("the file differs")
			}
		})
	}
}

// TestSpillBudget: many results that are each small enough are too much together.
func TestSpillBudget(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t, does(call("a", "echo", "{}"), call("b", "echo", "{}"), call("c", "echo", "{}"), call("d", "echo", "{}")), say("ok"))
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	sh := &shelf{files: map[string]string{}}
	d.Spill, d.SpillOver = sh, 10_000
	d.Tools.(*box).tools["echo"] = ok(strings.Repeat("x", 9_000))
	if _, err := d.run(t.Context(), t, "x", nil); err != nil {
		t.Fatal(err)
	}
	if len(sh.files) != 2 || sh.files["/cache/spillover/a.txt"] != "" {
		t.Errorf("spilled %d", len(sh.files))
	}
}

// TestRedact: nobody sees what is redacted: not the record, the model, the file or the user.
func TestRedact(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t, does(call("a", "echo", "{}")), say("ok"))
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	sh := &shelf{files: map[string]string{}}
	d.Spill, d.SpillOver = sh, 10_000
	d.Redact = func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }
	d.Tools.(*box).tools["echo"] = ok("hunter2 " + strings.Repeat("x", 20_000) + " hunter2")
	if _, err := d.run(t.Context(), t, "x", nil); err != nil {
		t.Fatal(err)
	}
	all := sh.files["/cache/spillover/a.txt"] + string(s.Requests()[1].Body)
	for _, r := range d.store.rows {
		all += string(r)
	}
	for _, e := range d.log.all {
		all += e.Text
	}
	if strings.Contains(all, "hunter2") {
		t.Error("a secret shows")
	}
}

// TestTail: what stays is a part of the limit, but at least so many messages, unless those are
// more than half of it; it never begins between a call and its result.
func TestTail(t *testing.T) {
	t.Parallel()
	history := make([]model.Message, 40) // 20 questions and answers of about 100 tokens each
	for i := range history {
		history[i] = model.Text([]model.Role{model.User, model.Assistant}[i%2], strings.Repeat("word ", 80))
	}
	each := model.Estimate(history[0])
	call := model.Call{ID: "c", Name: "echo", Args: "{}"}
	for _, c := range []struct {
		name    string
		c       Compression
		window  int64
		history []model.Message
		kept    int
	}{
		{"tokens", Compression{Keep: 4 * each}, 0, history, 4},
		{"a part of the limit", Compression{Keep: each, Ratio: 0.1}, 200 * each, history, 10},
		{"no limit is known", Compression{Keep: 4 * each, Ratio: 0.1, Last: 30}, 0, history, 4},
		{"at least so many", Compression{Ratio: 0.1, Last: 20}, 100 * each, history, 20},
		{"but no more than half of the limit", Compression{Ratio: 0.1, Last: 30}, 40 * each, history, 10},
		{"threshold_tokens", Compression{Tokens: 20 * each, Ratio: 0.1, Last: 5}, 4000 * each, history, 5},
		{"all of them", Compression{Keep: 1000 * each}, 0, history, 39},
		{
			"a call and its results",
			Compression{Keep: 1},
			0,
			append(slices.Clip(history[:2]), model.Message{Role: model.Assistant, Calls: []model.Call{call}}, model.Result(call, "a", false), model.Result(call, "b", false)), 3,
		},
	} {
		c.c.defaults()
		tn := &turn{Agent: &Agent{o: Options{Compression: c.c, Routes: []model.Route{{Context: c.window}}}}, history: c.history}
		if got := len(c.history) - tn.tail(); got != c.kept {
			t.Errorf("%s: %d messages stay, want %d", c.name, got, c.kept)
		}
	}
}
