// SPDX-License-Identifier: MIT

package apiserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
)

// TestWhoGetsIn is the table of spec 1.2: whose key opens what.
func TestWhoGetsIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("x"))
	w.add("coder", "key-of-coder", says("x"))
	w.add("closed", "", says("x"))
	for _, row := range []struct {
		path, auth string
		status     int
		code       string
	}{
		{"/health", "", 200, ""},
		{"/v1/health", "", 200, ""},
		{"/p/coder/health", "", 200, ""},
		{"/p/closed/health", "", 200, ""},
		{"/p/nobody/health", "", 404, "profile_not_found"},
		{"/health/detailed", "", 401, "invalid_api_key"},
		{"/health/detailed", "Bearer " + testKey, 200, ""},
		{"/v1/models", "", 401, "invalid_api_key"},
		{"/v1/models", "Bearer", 401, "invalid_api_key"},
		{"/v1/models", "Bearer ", 401, "invalid_api_key"},
		{"/v1/models", testKey, 401, "invalid_api_key"},
		{"/v1/models", "Basic " + testKey, 401, "invalid_api_key"},
		{"/v1/models", "Bearer " + testKey + "x", 401, "invalid_api_key"},
		{"/v1/models", "Bearer key-of-coder", 401, "invalid_api_key"},
		{"/v1/models", "bearer " + testKey, 200, ""},
		{"/v1/models/", "Bearer " + testKey, 200, ""},
		{"/p/default/v1/models", "Bearer " + testKey, 200, ""},
		{"/p/coder/v1/models", "Bearer key-of-coder", 200, ""},
		{"/p/coder/v1/models", "Bearer " + testKey, 401, "invalid_api_key"},
		{"/p/closed/v1/models", "Bearer " + testKey, 401, "invalid_api_key"},
		{"/p/closed/v1/models", "Bearer ", 401, "invalid_api_key"},
		{"/p/closed/v1/models", "", 401, "invalid_api_key"},
		{"/p/nobody/v1/models", "Bearer " + testKey, 404, "profile_not_found"},
		{"/p//v1/models", "Bearer " + testKey, 404, "profile_not_found"},
		{"/p/coder", "Bearer key-of-coder", 404, "not_found"},
		{"/p/coder/p/default/v1/models", "Bearer key-of-coder", 404, "not_found"},
		{"/nothing", "", 404, "not_found"},
		{"/v1//models", "Bearer " + testKey, 404, "not_found"},
		{"/v1/../v1/models", "Bearer " + testKey, 404, "not_found"},
		{"/", "", 404, "not_found"},
		{"/v1/runs", "Bearer " + testKey, 405, "method_not_allowed"},
	} {
		r := w.do("GET", row.path, nil, "Authorization", row.auth)
		if r.status != row.status || row.code != "" && r.code(t) != row.code {
			t.Errorf("%+v: %d %s", row, r.status, r.body)
		}
		if row.status >= 400 && (!strings.HasPrefix(r.header.Get("Content-Type"), "application/json") || !strings.Contains(r.body, `"hint"`)) {
			t.Errorf("%+v: no JSON with a hint: %v %s", row, r.header, r.body)
		}
	}
	if r := w.do("PUT", "/v1/chat/completions", "{}"); r.status != 405 || r.header.Get("Allow") != "POST" {
		t.Errorf("%d %v", r.status, r.header)
	}
	off := newWorld(t, says("x"))
	off.srv.o.Multiplex = func() bool { return false }
	if r := off.do("GET", "/p/default/v1/models", nil); r.status != 404 || !strings.Contains(r.body, "multiplex_profiles") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// TestReportB27WrongPort (hermes-workspace#752): whoever knocks at the wrong door gets JSON
// that says so, and no page.
func TestReportB27WrongPort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("x"))
	for _, method := range []string{"GET", "POST", "OPTIONS", "DELETE"} {
		r := w.do(method, "/dashboard/index.html", nil)
		e, ok := r.json(t)["error"].(map[string]any)
		if r.status != 404 || !ok || !strings.Contains(e["hint"].(string), "port") {
			t.Errorf("%s: %d %s", method, r.status, r.body)
		}
	}
}

// TestKeyIsReadAtEachRequest: a key that is changed counts at once, one that is taken away
// closes.
func TestKeyIsReadAtEachRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("x"))
	w.launch().change(func(s *Settings) { s.Key = secret.Wrap("another") })
	if r := w.do("GET", "/v1/models", nil); r.status != 401 {
		t.Errorf("%d", r.status)
	}
	if r := w.do("GET", "/v1/models", nil, "Authorization", "Bearer another"); r.status != 200 {
		t.Errorf("%d", r.status)
	}
	w.launch().change(func(s *Settings) { s.Key = secret.Text{} })
	if r := w.do("GET", "/v1/models", nil, "Authorization", "Bearer another"); r.status != 401 || !strings.Contains(r.body, "API_SERVER_KEY") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("x"))
	allowed := func(r reply) string { return r.header.Get("Access-Control-Allow-Origin") }
	if r := w.do("OPTIONS", "/v1/models", nil, "Origin", "http://a"); allowed(r) != "" {
		t.Errorf("%v", r.header)
	}
	w.launch().change(func(s *Settings) { s.CORSOrigins = []string{"http://a"} })
	r := w.do("OPTIONS", "/v1/chat/completions", nil, "Origin", "http://a", "Authorization", "")
	if r.status != 204 || allowed(r) != "http://a" || r.header.Get("Access-Control-Allow-Methods") != "POST" || !strings.Contains(r.header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("%d %v", r.status, r.header)
	}
	if r := w.do("GET", "/v1/models", nil, "Origin", "http://b"); allowed(r) != "" || r.header.Get("Vary") != "Origin" {
		t.Errorf("%v", r.header)
	}
	if r := w.do("GET", "/v1/models", nil, "Origin", "http://a", "Authorization", ""); r.status != 401 || allowed(r) != "http://a" {
		t.Errorf("a browser cannot read why: %d %v", r.status, r.header)
	}
}

// TestCapabilitiesClaimOnlyWhatExists asks for each endpoint that is named, and each endpoint
// that there is must be named.
func TestCapabilitiesClaimOnlyWhatExists(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("x"))
	caps := w.do("GET", "/v1/capabilities", nil).json(t)
	claimed := map[string]bool{}
	for name, e := range caps["endpoints"].(map[string]any) {
		e := e.(map[string]any)
		method, path := e["method"].(string), e["path"].(string)
		path = strings.NewReplacer("{run_id}", "{id}", "{session_id}", "{id}").Replace(path)
		claimed[method+" "+path] = true
		if r := w.srv.routes.paths[path]; r == nil || r.methods[method] == nil {
			t.Errorf("%s is claimed and not there: %s %s", name, method, path)
		}
	}
	for path, r := range w.srv.routes.paths {
		for method := range r.methods {
			if !claimed[method+" "+path] && !slices.Contains([]string{"/v1/health", "/v1/models/{model}", "/v1/capabilities"}, path) {
				t.Errorf("%s %s is not claimed", method, path)
			}
		}
	}
}

func TestHealthAndLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("x"))
	if r := w.do("GET", "/health", nil, "Authorization", ""); strings.TrimSpace(r.body) != `{"status":"ok"}` {
		t.Errorf("%s", r.body)
	}
	if r := w.do("HEAD", "/health", nil); r.status != 200 || r.body != "" {
		t.Errorf("%d %q", r.status, r.body)
	}
	h := w.do("GET", "/health/detailed", nil)
	checks := h.json(t)["readiness"].(map[string]any)["checks"].(map[string]any)
	if h.status != 200 || h.json(t)["status"] != "degraded" || checks["model"].(map[string]any)["detail"] != "no provider is configured" {
		t.Errorf("%d %s", h.status, h.body)
	}
	w.launch().change(func(s *Settings) { s.ModelName = "coder" })
	if r := w.do("GET", "/v1/models", nil).json(t); len(r["data"].([]any)) != 1 || r["data"].([]any)[0].(map[string]any)["id"] != "coder" {
		t.Errorf("%v", r)
	}
	if r := w.do("GET", "/v1/models/coder", nil); r.status != 200 {
		t.Errorf("%d", r.status)
	}
	if r := w.do("GET", "/v1/models/gpt-4o", nil); r.status != 404 || r.code(t) != "model_not_found" {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, path := range []string{"/v1/skills", "/v1/toolsets"} {
		if r := w.do("GET", path, nil).json(t); len(r["data"].([]any)) != 1 {
			t.Errorf("%s: %v", path, r)
		}
	}
}

// TestReportB28EveryRouteHasItsProfile (H#61276): whatever the route, the profile that is
// asked is the one of the path.
func TestReportB28EveryRouteHasItsProfile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.add("coder", "key-of-coder", nil)
	w.do("POST", "/p/coder/v1/chat/completions", chat("x"), "Authorization", "Bearer key-of-coder")
	w.do("POST", "/p/coder/v1/responses", map[string]any{"input": "x"}, "Authorization", "Bearer key-of-coder")
	w.do("POST", "/p/coder/v1/runs", map[string]any{"input": "x"}, "Authorization", "Bearer key-of-coder")
	w.do("POST", "/p/coder/api/sessions", map[string]any{"id": "s"}, "Authorization", "Bearer key-of-coder")
	w.do("POST", "/p/coder/api/sessions/s/chat", map[string]any{"input": "x"}, "Authorization", "Bearer key-of-coder")
	if got := len(w.host.get("coder").got); got != 4 || len(w.launch().got) != 0 {
		t.Errorf("%d turns of coder, %d of the launch profile", got, len(w.launch().got))
	}
}

// TestProfilesNeverCross plants something in each of two profiles, uses every surface of both,
// and searches what the other one and the log say.
func TestProfilesNeverCross(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.add("coder", "key-of-coder", nil)
	sides := map[string]struct{ prefix, key, other string }{
		"default": {"", testKey, "coder"}, "coder": {"/p/coder", "key-of-coder", "default"},
	}
	ids := map[string][]string{} // paths with ids, by profile
	bodies := map[string]string{}
	for name, side := range sides {
		do := func(method, path string, body any) reply {
			r := w.do(method, side.prefix+path, body, "Authorization", "Bearer "+side.key)
			bodies[name] += r.body
			return r
		}
		do("POST", "/v1/chat/completions", chat("run: chat-of-"+name))
		do("POST", "/v1/chat/completions", chat("run: stream-of-"+name, "stream", true))
		resp := do("POST", "/v1/responses", map[string]any{"input": "run: response-of-" + name}).json(t)["id"].(string)
		do("POST", "/v1/responses", map[string]any{"input": "hello", "conversation": "same name"})
		run := do("POST", "/v1/runs", map[string]any{"input": "run: run-of-" + name, "session_id": "same-id"}).json(t)["run_id"].(string)
		w.turnsEnd()
		do("GET", "/v1/runs/"+run+"/events", nil)
		do("GET", "/v1/runs/"+run, nil)
		made := do("POST", "/api/sessions", map[string]any{"title": "title of " + name}).json(t)["session"].(map[string]any)["id"].(string)
		do("POST", "/api/sessions/"+made+"/chat", map[string]any{"message": "run: session-of-" + name})
		do("GET", "/api/sessions/"+made+"/messages", nil)
		do("GET", "/api/sessions/same-id/messages", nil)
		do("GET", "/api/sessions", nil)
		ids[name] = []string{
			"GET /v1/responses/" + resp, "DELETE /v1/responses/" + resp, "GET /v1/runs/" + run, "GET /v1/runs/" + run + "/events", "POST /v1/runs/" + run + "/stop",
			"POST /v1/runs/" + run + "/steer", "POST /v1/runs/" + run + "/approval", "GET /api/sessions/" + made, "PATCH /api/sessions/" + made,
			"DELETE /api/sessions/" + made, "GET /api/sessions/" + made + "/messages", "POST /api/sessions/" + made + "/fork", "POST /api/sessions/" + made + "/chat?m=1",
		}
		if r := w.do("POST", sides[side.other].prefix+"/v1/responses", map[string]any{"input": "x", "previous_response_id": resp}, "Authorization", "Bearer "+sides[side.other].key); r.status != 404 {
			t.Errorf("a response of %s is gone on from in %s: %d", name, side.other, r.status)
		}
	}
	for name, side := range sides {
		if !strings.Contains(bodies[name], "canary-of-"+name) {
			t.Errorf("%s never said its own canary: the test proves nothing", name)
		}
		for _, canary := range []string{"canary-of-" + side.other, "of-" + side.other, "title of " + side.other} {
			if strings.Contains(bodies[name], canary) {
				t.Errorf("%s was told %q", name, canary)
			}
		}
		for _, line := range ids[side.other] {
			method, path, _ := strings.Cut(line, " ")
			r := w.do(method, side.prefix+path, map[string]any{"choice": "once", "input": "x", "title": "stolen"}, "Authorization", "Bearer "+side.key)
			if r.status != 404 {
				t.Errorf("%s of %s is %d for %s: %s", line, side.other, r.status, name, r.body)
			}
		}
	}
	for _, canary := range []string{testKey, "key-of-coder", "canary-of-", "chat-of-", "title of"} {
		if strings.Contains(w.log.String(), canary) {
			t.Errorf("%q is in the log", canary)
		}
	}
	if !strings.Contains(w.log.String(), "/v1/chat/completions") {
		t.Error("the log has nothing at all: the test proves nothing")
	}
}

// TestReportB30PanicIsolated: a request that breaks the server is answered, and the next one
// works; nothing of it is in the log.
func TestReportB30PanicIsolated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("x"))
	w.srv.routes.add("GET", "/break", func(*call) error { panic("secret-content") })
	w.srv.routes.add("GET", "/break/late", func(c *call) error {
		c.w.WriteHeader(http.StatusOK)
		_ = make([]int, 1)[len(c.r.URL.Path)]
		return nil
	})
	if r := w.do("GET", "/break", nil); r.status != 500 || r.code(t) != "internal_error" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if res, err := w.http.Client().Do(request(t.Context(), t, "GET", w.http.URL+"/break/late", nil)); err == nil {
		res.Body.Close()
		t.Error("an answer that broke off looks whole")
	}
	if r := w.do("GET", "/v1/models", nil); r.status != 200 {
		t.Errorf("%d", r.status)
	}
	if log := w.log.String(); strings.Contains(log, "secret-content") || !strings.Contains(log, "index out of range") {
		t.Errorf("%s", log)
	}
}

// TestBusyAndDraining: what the gateway refuses may be tried again.
func TestBusyAndDraining(t *testing.T) {
	t.Parallel()
	w := newWorld(t, waits())
	w.launch().most = 1
	id := w.do("POST", "/v1/runs", map[string]any{"input": "x"}).json(t)["run_id"].(string)
	if r := w.do("POST", "/v1/chat/completions", chat("x")); r.status != 429 || r.header.Get("Retry-After") == "" || r.header.Get("X-Should-Retry") != "" {
		t.Errorf("%d %v", r.status, r.header)
	}
	w.do("POST", "/v1/runs/"+id+"/stop", nil)
	w.turnsEnd()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = w.turns.Drain(ended)
	if r := w.do("POST", "/v1/runs", map[string]any{"input": "x"}); r.status != 503 || r.code(t) != "draining" || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":"x"}]}`, `{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"role":"user","content":[{"type":"input_image","image_url":"data:image/png,x"}]}]}`,
		`{"input":"x","conversation":{"id":"c"}}`, `{"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`, `[]`, ``, `{"messages":[{"content":[null,"x",[]]}]}`,
		`{"input":["x"]}`, `{"input":null}`, `{"conversation_history":[{"role":"user"}],"input":"x"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var c chatRequest
		if decode([]byte(body), &c) == nil {
			if _, history, input, err := conversation(c.Messages, "messages"); err == nil {
				check(t, append(history, input))
			}
		}
		var r responseRequest
		if decode([]byte(body), &r) == nil {
			if _, history, input, err := inputOf(r.Input); err == nil {
				check(t, append(history, input))
			}
		}
		var run runRequest
		_ = decode([]byte(body), &run)
	})
}

// check is what holds of every history that is let through.
func check(t *testing.T, history []model.Message) {
	t.Helper()
	last := history[len(history)-1]
	if last.Role != "user" || !(content{last.Parts}).visible() {
		t.Errorf("the last message is none of a user: %+v", last)
	}
	for _, m := range history {
		for _, p := range m.Parts {
			if p.Image != nil && !strings.HasPrefix(p.Image.URL, "http") && !strings.HasPrefix(strings.ToLower(p.Image.URL), "data:image/") && !strings.HasPrefix(strings.ToLower(p.Image.URL), "http") {
				t.Errorf("a picture that is none: %q", p.Image.URL)
			}
		}
	}
	if _, err := json.Marshal(history); err != nil {
		t.Error(err)
	}
}

// TestReportB32TokenInURL (openclaw#9435): a key in an address opens nothing, since addresses end
// up in logs and histories; nor does what was sent come back in the answer.
func TestReportB32TokenInURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("x"))
	for _, name := range []string{"token", "access_token", "api_key", "api-key", "key", "apikey", "authorization", "Authorization"} {
		for _, value := range []string{testKey, "Bearer%20" + testKey} {
			r := w.do("GET", "/v1/models?"+name+"="+value, nil, "Authorization", "")
			if r.status != 401 || strings.Contains(r.body, testKey) {
				t.Errorf("%s: %d %s", name, r.status, r.body)
			}
		}
	}
}

// TestHalfClosed: a client that has sent all it will send counts as gone, which is nothing that
// the log warns of.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, waits())
	c, err := net.Dial("tcp", w.http.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := `{"messages":[{"role":"user","content":"x"}]}`
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", testKey, len(body), body)
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != statusGone || strings.Contains(w.log.String(), "level=ERROR") {
		t.Errorf("%d, log:\n%s", res.StatusCode, w.log)
	}
}
