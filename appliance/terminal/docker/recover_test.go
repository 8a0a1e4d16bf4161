// SPDX-License-Identifier: MIT

package docker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/sandbox"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal/docker"
	"github.com/hermes-appliance/hermes-appliance/internal/terminaltest"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// A container that was removed behind a long-running gateway is made again, once, and the
// command runs in the new one. What a command prints is never taken for that.
func TestReportB36266Gone(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	s := k.shell(&terminaltest.Vars{})
	if res := run(t, s, "export X=1; mkdir -p /srv/x; cd /srv/x; echo 'Error response from daemon: No such container: x' >&2; echo is not running; exit 1"); res.Recreated || res.Code != 1 {
		t.Fatalf("a command's own words: %+v", res)
	}
	con, err := k.host.Container(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := con.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := run(t, s, "echo ${X-new}; pwd"); !res.Recreated || res.Output != "new\n/srv\n" || res.Code != 0 {
		t.Errorf("%+v", res)
	}
	if res := run(t, s, "echo on; export X=2"); res.Recreated || res.Output != "on\n" {
		t.Errorf("%+v", res)
	}
	if con, err = k.host.Container(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := con.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err := s.Exec(t.Context(), terminal.Script{Text: "cat", Stdin: []byte("bytes")})
	if err != nil || string(out.Stdout) != "bytes" {
		t.Errorf("%+v, %v", out, err)
	}
	// Its main process ends: the container stops, and is started again.
	run(t, s, "echo before")
	if _, err := s.Run(t.Context(), terminal.Command{Text: "kill -TERM 1; sleep 3600"}); err == nil {
		t.Error("a command whose container stopped ended well")
	}
	if res := run(t, s, "echo after"); !res.Recreated || res.Output != "after\n" {
		t.Errorf("%+v", res)
	}
}

// Values go over the socket: no argument and no setting of the container ever holds them.
func TestValuesStayOut(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	v := &terminaltest.Vars{}
	s := k.shell(v)
	v.Set("TOKEN", "canary-4711")
	v.Scope("TOKEN")
	look := `for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' < $f; echo; done 2>/dev/null; tr '\0' '\n' < /proc/1/environ 2>/dev/null; cat /tmp/hermes-snap-*`
	if res := run(t, s, `echo "$TOKEN"; export TOKEN; (`+look+`) | grep -c 'canary-4[7]11'`); res.Output != "canary-4711\n0\n" {
		t.Errorf("%+v", res)
	}
	v.Unset("TOKEN")
	if res := run(t, s, `echo "${TOKEN-none}"`); res.Output != "none\n" {
		t.Errorf("%+v", res)
	}
}

// The profile of a login shell throws the image's PATH away; the rest of it is put back.
func TestImagePath(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	res := run(t, k.shell(&terminaltest.Vars{}), "echo $PATH")
	if !strings.Contains(res.Output, ":/opt/image/bin:") || !strings.Contains(res.Output, "/.local/bin") {
		t.Errorf("PATH is %q", res.Output)
	}
}

// At the limit of processes the engine itself says 126: that is neither the command's nor a
// missing directory's.
func TestPidsExhausted(t *testing.T) {
	t.Parallel()
	k := newKit(t, func(s *sandbox.Spec) { s.Pids = 40 })
	s := k.shell(&terminaltest.Vars{})
	run(t, s, "echo warm")
	full := `
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(3600)
    except OSError:
        print("full", flush=True)
        time.sleep(3600)
`
	r, err := s.Start(t.Context(), terminal.Command{Text: "exec python3 -c " + terminal.Quote(full)})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{}, 100)
	r.Follow(signal(told))
	select {
	case <-told:
	case <-time.After(terminaltest.Patience):
		t.Fatal("the container does not fill up")
	}
	res, err := s.Run(t.Context(), terminal.Command{Text: "echo on"})
	var conn *terminal.ConnError
	if !errors.As(err, &conn) || conn.Hint == "" || res.NoDir {
		t.Errorf("got %+v, %v", res, err)
	}
	if err := r.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(terminaltest.Patience); ; { // zombies count until they are reaped
		res, err = s.Run(t.Context(), terminal.Command{Text: "echo on"})
		if !errors.Is(err, sandbox.ErrPidsExhausted) || time.Now().After(end) {
			break
		}
	}
	if err != nil || res.Output != "on\n" || res.Recreated {
		t.Errorf("%+v, %v", res, err)
	}
}

// signal tells of each write.
type signal chan struct{}

func (c signal) Write(p []byte) (int, error) {
	if len(p) > 0 {
		c <- struct{}{}
	}
	return len(p), nil
}

// Many first commands at once make one container.
func TestColdRace(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	var work sync.WaitGroup
	names := make([]string, 6)
	for i := range names {
		work.Go(func() { names[i] = run(t, k.shell(&terminaltest.Vars{}), "hostname").Output })
	}
	work.Wait()
	for _, n := range names {
		if n != names[0] || n == "" {
			t.Errorf("got %q", names)
		}
	}
}

// A hard exit reaches into the container.
func TestHardExit(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	s := k.shell(&terminaltest.Vars{})
	run(t, s, "true")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := s.Run(t.Context(), terminal.Command{Text: "trap '' TERM; (setsid sleep 3601.5 &); sleep 3601.5; sleep 3601.5"}); err != nil {
			t.Error(err)
		}
	}()
	watch := docker.New(docker.Config{Engine: k.engine, Spec: k.spec, Registry: process.New(slog.New(slog.DiscardHandler)), Log: slog.New(slog.DiscardHandler)})
	other := terminal.New(terminal.Config{Host: watch, Log: slog.New(slog.DiscardHandler), Temp: "/tmp", Env: (&terminaltest.Vars{}).Env()})
	count := func() string {
		out, err := other.Exec(t.Context(), terminal.Script{Text: "pgrep -cfx 'sleep 3601.5'"})
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out.Stdout))
	}
	for end := time.Now().Add(terminaltest.Patience); count() != "2"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never two processes")
		}
	}
	if n := k.reg.KillNow(); n != 1 {
		t.Errorf("hit %d", n)
	}
	<-done
	for end := time.Now().Add(terminaltest.Patience); count() != "0"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s processes live on", count())
		}
	}
	if res, err := s.Run(t.Context(), terminal.Command{Text: "echo ran"}); err != nil || !res.NotStarted {
		t.Errorf("%+v, %v", res, err)
	}
}

// With the engine away a command is refused with a reason; with it back the next one runs.
func TestEngineDown(t *testing.T) {
	t.Parallel()
	addr := strings.TrimPrefix(testkit.Docker(t), "unix://")
	sock := filepath.Join(t.TempDir(), "s")
	stop := relay(t, sock, addr)
	e, err := sandbox.Dial(t.Context(), sandbox.Options{Host: "unix://" + sock})
	if err != nil {
		t.Fatal(err)
	}
	k := newKit(t, nil)
	log := slog.New(slog.DiscardHandler)
	h := docker.New(docker.Config{Engine: e, Spec: k.spec, Registry: k.reg, Log: log})
	s := terminal.New(terminal.Config{Host: kept{h}, Log: log, Temp: "/tmp", Env: (&terminaltest.Vars{}).Env()})
	if res := run(t, s, "echo on"); res.Output != "on\n" {
		t.Fatalf("%+v", res)
	}
	stop()
	_, err = s.Run(t.Context(), terminal.Command{Text: "echo on"})
	var conn *terminal.ConnError
	if !errors.As(err, &conn) || conn.Hint == "" {
		t.Errorf("got %v", err)
	}
	_, err = sandbox.Dial(t.Context(), sandbox.Options{Host: "unix://" + sock})
	if err = docker.Explain(err); !errors.As(err, &conn) || conn.Hint == "" {
		t.Errorf("got %v", err)
	}
	stop = relay(t, sock, addr)
	defer stop()
	if res := run(t, s, "echo on"); res.Output != "on\n" || res.Recreated {
		t.Errorf("%+v", res)
	}
	h.Close(t.Context())
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// relay forwards connections until it is stopped, which cuts them.
func relay(t *testing.T, sock, addr string) (stop func()) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	var over bool
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := (&net.Dialer{}).DialContext(context.WithoutCancel(t.Context()), "unix", addr)
			if err != nil {
				a.Close()
				continue
			}
			mu.Lock()
			open = append(open, a, b)
			if over { // accepted before the end, and not to live beyond it
				a.Close()
				b.Close()
			}
			mu.Unlock()
			half := func(dst, src net.Conn) {
				io.Copy(dst, src)
				dst.(*net.UnixConn).CloseWrite()
			}
			go half(a, b)
			go half(b, a)
		}
	}()
	return func() {
		l.Close()
		mu.Lock()
		defer mu.Unlock()
		over = true
		for _, c := range open {
			c.Close()
		}
	}
}

// clientEnv makes this program the client of TestBackgroundOutlivesClient.
const clientEnv = "HERMES_TEST_TERMINAL_CLIENT"

// TestClient is no test: it starts a background command in the container and waits to be
// killed.
func TestClient(t *testing.T) {
	home := os.Getenv(clientEnv)
	if home == "" {
		t.Skip("only as a child of TestBackgroundOutlivesClient")
	}
	log := slog.New(slog.DiscardHandler)
	e, err := sandbox.Dial(t.Context(), sandbox.Options{Host: testkit.Docker(t)})
	if err != nil {
		t.Fatal(err)
	}
	spec := sandbox.Spec{Identity: sandbox.Identity{Home: home, Profile: "default"}, Image: testkit.DockerImage, Keep: true}
	h := docker.New(docker.Config{Engine: e, Spec: spec, Registry: process.New(log), Log: log})
	s := terminal.New(terminal.Config{Host: h, Log: log, Temp: "/tmp", Env: (&terminaltest.Vars{}).Env()})
	r, err := s.Start(t.Context(), terminal.Command{Text: "i=0; while [ ! -e /tmp/stop ]; do i=$((i+1)); echo line $i of a lot of output that nobody reads; echo $i > /tmp/count; done; echo $i > /tmp/ended"})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("started")
	<-r.Done()
}

// A background command lives in the container: the end of the program that started it, and
// of everybody who reads its output, does not end it.
func TestBackgroundOutlivesClient(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	k := newKit(t, func(s *sandbox.Spec) { s.Home, s.Keep, s.Env = home, true, nil })
	s := k.shell(&terminaltest.Vars{})
	client := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestClient$", "-test.v")
	client.Env = append(os.Environ(), clientEnv+"="+home)
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "started"; {
	}
	if err := client.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	client.Wait()
	before := strings.TrimSpace(run(t, s, "until [ -s /tmp/count ]; do sleep 0.05; done; cat /tmp/count").Output)
	res := run(t, s, "a="+before+"; b=$a; while [ ${b:-0} -le $((a+2000)) ]; do sleep 0.1; b=$(cat /tmp/count); done; touch /tmp/stop; until [ -e /tmp/ended ]; do sleep 0.05; done; echo ended")
	if res.Output != "ended\n" {
		t.Errorf("%+v", res)
	}
}
