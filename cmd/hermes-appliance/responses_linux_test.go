// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// keyed starts a run under an idempotency key and returns the answer.
func (r *running) keyed(key, body string) (status int, replayed bool, text string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/v1/runs", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Idempotency-Replayed") == "true", string(data)
}

// TestResponsesAndKeysSurviveAKill: what clients of the API go on from is there after the gateway
// was killed and after it was stopped, a run is never started twice under its key, and nothing of
// one profile is another's.
func TestResponsesAndKeysSurviveAKill(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{
		"config.yaml": "_config_version: 50\ngateway:\n  multiplex_profiles: true\n", ".env": apiOn,
		"profiles/work/config.yaml": "_config_version: 50\n", "profiles/work/.env": "API_SERVER_KEY=the-key-of-work\n",
	})
	g := p.start(t, "gateway", "run", "--home", p.home)
	post := func(body string) string {
		t.Helper()
		status, text := g.request(g.key, "/v1/responses", body)
		if status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		return text
	}
	first := post(`{"input":"run: echo one-$((6*7))","instructions":"Be exact."}`)
	id := field[string](t, first, "id")
	gone := field[string](t, post(`{"input":"hello"}`), "id")
	named := post(`{"input":"hello","conversation":"log-é"}`)
	if status, _ := g.request(g.key, "DELETE /v1/responses/"+gone, ""); status != 200 {
		t.Fatal(status)
	}

	_, _, done := g.keyed("done", `{"input":"run: echo x"}`)
	doneID := field[string](t, done, "run_id")
	if status, events := g.request(g.key, "/v1/runs/"+doneID+"/events", ""); status != 200 || !strings.Contains(events, "run.completed") {
		t.Fatalf("%d %s", status, events)
	}
	db := filepath.Join(p.home, "state.db")
	// Its end is noted beside the events.
	for end := time.Now().Add(deadline); rows(t, db, "SELECT ifnull(status, '') FROM appliance_run_keys WHERE key = 'done'")[0] != "completed"; {
		if time.Now().After(end) {
			t.Fatal("the end of a run is not noted")
		}
	}
	path, heard := fifo(t, p.dir)
	const sleep = "sleep 300.0627"
	cut := `{"input":"run: echo > ` + path + `; ` + sleep + `"}`
	_, _, begun := g.keyed("cut", cut)
	cutID := field[string](t, begun, "run_id")
	heard()
	g.end(syscall.SIGKILL)

	check := func(how string) {
		t.Helper()
		if status, text := g.request(g.key, "/v1/responses/"+id, ""); status != 200 || text != first {
			t.Errorf("%s: %d\n%s\n%s", how, status, text, first)
		}
		for path, want := range map[string]int{
			"/v1/responses/" + gone:             404,
			"/p/work/v1/responses/" + id:        404,
			"/p/work/v1/runs/" + cutID:          404,
			"DELETE /p/work/v1/responses/" + id: 404,
		} {
			if status, text := g.request(map[bool]string{true: "the-key-of-work", false: g.key}[strings.Contains(path, "/p/work")], path, ""); status != want {
				t.Errorf("%s: %s: %d %s", how, path, status, text)
			}
		}
		for key, want := range map[string][3]string{"done": {doneID, "completed", `{"input":"run: echo x"}`}, "cut": {cutID, "interrupted", cut}} {
			status, replayed, text := g.keyed(key, want[2])
			if status != 202 || !replayed || field[string](t, text, "run_id") != want[0] || field[string](t, text, "status") != want[1] {
				t.Errorf("%s: %s: %d %v %s", how, key, status, replayed, text)
			}
			for _, path := range []string{"/v1/runs/" + want[0], "POST /v1/runs/" + want[0] + "/stop"} {
				if status, text := g.request(g.key, path, ""); status != 200 || field[string](t, text, "status") != want[1] {
					t.Errorf("%s: %s: %d %s", how, path, status, text)
				}
			}
		}
		if status, _, text := g.keyed("done", `{"input":"another"}`); status != 409 || !strings.Contains(text, "idempotency_key_conflict") {
			t.Errorf("%s: %d %s", how, status, text)
		}
	}
	g = p.start(t, "gateway", "run", "--home", p.home)
	check("after a kill")
	two := post(`{"input":"run: echo two","previous_response_id":"` + id + `"}`)
	if again := post(`{"input":"and then?","conversation":"log-é"}`); field[map[string]string](t, again, "conversation")["id"] != "log-é" {
		t.Error(again)
	}
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	g = p.start(t, "gateway", "run", "--home", p.home)
	check("after a stop")
	if status, text := g.request(g.key, "/v1/responses/"+field[string](t, two, "id"), ""); status != 200 || text != two {
		t.Errorf("%d %s", status, text)
	}
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}

	of := func(response string) string {
		return strings.Join(rows(t, db, "SELECT session_id FROM appliance_responses WHERE id = '"+response+"'"), ",")
	}
	if of(id) == "" || of(id) != of(field[string](t, two, "id")) {
		t.Errorf("the chain went on in %q, not in %q", of(field[string](t, two, "id")), of(id))
	}
	if got := rows(t, db, "SELECT group_concat(content, ' ') FROM messages WHERE role = 'user' AND session_id = '"+of(field[string](t, named, "id"))+"'"); strings.Join(got, ",") != "hello and then?" {
		t.Errorf("the named conversation: %v", got)
	}
	if got := strings.Join(rows(t, db, "SELECT count(*) FROM messages WHERE role = 'user' AND content LIKE '%"+sleep+"%'"), ","); got != "1" {
		t.Errorf("%s turns under one key", got)
	}
	if info, err := os.Stat(db); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// TestModelThatCannotBeHad: a request that names a provider which is not there is the client's
// mistake, said before anything starts.
func TestModelThatCannotBeHad(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\n", ".env": apiOn})
	g := p.start(t, "gateway", "run", "--home", p.home)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"provider":"nope","messages":[{"role":"user","content":"hi"}]}`,
		"/v1/responses":        `{"provider":"nope","input":"hi"}`,
		"/v1/runs":             `{"provider":"nope","input":"hi"}`,
	} {
		if status, text := g.request(g.key, path, body); status != 400 || !strings.Contains(text, "invalid_model") || !strings.Contains(text, "nope") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, text := g.request(g.key, "/api/sessions", ""); status != 200 || !strings.Contains(text, `"data":[]`) {
		t.Errorf("%d %s", status, text)
	}
}

// TestLongHistoryOfANewSession: what a client brings along is written with few commits, and refused
// before it is written if it could not be loaded again.
func TestLongHistoryOfANewSession(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\nsessions:\n  max_resume_messages: 1000\n", ".env": apiOn})
	g := p.start(t, "gateway", "run", "--home", p.home)
	respond := func(n int) (int, string) {
		var items []string
		for i := range n {
			items = append(items, fmt.Sprintf(`{"role":%q,"content":"m%d"}`, []string{"user", "assistant"}[i%2], i))
		}
		return g.request(g.key, "/v1/responses", `{"input":[`+strings.Join(items, ",")+`]}`)
	}
	db := filepath.Join(p.home, "state.db")
	if status, text := respond(1001); status != 400 || !strings.Contains(text, "session_too_long") {
		t.Errorf("%d %s", status, text)
	}
	before := strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"m"},`, 1000), ",")
	_, begun := g.request(g.key, "/v1/runs", `{"input":"x","conversation_history":[`+before+`]}`)
	if _, events := g.request(g.key, "/v1/runs/"+field[string](t, begun, "run_id")+"/events", ""); !strings.Contains(events, "history") || !strings.Contains(events, "run.failed") {
		t.Error(events)
	}
	if got := rows(t, db, "SELECT count(*) FROM messages UNION ALL SELECT count(*) FROM sessions"); strings.Join(got, "|") != "0|0" {
		t.Errorf("messages and sessions that were written: %v", got)
	}
	status, text := respond(901)
	if status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	if got := rows(t, db, "SELECT count(*), min(content), max(content) FROM messages WHERE content GLOB 'm*'"); got[0] != "901|m0|m99" {
		t.Error(got)
	}
	if status, text := g.request(g.key, "/v1/responses", `{"input":"and?","previous_response_id":"`+field[string](t, text, "id")+`"}`); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}
