// SPDX-License-Identifier: MIT

package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/approval"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// names are what the events of a stream are called.
func names(t *testing.T, evs []event) (out []string) {
	t.Helper()
	for _, e := range evs {
		out = append(out, fmt.Sprint(e.json(t)["event"]))
	}
	return out
}

func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.do("POST", "/v1/runs", map[string]any{"input": "run: ls", "instructions": "be quick"})
	id := r.json(t)["run_id"].(string)
	if r.status != 202 || !strings.HasPrefix(id, "run_") {
		t.Fatalf("%d %s", r.status, r.body)
	}
	live := w.do("GET", "/v1/runs/"+id+"/events", nil).events(t)
	got := slices.Compact(names(t, live))
	want := []string{"run.started", "message.delta", "tool.started", "tool.completed", "message.delta", "run.completed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if last := live[len(live)-1].json(t); !said(last["output"].(string), "ls") || last["usage"] == nil {
		t.Errorf("%v", last)
	}
	// Whoever comes back is told the rest.
	again := w.do("GET", "/v1/runs/"+id+"/events", nil, "Last-Event-ID", "3").events(t)
	if len(again) != len(live)-3 || again[0].id != "4" || again[0].json(t)["event"] != live[3].json(t)["event"] {
		t.Errorf("%d of %d events again, from %+v", len(again), len(live), again[0])
	}
	if r := w.do("GET", "/v1/runs/"+id+"/events", nil, "Last-Event-ID", "x"); r.status != 400 {
		t.Errorf("%d", r.status)
	}
	got2 := w.do("GET", "/v1/runs/"+id, nil).json(t)
	if got2["status"] != "completed" || !said(got2["output"].(string), "ls") || got2["session_id"] == "" {
		t.Errorf("%v", got2)
	}
	if a := w.launch().last(); a.Overlay != "be quick" || !a.Attended || a.Stateless {
		t.Errorf("%+v", a)
	}
	if r := w.do("GET", "/v1/runs/run_nothere", nil); r.status != 404 || r.code(t) != "run_not_found" {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, body := range []map[string]any{{}, {"input": ""}, {"input": 5}, {"input": []any{}}} {
		if r := w.do("POST", "/v1/runs", body); r.status != 400 {
			t.Errorf("%v: %d", body, r.status)
		}
	}
}

func TestRunHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("x"))
	history := []any{map[string]any{"role": "user", "content": "a"}, map[string]any{"role": "assistant", "content": "b"}}
	w.do("POST", "/v1/runs", map[string]any{"input": "c", "conversation_history": history})
	want := []model.Message{model.Text(model.User, "a"), model.Text(model.Assistant, "b")}
	if a := w.launch().last(); a.Stateless || !cmp.Equal(a.History, want) || a.Input.Text() != "c" {
		t.Errorf("%+v", a)
	}
	w.do("POST", "/v1/runs", map[string]any{"input": "c", "conversation_history": history}, sessionKeyHeader, "k")
	if a := w.launch().last(); !a.Stateless {
		t.Errorf("what the client says does not count: %+v", a)
	}
}

// TestRunStops: a run that was told to stop is stopping until it has really ended.
func TestRunStops(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	w := newWorld(t, func(ctx context.Context, t *gateway.Turn, emit func(agent.Event)) (agent.Result, error) {
		<-goOn
		return waits()(ctx, t, emit)
	})
	id := w.do("POST", "/v1/runs", map[string]any{"input": "x"}).json(t)["run_id"].(string)
	status := func() any { return w.do("GET", "/v1/runs/"+id, nil).json(t)["status"] }
	if s := status(); s != "running" {
		t.Errorf("%v", s)
	}
	if r := w.do("POST", "/v1/runs/"+id+"/steer", map[string]any{"input": "left"}); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := w.do("POST", "/v1/runs/"+id+"/steer", map[string]any{"input": " "}); r.status != 400 {
		t.Errorf("%d", r.status)
	}
	if r := w.do("POST", "/v1/runs/"+id+"/stop", nil); r.status != 200 || r.json(t)["status"] != "stopping" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if s := status(); s != "stopping" {
		t.Errorf("%v", s)
	}
	if r := w.do("POST", "/v1/runs/"+id+"/steer", map[string]any{"text": "left"}); r.status != 409 {
		t.Errorf("%d", r.status)
	}
	close(goOn)
	evs := w.do("GET", "/v1/runs/"+id+"/events", nil).events(t)
	if last := names(t, evs); last[len(last)-1] != "run.cancelled" {
		t.Errorf("%v", last)
	}
	if r := w.do("POST", "/v1/runs/"+id+"/stop", nil); r.status != 200 || r.json(t)["status"] != "cancelled" {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fails(&model.Error{Kind: model.Auth, Provider: "p", Model: "m"}))
	id := w.do("POST", "/v1/runs", map[string]any{"input": "x"}).json(t)["run_id"].(string)
	evs := w.do("GET", "/v1/runs/"+id+"/events", nil).events(t)
	if last := evs[len(evs)-1].json(t); last["event"] != "run.failed" || last["error"] != "p/m: auth" || last["error_code"] != "provider_auth" {
		t.Errorf("%v", last)
	}
}

// asks runs a turn that asks n questions at the same time.
func asks(n int, got chan<- string) gateway.Runner {
	return func(ctx context.Context, t *gateway.Turn, emit func(agent.Event)) (agent.Result, error) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				a := t.Permit(ctx, gateway.Question{Verdict: approval.Verdict{Shown: fmt.Sprint("rm ", i), Reason: "dangerous", Grants: []string{"g"}}, Timeout: time.Hour})
				got <- fmt.Sprint(i, " ", choiceOf(a))
			})
		}
		wg.Wait()
		close(got)
		return says("asked")(ctx, t, emit)
	}
}

// TestReportB15TwoApprovals (H#4898, H#81026): several questions wait, each is answered by its
// id, once (PR#4973), and what is no answer is no yes.
func TestReportB15TwoApprovals(t *testing.T) {
	t.Parallel()
	got := make(chan string, 3)
	w := newWorld(t, asks(3, got))
	id := w.do("POST", "/v1/runs", map[string]any{"input": "x"}).json(t)["run_id"].(string)
	turn := w.launch().turn()
	f := turn.Feed()
	for range 3 {
		if e, ok, err := f.Next(t.Context()); !ok || err != nil || e.Kind != gateway.ApprovalAsked {
			t.Fatal(e, ok, err)
		}
	}
	s := w.do("GET", "/v1/runs/"+id, nil).json(t)
	waiting := s["approvals"].([]any)
	if s["status"] != "waiting_for_approval" || len(waiting) != 3 {
		t.Fatalf("%v", s)
	}
	answer := func(body map[string]any) reply { return w.do("POST", "/v1/runs/"+id+"/approval", body) }
	for _, bad := range []map[string]any{{}, {"choice": "yes please"}, {"choice": ""}} {
		if r := answer(bad); r.status != 400 {
			t.Errorf("%v: %d", bad, r.status)
		}
	}
	second := waiting[1].(map[string]any)
	command := second["command"].(string)
	if r := answer(map[string]any{"choice": "session", "request_id": second["request_id"]}); r.status != 200 || r.json(t)["resolved"] != 1.0 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if first := <-got; first != strings.TrimPrefix(command, "rm ")+" session" {
		t.Errorf("%q was answered for %q", first, command)
	}
	if r := answer(map[string]any{"choice": "once", "request_id": second["request_id"]}); r.status != 409 {
		t.Errorf("answered twice: %d", r.status)
	}
	if r := answer(map[string]any{"choice": "deny", "all": true}); r.status != 200 || r.json(t)["resolved"] != 2.0 {
		t.Errorf("%d %s", r.status, r.body)
	}
	for a := range got {
		if !strings.HasSuffix(a, " deny") {
			t.Errorf("%q", a)
		}
	}
	evs := names(t, w.do("GET", "/v1/runs/"+id+"/events", nil).events(t))
	if n := len(slices.DeleteFunc(slices.Clone(evs), func(s string) bool { return s != "approval.request" })); n != 3 || evs[len(evs)-1] != "run.completed" {
		t.Errorf("%v", evs)
	}
}

// TestReportB14NobodyToAsk (H#30882): on surfaces where nobody can answer, the gate is closed
// and the turn goes on at once.
func TestReportB14NobodyToAsk(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
		got := make(chan string, 1)
		w := newWorld(t, asks(1, got))
		body := chat("x")
		if path == "/v1/responses" {
			body = map[string]any{"input": "x", "store": false}
		}
		if r := w.do("POST", path, body); r.status != 200 || <-got != "0 deny" {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

// TestReportB17ApprovalFromElsewhere (H#71571): a question of a turn of another surface is
// answered here.
func TestReportB17ApprovalFromElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("x"))
	got := make(chan string, 1)
	turn, err := w.turns.Start(context.Background(), "default", gateway.Ask{Source: "webhook", Attended: true}, 0, asks(1, got))
	if err != nil {
		t.Fatal(err)
	}
	if e, ok, err := turn.Feed().Next(t.Context()); !ok || err != nil || e.Kind != gateway.ApprovalAsked {
		t.Fatal(e, ok, err)
	}
	if r := w.do("POST", "/v1/runs/"+turn.ID+"/approval", map[string]any{"choice": "approve"}); r.status != 200 || <-got != "0 once" {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("x"))
	w.launch().open()
	w.add("coder", "key-of-coder", says("x")).open()
	start := func(key, body string, headers ...string) reply {
		return w.do("POST", "/v1/runs", body, append([]string{"Idempotency-Key", key}, headers...)...)
	}
	first := start("k1", `{"input":"a","metadata":{"x":1}}`)
	again := start("k1", `{ "metadata":{"x":1}, "input":"a"}`)
	if first.status != 202 || again.status != 202 || first.json(t)["run_id"] != again.json(t)["run_id"] ||
		first.header.Get("Idempotency-Replayed") != "" || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%s %s", first.body, again.body)
	}
	for _, other := range []reply{start("k1", `{"input":"b"}`), start("k1", `{"input":"a","metadata":{"x":1}}`, sessionKeyHeader, "k")} {
		if other.status != 409 || other.code(t) != "idempotency_key_conflict" {
			t.Errorf("%d %s", other.status, other.body)
		}
	}
	for _, bad := range []string{"", strings.Repeat("x", 256), "a b", "é"} {
		if r := start(bad, `{"input":"a"}`); r.status != 400 || r.code(t) != "invalid_idempotency_key" {
			t.Errorf("%q: %d %s", bad, r.status, r.body)
		}
	}
	if r := start("k2", `{"input":""}`); r.status != 400 {
		t.Errorf("%d", r.status)
	}
	if r := start("k2", `{"input":"now"}`); r.status != 202 || r.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("a request that failed holds its key: %d %s", r.status, r.body)
	}
	if r := w.do("POST", "/p/coder/v1/runs", `{"input":"other"}`, "Idempotency-Key", "k1", "Authorization", "Bearer key-of-coder"); r.status != 202 || r.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("keys of profiles cross: %d %s", r.status, r.body)
	}
	n := len(w.launch().got)
	var wg sync.WaitGroup
	ids := make(chan any, 16)
	for range 16 {
		wg.Go(func() { ids <- start("k3", `{"input":"a"}`).json(t)["run_id"] })
	}
	wg.Wait()
	close(ids)
	one := <-ids
	for id := range ids {
		if id != one {
			t.Errorf("%v and %v", one, id)
		}
	}
	if got := len(w.launch().got) - n; got != 1 {
		t.Errorf("%d turns were started under one key", got)
	}
}

// TestRunOutlivesItsClient: a run goes on when whoever follows it leaves.
func TestRunOutlivesItsClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, waits(agent.Event{Kind: agent.TextDelta, Text: "x"}))
	id := w.do("POST", "/v1/runs", map[string]any{"input": "x"}).json(t)["run_id"].(string)
	ctx, cancel := context.WithCancel(t.Context())
	res, err := w.http.Client().Do(request(ctx, t, http.MethodGet, w.http.URL+"/v1/runs/"+id+"/events", nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := res.Body.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	res.Body.Close()
	if s := w.do("GET", "/v1/runs/"+id, nil).json(t)["status"]; s != "running" {
		t.Errorf("%v", s)
	}
}
