// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// soakTime is how long the traffic lasts where a test runs by itself; soakEnv names another time
// for bench/soak.
const (
	soakTime    = 20 * time.Second
	soakEnv     = "HERMES_SOAK"
	soakClients = 8
	soakReport  = 15 * time.Second
	// A pool that sees to its connections, a timer that has not fired yet.
	soakSlack = 40
	// Of a database: its writer and four readers, each with the file and its log, and their index.
	soakDatabase = 11
	soakProfiles = 2
)

// soak is a gateway under traffic of every kind.
type soak struct {
	*running

	hooks string // where its webhooks listen
	sent  atomic.Int64
	done  []atomic.Int64 // of each kind
}

// kinds are the kinds of traffic.
var kinds = [...]struct {
	name string
	do   func(s *soak, ctx context.Context, path, key string) error
}{
	{"chat", func(s *soak, ctx context.Context, path, key string) error {
		return s.send(ctx, key, path+"/v1/chat/completions", `{"messages":[{"role":"user","content":"hello"}]}`, nil)
	}},
	{"stream", func(s *soak, ctx context.Context, path, key string) error {
		return s.send(ctx, key, path+"/v1/chat/completions", `{"stream":true,"messages":[{"role":"user","content":"hello"}]}`, nil)
	}},
	{"command", func(s *soak, ctx context.Context, path, key string) error {
		return s.send(ctx, key, path+"/v1/chat/completions", `{"messages":[{"role":"user","content":"run: cd / && echo $((6*7))"}]}`, nil)
	}},
	{"server", func(s *soak, ctx context.Context, path, key string) error {
		return s.send(ctx, key, path+"/v1/chat/completions", `{"messages":[{"role":"user","content":"call: mcp__dump__dump {}"}]}`, nil)
	}},
	{"response", (*soak).response},
	{"run", (*soak).run},
	{"session", (*soak).session},
	{"webhook", (*soak).webhook},
	{"left", func(s *soak, ctx context.Context, path, key string) error { // a client that does not wait for the answer
		ctx, cancel := context.WithTimeout(ctx, 3*time.Millisecond)
		defer cancel()
		_ = s.send(ctx, key, path+"/v1/chat/completions", `{"stream":true,"messages":[{"role":"user","content":"run: sleep 0.2"}]}`, nil)
		return nil
	}},
}

// TestReportB23SoakLeavesNothing sends traffic of every kind to two profiles and looks whether the
// process has more goroutines or descriptors afterwards than before (H#80764, OpenClaw#91588).
// Files are judged one by one: those of the databases may be as many as their pools have
// connections, of everything else there must not be one more. What the process takes of memory is
// printed, not judged.
func TestReportB23SoakLeavesNothing(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("bash")
	testkit.Need(t, "bash", err == nil, "commands run in bash")
	length := soakTime
	if text := os.Getenv(soakEnv); text != "" {
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	s := newSoak(t)
	s.traffic(t, 0) // everything is opened that is opened once
	http.DefaultClient.CloseIdleConnections()
	before := s.settled(t, usage{})
	t.Logf("%8s %9s %8s %11s %6s", "time", "requests", "RSS MB", "goroutines", "files")
	t.Log(s.line(0, before))
	began := time.Now()
	s.traffic(t, length)
	http.DefaultClient.CloseIdleConnections()
	after := s.settled(t, before)
	t.Log(s.line(time.Since(began), after))
	for i := range kinds {
		if s.done[i].Load() == 0 {
			t.Errorf("no traffic of the kind %s", kinds[i].name)
		}
	}
	if !after.within(before) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if code := s.end(syscall.SIGTERM); code != 0 { // with the commands of those who left
		t.Errorf("exit %d", code)
	}
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	dumper, err := exec.LookPath("mcp-dump")
	if err != nil {
		t.Fatal(err)
	}
	dump := t.TempDir() + "/dump"
	config := "_config_version: 50\napprovals:\n  mode: \"off\"\nmcp_servers:\n  dump:\n    command: " + dumper + "\n    args: [" + dump + "]\n" +
		"gateway:\n  api_server:\n    max_concurrent_runs: 0\n"
	p := newPlace(t, map[string]string{
		"config.yaml": config + "  multiplex_profiles: true\nplatforms:\n  webhook:\n    enabled: true\n    extra:\n      host: 127.0.0.1\n      port: 0" +
			"\n      rate_limit: 100000\n      routes:\n        soak:\n          secret: INSECURE_NO_AUTH\n          prompt: \"{text}\"\n",
		".env":                    apiOn,
		"profiles/p1/config.yaml": config,
		"profiles/p1/.env":        "API_SERVER_KEY=key-of-profile-1-1234\n",
	})
	p.program = os.Getenv(benchBinary)
	s := &soak{running: p.start(t, "gateway", "run", "--home", p.home), done: make([]atomic.Int64, len(kinds))}
	platforms, _ := p.state(t)["platforms"].(map[string]any)
	webhook, _ := platforms["webhook"].(map[string]any)
	if s.hooks, _ = webhook["listener_base"].(string); s.hooks == "" {
		t.Fatalf("no webhooks: %v", platforms)
	}
	return s
}

// traffic has clients send what comes next, in turns, for some time; 0 = each kind twice.
func (s *soak) traffic(t *testing.T, length time.Duration) {
	t.Helper()
	ctx := t.Context()
	end := time.Now().Add(length)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range soakClients {
		wg.Go(func() {
			for {
				n := int(next.Add(1) - 1)
				if length == 0 && n >= 4*len(kinds) || length > 0 && time.Now().After(end) {
					return
				}
				path, key := "", s.key
				if n/len(kinds)%2 == 1 {
					path, key = "/p/p1", "key-of-profile-1-1234"
				}
				k := kinds[n%len(kinds)]
				if err := k.do(s, ctx, path, key); err != nil {
					t.Errorf("%s: %v", k.name, err)
					return
				}
				s.done[n%len(kinds)].Add(1)
			}
		})
	}
	stop, began := make(chan struct{}), time.Now()
	var reports sync.WaitGroup
	reports.Go(func() {
		for {
			select {
			case <-time.After(soakReport):
				t.Log(s.line(time.Since(began), s.usage(t)))
			case <-stop:
				return
			}
		}
	})
	wg.Wait()
	close(stop)
	reports.Wait()
}

// send posts a body and reads the whole answer; out may be nil.
func (s *soak) send(ctx context.Context, key, path, body string, out any) error {
	s.sent.Add(1)
	method, path := cutMethod(path)
	url := s.url + path
	if strings.HasPrefix(path, "http") {
		url = path
	}
	url = strings.TrimSpace(method + " " + url)
	status, data, err := exchange(ctx, key, url, body)
	if err == nil && status >= 300 {
		err = fmt.Errorf("%s: %d %s", path, status, data)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(data, out)
	}
	return err
}

func (s *soak) response(ctx context.Context, path, key string) error {
	var first struct{ ID string }
	if err := s.send(ctx, key, path+"/v1/responses", `{"input":"run: export A=b"}`, &first); err != nil {
		return err
	}
	return s.send(ctx, key, path+"/v1/responses", `{"input":"run: echo $A","previous_response_id":`+quote(first.ID)+`}`, nil)
}

func (s *soak) run(ctx context.Context, path, key string) error {
	var run struct {
		ID     string `json:"run_id"`
		Status string
	}
	if err := s.send(ctx, key, path+"/v1/runs", `{"input":"run: echo of a run"}`, &run); err != nil {
		return err
	}
	if err := s.send(ctx, key, path+"/v1/runs/"+run.ID+"/events", "", nil); err != nil { // to its end
		return err
	}
	return s.send(ctx, key, path+"/v1/runs/"+run.ID, "", &run)
}

func (s *soak) session(ctx context.Context, path, key string) error {
	var made struct{ Session struct{ ID string } }
	if err := s.send(ctx, key, path+"/api/sessions", `{}`, &made); err != nil {
		return err
	}
	at := path + "/api/sessions/" + made.Session.ID
	for _, text := range []string{"run: cd /tmp && export WHO=me", `call: terminal {"command":"sleep 0.1","background":true}`, `call: todo_list {"todos":[{"id":"1","content":"x"}]}`, "run: echo $WHO"} {
		if err := s.send(ctx, key, at+"/chat", `{"message":`+quote(text)+`}`, nil); err != nil {
			return err
		}
	}
	return s.send(ctx, key, "DELETE "+at, "", nil)
}

func (s *soak) webhook(ctx context.Context, _, _ string) error {
	return s.send(ctx, "", s.hooks+"/webhooks/soak", `{"text":"run: echo of an event"}`, nil)
}

// usage is what the process has now.
type usage struct {
	mb         float64
	goroutines int
	files      map[string]int // how many descriptors lead to each file, or to each kind of what is none
}

func (u usage) all() (n int) {
	for _, of := range u.files {
		n += of
	}
	return n
}

// within reports whether what the process has is no more than before, once the pools of its
// databases are full.
func (u usage) within(before usage) bool {
	databases := 0
	for to, n := range u.files {
		switch {
		case strings.HasPrefix(filepath.Base(to), "state.db"):
			databases += n
		case n > before.files[to]:
			return false
		}
	}
	return databases <= soakProfiles*soakDatabase && u.goroutines <= before.goroutines+soakSlack
}

func (s *soak) line(at time.Duration, u usage) string {
	return fmt.Sprintf("%8s %9d %8.1f %11d %6d", at.Round(time.Second), s.sent.Load(), u.mb, u.goroutines, u.all())
}

func (s *soak) usage(t *testing.T) (u usage) {
	t.Helper()
	pid := s.cmd.Process.Pid
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
		return u
	}
	u.files = map[string]int{}
	for _, fd := range files {
		if to, err := os.Readlink(dir + fd.Name()); err == nil { // else it is closed by now
			if kind, _, ok := strings.Cut(to, ":["); ok {
				to = kind
			}
			u.files[to]++
		}
	}
	var health struct {
		Readiness struct {
			Checks map[string]struct{ Counts map[string]int }
		}
	}
	if err := s.send(t.Context(), s.key, "/health/detailed", "", &health); err != nil {
		t.Error(err)
	}
	u.mb, u.goroutines = resident(t, pid), health.Readiness.Checks["process"].Counts["goroutines"]
	return u
}

// settled waits until the process has no more than before, or, without a before, until it has
// twice the same; then nothing of the traffic is under way.
func (s *soak) settled(t *testing.T, before usage) (now usage) {
	t.Helper()
	for until, last := time.Now().Add(deadline), before; ; last = now {
		now = s.usage(t)
		calm := now.goroutines == last.goroutines && maps.Equal(now.files, last.files)
		if before.files != nil {
			calm = now.within(before)
		}
		if calm || time.Now().After(until) {
			return now
		}
		time.Sleep(time.Second)
	}
}
