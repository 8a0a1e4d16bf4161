// SPDX-License-Identifier: MIT

package model

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

func asError(t *testing.T, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *Error", err)
	}
	return e
}

func TestErrorKinds(t *testing.T) {
	t.Parallel()
	fail := func(status int, body string) modelserver.Reply { return modelserver.Reply{Status: status, Body: body} }
	tests := []struct {
		name  string
		reply modelserver.Reply
		want  Kind
	}{
		{"OpenAI rate limit", fail(429, `{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}`), RateLimit},
		{"OpenAI quota", fail(429, `{"error":{"message":"You exceeded your current quota, please check your plan","type":"insufficient_quota","code":"insufficient_quota"}}`), Quota},
		{"OpenAI overflow", fail(400, `{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`), Overflow},
		{"Anthropic overflow", fail(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}`), Overflow},
		{"Anthropic overflow with answer", fail(400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and max_tokens exceed context limit: 199000 + 16384 > 200000"}}`), Overflow},
		{"llama.cpp overflow", fail(400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`), Overflow},
		{"payload too large", fail(413, `too large`), Overflow},
		{"Anthropic overloaded", fail(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), Overloaded},
		{"Anthropic rate limit", fail(429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`), RateLimit},
		{"Anthropic no credit", fail(400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`), Quota},
		{"auth", fail(401, `{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}`), Auth},
		{"no such model", fail(404, `{"error":{"message":"The model x does not exist","code":"model_not_found"}}`), NotFound},
		{"bad request", fail(400, `{"error":"Unsupported parameter"}`), BadRequest},
		{"a page of a proxy", modelserver.Reply{Status: 502, Body: "<html>Bad gateway</html>", Header: map[string]string{"Content-Type": "text/html"}}, Server},
		{"unavailable", fail(503, ``), Overloaded},
		{"nothing at all", fail(500, ``), Server},
		{"Google's list", fail(429, `[{"error":{"code":429,"message":"Resource exhausted","status":"RESOURCE_EXHAUSTED"}}]`), RateLimit},
		{"FastAPI", fail(422, `{"detail":"field required"}`), BadRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachWire(t, func(t *testing.T, mode APIMode) {
				s := modelserver.New(t, tt.reply)
				_, err := newClient(t).Stream(t.Context(), routeTo(s, mode), ask("x"), nil)
				e := asError(t, err)
				if e.Kind != tt.want || e.Status != tt.reply.Status {
					t.Errorf("got %s, status %d, want %s", e.Kind, e.Status, tt.want)
				}
				if n := len(s.Requests()); n != 1 {
					t.Errorf("asked %d times: the libraries must not retry", n)
				}
			})
		})
	}
}

// TestErrorInsideStream is a failure that comes after a proper beginning.
func TestErrorInsideStream(t *testing.T) {
	t.Parallel()
	raw := map[APIMode][]string{
		ChatCompletions:   {`{"choices":[{"delta":{"content":"half "}}]}`, `{"error":{"code":502,"message":"Provider returned error: overloaded, try again","metadata":{}}}`},
		AnthropicMessages: {"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\"}}", "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"half \"}}", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}"},
	}
	want := map[APIMode]Kind{ChatCompletions: Server, AnthropicMessages: Overloaded}
	eachWire(t, func(t *testing.T, mode APIMode) {
		s := modelserver.New(t, modelserver.Reply{Raw: raw[mode]})
		a, err := newClient(t).Stream(t.Context(), routeTo(s, mode), ask("x"), nil)
		if e := asError(t, err); e.Kind != want[mode] || !e.Temporary() {
			t.Errorf("got %v", e)
		}
		if a.Message.Text() != "half " {
			t.Errorf("what had come is lost: %q", a.Message.Text())
		}
	})
}

func TestCutStreams(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		reply modelserver.Reply
	}{
		{"mid token", modelserver.Reply{Text: "one two three four", CutAfter: 4, CutHalf: true}},
		{"mid tool call", modelserver.Reply{Calls: []modelserver.Call{{ID: "c1", Name: "terminal", Args: `{"command":"rm -r x"}`}}, CutAfter: 4}},
		{"proper end of the body", modelserver.Reply{Text: "one two three four", EndAfter: 4}},
		{"after the first event", modelserver.Reply{Text: "one", CutAfter: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachWire(t, func(t *testing.T, mode APIMode) {
				s := modelserver.New(t, tt.reply)
				a, err := newClient(t).Stream(t.Context(), routeTo(s, mode), ask("x"), nil)
				if e := asError(t, err); e.Kind != Cut || !e.Temporary() {
					t.Errorf("got %v", e)
				}
				if len(a.Message.Calls) != 0 {
					t.Errorf("half a call comes through: %+v", a.Message.Calls)
				}
			})
		})
	}
}

func TestSilence(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	for name, reply := range map[string]modelserver.Reply{
		"no headers":          {Mute: true},
		"no event":            {Silent: true},
		"stops in the middle": {Text: "one two three", Hold: never, HoldAfter: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWire(t, func(t *testing.T, mode APIMode) {
				for _, kind := range []Kind{Stale, Timeout} {
					s := modelserver.New(t, reply)
					r := routeTo(s, mode)
					if kind == Stale {
						r.Stale = 50 * time.Millisecond
					} else {
						r.Timeout = 50 * time.Millisecond
					}
					_, err := newClient(t).Stream(t.Context(), r, ask("x"), nil)
					if e := asError(t, err); e.Kind != kind {
						t.Errorf("got %v, want %s", e, kind)
					}
				}
			})
		})
	}
}

// TestPingsAreSilence: a proxy that keeps the connection alive does not keep a dead model
// from being noticed.
func TestPingsAreSilence(t *testing.T) {
	t.Parallel()
	ping := map[APIMode]string{ChatCompletions: ": processing", AnthropicMessages: "event: ping\ndata: {\"type\":\"ping\"}"}
	eachWire(t, func(t *testing.T, mode APIMode) {
		stop := make(chan struct{})
		events := make([]string, 10_000)
		for i := range events {
			events[i] = ping[mode]
		}
		s := modelserver.New(t, modelserver.Reply{Raw: events, Hold: stop, HoldAfter: len(events) - 1})
		r := routeTo(s, mode)
		r.Stale = 100 * time.Millisecond
		_, err := newClient(t).Stream(t.Context(), r, ask("x"), nil)
		if e := asError(t, err); e.Kind != Stale {
			t.Errorf("got %v", e)
		}
	})
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user said stop")
	eachWire(t, func(t *testing.T, mode APIMode) {
		held := make(chan struct{})
		s := modelserver.New(t, modelserver.Reply{Text: "one two three", Hold: make(chan struct{}), HoldAfter: 5, Held: held})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-held
			cancel(cause)
		}()
		a, err := newClient(t).Stream(ctx, routeTo(s, mode), ask("x"), nil)
		if !errors.Is(err, cause) {
			t.Errorf("got %v, want the cause", err)
		}
		_ = a
	})
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode APIMode) {
		r := Route{Provider: "p", Model: "m", BaseURL: "http://127.0.0.1:1/v1?key=sk-verysecretvalue123", APIMode: mode}
		_, err := newClient(t).Stream(t.Context(), r, ask("x"), nil)
		e := asError(t, err)
		if e.Kind != Network || strings.Contains(e.Error(), "verysecret") {
			t.Errorf("got %v", e)
		}
	})
}

func TestRedirectKeepsKey(t *testing.T) {
	t.Parallel()
	thief := modelserver.New(t)
	eachWire(t, func(t *testing.T, mode APIMode) {
		s := modelserver.New(t, modelserver.Reply{Status: http.StatusTemporaryRedirect, Header: map[string]string{"Location": thief.URL + "/v1/messages"}})
		_, err := newClient(t).Stream(t.Context(), routeTo(s, mode), ask("x"), nil)
		if e := asError(t, err); e.Kind != BadRequest || !strings.Contains(e.Detail, "base_url") {
			t.Errorf("got %v", e)
		}
		if n := len(thief.Requests()); n != 0 {
			t.Errorf("the redirect was followed")
		}
	})
}

// TestErrorsHideKeys: providers repeat what they were sent.
func TestErrorsHideKeys(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, mode APIMode) {
		body := fmt.Sprintf(`{"error":{"message":"Incorrect API key provided: %s and header-secret-9.\n\nFind yours at x. %s","code":"invalid_api_key"}}`, testKey, strings.Repeat("é", 1000))
		s := modelserver.New(t, modelserver.Reply{Status: 401, Body: body})
		r := routeTo(s, mode)
		r.Headers = map[string]string{"X-Extra": "header-secret-9"}
		_, err := newClient(t).Stream(t.Context(), r, ask("x"), nil)
		for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", r)} {
			if strings.Contains(text, testKey) || strings.Contains(err.Error(), "header-secret-9") {
				t.Errorf("a key shows: %s", text)
			}
		}
		if e := asError(t, err); strings.Contains(e.Detail, "\n") || len(e.Detail) > maxDetail+10 || !strings.HasPrefix(e.Detail, "Incorrect") {
			t.Errorf("detail %q", e.Detail)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After", "-3", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "1e300", 24 * time.Hour},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "Mon, 30 Nov 2026 12:00:09 GMT", 9 * time.Second},
		{"Retry-After", "Mon, 30 Nov 2026 11:00:00 GMT", 0},
		{"Retry-After-Ms", "1500", 1500 * time.Millisecond},
	}
	for _, tt := range tests {
		h := http.Header{}
		h.Set(tt.name, tt.value)
		if got := retryAfter(h, now); got != tt.want {
			t.Errorf("%s: %s: got %s, want %s", tt.name, tt.value, got, tt.want)
		}
	}
	eachWire(t, func(t *testing.T, mode APIMode) {
		s := modelserver.New(t, modelserver.Reply{Status: 429, Body: `{}`, Header: map[string]string{"Retry-After": "11"}})
		_, err := newClient(t).Stream(t.Context(), routeTo(s, mode), ask("x"), nil)
		if e := asError(t, err); e.RetryAfter != 11*time.Second {
			t.Errorf("got %v", e)
		}
	})
}

func TestUnknownMode(t *testing.T) {
	t.Parallel()
	_, err := newClient(t).Stream(t.Context(), Route{Provider: "p", Model: "m", APIMode: "codex_responses"}, ask("x"), nil)
	if e := asError(t, err); e.Kind != BadRequest || !strings.Contains(e.Detail, "codex_responses") {
		t.Errorf("got %v", e)
	}
}

func TestRouteDefaults(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]time.Duration{
		"": DefaultStale, "https://api.openai.com/v1": DefaultStale, "http://localhost:1234/v1": 0, "http://192.168.1.5:8000": 0,
		"http://[::1]:1/": 0, "http://ollama:11434/v1": 0, "http://8.8.8.8/": DefaultStale, "http://host.docker.internal:1": 0,
	} {
		if got := (Route{BaseURL: base}).stale(); got != want {
			t.Errorf("%q: got %s, want %s", base, got, want)
		}
	}
	r := Route{Stale: -1, Timeout: -1, Key: secret.Wrap("k")}
	if r.stale() != 0 || r.timeout() != 0 || (Route{}).timeout() != DefaultTimeout {
		t.Error("limits cannot be switched off")
	}
}

// TestWatchIsTouched: a slow stream is no stale one.
func TestWatchIsTouched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, w := watchOver(t.Context(), time.Hour, time.Minute)
		defer w.stop()
		for range 30 {
			time.Sleep(59 * time.Second)
			w.touch()
		}
		if ctx.Err() != nil {
			t.Errorf("a stream with an event every 59 s is cut: %v", context.Cause(ctx))
		}
		time.Sleep(61 * time.Second)
		if w.expired() == nil {
			t.Error("silence goes unnoticed")
		}
	})
}
