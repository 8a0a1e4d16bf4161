// SPDX-License-Identifier: MIT

package model

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

// TestChatBody is a request with everything in it, byte for byte.
func TestChatBody(t *testing.T) {
	t.Parallel()
	r := Route{Provider: "p", Model: "m1", BaseURL: "http://localhost/v1", APIMode: ChatCompletions, Extra: map[string]json.RawMessage{
		"top_k": json.RawMessage("5"), "model": json.RawMessage(`"other"`), "a.b": json.RawMessage(`{ "c": [ "<" ] }`), "stream_options": json.RawMessage(" null "), "none": json.RawMessage("null"),
	}}
	o := r.origin()
	o.Fields = map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"<hm>"`), "annotations": json.RawMessage(`[1]`)}
	call := Call{ID: "c1", Name: "terminal", Args: `{"b": "<&>", "a": null}`, Extra: map[string]json.RawMessage{"z": json.RawMessage("null"), "extra_content": json.RawMessage(`{"k":"v"}`)}}
	shot := Result(call, "", false)
	shot.Parts = append(shot.Parts, Part{Image: &Image{URL: "data:image/png;base64,UE5H"}})
	req := Request{
		System: "be <brief> & \u2028 \xff \x01 é", NoCalls: true, Effort: "high", MaxTokens: 77,
		Tools: []ToolSpec{{Name: "terminal", Description: "runs a command", Schema: json.RawMessage(`{ "type": "object", "a": 1 }`)}, {Name: "bare"}},
		Messages: []Message{
			Text(User, "hello"),
			{Role: Assistant, Parts: []Part{{Text: "I look."}}, Calls: []Call{call}, Origin: o},
			shot,
			{Role: Assistant, Calls: []Call{{ID: "c2", Name: "bare"}}},
			{Role: Tool, CallID: "c2", Parts: []Part{{Text: "ok"}}},
			{Role: User, Parts: []Part{{Text: "see"}, {}, {Image: &Image{URL: "https://example.org/a.png"}}}},
		},
	}
	want := `{"model":"other","messages":[` + strings.Join([]string{
		`{"role":"system","content":"be <brief> & \u2028 \ufffd \u0001 é"}`,
		`{"role":"user","content":"hello"}`,
		`{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"terminal","arguments":"{\"b\":\"<&>\",\"a\":null}"},"extra_content":{"k":"v"},"z":null}],"annotations":[1],"reasoning_content":"<hm>"}`,
		`{"role":"tool","content":"","tool_call_id":"c1"}`,
		`{"role":"user","content":[{"type":"text","text":"(images of the tool results above)"},{"type":"image_url","image_url":{"url":"data:image/png;base64,UE5H"}}]}`,
		`{"role":"assistant","tool_calls":[{"id":"c2","type":"function","function":{"name":"bare","arguments":"{}"}}]}`,
		`{"role":"tool","content":"ok","tool_call_id":"c2"}`,
		`{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"https://example.org/a.png"}}]}`,
	}, ",") + `],"tools":[` +
		`{"type":"function","function":{"name":"terminal","description":"runs a command","parameters":{"type":"object","a":1}}},` +
		`{"type":"function","function":{"name":"bare","description":"","parameters":{"type":"object","properties":{}}}}` +
		`],"tool_choice":"none","reasoning_effort":"high","max_tokens":77,"stream":true,"a.b":{"c":["<"]},"top_k":5}`
	got, err := chatParams(r, req).MarshalJSON()
	if err != nil || !json.Valid(got) {
		t.Fatalf("%v: %s", err, got)
	}
	if diff := cmp.Diff(strings.Split(want, ","), strings.Split(string(got), ",")); diff != "" {
		t.Error(diff)
	}
}

// TestChatTokenLimit: OpenAI itself takes only the new name of the limit.
func TestChatTokenLimit(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{"": "max_completion_tokens", "https://api.openai.com/v1": "max_completion_tokens", "https://example.org/v1": "max_tokens"} {
		got, err := chatParams(Route{Model: "m", BaseURL: base, MaxTokens: 9, NoStream: true}, Request{}).MarshalJSON()
		if err != nil || string(got) != `{"model":"m","messages":[],"`+want+`":9,"stream":false}` {
			t.Errorf("%q: %s, %v", base, got, err)
		}
	}
}

// TestBadValues: what is no JSON is told with its place, and is not sent.
func TestBadValues(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t)
	r := routeTo(s, ChatCompletions)
	bad := r
	bad.Extra = map[string]json.RawMessage{"top_k": json.RawMessage(`1,"x":2`)}
	schema := ask("x")
	schema.Tools[0].Schema = json.RawMessage(`{nope`)
	for place, call := range map[string]func() error{
		"top_k:": func() error { _, err := newClient(t).Stream(t.Context(), bad, ask("x"), nil); return err },
		"tools[0]: function: parameters:": func() error {
			_, err := newClient(t).Stream(t.Context(), r, schema, nil)
			return err
		},
	} {
		if e := asError(t, call()); e.Kind != BadRequest || e.Temporary() || !strings.Contains(e.Detail, place) {
			t.Errorf("%s: got %v", place, e)
		}
	}
	if n := len(s.Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestChatAddress(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"/v1": "/v1/chat/completions", "/v1/": "/v1/chat/completions", "": "/chat/completions", "/": "/chat/completions",
		"/v1?key=x#y": "/v1/chat/completions", "/to/https://api.example.org/v1": "/to/https://api.example.org/v1/chat/completions",
	} {
		s := modelserver.New(t, modelserver.Reply{Text: "ok"})
		r := routeTo(s, ChatCompletions)
		r.BaseURL = s.URL + base
		_, err := newClient(t).Stream(t.Context(), r, ask("x"), nil)
		if asked := s.Requests(); len(asked) != 1 || asked[0].Path != want {
			t.Errorf("%q: asked %+v, want %s; %v", base, asked, want, err)
		}
	}
	for base, want := range map[string]string{"::pa55word": "base_url", "http://[pa55word": "base_url", "pa55word.example.org/v1": "scheme"} {
		_, err := newClient(t).Stream(t.Context(), Route{Provider: "p", Model: "m", BaseURL: base}, ask("x"), nil)
		if e := asError(t, err); strings.Contains(e.Error(), "pa55word") || !strings.Contains(e.Detail, want) {
			t.Errorf("%q: %v", base, e)
		}
	}
}

// TestLargeEvent: a call that writes a file comes in one event with some servers.
func TestLargeEvent(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode APIMode) {
		text := strings.Repeat("0123456789abcdef", 3<<16) // 3 MiB
		raw := map[APIMode][]string{
			ChatCompletions: {`{"choices":[{"delta":{"content":"` + text + `"},"finish_reason":"stop"}]}`, "[DONE]"},
			AnthropicMessages: {
				"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\"}}",
				"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"" + text + "\"}}",
				"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}",
				"event: message_stop\ndata: {\"type\":\"message_stop\"}",
			},
		}
		s := modelserver.New(t, modelserver.Reply{Raw: raw[mode]})
		a, err := newClient(t).Stream(t.Context(), routeTo(s, mode), ask("x"), nil)
		if err != nil || a.Message.Text() != text {
			t.Errorf("got %d bytes, %v", len(a.Message.Text()), err)
		}
	})
}

// TestSplitting is what the format of event streams allows and servers use.
func TestSplitting(t *testing.T) {
	t.Parallel()
	const data = `{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}`
	for name, body := range map[string]string{
		"plain":                 "data: " + data + "\n\n",
		"no space":              "data:" + data + "\n\n",
		"CRLF":                  "data: " + data + "\r\n\r\ndata: [DONE]\r\n\r\n",
		"comment first":         ": hello\n\ndata: " + data + "\n\n",
		"event, id and retry":   "event: message\nid: 7\nretry: 10\ndata: " + data + "\n\n",
		"data on several lines": "data: " + strings.Replace(data, `,"fin`, ",\ndata: \"fin", 1) + "\n\n",
	} {
		s := newStream(t, ChatCompletions)
		if err := s.chatEvents(eventsOf([]byte(body))); err != nil || s.answer().Message.Text() != "hi" {
			t.Errorf("%s: %q, %v", name, s.answer().Message.Text(), err)
		}
	}
}
