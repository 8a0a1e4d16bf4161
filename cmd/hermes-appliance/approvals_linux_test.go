// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

// events follows a stream of events of the API.
type events struct {
	t    testing.TB
	name string
	c    chan map[string]any
}

// stream opens a stream of events; body "" is a GET.
func (r *running) stream(path, body string) *events {
	r.t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	resp, err := http.DefaultClient.Do(req) //nolint:bodyclose // closed by the one who reads it
	if err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %v %v", path, err, resp)
	}
	e := &events{t: r.t, name: path, c: make(chan map[string]any, 1000)}
	go func() {
		defer close(e.c)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		name := ""
		for lines.Scan() {
			if n, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = n
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			var v map[string]any
			if ok && json.Unmarshal([]byte(data), &v) == nil {
				if v["event"] == nil { // a stream whose events are named as SSE does it
					v["event"] = name
				}
				e.c <- v
			}
		}
	}()
	return e
}

// until returns the next event of a name and fails if one of the others comes first.
func (e *events) until(name string, not ...string) map[string]any {
	e.t.Helper()
	var seen []string
	for v := range e.c {
		got := fmt.Sprint(v["event"])
		seen = append(seen, got)
		if got == name {
			return v
		}
		for _, n := range not {
			if got == n {
				e.t.Fatalf("%s came before %s", got, name)
			}
		}
	}
	e.t.Fatalf("%s: no %s, only %v", e.name, name, seen)
	return nil
}

func (r *running) run(input string) (id string, e *events) {
	r.t.Helper()
	status, body := r.request(r.key, "/v1/runs", `{"input":`+quote(input)+`}`)
	if status != 202 {
		r.t.Fatalf("%d %s", status, body)
	}
	id = field[string](r.t, body, "run_id")
	return id, r.stream("/v1/runs/"+id+"/events", "")
}

func (r *running) answer(run, request, choice string) int {
	r.t.Helper()
	status, _ := r.request(r.key, "/v1/runs/"+run+"/approval", `{"choice":"`+choice+`","request_id":"`+request+`"}`)
	return status
}

// victim is a directory that a dangerous command would remove.
func (p *place) victim(t testing.TB, name string) (dir, command string) {
	t.Helper()
	dir = filepath.Join(p.dir, name)
	testkit.WriteTree(t, dir, map[string]string{"keep/file": "x"})
	return dir, "rm -rf " + dir
}

func there(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "keep", "file"))
	return err == nil
}

// TestReportB14UnattendedSurfaces: where nobody can answer, a dangerous command is refused at
// once, on every surface (H#30882).
func TestReportB14UnattendedSurfaces(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\n", ".env": apiOn})
	g := p.start(t, "gateway", "run", "--home", p.home)
	dir, command := p.victim(t, "v")
	_, body := g.request(g.key, "/api/sessions", `{}`)
	session := field[map[string]any](t, body, "session")["id"].(string)
	input := quote("run: " + command)
	for path, body := range map[string]string{
		"/v1/chat/completions":               `{"messages":[{"role":"user","content":` + input + `}]}`,
		"/v1/responses":                      `{"input":` + input + `}`,
		"/api/sessions/" + session + "/chat": `{"message":` + input + `}`,
	} {
		status, got := g.request(g.key, path, body)
		if status != 200 || !strings.Contains(got, "BLOCKED") || !there(dir) {
			t.Errorf("%s: %d, still there %v: %s", path, status, there(dir), got)
		}
	}
}

// TestReportPR4973OnceIsOnce: an approval for once does not count for the same command again,
// one for the session does, and one for always is kept in the profile's config.
func TestReportPR4973OnceIsOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": "# mine\n_config_version: 50\n", ".env": apiOn})
	g := p.start(t, "gateway", "run", "--home", p.home)
	dir, command := p.victim(t, "v")
	run, e := g.run("run: " + command + "\nrun: " + command)
	first := e.until("approval.request", "tool.completed")
	if first["command"] != command || !there(dir) {
		t.Errorf("asked %v, there %v", first, there(dir))
	}
	if status := g.answer(run, "apr_000000000000000000000000", "once"); status != 409 {
		t.Errorf("an id that nobody gave out: %d", status)
	}
	if status := g.answer(run, first["request_id"].(string), "maybe"); status != 400 {
		t.Errorf("a choice that is none: %d", status)
	}
	if status := g.answer(run, first["request_id"].(string), "once"); status != 200 {
		t.Fatalf("answer: %d", status)
	}
	second := e.until("approval.request")
	if there(dir) {
		t.Error("the approved command did not run")
	}
	if status := g.answer(run, first["request_id"].(string), "once"); status != 409 {
		t.Errorf("the same answer again: %d", status)
	}
	p.victim(t, "v")
	if status := g.answer(run, second["request_id"].(string), "deny"); status != 200 {
		t.Errorf("deny: %d", status)
	}
	e.until("run.completed", "approval.request")
	if !there(dir) {
		t.Error("the denied command ran")
	}

	run, e = g.run("run: " + command + "\nrun: " + command)
	g.answer(run, e.until("approval.request")["request_id"].(string), "session")
	e.until("run.completed", "approval.request")
	p.victim(t, "v")
	if got := g.ask("", g.key, "run: "+command); !strings.Contains(got, "BLOCKED") || !there(dir) {
		t.Errorf("another session has the grant, too: %s", got)
	}

	run, e = g.run("run: " + command)
	g.answer(run, e.until("approval.request")["request_id"].(string), "always")
	e.until("run.completed")
	config, err := os.ReadFile(filepath.Join(p.home, "config.yaml"))
	if err != nil || !strings.Contains(string(config), "command_allowlist") || !strings.Contains(string(config), "# mine") {
		t.Errorf("%v: %s", err, config)
	}
	p.victim(t, "v")
	if got := g.ask("", g.key, "run: "+command); strings.Contains(got, "BLOCKED") || there(dir) {
		t.Errorf("what is always allowed is refused: %s", got)
	}
}

// TestTwoPendingApprovals: each waits for its own answer, and a stopped run's command never
// runs (H#81026).
func TestTwoPendingApprovals(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\n", ".env": apiOn})
	g := p.start(t, "gateway", "run", "--home", p.home)
	dirA, commandA := p.victim(t, "a")
	dirB, commandB := p.victim(t, "b")
	runA, a := g.run("run: " + commandA)
	runB, b := g.run("run: " + commandB)
	askA, askB := a.until("approval.request")["request_id"].(string), b.until("approval.request")["request_id"].(string)
	if status := g.answer(runA, askB, "once"); status != 409 {
		t.Errorf("the other run's question: %d", status)
	}
	if _, body := g.request(g.key, "/v1/runs/"+runB, ""); field[string](t, body, "status") != "waiting_for_approval" {
		t.Errorf("run B: %s", body)
	}
	if status, body := g.request(g.key, "/v1/runs/"+runB+"/stop", `{}`); status != 200 || field[string](t, body, "status") != "stopping" {
		t.Errorf("stop: %d %s", status, body)
	}
	b.until("run.cancelled", "run.completed", "run.failed")
	if status := g.answer(runB, askB, "once"); status != 409 {
		t.Errorf("an answer after the stop: %d", status)
	}
	if status := g.answer(runA, askA, "once"); status != 200 {
		t.Errorf("the first run's question is lost: %d", status)
	}
	a.until("run.completed")
	if there(dirA) || !there(dirB) {
		t.Errorf("a is there: %v, b is there: %v", there(dirA), there(dirB))
	}
	// A session's stream shows the question, and its run answers it.
	_, body := g.request(g.key, "/api/sessions", `{}`)
	session := field[map[string]any](t, body, "session")["id"].(string)
	s := g.stream("/api/sessions/"+session+"/chat/stream", `{"message":`+quote("run: "+commandB)+`}`)
	ask := s.until("approval.request")
	if status := g.answer(fmt.Sprint(ask["run_id"]), ask["request_id"].(string), "once"); status != 200 {
		t.Errorf("from the stream of a session: %d, asked %v", status, ask)
	}
	for range s.c {
	}
	if there(dirB) {
		t.Error("approved and not run")
	}
}

// TestApprovalModes: off is what YAML makes a boolean of; neither it nor an approval lifts the
// floor or the owner's deny list.
func TestApprovalModes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode string
		runs bool
	}{{"off", true}, {"false", true}, {"\"off\"", true}, {"manual", false}, {"smart", false}, {"on", false}, {"nonsense", false}, {"[off]", false}} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\napprovals:\n  mode: " + c.mode + "\n  deny: ['*forbidden*']\n", ".env": apiOn})
			g := p.start(t, "gateway", "run", "--home", p.home)
			dir, command := p.victim(t, "v")
			got := g.ask("", g.key, "run: "+command)
			if there(dir) == c.runs || strings.Contains(got, "BLOCKED") == c.runs {
				t.Errorf("runs %v, want %v: %s", !there(dir), c.runs, got)
			}
			for _, never := range []string{"mkfs.ext4 /dev/sdzz9", "echo forbidden", "bash -c 'echo FORBIDDEN'", fmt.Sprintf("kill -9 %d", g.cmd.Process.Pid)} {
				if got := g.ask("", g.key, "run: "+never); !strings.Contains(got, "BLOCKED") {
					t.Errorf("%s: %s", never, got)
				}
			}
			if got := g.ask("", g.key, "run: echo fine-$((1+1))"); !strings.Contains(got, "fine-2") {
				t.Errorf("harmless: %s", got)
			}
		})
	}
}

// TestSubagentApprovals (H#81026): the questions of two subagents wait in the run that they work
// for, are answered one by one or together, and the run's events tell what they do.
func TestSubagentApprovals(t *testing.T) {
	t.Parallel()
	var dirs [3]string
	srv := modelserver.NewFunc(t, func(r modelserver.Request) modelserver.Reply {
		q := tell(t, r)
		goal, child := strings.CutPrefix(q.User, "Your task: ")
		switch {
		case q.Tools > 0:
			return modelserver.Reply{Text: "done"}
		case child:
			return modelserver.Reply{Calls: []modelserver.Call{{ID: "t", Name: "terminal", Args: `{"command":` + quote("rm -rf "+goal) + `}`}}}
		}
		args := `{"tasks":[{"goal":` + quote(dirs[0]) + `},{"goal":` + quote(dirs[1]) + `},{"goal":` + quote(dirs[2]) + `}]}`
		return modelserver.Reply{Calls: []modelserver.Call{{ID: "d", Name: "delegate_task", Args: args}}}
	})
	p := newPlace(t, map[string]string{
		"config.yaml": "_config_version: 50\nmodel: {provider: custom, default: scripted, base_url: " + srv.URL + "/v1}\napprovals: {mode: manual}\n", ".env": apiOn,
	})
	for i := range dirs {
		dirs[i], _ = p.victim(t, fmt.Sprint("v", i))
	}
	g := p.start(t, "gateway", "run", "--home", p.home)
	run, e := g.run("go")
	asked, goals := map[string]map[string]any{}, map[string]string{}
	for len(asked) < 3 {
		v, ok := <-e.c
		if !ok {
			t.Fatalf("the run ended with %d questions", len(asked))
		}
		who, _ := v["subagent_session_id"].(string)
		switch v["event"] {
		case "subagent.started":
			goals[who] = fmt.Sprint(v["goal"])
		case "approval.request":
			dir := goals[who]
			if v["command"] != "rm -rf "+dir {
				t.Errorf("asked %v for %q", v, dir)
			}
			asked[dir] = v
		}
	}
	_, body := g.request(g.key, "/v1/runs/"+run, "")
	if waiting := field[[]map[string]any](t, body, "approvals"); len(waiting) != 3 {
		t.Errorf("waiting: %v", waiting)
	}
	if status := g.answer(run, fmt.Sprint(asked[dirs[1]]["request_id"]), "once"); status != 200 {
		t.Errorf("by id: %d", status)
	}
	if got := e.until("subagent.completed"); goals[fmt.Sprint(got["subagent_session_id"])] != dirs[1] || got["status"] != "answered" || there(dirs[1]) {
		t.Errorf("%v, there %v", got, there(dirs[1]))
	}
	if status, body := g.request(g.key, "/v1/runs/"+run+"/approval", `{"choice":"deny","all":true}`); status != 200 || field[int](t, body, "resolved") != 2 {
		t.Errorf("all: %d %s", status, body)
	}
	e.until("run.completed", "approval.request")
	if !there(dirs[0]) || !there(dirs[2]) {
		t.Error("what was denied ran")
	}
}
