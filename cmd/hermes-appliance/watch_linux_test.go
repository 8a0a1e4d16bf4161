// SPDX-License-Identifier: MIT

package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// throughSocket starts a gateway with a listener that a manager passed to it. The listener is
// the test's, too.
func throughSocket(t *testing.T, p *place, env ...string) (*running, *os.File) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	t.Cleanup(func() { f.Close() })
	p.passed = []*os.File{f}
	p.env = append(p.env, "LISTEN_FDS=1", "LISTEN_FDNAMES=api_server")
	p.env = append(p.env, env...)
	p.program = "sh"
	return p.start(t, "-c", `LISTEN_PID=$$ exec hermes-appliance gateway run --home "$0"`, p.home), f
}

// TestDeafGateway: a gateway whose listener fails under it does not answer its own probes; it
// says what it was doing, ends what it ran, and asks to be started again.
func TestDeafGateway(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\ngateway:\n  restart_drain_timeout: 600\n", ".env": apiOn})
	g, socket := throughSocket(t, p, "WATCHDOG_USEC=25000000") // five seconds for an answer, three times
	if got := g.ask("", g.key, "run: env | grep -c LISTEN_"); !strings.Contains(got, "0\n") {
		t.Errorf("a command sees the sockets: %s", got)
	}
	path, heard := fifo(t, p.dir)
	go g.try(g.key, "/v1/chat/completions", `{"messages":[{"role":"user","content":"run: trap '' TERM HUP; echo > `+path+`; sleep 300.5"}]}`)
	heard()
	if err := unix.Shutdown(int(socket.Fd()), unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	if code := g.wait(); code != 75 {
		t.Errorf("exit %d", code)
	}
	if left := processes(t, "sleep 300.5"); len(left) > 0 {
		t.Errorf("commands are left: %v", left)
	}
	if data, err := os.ReadFile(filepath.Join(p.home, "logs", "gateway-exit-diag.log")); err != nil || !strings.Contains(string(data), "goroutine ") {
		t.Errorf("the diagnosis: %v", err)
	}
	if s := p.state(t); s["restart_requested"] != true || !strings.Contains(s["exit_reason"].(string), "wedged") {
		t.Errorf("state %v", s)
	}
}

// TestHeldSocket: while the gateway is replaced its clients wait, and one that it talks to at
// that time gets its answer.
func TestHeldSocket(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\ngateway:\n  restart_drain_timeout: 80\n", ".env": apiOn})
	g, _ := throughSocket(t, p)
	path, heard := fifo(t, p.dir)
	answer, late := make(chan string, 1), make(chan string, 1)
	go func() {
		_, body, err := g.try(g.key, "/v1/chat/completions", `{"messages":[{"role":"user","content":"run: echo > `+path+`; sleep 0.5; echo fin-$((2+3))"}]}`)
		answer <- body + errText(err)
	}()
	heard()
	if err := g.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; !strings.Contains(got, "fin-5") {
		t.Errorf("the turn: %s", got)
	}
	if code := g.wait(); code != 75 {
		t.Errorf("exit %d", code)
	}
	go func() { // nobody listens but the manager
		_, body, err := g.try("", "/health", "")
		late <- body + errText(err)
	}()
	next := p.start(t, "-c", `LISTEN_PID=$$ exec hermes-appliance gateway run --home "$0"`, p.home)
	if got := <-late; !strings.Contains(got, `"ok"`) {
		t.Errorf("who asked in between: %s", got)
	}
	if next.url != g.url {
		t.Errorf("it listens at %s, before at %s", next.url, g.url)
	}
	if code := next.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}

func errText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// TestStopThatHangs: a gateway that cannot give its home back is ended by its own watchdog,
// which says what it was doing. Its pid file is a pipe that nobody writes to.
func TestStopThatHangs(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\n", ".env": apiOn})
	g := p.start(t, "gateway", "run", "--home", p.home)
	pid := filepath.Join(p.home, "gateway.pid")
	if err := os.Remove(pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pid, 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.ended:
	case <-time.After(10 * time.Minute):
		t.Fatal("it hangs for ever")
	}
	if code := g.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit %d", code)
	}
	if time.Since(began) < time.Minute {
		t.Error("it did not hang: the test would see nothing")
	}
	data, err := os.ReadFile(filepath.Join(p.home, "logs", "gateway-shutdown-watchdog.log"))
	if err != nil || !strings.Contains(string(data), "ReadRecord") {
		t.Errorf("the diagnosis: %v\n%.2000s", err, data)
	}
	if log := g.log.String(); !strings.Contains(log, "the stop hangs") || !strings.Contains(log, "goroutine ") {
		t.Errorf("the log: %.2000s", log)
	}
	if err := os.Remove(pid); err != nil {
		t.Fatal(err)
	}
	g = p.start(t, "gateway", "run", "--home", p.home) // the lock is free
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("the next one: exit %d", code)
	}
}

// TestKilledGateway: what a killed gateway ran, the next one ends, whoever started it.
func TestKilledGateway(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\n", ".env": apiOn})
	g := p.start(t, "gateway", "run", "--home", p.home)
	path, heard := fifo(t, p.dir)
	go g.try(g.key, "/v1/chat/completions", `{"messages":[{"role":"user","content":"run: trap '' TERM HUP; echo > `+path+`; sleep 300.25"}]}`)
	heard()
	g.end(syscall.SIGKILL)
	if len(processes(t, "sleep 300.25")) == 0 {
		t.Fatal("the command died with its gateway: the test would see nothing")
	}
	g = p.start(t, "gateway", "run", "--home", p.home)
	if left := processes(t, "sleep 300.25"); len(left) > 0 {
		t.Errorf("commands are left: %v", left)
	}
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	if !strings.Contains(g.log.String(), "a killed gateway had left") { // all of it has come, now that it has ended
		t.Errorf("nobody is told: %s", &g.log)
	}
}

// TestReplace: the newcomer wins, and the other one is told that this is no failure. One that a
// manager starts again and again takes its time to fail.
func TestReplace(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\n", ".env": apiOn})
	p.env = append(p.env, "HERMES_S6_SUPERVISED_CHILD=1") // where a signal that nobody announced is a failure
	first := p.start(t, "gateway", "run", "--home", p.home)
	second := p.start(t, "gateway", "run", "--replace", "--home", p.home)
	if code := first.wait(); code != 0 {
		t.Errorf("the first one exits %d", code)
	}
	if status, _ := second.request("", "/health", ""); status != http.StatusOK {
		t.Errorf("the second one: %d", status)
	}
	p.env = append(p.env, "HERMES_SUPERVISED_CHILD=1")
	began := time.Now()
	if out, code := p.command(t, "gateway", "run", "--home", p.home); code != 7 || time.Since(began) < 5*time.Second {
		t.Errorf("a third one: exit %d after %s: %s", code, time.Since(began), out)
	}
	if code := second.end(syscall.SIGTERM); code != 1 {
		t.Errorf("exit %d after a signal that nobody announced", code)
	}
}
