// SPDX-License-Identifier: MIT

package model

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

const testKey = "sk-test-0123456789abcdef"

// wires are the formats that every test of a call goes through.
func wires() []APIMode { return []APIMode{ChatCompletions, AnthropicMessages} }

func routeTo(s *modelserver.Server, mode APIMode) Route {
	r := Route{Provider: "scripted", Model: "m1", BaseURL: s.URL + "/v1", Key: secret.Wrap(testKey), APIMode: mode, Stale: -1}
	return r
}

func eachWire(t *testing.T, f func(t *testing.T, mode APIMode)) {
	t.Helper()
	for _, mode := range wires() {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			f(t, mode)
		})
	}
}

func newClient(t testing.TB) *Client {
	t.Helper()
	c := New(nil)
	t.Cleanup(c.Close)
	return c
}

func ask(text string) Request {
	return Request{System: "be brief", Messages: []Message{Text(User, text)}, Tools: []ToolSpec{{Name: "terminal", Description: "runs a command", Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)}}}
}

func TestStream(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode APIMode) {
		s := modelserver.New(t, modelserver.Reply{
			Reasoning: "Let me think.", Text: "I look <at> it now.",
			Calls: []modelserver.Call{{ID: "c1", Name: "terminal", Args: `{"command":"ls && pwd"}`}, {ID: "c2", Name: "terminal", Args: `{"command":"id"}`}},
		})
		var text, thought strings.Builder
		var calls []string
		a, err := newClient(t).Stream(t.Context(), routeTo(s, mode), ask("hello"), func(d Delta) {
			text.WriteString(d.Text)
			thought.WriteString(d.Reasoning)
			if d.Call != "" {
				calls = append(calls, d.Call)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Message.Text(); got != "I look <at> it now." || text.String() != got {
			t.Errorf("text %q, deltas %q", got, text.String())
		}
		if a.Message.Reasoning != "Let me think." || thought.String() != a.Message.Reasoning {
			t.Errorf("reasoning %q, deltas %q", a.Message.Reasoning, thought.String())
		}
		want := []Call{{ID: "c1", Name: "terminal", Args: `{"command":"ls && pwd"}`}, {ID: "c2", Name: "terminal", Args: `{"command":"id"}`}}
		if diff := cmp.Diff(want, a.Message.Calls); diff != "" {
			t.Error(diff)
		}
		if len(calls) != 2 || a.Finish != FinishCalls || a.Model != "scripted-1" {
			t.Errorf("calls %v, finish %s, model %s", calls, a.Finish, a.Model)
		}
		u := a.Usage
		if u.Estimated || u.Input == 0 || u.Output == 0 || u.CacheRead == 0 || u.CacheRead >= u.Input {
			t.Errorf("usage %+v", u)
		}
	})
}

// TestWholeAnswer is the answer in one piece, asked for or not.
func TestWholeAnswer(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode APIMode) {
		s := modelserver.New(t, modelserver.Reply{Reasoning: "hm", Text: "two words", Calls: []modelserver.Call{{ID: "c1", Name: "terminal", Args: `{"command":"ls"}`}}})
		r := routeTo(s, mode)
		r.NoStream = true
		a, err := newClient(t).Stream(t.Context(), r, ask("hello"), nil)
		if err != nil || a.Message.Text() != "two words" || len(a.Message.Calls) != 1 || a.Message.Reasoning != "hm" {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// TestReplay sends back what only the provider understands, to it and to nobody else.
func TestReplay(t *testing.T) {
	t.Parallel()
	mark := map[APIMode]string{ChatCompletions: `"reasoning_content":"deep thought"`, AnthropicMessages: `"signature":"sig-of-deep thought"`}
	eachWire(t, func(t *testing.T, mode APIMode) {
		s := modelserver.NewFunc(t, func(modelserver.Request) modelserver.Reply {
			return modelserver.Reply{Reasoning: "deep thought", Text: "ok", Calls: []modelserver.Call{{ID: "c1", Name: "terminal", Args: `{}`}}}
		})
		c, r := newClient(t), routeTo(s, mode)
		req := ask("hello")
		a, err := c.Stream(t.Context(), r, req, nil)
		if err != nil {
			t.Fatal(err)
		}
		// What is recorded comes back from a store as JSON.
		var kept Message
		if data, err := json.Marshal(a.Message); err != nil || json.Unmarshal(data, &kept) != nil {
			t.Fatal(err)
		}
		req.Messages = append(req.Messages, kept, Result(kept.Calls[0], "done", false))
		other := r
		other.Model = "m2"
		for _, route := range []Route{r, other} {
			if _, err := c.Stream(t.Context(), route, req, nil); err != nil {
				t.Fatal(err)
			}
		}
		asked := s.Requests()
		if !strings.Contains(string(asked[1].Body), mark[mode]) {
			t.Errorf("the same model does not get %s back:\n%s", mark[mode], asked[1].Body)
		}
		if strings.Contains(string(asked[2].Body), "deep thought") {
			t.Errorf("another model gets the first one's thoughts:\n%s", asked[2].Body)
		}
	})
}

// TestCallExtra keeps the thought signature that Gemini puts on a call.
func TestCallExtra(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t, modelserver.Reply{Raw: []string{
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"terminal","arguments":"{}"},"extra_content":{"google":{"thought_signature":"abc"}}}]}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, `[DONE]`,
	}}, modelserver.Reply{Text: "ok"})
	c, r, req := newClient(t), routeTo(s, ChatCompletions), ask("x")
	a, err := c.Stream(t.Context(), r, req, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Messages = append(req.Messages, a.Message, Result(a.Message.Calls[0], "done", false))
	if _, err := c.Stream(t.Context(), r, req, nil); err != nil {
		t.Fatal(err)
	}
	if body := string(s.Requests()[1].Body); !strings.Contains(body, `"extra_content":{"google":{"thought_signature":"abc"}}`) {
		t.Errorf("the signature is lost:\n%s", body)
	}
}

// TestChatDialects are streams of servers that nearly speak the format.
func TestChatDialects(t *testing.T) {
	t.Parallel()
	one := func(delta string) string { return `{"choices":[{"index":0,"delta":` + delta + `}]}` }
	call := func(index, id, name, args string) string {
		return one(`{"tool_calls":[{` + index + `"id":` + id + `,"function":{"name":` + name + `,"arguments":` + args + `}}]}`)
	}
	const end = `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
	ls, id := Call{ID: "a", Name: "ls", Args: `{"x":1}`}, Call{ID: "b", Name: "id", Args: `{}`}
	tests := []struct {
		name  string
		raw   []string
		text  string
		calls []Call
	}{
		{"no [DONE]", []string{one(`{"content":"hi"}`), end}, "hi", nil},
		{"no finish_reason", []string{one(`{"content":"hi"}`), "[DONE]"}, "hi", nil},
		{"error is null", []string{`{"error":null,"choices":[{"delta":{"content":"hi"}}]}`, end}, "hi", nil},
		{"comments between", []string{": keep-alive", one(`{"content":"hi"}`), ": keep-alive", end}, "hi", nil},
		{"content in parts", []string{one(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"hi"}]}`), end}, "hi", nil},
		{"arguments as an object", []string{call(`"index":0,`, `"a"`, `"ls"`, `{"x":1}`), end}, "", []Call{ls}},
		{"all calls at index 0", []string{call(`"index":0,`, `"a"`, `"ls"`, `"{\"x\":1}"`), call(`"index":0,`, `"b"`, `"id"`, `"{}"`), end}, "", []Call{ls, id}},
		{"no index, whole calls", []string{call(``, `"a"`, `"ls"`, `"{\"x\":1}"`), call(``, `"b"`, `"id"`, `"{}"`), end}, "", []Call{ls, id}},
		{"no index, pieces", []string{call(``, `"a"`, `"ls"`, `"{\"x\""`), call(``, `null`, `null`, `":1}"`), end}, "", []Call{ls}},
		{"id repeated in each piece", []string{call(`"index":0,`, `"a"`, `"ls"`, `"{\"x\""`), call(`"index":0,`, `"a"`, `null`, `":1}"`), end}, "", []Call{ls}},
		{"one id for two calls", []string{call(`"index":0,`, `"a"`, `"ls"`, `"{\"x\":1}"`), call(`"index":1,`, `"a"`, `"id"`, `"{}"`), end}, "", []Call{ls, {ID: "call_", Name: "id", Args: `{}`}}},
		{"id comes late", []string{call(`"index":0,`, `null`, `"ls"`, `"{\"x\""`), call(`"index":0,`, `"a"`, `null`, `":1}"`), end}, "", []Call{ls}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := modelserver.New(t, modelserver.Reply{Raw: tt.raw})
			a, err := newClient(t).Stream(t.Context(), routeTo(s, ChatCompletions), ask("x"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if a.Message.Text() != tt.text {
				t.Errorf("text %q, want %q", a.Message.Text(), tt.text)
			}
			for i := range a.Message.Calls {
				if c := &a.Message.Calls[i]; strings.HasPrefix(c.ID, "call_") {
					c.ID = "call_" // ours
				}
			}
			if diff := cmp.Diff(tt.calls, a.Message.Calls); diff != "" {
				t.Error(diff)
			}
			if want := len(tt.calls) > 0; (a.Finish == FinishCalls) != want {
				t.Errorf("finish %s", a.Finish)
			}
		})
	}
}

// TestIDs gives calls ids that are unique in the history and the same for the same history.
func TestIDs(t *testing.T) {
	t.Parallel()
	var first []string
	for range 2 {
		s := modelserver.NewFunc(t, func(modelserver.Request) modelserver.Reply {
			return modelserver.Reply{Calls: []modelserver.Call{{ID: "call_0", Name: "ls", Args: "{}"}, {ID: "call_0", Name: "ls", Args: "{}"}, {ID: "", Name: "ls", Args: "{}"}}}
		})
		c, req := newClient(t), ask("x")
		var ids []string
		for range 3 {
			a, err := c.Stream(t.Context(), routeTo(s, AnthropicMessages), req, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Messages = append(req.Messages, a.Message)
			for _, call := range a.Message.Calls {
				ids = append(ids, call.ID)
				req.Messages = append(req.Messages, Result(call, "ok", false))
			}
		}
		seen := map[string]bool{"": true}
		for _, id := range ids {
			if seen[id] {
				t.Errorf("id %q twice in %v", id, ids)
			}
			seen[id] = true
		}
		if first != nil && !cmp.Equal(first, ids) {
			t.Errorf("ids differ between runs: %v, %v", first, ids)
		}
		first = ids
	}
}

func TestMalformedArguments(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode APIMode) {
		s := modelserver.New(t,
			modelserver.Reply{Calls: []modelserver.Call{{ID: "c1", Name: "terminal", Args: `{"command": "ls`}, {ID: "c2", Name: "terminal", Args: `[1]`}, {ID: "c3", Name: "terminal"}}},
			modelserver.Reply{Text: "sorry"})
		c, r, req := newClient(t), routeTo(s, mode), ask("x")
		a, err := c.Stream(t.Context(), r, req, nil)
		if err != nil {
			t.Fatal(err)
		}
		calls := a.Message.Calls
		for i, want := range []bool{false, false, true} {
			_, err := calls[i].Input()
			if bad := (*ArgsError)(nil); errors.As(err, &bad) == want {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if calls[0].Args != `{"command": "ls` {
			t.Errorf("what the model sent is changed: %q", calls[0].Args)
		}
		req.Messages = append(req.Messages, a.Message)
		if _, err := c.Stream(t.Context(), r, req, nil); err != nil { // the server checks what is sent back
			t.Fatal(err)
		}
	})
}

// TestHeadersAndBody checks what goes out, and that nothing of the process' environment does.
func TestHeadersAndBody(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"} {
		t.Setenv(name, "X-Canary: canary-value")
	}
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/")
	for _, mode := range wires() {
		s := modelserver.NewFunc(t, func(modelserver.Request) modelserver.Reply { return modelserver.Reply{Text: "ok"} })
		c, r := newClient(t), routeTo(s, mode)
		r.Headers = map[string]string{"X-Title": "mine", "User-Agent": "custom/1"}
		r.Extra = map[string]json.RawMessage{"a.b*c": json.RawMessage(`{"d":[1]}`), "stream_options": json.RawMessage("null"), "temperature": json.RawMessage("0.5")}
		req := ask("x")
		req.NoCalls = true
		req.MaxTokens = 77
		if _, err := c.Stream(t.Context(), r, req, nil); err != nil {
			t.Fatal(err)
		}
		keyless := r
		keyless.Key = secret.Text{}
		if _, err := c.Stream(t.Context(), keyless, req, nil); err != nil {
			t.Fatal(err)
		}
		for i, got := range s.Requests() {
			all := strings.ToLower(string(mustJSON(got.Header)) + string(got.Body))
			if strings.Contains(all, "canary") {
				t.Errorf("%s: the environment leaks: %s", mode, all)
			}
			if has := strings.Contains(all, testKey); has != (i == 0) {
				t.Errorf("%s: request %d: key sent: %v", mode, i, has)
			}
		}
		got := s.Requests()[0]
		if got.Header.Get("X-Title") != "mine" || got.Header.Get("User-Agent") != "custom/1" {
			t.Errorf("%s: headers %v", mode, got.Header)
		}
		var body map[string]any
		if err := json.Unmarshal(got.Body, &body); err != nil {
			t.Fatal(err)
		}
		if _, there := body["stream_options"]; there || !cmp.Equal(body["a.b*c"], map[string]any{"d": []any{1.0}}) || body["temperature"] != 0.5 || body["max_tokens"] != 77.0 || body["tool_choice"] == nil {
			t.Errorf("%s: body %s", mode, got.Body)
		}
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode APIMode) {
		s := modelserver.New(t, modelserver.Reply{Text: "a cat"})
		req := ask("what is this?")
		req.Messages[0].Parts = append(req.Messages[0].Parts, Part{Image: &Image{MediaType: "image/png", Data: []byte("PNG")}}, Part{Image: &Image{URL: "https://example.org/a.png"}})
		call := Call{ID: "c1", Name: "terminal", Args: "{}"}
		shot := Result(call, "taken", false)
		shot.Parts = append(shot.Parts, Part{Image: &Image{URL: "data:image/png;base64,UE5H"}})
		req.Messages = append(req.Messages, Message{Role: Assistant, Calls: []Call{call}}, shot)
		if _, err := newClient(t).Stream(t.Context(), routeTo(s, mode), req, nil); err != nil {
			t.Fatal(err)
		}
		body := string(s.Requests()[0].Body)
		if strings.Count(body, "UE5H") != 2 || !strings.Contains(body, "https://example.org/a.png") {
			t.Errorf("images are missing: %s", body)
		}
	})
}

// TestSameBytes sends the same request twice.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode APIMode) {
		s := modelserver.NewFunc(t, func(modelserver.Request) modelserver.Reply { return modelserver.Reply{Text: "ok"} })
		c, r := newClient(t), routeTo(s, mode)
		req := ask("x")
		call := Call{ID: "c1", Name: "terminal", Args: `{"b": 1, "a": 2}`, Extra: map[string]json.RawMessage{"z": json.RawMessage("1"), "y": json.RawMessage("2"), "x": json.RawMessage("3")}}
		o := r.origin()
		o.Fields = map[string]json.RawMessage{"q": json.RawMessage("1"), "p": json.RawMessage("2"), "o": json.RawMessage("3")}
		req.Messages = append(req.Messages, Message{Role: Assistant, Calls: []Call{call}, Origin: o}, Result(call, "ok", false))
		for range 20 {
			if _, err := c.Stream(t.Context(), r, req, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, got := range s.Requests() {
			if string(got.Body) != string(s.Requests()[0].Body) {
				t.Fatalf("two requests differ:\n%s\n%s", s.Requests()[0].Body, got.Body)
			}
		}
	})
}
