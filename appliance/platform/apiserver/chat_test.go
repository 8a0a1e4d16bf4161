// SPDX-License-Identifier: MIT

package apiserver

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

func TestChat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("hello you there"))
	r := w.do("POST", "/v1/chat/completions", map[string]any{
		"model": "gpt-4o", "user": "u1", "reasoning_effort": "high", "temperature": 0.3, "tools": []any{},
		"messages": []any{
			map[string]any{"role": "system", "content": "Be brief."},
			map[string]any{"role": "user", "content": "first"},
			map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": "c1", "type": "function", "function": map[string]any{"name": "f", "arguments": "{}"}}}},
			map[string]any{"role": "tool", "tool_call_id": "c1", "content": "result"},
			map[string]any{"role": "developer", "content": "Be kind."},
			map[string]any{"role": "user", "content": []any{
				map[string]any{"type": "text", "text": "what is this?"},
				map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64,AAAA", "detail": "high"}},
			}},
		},
	})
	got := r.json(t)
	if r.status != 200 || got["object"] != "chat.completion" || got["model"] != "hermes-agent" {
		t.Fatalf("%d %v", r.status, got)
	}
	message := got["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)
	if message["content"] != "hello you there" || got["usage"].(map[string]any)["total_tokens"] != 15.0 {
		t.Errorf("%v", got)
	}
	a := w.launch().last()
	want := gateway.Ask{
		Source: source, UserID: "u1", Effort: "high", Overlay: "Be brief.\n\nBe kind.", Stateless: true, Nameless: true,
		History: []model.Message{
			model.Text(model.User, "first"),
			{Role: model.Assistant, Calls: []model.Call{{ID: "c1", Name: "f", Args: "{}"}}},
			{Role: model.Tool, CallID: "c1", Parts: []model.Part{{Text: "result"}}},
		},
		Input: model.Message{Role: model.User, Parts: []model.Part{{Text: "what is this?"}, {Image: &model.Image{URL: "data:image/png;base64,AAAA"}}}},
	}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChatRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("never"))
	w.srv.bodyLimit = 4000
	user := func(content any) map[string]any {
		return map[string]any{"messages": []any{map[string]any{"role": "user", "content": content}}}
	}
	part := func(kv ...any) any {
		m := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return user([]any{m})
	}
	for name, row := range map[string]struct {
		body   any
		status int
		code   string
	}{
		"no body":       {"", 400, "missing_user_message"},
		"no JSON":       {"{", 400, "invalid_json"},
		"a list":        {"[]", 400, "invalid_json"},
		"a wrong type":  {`{"messages": 5}`, 400, "invalid_type"},
		"nothing said":  {user(" "), 400, "missing_user_message"},
		"two choices":   {chat("x", "n", 2), 400, "unsupported_value"},
		"a file":        {part("type", "file", "file", map[string]any{"file_id": "f"}), 400, "unsupported_content_type"},
		"an input file": {part("type", "input_file", "file_id", "f"), 400, "unsupported_content_type"},
		"audio":         {part("type", "input_audio"), 400, "unsupported_content_type"},
		"a data file":   {part("type", "image_url", "image_url", "data:application/pdf;base64,AA"), 400, "unsupported_content_type"},
		"a file URL":    {part("type", "image_url", "image_url", "file:///etc/passwd"), 400, "invalid_image_url"},
		"no URL":        {part("type", "image_url"), 400, "invalid_content_part"},
		"a number":      {user(5), 400, "invalid_content"},
		"a bad role":    {map[string]any{"messages": []any{map[string]any{"role": "wizard", "content": "x"}}}, 400, "invalid_role"},
		"last is ours":  {map[string]any{"messages": []any{map[string]any{"role": "assistant", "content": "x"}}}, 400, "missing_user_message"},
		"too large":     {chat(strings.Repeat("x", 5000)), 413, "request_too_large"},
		"no provider":   {chat("x", "provider", "unheard"), 400, "invalid_request"},
	} {
		r := w.do("POST", "/v1/chat/completions", row.body)
		if code := r.code(t); r.status != row.status || code != row.code {
			t.Errorf("%s: %d %s: %s", name, r.status, code, r.body)
		}
	}
	if r := w.do("POST", "/v1/chat/completions", chat("x"), "Content-Type", "multipart/form-data; boundary=x"); r.status != 415 {
		t.Errorf("a form: %d", r.status)
	}
	if r := w.do("POST", "/v1/chat/completions", chat("x", "model", 5)); !strings.Contains(r.body, `"param":"model"`) {
		t.Errorf("a wrong type below a shared part: %s", r.body)
	}
	if len(w.launch().got) != 0 {
		t.Errorf("%d turns were started", len(w.launch().got))
	}
}

// text is all that a stream of chunks says, and its last reason to finish.
func chunks(t *testing.T, r reply) (text, finish string, usage any) {
	t.Helper()
	evs := r.events(t)
	if len(evs) == 0 || evs[len(evs)-1].data != "[DONE]" {
		t.Fatalf("the stream has no end: %s", r.body)
	}
	first := true
	for _, e := range evs[:len(evs)-1] {
		if e.name != "" {
			continue
		}
		v := e.json(t)
		if u := v["usage"]; u != nil {
			usage = u
		}
		for _, ch := range v["choices"].([]any) {
			d := ch.(map[string]any)["delta"].(map[string]any)
			if first != (d["role"] == "assistant") {
				t.Errorf("the role is in the wrong chunk: %s", e.data)
			}
			first = false
			if s, ok := d["content"].(string); ok {
				text += s
			}
			if s, ok := ch.(map[string]any)["finish_reason"].(string); ok {
				finish = s
			}
		}
	}
	return text, finish, usage
}

func TestChatStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.do("POST", "/v1/chat/completions", chat("run: uname", "stream", true, "stream_options", map[string]any{"include_usage": true}), sessionIDHeader, "mine", sessionKeyHeader, "chat 7")
	text, finish, usage := chunks(t, r)
	if !said(text, "uname") || finish != "stop" || usage == nil {
		t.Errorf("%q %s %v", text, finish, usage)
	}
	if r.header.Get(sessionIDHeader) != "mine" || r.header.Get(sessionKeyHeader) != "chat 7" || !strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("%v", r.header)
	}
	var tools []string
	for _, e := range r.events(t) {
		if e.name == "hermes.tool.progress" {
			v := e.json(t)
			tools = append(tools, v["tool"].(string)+" "+v["status"].(string))
		}
	}
	if diff := cmp.Diff([]string{"terminal running", "terminal completed"}, tools); diff != "" {
		t.Error(diff)
	}
	if a := w.launch().last(); a.Key != "agent:main:api-server:client:chat 7" || a.Session != "mine" || a.Attended {
		t.Errorf("%+v", a)
	}
	if s, err := w.launch().store.Get(t.Context(), "mine"); err != nil || s.Messages == 0 {
		t.Errorf("%+v %v", s, err)
	}
}

// TestReportB26SessionInHeaderAndBody (hermes-webui#4535, hermes-android#65): both are read,
// and a conflict is said.
func TestReportB26SessionInHeaderAndBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for name, row := range map[string]struct {
		body, header string
		status       int
	}{
		"in the header": {"", "one", 200},
		"in the body":   {"one", "", 200},
		"in both":       {"one", "one", 200},
		"a conflict":    {"one", "two", 400},
		"a slash":       {"a/b", "", 400},
		"a line break":  {"a\nb", "", 400},
		"too long":      {strings.Repeat("x", 257), "", 400},
	} {
		for path, body := range map[string]map[string]any{
			"/v1/chat/completions": chat("hi"), "/v1/responses": {"input": "hi"}, "/v1/runs": {"input": "hi"},
		} {
			var headers []string
			if row.header != "" {
				headers = []string{sessionIDHeader, row.header}
			}
			if row.body != "" {
				body["session_id"] = row.body
			}
			r := w.do("POST", path, body, headers...)
			ok := r.status == row.status || row.status == 200 && r.status == 202
			if !ok || row.status == 200 && r.header.Get(sessionIDHeader) != "one" {
				t.Errorf("%s, %s: %d %v %s", path, name, r.status, r.header, r.body)
			}
			w.turnsEnd()
		}
	}
	n, err := w.launch().store.Count(t.Context(), session.Filter{})
	if err != nil || n != 1 {
		t.Errorf("%d sessions, %v", n, err)
	}
	long := strings.Repeat("k", 257)
	if r := w.do("POST", "/v1/chat/completions", chat("hi"), sessionKeyHeader, long); r.status != 400 || r.code(t) != "invalid_session_key" {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// turnsEnd waits until no turn runs.
func (w *world) turnsEnd() {
	for _, t := range w.turns.Running("") {
		<-t.Done()
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("x"))
	p := w.launch()
	p.change(func(s *Settings) { s.Aliases = map[string]Alias{"fast": {Model: "m-fast", Provider: "p1"}} })
	ask := func(path string, direct bool, model, provider string) (gateway.RouteAsk, int) {
		p.change(func(s *Settings) { s.DirectModels = direct })
		body := chat("x", "model", model, "provider", provider)
		if path == "/v1/runs" {
			body = map[string]any{"input": "x", "model": model, "provider": provider}
		}
		r := w.do("POST", path, body)
		if r.status >= 400 {
			return gateway.RouteAsk{}, r.status
		}
		return p.last().Route, r.status
	}
	for _, row := range []struct {
		path            string
		direct          bool
		model, provider string
		want            gateway.RouteAsk
		status          int
	}{
		{"/v1/chat/completions", false, "gpt-4o", "", gateway.RouteAsk{}, 200},
		{"/v1/chat/completions", true, "gpt-4o", "", gateway.RouteAsk{Model: "gpt-4o"}, 200},
		{"/v1/chat/completions", true, "hermes-agent", "", gateway.RouteAsk{}, 200},
		{"/v1/chat/completions", false, "m", "p2", gateway.RouteAsk{Model: "m", Provider: "p2"}, 200},
		{"/v1/chat/completions", false, "fast", "", gateway.RouteAsk{Model: "fast"}, 200},
		{"/v1/chat/completions", false, "fast", "p1", gateway.RouteAsk{Model: "fast"}, 200},
		{"/v1/chat/completions", false, "fast", "p2", gateway.RouteAsk{}, 400},
		{"/v1/runs", false, "gpt-4o", "", gateway.RouteAsk{Model: "gpt-4o"}, 202},
	} {
		if got, status := ask(row.path, row.direct, row.model, row.provider); got != row.want || status != row.status {
			t.Errorf("%+v: %+v %d", row, got, status)
		}
	}
}

func TestTurnErrors(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		err    error
		status int
		code   string
		retry  string
	}{
		"rate limit": {&model.Error{Kind: model.RateLimit, Status: 429, RetryAfter: 1500 * time.Millisecond}, 429, "rate_limit_exceeded", "2"},
		"quota":      {&model.Error{Kind: model.Quota}, 402, "insufficient_quota", ""},
		"overloaded": {&model.Error{Kind: model.Overloaded, RetryAfter: time.Minute}, 503, "provider_overloaded", "60"},
		"auth":       {&model.Error{Kind: model.Auth, Status: 401}, 502, "provider_auth", ""},
		"server":     {&model.Error{Kind: model.Server, Status: 500}, 502, "provider_error", ""},
		"overflow":   {&model.Error{Kind: model.Overflow}, 400, "context_length_exceeded", ""},
		"stale":      {&model.Error{Kind: model.Stale}, 504, "provider_timeout", ""},
		"busy":       {session.ErrTurnRunning, 409, "session_busy", "1"},
		"H#27352":    {&gateway.WaitingError{Run: "run_1", Approvals: []gateway.Approval{{ID: "apr_1"}}, Err: session.ErrTurnRunning}, 409, "approval_pending", ""},
		"other":      {errors.New("no such thing"), 500, "turn_failed", ""},
	} {
		w := newWorld(t, fails(row.err))
		for path, body := range map[string]map[string]any{
			"/v1/chat/completions": chat("x"), "/v1/chat/completions?": chat("x", "stream", true),
			"/v1/responses": {"input": "x", "store": false}, "/v1/responses?": {"input": "x", "stream": true, "store": false},
		} {
			r := w.do("POST", path, body)
			if code := r.code(t); r.status != row.status || code != row.code || r.header.Get("Retry-After") != row.retry {
				t.Errorf("%s %s: %d %s %v", name, path, r.status, r.body, r.header)
			}
			// OpenAI's clients send a failed request again, tools and all, unless they are told not to.
			if again := r.header.Get("X-Should-Retry"); (again == "false") != (name != "busy") {
				t.Errorf("%s: X-Should-Retry %q", name, again)
			}
		}
	}
}

// TestReportB29ErrorOfOneStream (H#25723): a stream that breaks says so, and the next one of
// the same session streams again.
func TestReportB29ErrorOfOneStream(t *testing.T) {
	t.Parallel()
	broken := true
	w := newWorld(t, func(ctx context.Context, t *gateway.Turn, emit func(agent.Event)) (agent.Result, error) {
		if broken {
			broken = false
			return fails(&model.Error{Kind: model.Cut, Provider: "p", Model: "m"}, agent.Event{Kind: agent.TextDelta, Text: "half"})(ctx, t, emit)
		}
		return says("whole answer")(ctx, t, emit)
	})
	r := w.do("POST", "/v1/chat/completions", chat("x", "stream", true))
	if r.status != 200 || !strings.Contains(r.body, `"half"`) || !strings.Contains(r.body, `"error":{"code":"provider_error"`) || strings.Contains(r.body, "[DONE]") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if text, _, _ := chunks(t, w.do("POST", "/v1/chat/completions", chat("x", "stream", true))); text != "whole answer" {
		t.Errorf("%q", text)
	}
}

// TestReportPicoClaw36AlwaysAnEnd: a turn that panics has an answer on every endpoint.
func TestReportPicoClaw36AlwaysAnEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(context.Context, *gateway.Turn, func(agent.Event)) (agent.Result, error) { panic("boom") })
	for _, stream := range []bool{false, true} {
		if r := w.do("POST", "/v1/chat/completions", chat("x", "stream", stream)); r.status != 500 || r.code(t) != "turn_failed" {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}

// TestClientGoesAway: a turn that belongs to a request is stopped with it.
func TestClientGoesAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, waits(agent.Event{Kind: agent.TextDelta, Text: "so far"}))
	w.launch().open()
	if _, err := w.launch().store.Create(t.Context(), session.Session{ID: "s1", Source: source}); err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]map[string]any{
		"/v1/chat/completions": chat("x", "stream", true), "/v1/responses": {"input": "x", "stream": true},
		"/api/sessions/s1/chat/stream": {"message": "x"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		res, err := w.http.Client().Do(request(ctx, t, http.MethodPost, w.http.URL+path, body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := res.Body.Read(make([]byte, 10)); err != nil { // it has begun
			t.Fatal(err)
		}
		turn := w.launch().turn() // while it runs: one without a name is forgotten at its end
		cancel()
		res.Body.Close()
		if r, err := turn.Result(t.Context()); err != nil || r.Stop != agent.Interrupted {
			t.Errorf("%s: %+v %v", path, r, err)
		}
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.srv.beat = time.Millisecond
	goOn := make(chan struct{})
	w.launch().run = func(ctx context.Context, t *gateway.Turn, emit func(agent.Event)) (agent.Result, error) {
		<-goOn
		return says("done")(ctx, t, emit)
	}
	res, err := w.http.Client().Do(request(t.Context(), t, http.MethodPost, w.http.URL+"/v1/chat/completions", chat("x", "stream", true)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	buf := make([]byte, 64)
	n, err := res.Body.Read(buf)
	if err != nil || !strings.HasPrefix(string(buf[:n]), ": keepalive\n\n") {
		t.Errorf("%q %v", buf[:n], err)
	}
	close(goOn)
}

// TestFlow: what was shown is never shown twice when a message begins again.
func TestFlow(t *testing.T) {
	t.Parallel()
	d := func(s string) agent.Event { return agent.Event{Kind: agent.TextDelta, Text: s} }
	void, done, final := agent.Event{Kind: agent.Discard}, agent.MessageDone, agent.Final
	for name, row := range map[string]struct {
		events []agent.Event
		want   string
	}{
		"plain":             {[]agent.Event{d("a"), d("b"), {Kind: done, Text: "ab"}, {Kind: final, Text: "ab"}}, "ab"},
		"not streamed":      {[]agent.Event{{Kind: done, Text: "ab"}, {Kind: final, Text: "ab"}}, "ab"},
		"only an end":       {[]agent.Event{{Kind: final, Text: "ab"}}, "ab"},
		"the same again":    {[]agent.Event{d("one "), d("two"), void, d("one"), d(" two"), d(" three"), {Kind: done, Text: "one two three"}, {Kind: final, Text: "one two three"}}, "one two three"},
		"another beginning": {[]agent.Event{d("one"), void, d("two"), {Kind: done, Text: "two"}}, "one" + restarted + "two"},
		"shorter":           {[]agent.Event{d("one two"), void, d("one"), {Kind: done, Text: "one"}}, "one two"},
		"in one piece":      {[]agent.Event{d("one"), void, {Kind: done, Text: "one two"}}, "one two"},
		"two messages":      {[]agent.Event{d("a"), {Kind: done, Text: "a"}, d("b"), {Kind: done, Text: "b"}, {Kind: final, Text: "b"}}, "a|b"},
		"a silent call":     {[]agent.Event{{Kind: done}, d("b"), {Kind: done, Text: "b"}, {Kind: final, Text: "b"}}, "b"},
		"another end":       {[]agent.Event{d("a"), {Kind: done, Text: "a"}, {Kind: final, Text: "summary"}}, "a|summary"},
	} {
		f := flow{sep: "|"}
		got := ""
		for _, e := range row.events {
			got += f.next(gateway.Event{Event: e})
		}
		if got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}
