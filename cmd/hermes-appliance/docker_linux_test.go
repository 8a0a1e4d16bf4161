// SPDX-License-Identifier: MIT

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

const dockerConfig = "_config_version: 50\nterminal:\n  backend: docker\n  docker_image: " + testkit.DockerImage + "\n"

// TestDockerBackend has a gateway's commands and files inside a container of the real engine.
func TestDockerBackend(t *testing.T) {
	t.Parallel()
	addr := testkit.Docker(t)
	p := newPlace(t, map[string]string{"config.yaml": dockerConfig, ".env": apiOn})
	p.env = append(p.env, "DOCKER_HOST="+addr)
	g := p.start(t, "gateway", "run", "--home", p.home)
	t.Cleanup(func() { removeSandboxes(t, p, addr) })
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got := g.ask("", g.key, "run: echo host=$(hostname) one=$(test -e /.dockerenv && echo in); grep PRETTY /etc/os-release"); !strings.Contains(got, "one=in") || !strings.Contains(got, "trixie") || strings.Contains(got, "host="+host+" ") {
		t.Fatalf("not inside: %s", got)
	}
	marker := filepath.Join(p.dir, "marker")
	got := g.ask("", g.key, strings.Join([]string{
		`call: write_file {"path": "` + marker + `", "content": "written inside\n"}`,
		`run: cat ` + marker,
		`call: read_file {"path": "` + marker + `"}`,
		`call: search_files {"pattern": "written", "path": "` + p.dir + `"}`,
		`call: read_file {"path": "/etc/os-release"}`,
	}, "\n"))
	if strings.Count(got, "written inside") < 3 || !strings.Contains(got, "trixie") {
		t.Errorf("file tools: %s", got)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the file is on this machine")
	}
	const sleep = "sleep 300.03125"
	got = g.ask("", g.key, `call: terminal {"command": "(`+sleep+` & `+sleep+`)", "timeout": 2}`)
	if !strings.Contains(got, "124") && !strings.Contains(got, "timed out") {
		t.Errorf("timeout: %s", got)
	}
	if left := processes(t, sleep); len(left) > 0 {
		t.Errorf("the tree of a command whose time was over is left: %v", left)
	}
	path := "/tmp/started"
	go g.try(g.key, "/v1/chat/completions", `{"messages":[{"role":"user","content":"run: touch `+path+`; `+sleep+`"}]}`)
	if got := g.ask("", g.key, "run: for i in $(seq 1500); do test -e "+path+" && echo seen-it && break; sleep 0.1; done"); !strings.Contains(got, "seen-it") {
		t.Fatalf("the command never ran: %s", got)
	}
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	if left := processes(t, sleep); len(left) > 0 {
		t.Errorf("the stop left %v inside the container", left)
	}
	// The container is kept, and found again.
	g = p.start(t, "gateway", "run", "--home", p.home)
	if got := g.ask("", g.key, "run: cat "+marker); !strings.Contains(got, "written inside") {
		t.Errorf("after a restart: %s", got)
	}
	g.end(syscall.SIGTERM)
}

// TestKilledGatewayLeavesNoCommandsInContainers: what a gateway that was killed ran in its
// container is ended by the next one of its home, without anybody using the container, and
// nothing else is: neither a stranger in the same container, nor what another gateway runs.
func TestKilledGatewayLeavesNoCommandsInContainers(t *testing.T) {
	t.Parallel()
	addr := testkit.Docker(t)
	const own, others, stranger = "sleep 300.0703125", "sleep 300.07421875", "sleep 300.078125"
	begin := func(sleep string) (*place, *running) {
		p := newPlace(t, map[string]string{"config.yaml": dockerConfig, ".env": apiOn})
		p.env = append(p.env, "DOCKER_HOST="+addr)
		g := p.start(t, "gateway", "run", "--home", p.home)
		t.Cleanup(func() { removeSandboxes(t, p, addr) })
		_, body := g.request(g.key, "/api/sessions", "{}")
		at := "/api/sessions/" + field[string](t, string(field[json.RawMessage](t, body, "session")), "id") + "/chat"
		if status, body := g.request(g.key, at, `{"message":`+quote(`call: terminal {"command": "trap '' TERM; setsid `+sleep+`; `+sleep+`", "background": true}`)+`}`); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		go g.try(g.key, at, `{"message":"run: echo begun; `+sleep+`"}`)
		await(t, "two commands in a container", func() bool { return len(alone(t, sleep)) == 2 })
		return p, g
	}
	p, g := begin(own)
	_, other := begin(others)
	found := containers(t, p, addr)
	if len(found) != 1 {
		t.Fatalf("containers %v", found)
	}
	docker(t, p, addr, "exec", "-d", found[0], "/bin/"+stranger[:5], stranger[6:])
	await(t, "a stranger in the container", func() bool { return len(alone(t, stranger)) == 1 })

	g.end(syscall.SIGKILL)
	if n := len(alone(t, own)); n != 2 {
		t.Fatalf("%d commands outlived the gateway: the test would see nothing", n)
	}
	g = p.start(t, "gateway", "run", "--home", p.home)
	await(t, "the end of what was left", func() bool { return len(processes(t, own)) == 0 })
	if len(alone(t, others)) != 2 || len(alone(t, stranger)) != 1 {
		t.Errorf("others are gone: %v, %v", alone(t, others), alone(t, stranger))
	}
	await(t, "an empty list", func() bool {
		data, err := os.ReadFile(filepath.Join(p.home, ".appliance", "gateway.commands"))
		return err == nil && len(away(data)) == 0
	})
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	other.end(syscall.SIGTERM)
}

// away returns the marks of commands elsewhere that have not ended.
func away(list []byte) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		switch f := strings.Fields(line); f[0] {
		case "away":
			out[f[1]] = true
		case "end":
			delete(out, f[1])
		}
	}
	return out
}

// alone lists the processes that are a command and nothing around it.
func alone(t testing.TB, command string) (out []int) {
	for _, pid := range processes(t, command) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if text := strings.TrimSpace(strings.ReplaceAll(string(data), "\x00", " ")); err == nil && strings.TrimPrefix(text, "/bin/") == command {
			out = append(out, pid)
		}
	}
	return out
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// docker runs the docker command.
func docker(t testing.TB, p *place, addr string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("docker")
	testkit.Need(t, "docker-cli", err == nil, "the docker command is not here")
	cmd := exec.Command(path, append([]string{"-H", addr}, args...)...)
	cmd.Env = p.env
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("docker %v: %v", args, err)
	}
	return string(out)
}

// containers lists the containers of a place. Those of other tests come and go meanwhile.
func containers(t testing.TB, p *place, addr string) (out []string) {
	t.Helper()
	for id := range strings.FieldsSeq(docker(t, p, addr, "ps", "-aq", "--filter", "label=hermes-agent=1")) {
		cmd := exec.Command("docker", "-H", addr, "inspect", id)
		cmd.Env = p.env
		data, err := cmd.CombinedOutput()
		switch {
		case err == nil && strings.Contains(string(data), p.dir):
			out = append(out, id)
		case err != nil && !strings.Contains(strings.ToLower(string(data)), "no such object"):
			t.Errorf("docker inspect %s: %v: %s", id, err, data)
		}
	}
	return out
}

// removeSandboxes removes the containers of a place: those whose mounts name its home.
func removeSandboxes(t *testing.T, p *place, addr string) {
	t.Helper()
	for _, id := range containers(t, p, addr) {
		docker(t, p, addr, "rm", "-f", "-v", id)
	}
}

// TestReportO84942EngineDown: a profile that asked for a sandbox gets an error when the engine
// is down, and never this machine.
func TestReportO84942EngineDown(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": dockerConfig, ".env": apiOn})
	p.env = append(p.env, "DOCKER_HOST=unix://"+filepath.Join(p.dir, "no-engine.sock"))
	g := p.start(t, "gateway", "run", "--home", p.home)
	marker := filepath.Join(p.dir, "marker")
	got := g.ask("", g.key, strings.Join([]string{
		"run: touch " + marker,
		`call: write_file {"path": "` + marker + `", "content": "x"}`,
		`call: read_file {"path": "` + p.home + `/SOUL.md"}`,
		`call: search_files {"pattern": "version", "path": "` + p.home + `"}`,
	}, "\n"))
	if _, err := os.Stat(marker); err == nil || strings.Contains(got, "_config_version") {
		t.Errorf("it ran on this machine: %s", got)
	}
	if !strings.Contains(got, "engine") && !strings.Contains(got, "Docker") && !strings.Contains(got, "docker") {
		t.Errorf("nothing says what is wrong: %s", got)
	}
	if status, _ := g.request("", "/health", ""); status != 200 {
		t.Errorf("health: %d", status)
	}
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// TestUnknownBackend: a backend that is not there yet is refused as well.
func TestUnknownBackend(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\nterminal:\n  backend: ssh\n", ".env": apiOn})
	g := p.start(t, "gateway", "run", "--home", p.home)
	marker := filepath.Join(p.dir, "marker")
	got := g.ask("", g.key, "run: touch "+marker+"\ncall: write_file {\"path\": \""+marker+"\", \"content\": \"x\"}")
	if _, err := os.Stat(marker); err == nil || !strings.Contains(got, "ssh") {
		t.Errorf("%v: %s", err, got)
	}
}

// TestSandboxChoiceByAPI: the choice of a sandbox's image is seen and answered through the API
// of its profile, with that profile's key, and is what the command would have written.
func TestSandboxChoiceByAPI(t *testing.T) {
	t.Parallel()
	addr := testkit.Docker(t)
	const box = "_config_version: 50\n# mine\nterminal:\n  backend: docker\n"
	p := newPlace(t, map[string]string{
		"config.yaml": "_config_version: 50\ngateway: {multiplex_profiles: true}\n", ".env": apiOn,
		"profiles/alice/config.yaml": box + "  docker_image: '" + testkit.DockerImage + "'\n", "profiles/alice/.env": "API_SERVER_KEY=key-of-alice-1\n",
	})
	p.env = append(p.env, "DOCKER_HOST="+addr)
	g := p.start(t, "gateway", "run", "--home", p.home)
	t.Cleanup(func() { removeSandboxes(t, p, addr) })
	const path, key = "/p/alice/api/sandbox", "key-of-alice-1"
	if got := g.ask("/p/alice", key, "run: touch /root/marker && echo made-$((1+1))"); !strings.Contains(got, "made-2") {
		t.Fatalf("no sandbox: %s", got)
	}
	look := func() map[string]any {
		t.Helper()
		status, body := g.request(key, path, "")
		if status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		return field[map[string]any](t, body, "choice")
	}
	config := func() string {
		data, err := os.ReadFile(filepath.Join(p.home, "profiles", "alice", "config.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if c := look(); c != nil {
		t.Errorf("a choice that was made: %v", c)
	}
	if status, body := g.request(key, path, `{"answer":"switch"}`); status != 409 || !strings.Contains(body, "no_choice") {
		t.Errorf("nothing to choose: %d %s", status, body)
	}
	for _, c := range []struct{ answer, image string }{
		{"keep", testkit.DockerImage}, {"switch", "nousresearch/hermes-sandbox:desktop"},
	} {
		rewrite(t, filepath.Join(p.home, "profiles", "alice", "config.yaml"), box)
		if q := look(); q["current"] != testkit.DockerImage || q["target"] != "nousresearch/hermes-sandbox:desktop" || len(q["containers"].([]any)) != 1 {
			t.Errorf("%s: asked %v", c.answer, q)
		}
		if status, _ := g.request(g.key, path, `{"answer":"`+c.answer+`"}`); status != 401 || config() != box {
			t.Errorf("%s: with the launch profile's key: %d\n%s", c.answer, status, config())
		}
		if status, body := g.request(g.key, "/api/sandbox", `{"answer":"`+c.answer+`"}`); status != 409 || config() != box {
			t.Errorf("%s: for the launch profile: %d %s", c.answer, status, body)
		}
		if status, body := g.request(key, path, `{"answer":"`+c.answer+`"}`); status != 200 || field[string](t, body, "image") != c.image {
			t.Errorf("%s: %d %s", c.answer, status, body)
		}
		if want := box + "  docker_image: '" + c.image + "'\n"; config() != want {
			t.Errorf("%s: config.yaml is\n%s", c.answer, config())
		}
		if out, code := p.command(t, "sandbox", "status", "--home", filepath.Join(p.home, "profiles", "alice"), "--json"); code != 0 || strings.Contains(out, `"switch"`) {
			t.Errorf("%s: the command still asks: %d %s", c.answer, code, out)
		}
		if c.answer == "keep" {
			if got := g.ask("/p/alice", key, "run: ls /root"); !strings.Contains(got, "marker") {
				t.Errorf("kept, and another one: %s", got)
			}
		}
	}
	g.end(syscall.SIGTERM)
	// Where somebody else writes the config, the API does not.
	testkit.WriteTree(t, p.home, map[string]string{"profiles/alice/config.yaml": box})
	p.env = append(p.env, "HERMES_MANAGED=nixos")
	g = p.start(t, "gateway", "run", "--home", p.home)
	if status, body := g.request(key, path, `{"answer":"keep"}`); status != 409 || !strings.Contains(body, "services.hermes-agent") || config() != box {
		t.Errorf("managed: %d %s", status, body)
	}
}
