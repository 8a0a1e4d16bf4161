// SPDX-License-Identifier: MIT

package main

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

const apiOn = "API_SERVER_ENABLED=true\nAPI_SERVER_KEY=key-of-the-launch-profile-1\n"

// TestUpOnNothing: from an empty directory to an answer that ran a command, and back to
// nothing that runs.
func TestUpOnNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	g := p.start(t, "up", "--home", p.home)
	if status, body := g.request("", "/health", ""); status != 200 || !strings.Contains(body, `"ok"`) {
		t.Errorf("/health: %d %s", status, body)
	}
	if status, _ := g.request("", "/v1/models", ""); status != 401 {
		t.Errorf("without a key: %d", status)
	}
	if got := g.ask("", g.key, "run: echo $((6*7))-answered"); !strings.Contains(got, "42-answered") || !strings.Contains(got, "rehearsal") {
		t.Errorf("answer: %s", got)
	}
	out, code := p.command(t, "status", "--home", p.home, "--json")
	result := field[map[string]any](t, out, "result")
	status, _ := result["status"].(map[string]any)
	if code != 0 || result["running"] != true || status["gateway_state"] != "running" || status["pid"] != float64(g.cmd.Process.Pid) {
		t.Errorf("status: exit %d %s", code, out)
	}
	for _, want := range []string{g.url, p.home, "curl"} { // it says so once it has told its manager
		await(t, "up says "+want, func() bool { return strings.Contains(g.out.String(), want) })
	}
	path, heard := fifo(t, p.dir)
	go g.try(g.key, "/v1/chat/completions", `{"messages":[{"role":"user","content":"run: echo > `+path+`; sleep 300.125"}]}`)
	heard()
	if len(processes(t, "sleep 300.125")) == 0 {
		t.Fatal("no command runs: the test would see none that is left either")
	}
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: exit %d", code)
	}
	if left := processes(t, "sleep 300.125"); len(left) > 0 {
		t.Errorf("commands are left: %v", left)
	}
	for _, name := range []string{"gateway.pid", "gateway.sock"} {
		if _, err := os.Lstat(filepath.Join(p.home, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	s := p.state(t)
	if s["gateway_state"] != "stopped" || s["active_agents"] != float64(0) || strings.Contains(quote(g.p.home)+g.log.String(), g.key) {
		t.Errorf("state %v\nlog %s", s, &g.log)
	}
	if api := s["platforms"].(map[string]any)["api_server"].(map[string]any); api["state"] != "stopped" || api["listener_base"] != nil {
		t.Errorf("the API is still said to be %v", api)
	}
	if out, code := p.command(t, "status", "--home", p.home); code != 1 || !strings.Contains(out, "no gateway runs") {
		t.Errorf("status after it: %d %s", code, out)
	}
	if out, _ := p.command(t, "logs", "--home", p.home); !strings.Contains(out, "gateway is up") {
		t.Errorf("logs: %s", out)
	}
}

// TestReportB34SecondGateway (ZeroClaw#7895): the second is refused, says who has it, and touches nothing.
func TestReportB34SecondGateway(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\n", ".env": apiOn})
	g := p.start(t, "gateway", "run", "--home", p.home)
	pid := strconv.Itoa(g.cmd.Process.Pid)
	for _, args := range [][]string{{"gateway", "run"}, {"up"}} {
		out, code := p.command(t, append(args, "--home", p.home)...)
		if code != 7 || !strings.Contains(out, pid) {
			t.Errorf("%v: exit %d, want 7 and process %s: %s", args, code, pid, out)
		}
	}
	if status, _ := g.request("", "/health", ""); status != 200 {
		t.Errorf("the first one: %d", status)
	}
	if s := p.state(t); s["gateway_state"] != "running" || strconv.Itoa(int(s["pid"].(float64))) != pid {
		t.Errorf("state %v", s)
	}
	if code := g.end(syscall.SIGUSR1); code != 75 {
		t.Errorf("SIGUSR1: exit %d", code)
	}
	if s := p.state(t); s["restart_requested"] != true || s["gateway_state"] != "stopped" {
		t.Errorf("state after a restart was asked for: %v", s)
	}
	// What a dead gateway left behind stands in nobody's way.
	g = p.start(t, "gateway", "run", "--home", p.home)
	g.end(syscall.SIGKILL)
	g = p.start(t, "gateway", "run", "--home", p.home)
	if s := p.state(t); s["restart_requested"] != nil {
		t.Errorf("a restart is still asked for: %v", s)
	}
	if code := g.end(syscall.SIGINT); code != 0 {
		t.Errorf("SIGINT: exit %d", code)
	}
}

// TestReportB34PortOfAnotherGateway (ZeroClaw#7895): a gateway whose port another home's gateway has
// says so once, and goes on without; the other one is not touched.
func TestReportB34PortOfAnotherGateway(t *testing.T) {
	t.Parallel()
	files := map[string]string{"config.yaml": "_config_version: 50\n", ".env": apiOn}
	other := newPlace(t, files)
	first := other.start(t, "gateway", "run", "--home", other.home)
	p := newPlace(t, files)
	p.env = append(p.env, "API_SERVER_PORT="+first.url[strings.LastIndex(first.url, ":")+1:])
	second := p.start(t, "gateway", "run", "--home", p.home)
	api, _ := p.state(t)["platforms"].(map[string]any)["api_server"].(map[string]any)
	if message, _ := api["error_message"].(string); api["state"] != "failed" || !strings.Contains(message, "another gateway answers there") {
		t.Errorf("state %v", api)
	}
	if status, _ := first.request("", "/health", ""); status != 200 {
		t.Errorf("the first one: %d", status)
	}
	if code := second.end(syscall.SIGTERM); code != 0 || strings.Count(second.log.String(), "another gateway answers there") != 1 {
		t.Errorf("exit %d", code)
	}
}

// TestDrain: SIGUSR1 lets a running turn finish within restart_drain_timeout.
func TestDrain(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\ngateway:\n  restart_drain_timeout: 80\n  api_server: {max_concurrent_runs: 0}\n", ".env": apiOn})
	g := p.start(t, "gateway", "run", "--home", p.home)
	path, heard := fifo(t, p.dir)
	gate := filepath.Join(p.dir, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	answer := make(chan string, 1)
	go func() {
		_, body, err := g.try(g.key, "/v1/chat/completions", `{"messages":[{"role":"user","content":"run: echo > `+path+`; cat `+gate+`; echo fin-$((2+3))"}]}`)
		if err != nil {
			body = err.Error()
		}
		answer <- body
	}()
	heard()
	if err := g.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	await(t, "draining", func() bool { return p.state(t)["gateway_state"] == "draining" })
	for ; ; time.Sleep(20 * time.Millisecond) { // and then it says that it takes no more turns
		status, body := g.request(g.key, "/v1/runs", `{"input":"hello"}`)
		if status == 503 {
			break
		}
		if status != 202 {
			t.Fatalf("while it drains: %d %s", status, body)
		}
	}
	w, err := os.OpenFile(gate, os.O_WRONLY, 0) // waits for the command
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got := <-answer; !strings.Contains(got, "fin-5") {
		t.Errorf("the turn was not finished: %s", got)
	}
	if code := g.wait(); code != 75 {
		t.Errorf("exit %d", code)
	}
}

// TestPendingMigrations: a service refuses an old home, and up brings it up to date.
func TestPendingMigrations(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 46\n# mine\nmodel:\n  default: m\n", ".env": apiOn})
	before := testkit.ReadTree(t, p.home)
	out, code := p.command(t, "gateway", "run", "--home", p.home)
	if code != 78 || !strings.Contains(out, "migrate --home "+p.home) {
		t.Errorf("exit %d: %s", code, out)
	}
	if d := cmp.Diff(before, testkit.ReadTree(t, p.home)); d != "" {
		t.Errorf("the refusal changed the home:\n%s", d)
	}
	g := p.start(t, "up", "--home", p.home)
	config, err := os.ReadFile(filepath.Join(p.home, "config.yaml"))
	if err != nil || !strings.Contains(string(config), "_config_version: 50") || !strings.Contains(string(config), "# mine") {
		t.Errorf("%v: %s", err, config)
	}
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// TestNewerConfig: it is served, said, and never written.
func TestNewerConfig(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"config.yaml": "_config_version: 9000\n# of a later version\nnew_section:\n  x: [1, 2]\n", ".env": apiOn + "# comment\nODD LINE\n",
		"SOUL.md": "I am.\r\n", "later.bin": "\x00\x01", "sub/later.json": "{}", "cron/jobs.json": `{"jobs":[], "updated_at": null, "new": 1}`,
	}
	for _, command := range [][]string{{"gateway", "run"}, {"up"}} {
		p := newPlace(t, files)
		g := p.start(t, append(command, "--home", p.home)...)
		if got := g.ask("", g.key, "run: echo hi-$((1+1))"); !strings.Contains(got, "hi-2") {
			t.Errorf("%v: %s", command, got)
		}
		if notices, _ := p.state(t)["notices"].([]any); len(notices) != 1 || !strings.Contains(notices[0].(string), "newer") {
			t.Errorf("%v: notices %v", command, notices)
		}
		if out, _ := p.command(t, "status", "--home", p.home); !strings.Contains(out, "newer") {
			t.Errorf("%v: status does not say it: %s", command, out)
		}
		if code := g.end(syscall.SIGTERM); code != 0 {
			t.Errorf("%v: exit %d", command, code)
		}
		after := testkit.ReadTree(t, p.home)
		for name, want := range files {
			if after[name] != want {
				t.Errorf("%v: %s was changed:\n%s", command, name, cmp.Diff(want, after[name]))
			}
		}
	}
}

// TestAdaptersFailAlone: whatever is wrong with the API, the gateway runs and says it.
func TestAdaptersFailAlone(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	go func() { // whoever has the port is no gateway
		for {
			c, err := taken.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for _, c := range []struct{ name, env, config, want string }{
		{"no key", "API_SERVER_ENABLED=true\n", "", "API_SERVER_KEY is not set"},
		{"an empty key", "API_SERVER_ENABLED=true\nAPI_SERVER_KEY=\n", "", "API_SERVER_KEY is not set"},
		{"port taken", apiOn + "API_SERVER_PORT=" + port + "\n", "", "cannot listen on 127.0.0.1:" + port},
		{"no port", apiOn + "API_SERVER_PORT=http\n", "", `"http" is no port`},
		{"no number of runs", apiOn, "gateway:\n  api_server:\n    max_concurrent_runs: many\n", `"many" is no number`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\n" + c.config, ".env": c.env})
			g := p.start(t, "up", "--home", p.home)
			s := p.state(t)
			api, _ := s["platforms"].(map[string]any)["api_server"].(map[string]any)
			message, _ := api["error_message"].(string)
			if s["gateway_state"] != "running" || api["state"] != "failed" || api["needs_attention"] != true || !strings.Contains(message, c.want) {
				t.Errorf("state %v", s)
			}
			if out, code := p.command(t, "status", "--home", p.home); code != 0 || !strings.Contains(out, c.want) {
				t.Errorf("status: %d %s", code, out)
			}
			if code := g.end(syscall.SIGTERM); code != 0 {
				t.Errorf("exit %d", code)
			}
			if api, _ := p.state(t)["platforms"].(map[string]any)["api_server"].(map[string]any); api["error_message"] != message {
				t.Errorf("what was wrong is forgotten: %v", api)
			}
		})
	}
}

// TestUnservedPlatforms are named once, and their keys stay.
func TestUnservedPlatforms(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"config.yaml": "_config_version: 50\nplatforms:\n  matrix:\n    enabled: true\n    token: x\n  irc:\n    enabled: false\n",
		".env":        apiOn + "TELEGRAM_BOT_TOKEN=123:abc\n",
	}
	p := newPlace(t, files)
	g := p.start(t, "gateway", "run", "--home", p.home)
	platforms, _ := p.state(t)["platforms"].(map[string]any)
	for name, want := range map[string]string{"matrix": "unserved", "telegram": "unserved", "api_server": "connected"} {
		if m, _ := platforms[name].(map[string]any); m["state"] != want {
			t.Errorf("%s: %v", name, m)
		}
	}
	if len(platforms) != 3 {
		t.Errorf("platforms %v", platforms)
	}
	g.end(syscall.SIGTERM)
	if n := strings.Count(g.log.String(), "platform=matrix"); n != 1 {
		t.Errorf("matrix is named %d times", n)
	}
	for name, want := range files {
		if got := testkit.ReadTree(t, p.home)[name]; got != want {
			t.Errorf("%s was changed: %s", name, got)
		}
	}
}

// TestUnservedPlatformsOfProfiles: those of each served profile are named, and no other's.
func TestUnservedPlatformsOfProfiles(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{
		"config.yaml": "_config_version: 50\ngateway: {multiplex_profiles: true}\n", ".env": apiOn + "SLACK_BOT_TOKEN=xoxb-1\n",
		"profiles/alice/config.yaml": "_config_version: 50\nplatforms: {matrix: {enabled: true}}\n", "profiles/alice/.env": "DISCORD_BOT_TOKEN=abc\n",
		"profiles/bob/config.yaml": "_config_version: 50\n",
	})
	g := p.start(t, "gateway", "run", "--home", p.home)
	want := []string{"alice:discord", "alice:matrix", "api_server", "slack"}
	var got []string
	for give := time.Now().Add(deadline); !slices.Equal(got, want); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(give) {
			t.Fatalf("platforms %v, want %v", got, want)
		}
		platforms, _ := p.state(t)["platforms"].(map[string]any)
		got = slices.Sorted(maps.Keys(platforms))
	}
	g.end(syscall.SIGTERM)
	for _, line := range []string{"platform=matrix profile=alice", "platform=discord profile=alice", "platform=slack profile=default"} {
		if n := strings.Count(g.log.String(), line); n != 1 {
			t.Errorf("%q is said %d times", line, n)
		}
	}
}

// TestBrokenDatabase: a state.db that is none is left as it is, said, and the gateway runs.
func TestBrokenDatabase(t *testing.T) {
	t.Parallel()
	garbage := strings.Repeat("this is no database. ", 1000)
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\n", ".env": apiOn, "state.db": garbage})
	g := p.start(t, "gateway", "run", "--home", p.home)
	status, body := g.request(g.key, "/health/detailed", "")
	if status != 200 || !strings.Contains(body, `"degraded"`) {
		t.Errorf("%d %s", status, body)
	}
	checks := field[struct{ Checks map[string]map[string]any }](t, body, "readiness").Checks
	if c := checks["state_db"]; c["status"] == "ok" || c["detail"] == nil {
		t.Errorf("state_db: %v", c)
	}
	if checks["disk"] == nil {
		t.Errorf("nothing is said of the disk: %s", body)
	}
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"hi"}]}`, "/v1/responses": `{"input":"hi"}`, "/v1/responses/resp_1": "", "/api/sessions": "",
	} {
		if status, text := g.request(g.key, path, body); status != 503 || !strings.Contains(text, "store_unavailable") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, _, text := g.keyed("k", `{"input":"hi"}`); status != 503 || !strings.Contains(text, "store_unavailable") {
		t.Errorf("a run: %d %s", status, text)
	}
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	if got := testkit.ReadTree(t, p.home)["state.db"]; got != garbage {
		t.Errorf("the file was changed: %d bytes of %d", len(got), len(garbage))
	}
}

// TestStopInAStorm: a gateway that waits out a storm of restarts stops at once, and says so.
func TestStopInAStorm(t *testing.T) {
	t.Parallel()
	starts := strings.Repeat(strconv.FormatInt(time.Now().Unix(), 10)+".000\n", 20)
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\n", ".env": apiOn, "gateway-starts.log": starts})
	g := p.launch(t, "gateway", "run", "--home", p.home)
	for !strings.Contains(g.log.String(), "too many starts") {
		select {
		case <-g.ended:
			t.Fatalf("it ended: %s", &g.log)
		case <-g.ready:
			t.Fatal("it did not wait")
		case <-time.After(10 * time.Millisecond):
		}
	}
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	if s := p.state(t); s["gateway_state"] != "stopped" {
		t.Errorf("state %v", s)
	}
}
