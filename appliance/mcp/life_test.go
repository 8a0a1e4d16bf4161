// SPDX-License-Identifier: MIT

//go:build linux

package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
)

func TestReportB21ReconnectsLeaveNothing(t *testing.T) { //nolint:paralleltest // counts what this process has
	w := newWorld(t)
	mark := "FAKE_MARK=b21-" + strconv.Itoa(os.Getpid())
	s := fake("f")
	s.Env["FAKE_MARK"] = strings.TrimPrefix(mark, "FAKE_MARK=")
	w.apply("a", s)
	seen := map[string]bool{}
	reconnect := func() {
		w.tools("a")
		pid := w.call("a", "mcp__f__pid")
		if seen[pid] {
			t.Fatalf("process %s served before its death and after it", pid)
		}
		seen[pid] = true
		if _, err := w.try("a", "mcp__f__die"); err == nil {
			t.Fatal("got no error of a call in which the server died")
		}
		w.until("a", "f", func(s *server) bool { return s.state == Ready && s.connects == len(seen)+1 })
	}
	for range 3 {
		reconnect()
	}
	before, routines := fds(t), runtime.NumGoroutine()
	for range 50 {
		reconnect()
	}
	eventually(t, func() string {
		if after := runtime.NumGoroutine(); after > routines+25 { // some wait for the end of a goodbye
			return fmt.Sprintf("%d goroutines, before %d", after, routines)
		}
		if after := fds(t); after > before {
			return fmt.Sprintf("%d descriptors, before %d", after, before)
		}
		return ""
	})
	if got := marked(t, mark); len(got) != 1 {
		t.Errorf("processes of the server: %v, want one", got)
	}
	if got := children(t); len(got) != 1 {
		t.Errorf("children of the host, zombies too: %v, want one", got)
	}
	if st := w.status("a", "f"); st.Connects != 54 {
		t.Errorf("got %+v", st)
	}
	if err := w.host.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	if got := append(marked(t, mark), children(t)...); len(got) > 0 {
		t.Errorf("left after Close: %v", got)
	}
}

// running is marked once it is so many: for a moment the kernel shows no environment of a process
// that has just started.
func running(t *testing.T, mark string, want int) []string {
	t.Helper()
	ctx := soon(t)
	for {
		if got := marked(t, mark); len(got) == want || ctx.Err() != nil {
			return got
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestReportB21GrandchildrenGo: what a server started, also out of its group and deaf to signals,
// is gone before the next server is there.
func TestReportB21GrandchildrenGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mark := "b21-tree-" + strconv.Itoa(os.Getpid())
	s := fake("f", "stubborn")
	s.Env["FAKE_MARK"] = mark
	w.apply("a", s)
	w.tools("a")
	for n := range 2 {
		if _, err := w.try("a", "mcp__f__die"); err == nil {
			t.Fatal("got no error of a call in which the server died")
		}
		w.until("a", "f", func(s *server) bool { return s.state == Ready && s.connects == n+2 })
		if got := running(t, "FAKE_MARK="+mark, 3); len(got) != 3 {
			t.Errorf("after %d deaths: %v, want the server and what it has just started", n+1, got)
		}
	}
}

func TestReportB22RevivedServerHasItsTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("a", fake("f"))
	before := w.tools("a")
	w.call("a", "mcp__f__grow")
	w.until("a", "f", func(s *server) bool { return len(s.tools) == len(before)+1 })
	if _, err := w.try("a", "mcp__f__die"); err == nil {
		t.Fatal("no error")
	}
	// The call waits for the server to be back; what it lists then is what is offered.
	if got := w.call("a", echo, "text", "back"); got != "back" {
		t.Errorf("got %q", got)
	}
	equal(t, "tools", w.tools("a"), before)
}

func TestReportB22Liveness(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		habit string
		alive bool
	}{{"", true}, {"noping", true}, {"deadping", false}} {
		t.Run(tc.habit, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.apply("a", fake("f", tc.habit))
			w.tools("a")
			c, err := w.host.of("a").find("f").connected(soon(t))
			if err != nil {
				t.Fatal(err)
			}
			limit := forever
			if !tc.alive {
				limit = 20 * time.Millisecond
			}
			if err := c.alive(soon(t), limit); (err == nil) != tc.alive {
				t.Errorf("got %v, alive is %v", err, tc.alive)
			}
			if got := w.call("a", echo, "text", "x"); got != "x" { // both still answer calls
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestKeepalive(t *testing.T) {
	t.Parallel()
	t.Run("dead", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.host.waits.ping = 20 * time.Millisecond
		s := fake("f", "deadping")
		s.Keepalive = time.Millisecond
		w.apply("a", s)
		w.until("a", "f", func(s *server) bool { return s.connects >= 3 })
		has(t, w.log.String(), "no answer to a ping within 20ms")
	})
	t.Run("live", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s := fake("f", "noping", "count")
		s.Keepalive = time.Millisecond
		s.Env["FAKE_NOTE"] = filepath.Join(w.dir, "pings")
		w.apply("a", s)
		w.tools("a")
		waitFor(t, s.Env["FAKE_NOTE"], "10 pings")
		if st := w.status("a", "f"); st.State != Ready || st.Connects != 1 {
			t.Errorf("a live server was taken for dead: %+v", st)
		}
	})
}

func TestStubborn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mark := "stubborn-" + strconv.Itoa(os.Getpid())
	s := fake("f", "stubborn")
	s.Env["FAKE_MARK"] = mark
	w.apply("a", s)
	w.tools("a")
	if got := running(t, mark, 3); len(got) != 3 {
		t.Fatalf("processes: %v, want 3", got)
	}
	ch := w.apply("a")
	equal(t, "stopped", ch.Stopped, []string{"f"})
	if got := marked(t, mark); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}

func TestCloseInHaste(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mark := "haste-" + strconv.Itoa(os.Getpid())
	s := fake("f", "stubborn")
	s.Env["FAKE_MARK"] = mark
	w.apply("a", s)
	w.tools("a")
	ctx, cancel := context.WithCancel(soon(t))
	cancel()
	if err := w.host.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if got := marked(t, mark); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
	if _, err := w.host.Apply(soon(t), w.profile("a"), []Server{s}); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestExitFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mark := "fence-" + strconv.Itoa(os.Getpid())
	s := fake("f", "stubborn")
	s.Env["FAKE_MARK"] = mark
	w.apply("a", s)
	w.tools("a")
	w.procs.KillNow()
	w.until("a", "f", func(s *server) bool { return s.state == Failed })
	if got := marked(t, mark); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
	if got := w.tools("a"); len(got) > 0 {
		t.Errorf("tools of a server that is gone for good: %v", got)
	}
	c, err := w.host.of("a").find("f").connected(soon(t))
	if c != nil || !errors.Is(err, process.ErrFenced) {
		t.Errorf("got %v, %v", c, err)
	}
}

func hostUntilKilled() {
	s := Server{Name: "f", Command: self(), Env: map[string]string{fakeEnv: "plain", "FAKE_MARK": os.Getenv("FAKE_MARK")}, ConnectTimeout: time.Minute, Timeout: time.Minute}
	w := newWorld(&testing.B{})
	p := Profile{Key: "a", Env: func(_ context.Context, s Server) ([]string, error) {
		return []string{fakeEnv + "=" + s.Env[fakeEnv], "FAKE_MARK=" + s.Env["FAKE_MARK"] + "-child"}, nil
	}}
	if _, err := w.host.Apply(context.Background(), p, []Server{s}); err != nil {
		panic(err)
	}
	fmt.Println(len(w.host.Tools(context.Background(), "a")))
	select {}
}

func TestHostKilled(t *testing.T) {
	t.Parallel()
	mark := "killed-" + strconv.Itoa(os.Getpid())
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	host, err := os.StartProcess(self(), []string{self()}, &os.ProcAttr{
		Env: []string{fakeEnv + "=host", "FAKE_MARK=" + mark, "TMPDIR=" + t.TempDir()}, Files: []*os.File{nil, out, os.Stderr},
	})
	out.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Wait()
	defer host.Kill()
	line := make([]byte, 10)
	if n, err := r.Read(line); err != nil || string(line[:n]) != "9\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	pids := marked(t, mark+"-child")
	if len(pids) != 1 {
		t.Fatalf("got %v", pids)
	}
	pid, err := strconv.Atoi(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	child, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); child.Signal(syscall.Signal(0)) == nil && len(marked(t, mark+"-child")) > 0; {
		if time.Now().After(deadline) {
			t.Fatal("the server outlived its host")
		}
		time.Sleep(time.Millisecond)
	}
}

// A call is not given a connection that is over, however late the rest learns of it.
func TestConnectionOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("a", fake("f"))
	w.tools("a")
	s := w.host.of("a").find("f")
	for range 10 {
		c, err := s.connected(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		c.fail(errGone)
		if next, err := s.connected(soon(t)); err != nil || next == c {
			t.Fatalf("got the connection that is over, or %v", err)
		}
	}
}
