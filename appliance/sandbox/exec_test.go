// SPDX-License-Identifier: MIT

package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

func TestExec(t *testing.T) {
	t.Parallel()
	e := dial(t, Options{})
	c := ensure(t, e, wanted(t))
	tests := []struct {
		name      string
		x         Exec
		code      int
		out, errs string
		kind      error
	}{
		{"exit code", Exec{Argv: []string{"sh", "-c", "exit 42"}}, 42, "", "", nil},
		{"its own 126", Exec{Argv: []string{"sh", "-c", "exit 126"}}, 126, "", "", nil},
		{"streams apart", Exec{Argv: []string{"sh", "-c", "echo out; echo err >&2"}}, 0, "out\n", "err\n", nil},
		{"no command", Exec{Argv: []string{"/nope"}}, 127, "", "sh: 8: exec: /nope: not found\n", nil},
		{"not the shell's own", Exec{Argv: []string{"exit", "3"}}, 127, "", "sh: 8: exec: exit: not found\n", nil},
		{"no directory", Exec{Argv: []string{"true"}, Dir: "/nope"}, 126, "", "", ErrNoDir},
		{"a directory with a dash", Exec{Argv: []string{"pwd"}, Dir: "-"}, 126, "", "", ErrNoDir},
		{"where it starts", Exec{Argv: []string{"pwd"}}, 0, "/root\n", "", nil},
		{"arguments arrive as they are", Exec{Argv: []string{"printf", "[%s]", "a b", "", "'", `"`, "$x", ";", "é", "\n", "-e"}}, 0, "[a b][]['][\"][$x][;][é][\n][-e]", "", nil},
		{"environment", Exec{Argv: []string{"sh", "-c", `printf %s "$A"`}, Env: []string{"A=1 2\n3"}}, 0, "1 2\n3", "", nil},
		{"another user", Exec{Argv: []string{"id", "-u"}, User: "33", Dir: "/"}, 0, "33\n", "", nil},
		{"no input", Exec{Argv: []string{"cat"}}, 0, "", "", nil},
		{"empty input", Exec{Argv: []string{"wc", "-c"}, Stdin: strings.NewReader("")}, 0, "0\n", "", nil},
		{"input it does not want", Exec{Argv: []string{"true"}, Stdin: io.LimitReader(rand.Reader, 10<<20)}, 0, "", "", nil},
		{"ended by a signal", Exec{Argv: []string{"sh", "-c", "kill -KILL $$"}}, 137, "", "", nil},
		{"its words are not the engine's", Exec{Argv: []string{"sh", "-c", "echo 'Error response from daemon: No such container: x is not running'; exit 1"}}, 1, "Error response from daemon: No such container: x is not running\n", "", nil},
		{"a record of its own", Exec{Argv: []string{"sh", "-c", "printf 0123456789abcdef0123456789abcdef:e:0\\;; exit 3"}}, 3, "0123456789abcdef0123456789abcdef:e:0;", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			x := tt.x
			x.Stdout, x.Stderr = &out, &errs
			code, err := c.Exec(t.Context(), x)
			if code != tt.code || !errors.Is(err, tt.kind) || (err == nil) != (tt.kind == nil) {
				t.Errorf("got %d, %v; want %d, %v", code, err, tt.code, tt.kind)
			}
			if out.String() != tt.out || errs.String() != tt.errs {
				t.Errorf("got %q and %q, want %q and %q", out.String(), errs.String(), tt.out, tt.errs)
			}
		})
	}
}

// TestExecBytes sends random bytes both ways, on both streams.
func TestExecBytes(t *testing.T) {
	t.Parallel()
	c := ensure(t, dial(t, Options{}), wanted(t))
	in := make([]byte, 1_024_000)
	_, _ = rand.Read(in)
	for _, to := range []string{"cat", "cat >&2", "tee /dev/stderr"} {
		var out, errs bytes.Buffer
		code, err := c.Exec(t.Context(), Exec{Argv: []string{"sh", "-c", to}, Stdin: bytes.NewReader(in), Stdout: &out, Stderr: &errs})
		if err != nil || code != 0 {
			t.Fatal(code, err)
		}
		if to != "cat >&2" && !bytes.Equal(out.Bytes(), in) || to == "cat >&2" && out.Len() > 0 {
			t.Errorf("%s: stdout has %d bytes that are not the %d sent", to, out.Len(), len(in))
		}
		if to != "cat" && !bytes.Equal(errs.Bytes(), in) || to == "cat" && errs.Len() > 0 {
			t.Errorf("%s: stderr has %d bytes that are not the %d sent", to, errs.Len(), len(in))
		}
	}
}

func TestExecMergesInOrder(t *testing.T) {
	t.Parallel()
	c := ensure(t, dial(t, Options{}), wanted(t))
	got := run(t, c, "i=0; while [ $i -lt 500 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done")
	var want strings.Builder
	for i := range 500 {
		n := strconv.Itoa(i)
		want.WriteString("o" + n + "\ne" + n + "\n")
	}
	if got != want.String() {
		t.Errorf("the streams are out of order: %d bytes, want %d", len(got), want.Len())
	}
}

// TestReport8340HeldOutput: a process left behind holds the output open. The command's end is
// known all the same, and its own output is complete.
func TestReport8340HeldOutput(t *testing.T) {
	t.Parallel()
	c := ensure(t, dial(t, Options{}), wanted(t))
	var out bytes.Buffer
	p, err := c.Start(t.Context(), Exec{Argv: []string{"sh", "-c", "sleep 3600 & echo hi; exit 5"}, Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	code, err := p.Wait()
	if code != 5 || err != nil || out.String() != "hi\n" || !p.Held() {
		t.Errorf("got %d, %v, %q, held %v", code, err, out.String(), p.Held())
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if left := run(t, c, "pgrep -fx 'sleep 3600' || true"); left != "" {
		t.Errorf("the process that was left behind outlived its kill: %s", left)
	}
}

func TestExecTerminal(t *testing.T) {
	t.Parallel()
	c := ensure(t, dial(t, Options{}), wanted(t))
	var out syncBuffer
	r, w := io.Pipe()
	p, err := c.Start(t.Context(), Exec{Argv: []string{"sh", "-c", "stty size; read x; stty size; echo got $x; exit 9"}, TTY: true, Height: 33, Width: 77, Stdin: r, Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first size", func() bool { return strings.Contains(out.String(), "33 77") })
	if err := p.Resize(t.Context(), 44, 88); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, "line\n")
	code, err := p.Wait()
	if code != 9 || err != nil || !strings.Contains(out.String(), "44 88") || !strings.Contains(out.String(), "got line") {
		t.Errorf("got %d, %v, %q", code, err, out.String())
	}
	if strings.Contains(out.String(), p.Mark()) {
		t.Errorf("a record is in the output: %q", out.String())
	}
	_ = w.Close()
}

// TestReport96268SecretsNotInArguments: values of the environment are no arguments, inside
// or at the engine.
func TestReport96268SecretsNotInArguments(t *testing.T) {
	t.Parallel()
	c := ensure(t, dial(t, Options{}), wanted(t))
	var out bytes.Buffer
	code, err := c.Exec(t.Context(), Exec{Argv: []string{"sh", "-c", "cat /proc/[0-9]*/cmdline"}, Env: []string{"TOKEN=s3cr3t-value"}, Stdout: &out})
	if err != nil || code != 0 || strings.Contains(out.String(), "s3cr3t-value") {
		t.Errorf("%d, %v: a value is in the arguments of a process", code, err)
	}
	r, err := c.e.api.ContainerInspect(t.Context(), c.id, client.ContainerInspectOptions{})
	if err != nil || strings.Contains(string(r.Raw), "s3cr3t-value") {
		t.Errorf("%v: a value is kept with the container", err)
	}
}

// TestReport35703KillInside: ending the client of an exec ends nothing in the container
// (moby#35703, docker/cli#5309, hermes-agent PR#94187). Kill does, whatever the command does
// against it.
func TestReport35703KillInside(t *testing.T) {
	t.Parallel()
	c := ensure(t, dial(t, Options{}), wanted(t))
	for name, script := range map[string]string{
		"polite":          "sleep 987601",
		"ignores TERM":    "trap '' TERM; sleep 987602; sleep 987602",
		"left session":    "trap '' TERM; setsid sh -c \"trap '' TERM; sleep 987603; sleep 987603\" & sleep 987603",
		"orphan":          "(setsid sh -c \"trap '' TERM HUP; sleep 987604\" &) ; sleep 987604",
		"other user":      "trap '' TERM; setpriv --reuid=33 --clear-groups sh -c \"trap '' TERM; sleep 987605; sleep 987605\"; sleep 987605",
		"other user away": "setpriv --reuid=33 --clear-groups setsid sh -c \"trap '' TERM; sleep 987606; sleep 987606\" & sleep 987606",
		"odd name":        "printf '#!/bin/sh\\ntrap \"\" TERM\\nsleep 987607\\n' >'/tmp/a) S 1 1 1\nx'; chmod +x /tmp/a*; setsid /tmp/a*",
		"stopped":         "kill -STOP $$; sleep 987608",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := c.Start(t.Context(), Exec{Argv: []string{"sh", "-c", script}})
			if err != nil {
				t.Fatal(err)
			}
			p.PID()
			eventually(t, "the command runs", func() bool { return marked(t, c, p.Mark()) > 1 })
			if err := p.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := marked(t, c, p.Mark()); n != 0 {
				t.Errorf("%d processes are left:\n%s", n, run(t, c, "ps -ef"))
			}
			if code, err := p.Wait(); err != nil || code < 128 {
				t.Errorf("got %d, %v", code, err)
			}
		})
	}
}

// marked counts the processes that carry a mark, zombies aside, by other means than a kill.
func marked(t testing.TB, c *Container, mark string) int {
	t.Helper()
	n := 0
	for _, user := range []string{"0", "33"} {
		var out bytes.Buffer
		script := `for p in /proc/[0-9]*; do tr '\0' '\n' 2>/dev/null <$p/environ | grep -q "=$1\$" && echo $p; done`
		x := Exec{Argv: []string{"sh", "-c", script, "sh", mark}, User: user, Dir: "/", Stdout: &out}
		_, err := c.Exec(t.Context(), x)
		for end := time.Now().Add(patience); errors.Is(err, ErrPidsExhausted) && time.Now().Before(end); { // zombies count until they are reaped
			out.Reset()
			_, err = c.Exec(t.Context(), x)
		}
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(out.String(), "\n")
	}
	return n
}

// TestKillSparesOthers: what is not of the tree stays alive.
func TestKillSparesOthers(t *testing.T) {
	t.Parallel()
	c := ensure(t, dial(t, Options{}), wanted(t))
	start := func() *Process {
		p, err := c.Start(t.Context(), Exec{Argv: []string{"sleep", "3600"}})
		if err != nil {
			t.Fatal(err)
		}
		p.PID()
		return p
	}
	before, victim, after := start(), start(), start()
	if err := victim.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A number that was given away is not ours: the session's leader was born at another time.
	stale := target{sid: after.PID(), born: "1", mark: random()}
	if err := c.kill(t.Context(), stale, nil); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Process{before, after} {
		eventually(t, "a bystander and its shell", func() bool { return marked(t, c, p.Mark()) == 2 })
	}
}

func TestExecEndsWithContext(t *testing.T) {
	t.Parallel()
	c := ensure(t, dial(t, Options{}), wanted(t))
	ctx, cancel := context.WithCancel(t.Context())
	var out syncBuffer
	go func() {
		eventually(t, "output", func() bool { return out.String() != "" })
		cancel()
	}()
	_, err := c.Exec(ctx, Exec{Argv: []string{"sh", "-c", "trap '' TERM; echo up; sleep 987610; sleep 987610"}, Stdout: &out})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left := run(t, c, "pgrep -fx 'sleep 987610' || true"); left != "" {
		t.Errorf("left: %s", left)
	}
}

// TestKillMarkFromAnotherProcess: who starts anew finds what it left running.
func TestKillMarkFromAnotherProcess(t *testing.T) {
	t.Parallel()
	s := wanted(t)
	p, err := ensure(t, dial(t, Options{}), s).Start(t.Context(), Exec{Argv: []string{"sh", "-c", "trap '' TERM; setsid sleep 3600; sleep 3600"}})
	if err != nil {
		t.Fatal(err)
	}
	p.PID()
	other := ensure(t, dial(t, Options{}), s)
	eventually(t, "it runs", func() bool { return marked(t, other, p.Mark()) > 1 })
	if err := other.KillMark(t.Context(), p.Mark(), ""); err != nil {
		t.Fatal(err)
	}
	if n := marked(t, other, p.Mark()); n != 0 {
		t.Errorf("%d are left", n)
	}
	if err := other.KillMark(t.Context(), ".*", ""); !errors.Is(err, ErrConfig) {
		t.Errorf("a pattern for a mark: got %v", err)
	}
}

// storming fills the container and goes on trying; every second child leaves the session.
const storming = `import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
n = 0
while True:
    try:
        n += 1
        if os.fork() == 0:
            if n % 2: os.setsid()
            while True: time.sleep(3600)
    except OSError:
        time.sleep(0.001)
`

// TestPidsExhausted: a storm of processes fills the container. The next command is not
// started, and that is not mistaken for a missing directory; the storm can be killed.
func TestPidsExhausted(t *testing.T) {
	t.Parallel()
	e := dial(t, Options{})
	s := wanted(t)
	s.Pids = 40
	c := ensure(t, e, s)
	storm, err := c.Start(t.Context(), Exec{Argv: []string{"python3", "-c", storming}})
	if err != nil {
		t.Fatal(err)
	}
	storm.PID()
	full := false
	for range 200 {
		code, err := c.Exec(t.Context(), Exec{Argv: []string{"sh", "-c", "/bin/true; /bin/true"}})
		if errors.Is(err, ErrPidsExhausted) {
			full = true
			break
		}
		if err != nil {
			t.Fatalf("%d, %v", code, err)
		}
	}
	if !full {
		t.Error("the container never was full")
	}
	if err := storm.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := marked(t, c, storm.Mark()); n != 0 {
		t.Errorf("%d are left", n)
	}
	r, err := e.api.ContainerInspect(t.Context(), c.id, client.ContainerInspectOptions{})
	if err != nil || *r.Container.HostConfig.PidsLimit != 40 {
		t.Errorf("the limit was not restored: %v, %v", r.Container.HostConfig.PidsLimit, err)
	}
}

// TestForkBomb: a bomb whose processes breed faster than they can be looked at.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	s := wanted(t)
	s.Pids = 60
	c := ensure(t, dial(t, Options{}), s)
	bomb, err := c.Start(t.Context(), Exec{Argv: []string{"sh", "-c", "trap '' TERM; b() { b & b; }; b"}})
	if err != nil {
		t.Fatal(err)
	}
	bomb.PID()
	if err := bomb.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := marked(t, c, bomb.Mark()); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// TestReport36266Gone: the container is removed or stopped behind a running program. The
// engine's answer tells, and Ensure goes on.
func TestReport36266Gone(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	c := ensure(t, e, s)
	if _, err := e.api.ContainerStop(t.Context(), c.id, client.ContainerStopOptions{Timeout: new(0)}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), Exec{Argv: []string{"true"}}); !errors.Is(err, ErrGone) {
		t.Errorf("stopped: got %v", err)
	}
	again, st := ensureState(t, e, s)
	if st.Outcome != Started || again.ID() != c.ID() {
		t.Errorf("stopped: got %+v", st)
	}
	if err := e.remove(t.Context(), c.id); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Exec(t.Context(), Exec{Argv: []string{"true"}}); !errors.Is(err, ErrGone) {
		t.Errorf("removed: got %v", err)
	}
	if err := again.KillMark(t.Context(), random(), ""); err != nil {
		t.Errorf("nothing is left to kill in a container that is gone: %v", err)
	}
	if anew, st := ensureState(t, e, s); st.Outcome != Created || anew.ID() == c.ID() {
		t.Errorf("removed: got %+v", st)
	}
}

// TestGoneMidway: the container ends while a command runs.
func TestGoneMidway(t *testing.T) {
	t.Parallel()
	e := dial(t, Options{})
	for name, end := range map[string]func(c *Container) error{
		"removed": func(c *Container) error { return e.remove(t.Context(), c.id) },
		"stopped": func(c *Container) error {
			_, err := e.api.ContainerStop(t.Context(), c.id, client.ContainerStopOptions{Timeout: new(0)})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := ensure(t, e, wanted(t))
			p, err := c.Start(t.Context(), Exec{Argv: []string{"sleep", "3600"}})
			if err != nil {
				t.Fatal(err)
			}
			p.PID()
			if err := end(c); err != nil {
				t.Fatal(err)
			}
			if code, err := p.Wait(); !errors.Is(err, ErrGone) {
				t.Errorf("got %d, %v", code, err)
			}
		})
	}
}

// TestGoneToldLate: an engine that is busy calls the container running for a while after its end.
func TestGoneToldLate(t *testing.T) {
	t.Parallel()
	f, host := proxy(t)
	s := wanted(t)
	direct := dial(t, Options{})
	c := ensure(t, dial(t, Options{Host: host}), s)
	p, err := c.Start(t.Context(), Exec{Argv: []string{"sleep", "3600"}})
	if err != nil {
		t.Fatal(err)
	}
	p.PID()
	before, err := direct.api.ContainerInspect(t.Context(), c.id, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var tried atomic.Bool
	f.set(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/exec"):
			tried.Store(true)
		case strings.HasSuffix(r.URL.Path, "/containers/"+c.id+"/json") && !tried.Load():
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(before.Raw)
			return true
		}
		return false
	})
	if _, err := direct.api.ContainerStop(t.Context(), c.id, client.ContainerStopOptions{Timeout: new(0)}); err != nil {
		t.Fatal(err)
	}
	if code, err := p.Wait(); !errors.Is(err, ErrGone) {
		t.Errorf("got %d, %v", code, err)
	}
}

// TestCutMidway: the connection to the engine ends while a command runs. That is neither an
// exit code nor a container that is gone, and the command can be killed afterwards.
func TestCutMidway(t *testing.T) {
	t.Parallel()
	f, host := proxy(t)
	c := ensure(t, dial(t, Options{Host: host}), wanted(t))
	p, err := c.Start(t.Context(), Exec{Argv: []string{"sleep", "3600"}})
	if err != nil {
		t.Fatal(err)
	}
	p.PID()
	f.cut()
	if code, err := p.Wait(); !errors.Is(err, ErrCut) || errors.Is(err, ErrGone) {
		t.Errorf("got %d, %v", code, err)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := marked(t, c, p.Mark()); n != 0 {
		t.Errorf("%d are left", n)
	}
}

func TestEngineFaults(t *testing.T) {
	t.Parallel()
	f, host := proxy(t)
	s := wanted(t)
	e := dial(t, Options{Host: host})
	c := ensure(t, e, s)
	f.set(func(w http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/exec") && fail(w, 500, "a fault: No such container, is not running")
	})
	if _, err := c.Exec(t.Context(), Exec{Argv: []string{"true"}}); !errors.Is(err, ErrEngine) || errors.Is(err, ErrGone) {
		t.Errorf("a fault with familiar words: got %v", err)
	}
	f.set(func(w http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/containers/json") && fail(w, 500, "a fault")
	})
	if _, _, err := e.Ensure(t.Context(), s); !errors.Is(err, ErrEngine) {
		t.Errorf("an engine that cannot list: got %v", err)
	}
	f.set(func(w http.ResponseWriter, r *http.Request) bool { panic(http.ErrAbortHandler) })
	if _, err := c.Exec(t.Context(), Exec{Argv: []string{"true"}}); err == nil || errors.Is(err, ErrGone) {
		t.Errorf("an engine that hangs up: got %v", err)
	}
	if _, err := Dial(t.Context(), Options{Host: "unix:///nonexistent.sock"}); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "DOCKER_HOST") {
		t.Errorf("no engine: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.set(func(_ http.ResponseWriter, r *http.Request) bool { cancel(); <-r.Context().Done(); return true })
	if _, err := c.Exec(ctx, Exec{Argv: []string{"true"}}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrGone) {
		t.Errorf("an engine that does not answer: got %v", err)
	}
}

func TestNoShell(t *testing.T) {
	t.Parallel()
	e := dial(t, Options{})
	s := wanted(t)
	s.Image = commit(t, e, "rm /bin/sh", &container.Config{})
	if _, _, err := e.Ensure(t.Context(), s); !errors.Is(err, ErrNoShell) {
		t.Errorf("got %v", err)
	}
	if n := count(t, e, s); n != 0 {
		t.Errorf("%d containers are left", n)
	}
}

// syncBuffer is a buffer that two goroutines may use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// count is how many containers an identity has.
func count(t testing.TB, e *Engine, s Spec) int {
	t.Helper()
	items, err := e.list(t.Context(), labelHome+"="+s.homeLabel())
	if err != nil {
		t.Fatal(err)
	}
	return len(items)
}

// TestFullIsCounted: whatever the engine says when it cannot begin a command, a container
// that has no room is told from one that is ill.
func TestFullIsCounted(t *testing.T) {
	t.Parallel()
	s := wanted(t)
	s.Pids = 60
	c := ensure(t, dial(t, Options{}), s)
	if err := c.refused(t.Context(), "try", 126, "OCI runtime exec failed: some words"); !errors.Is(err, ErrEngine) {
		t.Errorf("with room: got %v", err)
	}
	p, err := c.Start(t.Context(), Exec{Argv: []string{"sh", "-c", "i=0; while [ $i -lt 45 ]; do sleep 3600 & i=$((i+1)); done; echo up; wait"}, Stdout: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	p.PID()
	eventually(t, "45 processes", func() bool { return c.full(t.Context()) })
	if err := c.refused(t.Context(), "try", 126, "OCI runtime exec failed: some words"); !errors.Is(err, ErrPidsExhausted) {
		t.Errorf("without room: got %v", err)
	}
}
