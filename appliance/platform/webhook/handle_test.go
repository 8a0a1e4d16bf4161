// SPDX-License-Identifier: MIT

package webhook

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
)

func TestHealthAndPaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": map[string]any{}, "off": map[string]any{"enabled": false}})
	w.add("bob", map[string]any{"b": map[string]any{}})
	if got := w.do(http.MethodGet, "/health", nil); got.status != 200 || got.text != `{"platform":"webhook","status":"ok"}`+"\n" {
		t.Errorf("/health: %d %s", got.status, got.text)
	}
	gone := w.send("/webhooks/nothing", "").text
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"POST", "/webhooks/nothing", 404},
		{"POST", "/webhooks/off", 404},
		{"POST", "/webhooks/b", 404},
		{"POST", "/p/bob/webhooks/r", 404},
		{"POST", "/p/nobody/webhooks/r", 404},
		{"POST", "/webhooks/..%2f..%2fr", 404},
		{"POST", "/webhooks/r", 401},
		{"POST", "/p/bob/webhooks/b", 401},
		{"GET", "/webhooks/r", 405},
		{"POST", "/health", 405},
		{"POST", "/webhooks/r/", 404},
		{"POST", "/webhooks/", 404},
		{"POST", "/p//webhooks/r", 404},
		{"GET", "/v1/models", 404},
	} {
		got := w.do(c.method, c.path, nil)
		if got.status != c.want {
			t.Errorf("%s %s: got %d %s, want %d", c.method, c.path, got.status, got.text, c.want)
		}
		// Nobody finds out which routes there are for whom, or which are off.
		if strings.Contains(c.path, "nobody") || strings.HasSuffix(c.path, "/off") || strings.HasPrefix(c.path, "/p/bob/webhooks/r") {
			if got.text != gone {
				t.Errorf("%s: %s tells more than %s", c.path, got.text, gone)
			}
		}
	}
	w.srv.o.Multiplex = func() bool { return false }
	if got := w.send("/p/bob/webhooks/b", "", sign(testSecret, "")...); got.status != 404 {
		t.Errorf("not multiplexed: %d", got.status)
	}
}

func TestEventBecomesTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"pr": map[string]any{
		"events": []any{"pull_request"}, "prompt": "#{number} {pull_request.title} ({event_type})", "toolsets": []any{"terminal"},
	}})
	body := `{"number": 12345678901234567890, "pull_request": {"title": "{number} <b>\u0026</b>"}}`
	got := w.post("pr", body, "X-GitHub-Event", "pull_request", "X-GitHub-Delivery", "d-1")
	if got.status != 202 || got.body["status"] != "accepted" || got.body["delivery_id"] != "d-1" || got.body["event"] != "pull_request" || !strings.HasPrefix(fmt.Sprint(got.body["run_id"]), "run_") {
		t.Fatalf("%d %s", got.status, got.text)
	}
	w.settle()
	p := w.profiles[""]
	a := p.asked()[0]
	if want := "#12345678901234567890 {number} <b>&</b> (pull_request)"; a.Input.Text() != want {
		t.Errorf("got %q, want %q", a.Input.Text(), want)
	}
	if a.Attended || a.Source != "webhook" || a.Key != "agent:main:webhook:webhook:webhook:pr:d-1" || len(a.Toolsets) != 1 {
		t.Errorf("%+v", a)
	}
	if p.ended["session-"+fmt.Sprint(got.body["run_id"])] != Complete {
		t.Errorf("session not closed: %v", p.ended)
	}
	if !strings.Contains(w.log.String(), "webhook answer") || !strings.Contains(w.log.String(), "you said: #123") {
		t.Errorf("deliver: log did not log:\n%s", w.log)
	}
}

func TestEventNames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		headers []string
		body    string
		want    string // "" = accepted
	}{
		"github":              {[]string{"X-GitHub-Event", "push"}, `{"type":"other"}`, ""},
		"github, another":     {[]string{"X-GitHub-Event", "ping"}, `{"event_type":"push"}`, "ping"},
		"gitlab, by header":   {[]string{"X-Gitlab-Event", "Push Hook"}, `{}`, ""},
		"gitlab, by kind":     {[]string{"X-Gitlab-Event", "Tag Push Hook"}, `{"object_kind":"push"}`, ""},
		"kind without gitlab": {nil, `{"object_kind":"push"}`, "unknown"},
		"event_type":          {nil, `{"event_type":"push","type":"x"}`, ""},
		"type":                {nil, `{"type":"push"}`, ""},
		"type of no text":     {nil, `{"type":["push"]}`, "unknown"},
		"none":                {nil, `{}`, "unknown"},
		"a list":              {nil, `["push"]`, "unknown"},
		"null":                {nil, `null`, "unknown"},
	} {
		w := newWorld(t, map[string]any{"r": map[string]any{"events": []any{"push", "Push Hook"}}})
		got := w.post("r", c.body, c.headers...)
		if c.want == "" && got.status != 202 || c.want != "" && (got.status != 200 || got.body["status"] != "ignored" || got.body["event"] != c.want) {
			t.Errorf("%s: %d %s", name, got.status, got.text)
		}
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": map[string]any{"prompt": "<{a}>"}})
	w.profiles[""].given.Limits = Limits{PerMinute: 1000, Body: 1000}
	form := "application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		kind, body, want string
		status           int
	}{
		"json":               {"application/json", `{"a":1.50}`, "<1.50>", 202},
		"no kind":            {"", `{"a":true}`, "<true>", 202},
		"github's form":      {form, "payload=" + url.QueryEscape(`{"a":"x"}`), "<x>", 202},
		"any form":           {form, "a=1&a=2&b=3", "<2>", 202},
		"a form in disguise": {"application/json", "a=1", "", 400},
		"not JSON":           {"application/json", `{"a":`, "", 400},
		"two values":         {"application/json", `{} {}`, "", 400},
		"empty":              {"application/json", "", "", 400},
		"nested deep":        {"application/json", strings.Repeat("[", 101) + strings.Repeat("]", 101), "", 400},
		"nested":             {"application/json", strings.Repeat("[", 100) + strings.Repeat("]", 100), "<{a}>", 202},
		"brackets in text":   {"application/json", `{"a":"` + strings.Repeat("[{", 200) + `\""}`, "<" + strings.Repeat("[{", 200) + `">`, 202},
		"largest":            {"application/json", `{"a":"` + strings.Repeat("x", 1000-8) + `"}`, "<" + strings.Repeat("x", 1000-8) + ">", 202},
		"too large":          {"application/json", `{"a":"` + strings.Repeat("x", 1000-7) + `"}`, "", 413},
	} {
		before := len(w.profiles[""].asked())
		got := w.post("r", c.body, "Content-Type", c.kind)
		if got.status != c.status {
			t.Errorf("%s: %d %s", name, got.status, got.text)
			continue
		}
		if asks := w.profiles[""].asked(); c.status == 202 && asks[before].Input.Text() != c.want {
			t.Errorf("%s: %q", name, asks[before].Input.Text())
		}
	}
}

// TestReportB30LargeFile: OpenClaw#28435, one large body ended the process. It is refused,
// with its length told or not, and the next event is taken in.
func TestReportB30LargeFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": map[string]any{}})
	large := strings.Repeat("x", 6<<20)
	for what, rest := range map[string]string{
		"told":     fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(large), large),
		"not told": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(large), large),
	} {
		if got := w.unread("POST /webhooks/r HTTP/1.1\r\nHost: x\r\n" + strings.Join(sign(testSecret, large), ": ") + "\r\n" + rest); got != 413 {
			t.Errorf("length %s: %d", what, got)
		}
	}
	if got := w.post("r", "{}"); got.status != 202 {
		t.Errorf("afterwards: %d %s", got.status, got.text)
	}
}

// unread sends a request of which the server does not read all, and returns the status. A client of
// package http may find that it cannot send the rest before it finds the answer.
func (w *world) unread(request string) int {
	w.t.Helper()
	c, err := net.Dial("tcp", w.http.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	go func() { _, _ = io.WriteString(c, request) }()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// TestPanicStaysWithItsRequest is the other half of B30.
func TestPanicStaysWithItsRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": map[string]any{}})
	p := w.profiles[""]
	w.profiles["broken"] = nil
	w.srv.o.Host = panicking{w}
	if got := w.send("/p/broken/webhooks/r", "{}", sign(testSecret, "{}")...); got.status != 500 || strings.Contains(got.text, "canary") {
		t.Errorf("%d %s", got.status, got.text)
	}
	if strings.Contains(w.log.String(), "canary") {
		t.Error("what the panic says is in the log")
	}
	p.run = func(context.Context, *gateway.Turn, func(agent.Event)) (agent.Result, error) { panic("canary") }
	if got := w.post("r", "{}"); got.status != 202 {
		t.Errorf("%d %s", got.status, got.text)
	}
	p.run = echo
	if got := w.post("r", "{}"); got.status != 202 {
		t.Errorf("%d %s", got.status, got.text)
	}
}

type panicking struct{ *world }

func (p panicking) Profile(ctx context.Context, name string) (Profile, error) {
	if name == "broken" {
		panic("canary")
	}
	return p.world.Profile(ctx, name)
}

// TestReportB20DuplicatesAtOnce: of one delivery sent many times at a time one turn comes.
func TestReportB20DuplicatesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": map[string]any{}, "s": map[string]any{}})
	p := w.profiles[""]
	p.given.Limits.PerMinute = 1000
	const n = 24
	replies := make([]reply, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { replies[i] = w.post("r", `{"n":1}`, "X-GitHub-Delivery", "same") })
	}
	wg.Wait()
	accepted, runs := 0, map[any]bool{}
	for _, r := range replies {
		if r.status == 202 {
			accepted++
		} else if r.status != 200 || r.body["status"] != "duplicate" {
			t.Errorf("%d %s", r.status, r.text)
		}
		runs[r.body["run_id"]] = true
	}
	if accepted != 1 || len(runs) != 1 || len(p.asked()) != 1 {
		t.Errorf("%d accepted, %d runs, %d turns", accepted, len(runs), len(p.asked()))
	}
	// Another route's delivery of the same id is another one.
	if got := w.post("s", `{"n":1}`, "X-GitHub-Delivery", "same"); got.status != 202 {
		t.Errorf("other route: %d", got.status)
	}
	w.add("bob", map[string]any{"r": map[string]any{}})
	if got := w.send("/p/bob/webhooks/r", `{"n":1}`, append(sign(testSecret, `{"n":1}`), "X-GitHub-Delivery", "same")...); got.status != 202 {
		t.Errorf("other profile: %d", got.status)
	}
	// Events without an id are never taken for each other.
	for range 2 {
		if got := w.post("s", `{"n":1}`); got.status != 202 {
			t.Errorf("without id: %d", got.status)
		}
	}
	w.now = w.now.Add(25 * time.Hour)
	if got := w.post("r", `{"n":1}`, "X-GitHub-Delivery", "same"); got.status != 202 {
		t.Errorf("a day later: %d", got.status)
	}
}

func TestDeliveryIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": map[string]any{}})
	for _, h := range []string{"X-GitHub-Delivery", "svix-id", "webhook-id", "Idempotency-Key", "X-Request-ID"} {
		first, second := w.post("r", "{}", h, "id-of-"+h), w.post("r", "{}", h, "id-of-"+h)
		if first.status != 202 || second.status != 200 || second.body["run_id"] != first.body["run_id"] {
			t.Errorf("%s: %d, then %d %s", h, first.status, second.status, second.text)
		}
		for _, bad := range []string{strings.Repeat("x", 201), "a b", "ä"} {
			if got := w.post("r", "{}", h, bad); got.status != 400 {
				t.Errorf("%s: %q: %d", h, bad, got.status)
			}
		}
	}
}

// TestFailedTurnsCanBeSentAgain: an operator presses "redeliver", which keeps the id.
func TestFailedTurnsCanBeSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": map[string]any{}})
	p := w.profiles[""]
	send := func() reply { return w.post("r", "{}", "X-GitHub-Delivery", "d") }
	p.err = gateway.ErrDraining
	if got := send(); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("draining: %d %s", got.status, got.text)
	}
	p.err = errors.New("config.yaml: secret path")
	if got := send(); got.status != 500 || strings.Contains(got.text, "secret path") {
		t.Errorf("no turn: %d %s", got.status, got.text)
	}
	p.err = nil
	p.run = func(_ context.Context, t *gateway.Turn, _ func(agent.Event)) (agent.Result, error) {
		t.Named("failed")
		return agent.Result{}, errors.New("the model is gone, canary-of-default")
	}
	if got := send(); got.status != 202 {
		t.Fatalf("%d %s", got.status, got.text)
	}
	w.srv.Wait()
	if p.ended["failed"] != Failed || strings.Contains(w.log.String(), "canary-of-default") {
		t.Errorf("%v\n%s", p.ended, w.log)
	}
	p.run = func(_ context.Context, t *gateway.Turn, _ func(agent.Event)) (agent.Result, error) {
		t.Named("interrupted")
		return agent.Result{Stop: agent.Interrupted}, nil
	}
	if got := send(); got.status != 202 {
		t.Fatalf("%d %s", got.status, got.text)
	}
	w.srv.Wait()
	if reason, ended := p.ended["interrupted"]; ended {
		t.Errorf("an interrupted session was ended: %s", reason)
	}
	p.run = echo
	if got := send(); got.status != 202 {
		t.Errorf("again: %d %s", got.status, got.text)
	}
	w.srv.Wait()
	if got := send(); got.status != 200 {
		t.Errorf("after it worked: %d %s", got.status, got.text)
	}
}

// TestHandledInAnEarlierLife: a restart does not make an event new.
func TestHandledInAnEarlierLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": map[string]any{}})
	p := w.profiles[""]
	p.done["agent:main:webhook:webhook:webhook:r:d"] = true
	if got := w.post("r", "{}", "X-GitHub-Delivery", "d"); got.status != 200 || got.body["status"] != "duplicate" || len(p.asked()) != 0 {
		t.Errorf("%d %s", got.status, got.text)
	}
}

func TestDeliverOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": map[string]any{"deliver_only": true, "prompt": "disk {disk} canary-of-default"}})
	for i, want := range []string{"delivered", "duplicate"} {
		got := w.post("r", `{"disk":"full"}`, "X-GitHub-Delivery", "d")
		if got.status != 200 || got.body["status"] != want {
			t.Errorf("%d: %d %s", i, got.status, got.text)
		}
	}
	if n := strings.Count(w.log.String(), "disk full ***"); n != 1 || len(w.profiles[""].asked()) != 0 {
		t.Errorf("%d deliveries\n%s", n, w.log)
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": map[string]any{}, "s": map[string]any{}})
	for i := range 30 {
		if got := w.post("r", "{}"); got.status != 202 {
			t.Fatalf("%d: %d", i, got.status)
		}
	}
	got := w.post("r", "{}")
	if got.status != 429 || got.header.Get("Retry-After") != "2" {
		t.Errorf("31st: %d, Retry-After %q", got.status, got.header.Get("Retry-After"))
	}
	if got := w.post("s", "{}"); got.status != 202 {
		t.Errorf("another route: %d", got.status)
	}
	w.now = w.now.Add(2 * time.Second)
	if a, b := w.post("r", "{}"), w.post("r", "{}"); a.status != 202 || b.status != 429 {
		t.Errorf("two seconds later: %d, then %d", a.status, b.status)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	l := &lane{seen: map[string]*delivery{}}
	now := time.Now()
	for i := range mostDeliveries + 500 {
		l.delivery(fmt.Sprint(i), now)
		if i%3 == 0 {
			l.forget(fmt.Sprint(i), l.delivery(fmt.Sprint(i), now))
			l.delivery(fmt.Sprint(i), now)
		}
	}
	if len(l.seen) > mostDeliveries || len(l.age) > mostDeliveries {
		t.Errorf("%d known, %d aged", len(l.seen), len(l.age))
	}
	l.delivery("x", now.Add(25*time.Hour))
	if len(l.seen) != 1 || len(l.age) != 1 {
		t.Errorf("a day later: %d known, %d aged", len(l.seen), len(l.age))
	}
}

// TestTwoProfilesKeepApart plants values in two profiles and looks for them wherever the
// other could see them.
func TestTwoProfilesKeepApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": map[string]any{"secret": "secret-of-default", "prompt": "{v}"}})
	bob := w.add("bob", map[string]any{"r": map[string]any{"secret": "secret-of-bob", "prompt": "{v}"}})
	body := func(who string) string { return `{"v":"canary-of-` + who + `"}` }
	both := body("default") + body("bob")
	for path, c := range map[string]struct{ own, other, who string }{
		"/webhooks/r":       {"secret-of-default", "secret-of-bob", "default"},
		"/p/bob/webhooks/r": {"secret-of-bob", "secret-of-default", "bob"},
	} {
		if got := w.send(path, body(c.who), sign(c.other, body(c.who))...); got.status != 401 {
			t.Errorf("%s with the other's secret: %d", path, got.status)
		}
		got := w.send(path, body(c.who), sign(c.own, body(c.who))...)
		if got.status != 202 || strings.Contains(got.text, "canary") {
			t.Errorf("%s: %d %s", path, got.status, got.text)
		}
	}
	w.settle()
	for who, p := range map[string]*prof{"default": w.profiles[""], "bob": bob} {
		asks := p.asked()
		if len(asks) != 1 || asks[0].Input.Text() != "canary-of-"+who {
			t.Errorf("%s: %v", who, asks)
		}
	}
	if log := w.log.String(); strings.Contains(log, "canary-of") || strings.Contains(log, "secret-of") || strings.Contains(log, both) {
		t.Errorf("the log holds what it must not:\n%s", log)
	}
}

// TestStopWaitsForWhatItStarted: after Shutdown nobody follows a turn any more.
func TestStopWaitsForWhatItStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": map[string]any{}})
	p := w.profiles[""]
	release := make(chan struct{})
	p.run = func(_ context.Context, t *gateway.Turn, _ func(agent.Event)) (agent.Result, error) {
		<-release
		t.Named("s")
		return agent.Result{Text: "late", Stop: agent.Answered}, nil
	}
	if got := w.post("r", "{}"); got.status != 202 {
		t.Fatal(got.text)
	}
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.srv.Shutdown(short); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v while a turn runs", err)
	}
	close(release)
	w.settle()
	if p.ended["s"] != Complete {
		t.Errorf("%v", p.ended)
	}
}

// TestForgetKnowsWhich: the late end of an old turn does not make a newer event unknown.
func TestForgetKnowsWhich(t *testing.T) {
	t.Parallel()
	l, now := &lane{seen: map[string]*delivery{}}, time.Now()
	old := l.delivery("d", now)
	l.forget("d", old)
	fresh := l.delivery("d", now)
	l.forget("d", old)
	if fresh == old || l.delivery("d", now) != fresh {
		t.Error("the newer event is gone")
	}
}

// BenchmarkFiltered is an authentic event of 20 KB that no turn comes of, over a connection.
func BenchmarkFiltered(b *testing.B) {
	w := newWorld(b, map[string]any{"r": map[string]any{"filters": []any{map[string]any{"field": "action", "regex": "^closed$"}}}})
	w.profiles[""].given.Limits.PerMinute = 100_000_000
	body := `{"action":"opened","text":"` + strings.Repeat("x", 20_000) + `"}`
	for b.Loop() {
		if got := w.post("r", body, "X-GitHub-Delivery", "d"); got.status != 200 {
			b.Fatal(got.text)
		}
	}
}

func mustJSON(t testing.TB, text string) payload {
	t.Helper()
	p, err := parseJSON(json.RawMessage(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}
