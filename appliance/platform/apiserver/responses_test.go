// SPDX-License-Identifier: MIT

package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

// kinds are the types of a response's items.
func kinds(items any) (out []string) {
	for _, it := range items.([]any) {
		m := it.(map[string]any)
		out = append(out, fmt.Sprint(m["type"], " ", m["status"]))
	}
	return out
}

func outputText(r map[string]any) (text string) {
	for _, it := range r["output"].([]any) {
		if m := it.(map[string]any); m["type"] == "message" {
			text += m["content"].([]any)[0].(map[string]any)["text"].(string)
		}
	}
	return text
}

func TestResponse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.do("POST", "/v1/responses", map[string]any{"input": "run: date", "instructions": "be exact", "metadata": map[string]any{"a": "b"}})
	got := r.json(t)
	want := []string{"message completed", "function_call completed", "function_call_output completed", "message completed"}
	if diff := cmp.Diff(want, kinds(got["output"])); diff != "" || r.status != 200 || got["status"] != "completed" {
		t.Fatalf("%d (-want +got):\n%s", r.status, diff)
	}
	if !said(outputText(got), "date") || got["usage"].(map[string]any)["input_tokens"] == 0.0 || got["instructions"] != "be exact" {
		t.Errorf("%v", got)
	}
	id := got["id"].(string)
	if again := w.do("GET", "/v1/responses/"+id, nil); again.status != 200 || !cmp.Equal(again.json(t), got) {
		t.Errorf("%d %s", again.status, again.body)
	}
	if a := w.launch().last(); a.Stateless || a.Overlay != "be exact" {
		t.Errorf("%+v", a)
	}
	if d := w.do("DELETE", "/v1/responses/"+id, nil); d.status != 200 || d.json(t)["deleted"] != true {
		t.Errorf("%d %s", d.status, d.body)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if r := w.do(method, "/v1/responses/"+id, nil); r.status != 404 || r.code(t) != "response_not_found" {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if s, err := w.launch().store.Get(t.Context(), r.header.Get(sessionIDHeader)); err != nil || s.Messages != 4 {
		t.Errorf("the session went with its response: %+v %v", s, err)
	}
}

// TestResponseChain: responses follow each other in one session; from an earlier one a fork
// goes on.
func TestResponseChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	say := func(input string, more ...any) (map[string]any, string) {
		body := map[string]any{"input": input}
		for i := 0; i < len(more); i += 2 {
			body[more[i].(string)] = more[i+1]
		}
		r := w.do("POST", "/v1/responses", body)
		if r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return r.json(t), r.header.Get(sessionIDHeader)
	}
	one, s1 := say("first", "instructions", "in short")
	two, s2 := say("second", "previous_response_id", one["id"])
	if s1 == "" || s1 != s2 || two["instructions"] != "in short" || two["previous_response_id"] != one["id"] {
		t.Errorf("%s %s %v", s1, s2, two)
	}
	_, s3 := say("other second", "previous_response_id", one["id"])
	if s3 == s1 {
		t.Error("a second answer to one response is in the same session")
	}
	users := func(id string) (out []string) {
		list, err := w.launch().store.Messages(t.Context(), id, session.Page{})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			if m.Role == "user" {
				out = append(out, m.Content)
			}
		}
		return out
	}
	if diff := cmp.Diff([][]string{{"first", "second"}, {"first", "other second"}}, [][]string{users(s1), users(s3)}); diff != "" {
		t.Error(diff)
	}
	_, c1 := say("a", "conversation", "trip")
	_, c2 := say("b", "conversation", map[string]any{"id": "trip"})
	_, c3 := say("c", "conversation", "work")
	if c1 != c2 || c1 == c3 || !cmp.Equal(users(c1), []string{"a", "b"}) {
		t.Errorf("%s %s %s", c1, c2, c3)
	}
	hidden := w.do("POST", "/v1/responses", map[string]any{"input": "x", "store": false})
	if r := w.do("GET", "/v1/responses/"+hidden.json(t)["id"].(string), nil); r.status != 404 || !w.launch().last().Stateless {
		t.Errorf("store: false is stored: %d", r.status)
	}
	for name, body := range map[string]map[string]any{
		"both":          {"input": "x", "previous_response_id": one["id"], "conversation": "c"},
		"a file":        {"input": []any{map[string]any{"type": "input_file", "file_id": "f"}}},
		"an odd item":   {"input": []any{map[string]any{"type": "web_search_call"}}},
		"a number":      {"input": 5},
		"nothing":       {},
		"in background": {"input": "x", "background": true},
	} {
		if r := w.do("POST", "/v1/responses", body); r.status != 400 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if r := w.do("POST", "/v1/responses", map[string]any{"input": "x", "previous_response_id": "resp_nothere"}); r.status != 404 || r.code(t) != "previous_response_not_found" {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestResponseItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("x"))
	w.launch().open()
	w.do("POST", "/v1/responses", map[string]any{"store": false, "input": []any{
		map[string]any{"role": "developer", "content": "exact"},
		map[string]any{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": "a"}}},
		map[string]any{"type": "reasoning", "summary": []any{}},
		map[string]any{"type": "function_call", "call_id": "c1", "name": "terminal", "arguments": "{}"},
		map[string]any{"type": "function_call_output", "call_id": "c1", "output": "done"},
		map[string]any{"role": "user", "content": []any{map[string]any{"type": "input_image", "image_url": "https://example.com/a.png"}}},
	}})
	a := w.launch().last()
	want := []model.Message{
		model.Text(model.User, "a"),
		{Role: model.Assistant, Calls: []model.Call{{ID: "c1", Name: "terminal", Args: "{}"}}},
		{Role: model.Tool, CallID: "c1", Parts: []model.Part{{Text: "done"}}},
	}
	if diff := cmp.Diff(want, a.History); diff != "" || a.Overlay != "exact" || a.Input.Parts[0].Image.URL != "https://example.com/a.png" {
		t.Errorf("%+v\n%s", a, diff)
	}
}

// TestResponseStream: the events are those of OpenAI, in their order, and add up to what is
// answered without a stream.
func TestResponseStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	evs := w.do("POST", "/v1/responses", map[string]any{"input": "run: date", "stream": true}).events(t)
	var order []string
	deltas := map[string]string{}
	for i, e := range evs {
		v := e.json(t)
		if v["type"] != e.name || v["sequence_number"] != float64(i) {
			t.Errorf("%d: %s", i, e.data)
		}
		if e.name == "response.output_text.delta" {
			deltas[v["item_id"].(string)] += v["delta"].(string)
		}
		if len(order) == 0 || order[len(order)-1] != e.name {
			order = append(order, e.name)
		}
	}
	text := []string{"response.output_item.added", "response.content_part.added", "response.output_text.delta", "response.output_text.done", "response.content_part.done", "response.output_item.done"}
	want := append([]string{"response.created", "response.in_progress"}, text...)
	want = append(want, "response.output_item.added", "response.function_call_arguments.delta", "response.function_call_arguments.done", "response.output_item.done",
		"response.output_item.added", "response.output_item.done")
	want = append(append(want, text...), "response.completed")
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	last := evs[len(evs)-1].json(t)["response"].(map[string]any)
	for _, it := range last["output"].([]any) {
		m := it.(map[string]any)
		if m["type"] == "message" && m["content"].([]any)[0].(map[string]any)["text"] != deltas[m["id"].(string)] {
			t.Errorf("%q is not %v", deltas[m["id"].(string)], m)
		}
	}
	if got := w.do("GET", "/v1/responses/"+last["id"].(string), nil).json(t); !cmp.Equal(got, last) {
		t.Errorf("%s", cmp.Diff(last, got))
	}
}

func TestResponseStreamFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fails(&model.Error{Kind: model.RateLimit, Provider: "p", Model: "m"}, agent.Event{Kind: agent.TextDelta, Text: "half"}))
	w.launch().open()
	evs := w.do("POST", "/v1/responses", map[string]any{"input": "x", "stream": true}).events(t)
	last := evs[len(evs)-1]
	r := last.json(t)["response"].(map[string]any)
	if last.name != "response.failed" || r["status"] != "failed" || r["error"].(map[string]any)["code"] != "rate_limit_exceeded" {
		t.Errorf("%s", last.data)
	}
	if r := w.do("GET", "/v1/responses/"+r["id"].(string), nil); r.status != 404 {
		t.Errorf("a failed response is kept: %d", r.status)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	made := w.do("POST", "/api/sessions", map[string]any{"id": "s1", "title": "Trip", "model": "m"})
	if v := made.json(t)["session"].(map[string]any); made.status != 201 || v["id"] != "s1" || v["title"] != "Trip" || v["source"] != source || v["started_at"].(float64) < 1e9 {
		t.Fatalf("%d %s", made.status, made.body)
	}
	for name, row := range map[string]struct {
		method, path string
		body         map[string]any
		status       int
		code         string
	}{
		"made twice":    {"POST", "/api/sessions", map[string]any{"id": "s1"}, 409, "session_exists"},
		"a taken title": {"POST", "/api/sessions", map[string]any{"id": "s9", "title": "Trip"}, 400, "invalid_title"},
		"a long title":  {"POST", "/api/sessions", map[string]any{"title": strings.Repeat("x", 101)}, 400, "invalid_title"},
		"a bad id":      {"POST", "/api/sessions", map[string]any{"id": "a/b"}, 400, "invalid_session_id"},
		"not there":     {"GET", "/api/sessions/nope", nil, 404, "session_not_found"},
		"no messages":   {"GET", "/api/sessions/nope/messages", nil, 404, "session_not_found"},
		"patch nothing": {"PATCH", "/api/sessions/nope", map[string]any{"title": "x"}, 404, "session_not_found"},
		"no deletion":   {"DELETE", "/api/sessions/nope", nil, 404, "session_not_found"},
		"no fork":       {"POST", "/api/sessions/nope/fork", map[string]any{}, 404, "session_not_found"},
		"no chat":       {"POST", "/api/sessions/nope/chat", map[string]any{"message": "x"}, 404, "session_not_found"},
		"no stream":     {"POST", "/api/sessions/nope/chat/stream", map[string]any{"message": "x"}, 404, "session_not_found"},
		"no message":    {"POST", "/api/sessions/s1/chat", map[string]any{"message": " "}, 400, "missing_message"},
		"two ids":       {"POST", "/api/sessions/s1/chat", map[string]any{"message": "x", "session_id": "s2"}, 400, "session_conflict"},
		"a bad limit":   {"GET", "/api/sessions?limit=x", nil, 400, "invalid_limit"},
	} {
		if r := w.do(row.method, row.path, row.body); r.status != row.status || r.code(t) != row.code {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	r := w.do("POST", "/api/sessions/s1/chat", map[string]any{"message": "run: ls", "system_message": "short"})
	v := r.json(t)
	if r.status != 200 || v["object"] != "hermes.session.chat.completion" || !said(v["message"].(map[string]any)["content"].(string), "ls") || r.header.Get(sessionIDHeader) != "s1" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if a := w.launch().last(); a.Overlay != "short" || a.Session != "s1" || a.Stateless {
		t.Errorf("%+v", a)
	}
	list := w.do("GET", "/api/sessions/s1/messages", nil).json(t)["data"].([]any)
	var roles []string
	for _, m := range list {
		roles = append(roles, m.(map[string]any)["role"].(string))
	}
	if diff := cmp.Diff([]string{"user", "assistant", "tool", "assistant"}, roles); diff != "" {
		t.Error(diff)
	}
	page := w.do("GET", fmt.Sprintf("/api/sessions/s1/messages?limit=2&after=%v", list[0].(map[string]any)["id"]), nil).json(t)
	if got := page["data"].([]any); len(got) != 2 || !cmp.Equal(got[0], list[1]) || page["has_more"] != true {
		t.Errorf("%v", page)
	}
	fork := w.do("POST", "/api/sessions/s1/fork", map[string]any{"id": "s2", "message_id": list[0].(map[string]any)["id"]})
	if fork.status != 201 || fork.json(t)["session"].(map[string]any)["message_count"] != 1.0 {
		t.Errorf("%d %s", fork.status, fork.body)
	}
	patched := w.do("PATCH", "/api/sessions/s2", map[string]any{"title": "Other", "pinned": true, "end_reason": "done"}).json(t)["session"].(map[string]any)
	if patched["title"] != "Other" || patched["pinned"] != true || patched["end_reason"] != "done" {
		t.Errorf("%v", patched)
	}
	all := w.do("GET", "/api/sessions?limit=1", nil).json(t)
	if len(all["data"].([]any)) != 1 || all["has_more"] != true {
		t.Errorf("%v", all)
	}
	r = w.do("DELETE", "/api/sessions/s2", nil)
	if p := w.host.get(""); r.status != 200 || w.do("GET", "/api/sessions/s2", nil).status != 404 || !slices.Equal(p.forgotten, []string{"s2"}) {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestSessionStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.do("POST", "/api/sessions", map[string]any{"id": "s1"})
	r := w.do("POST", "/api/sessions/s1/chat/stream", map[string]any{"input": []any{map[string]any{"type": "text", "text": "run: ls"}}})
	var order []string
	text := ""
	for _, e := range r.events(t) {
		v := e.json(t)
		if e.name == "assistant.delta" {
			text += v["delta"].(string)
		}
		if v["session_id"] != "s1" || v["run_id"] == "" {
			t.Errorf("%s", e.data)
		}
		if len(order) == 0 || order[len(order)-1] != e.name {
			order = append(order, e.name)
		}
	}
	want := []string{"run.started", "message.started", "assistant.delta", "tool.started", "tool.completed", "assistant.delta", "assistant.completed", "run.completed", "done"}
	if diff := cmp.Diff(want, order); diff != "" || !said(text, "ls") || !w.launch().last().Attended {
		t.Errorf("%q (-want +got):\n%s", text, diff)
	}
}
