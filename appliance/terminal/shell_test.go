// SPDX-License-Identifier: MIT

package terminal

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
)

// fakeHost is a place that does what a test says.
type fakeHost struct {
	mu       sync.Mutex
	spawns   []Spawn
	restored int
	spawn    func(n int, s Spawn) (Job, error)
	restore  error
}

func (h *fakeHost) Describe() Description { return Description{Backend: "fake", Remote: true} }

func (h *fakeHost) Spawn(_ context.Context, s Spawn) (Job, error) {
	h.mu.Lock()
	n := len(h.spawns)
	h.spawns = append(h.spawns, s)
	h.mu.Unlock()
	return h.spawn(n, s)
}

func (h *fakeHost) Restore(context.Context) error {
	h.restored++
	return h.restore
}

func (h *fakeHost) Close(context.Context) error { return nil }

// fakeJob ends when it is told to, and dies of nothing.
type fakeJob struct {
	done chan struct{}
	exit process.Exit
	err  error
	hang chan struct{} // Kill returns when this is closed
}

func (j *fakeJob) PID() int              { return 0 }
func (j *fakeJob) Done() <-chan struct{} { return j.done }
func (j *fakeJob) Stdin() io.WriteCloser { return nil }
func (j *fakeJob) SetKind(process.Kind)  {}
func (j *fakeJob) KillNow()              { <-j.hang }
func (j *fakeJob) Kill(context.Context) error {
	<-j.hang
	return errors.New("not dead")
}

func (j *fakeJob) Wait(ctx context.Context) (process.Exit, error) {
	select {
	case <-j.done:
		return j.exit, j.err
	case <-ctx.Done():
		return process.Exit{}, context.Cause(ctx)
	}
}

// ended is a job that has printed something and is over.
func ended(s Spawn, out string, exit process.Exit, err error) *fakeJob {
	io.WriteString(s.Stdout, out)
	j := &fakeJob{done: make(chan struct{}), exit: exit, err: err}
	close(j.done)
	return j
}

// login answers the login shell of a fake place.
func login1(s Spawn) Job {
	m := s.Script[strings.LastIndex(s.Script, "__HERMES_CWD_"):]
	m = strings.TrimSpace(strings.SplitN(m, "\n", 2)[0])
	return ended(s, "\n"+m+"/home\n"+m+"\n", process.Exit{}, nil)
}

func fakeShell(h *fakeHost) *Shell {
	return New(Config{
		Host: h, Log: slog.New(slog.DiscardHandler), Temp: "/tmp",
		Env: func(context.Context, process.Kind) (Env, error) { return Env{}, nil },
	})
}

// A kill that never ends does not keep the turn: the partial output is there at the backstop.
func TestReportB5927Backstop(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	defer close(hang)
	h := &fakeHost{spawn: func(n int, s Spawn) (Job, error) {
		if n == 0 {
			return login1(s), nil
		}
		io.WriteString(s.Stdout, "partial\n")
		return &fakeJob{done: make(chan struct{}), hang: hang}, nil
	}}
	res, err := fakeShell(h).Run(t.Context(), Command{Text: "x", Timeout: 10 * time.Millisecond})
	if err != nil || res.Code != CodeTimeout || !res.TimedOut || res.Output != "partial\n[Command timed out after 0.01s]" || res.Dir != "/home" {
		t.Errorf("%+v, %v", res, err)
	}
}

// A place that stays gone is restored once, not for ever.
func TestRestoreOnce(t *testing.T) {
	t.Parallel()
	h := &fakeHost{spawn: func(int, Spawn) (Job, error) { return nil, ErrGone }}
	if _, err := fakeShell(h).Run(t.Context(), Command{Text: "x"}); !errors.Is(err, ErrGone) || h.restored != 1 || len(h.spawns) != 2 {
		t.Errorf("%v, restored %d times, %d spawns", err, h.restored, len(h.spawns))
	}
	h = &fakeHost{restore: errors.New("no engine"), spawn: func(int, Spawn) (Job, error) { return nil, ErrGone }}
	if _, err := fakeShell(h).Run(t.Context(), Command{Text: "x"}); err == nil || len(h.spawns) != 1 {
		t.Errorf("%v, %d spawns", err, len(h.spawns))
	}
	gone := true
	h = &fakeHost{}
	h.spawn = func(n int, s Spawn) (Job, error) {
		switch {
		case n == 1 && gone:
			gone = false
			return nil, ErrGone
		case s.Login:
			return login1(s), nil
		}
		return ended(s, "ran", process.Exit{Code: 3}, nil), nil
	}
	res, err := fakeShell(h).Run(t.Context(), Command{Text: "x"})
	if err != nil || !res.Recreated || res.Output != "ran" || res.Code != 3 {
		t.Errorf("%+v, %v", res, err)
	}
	if len(h.spawns) != 4 || !h.spawns[2].Login {
		t.Errorf("the new place was not warmed: %d spawns", len(h.spawns))
	}
}

// A place that cannot be reached is asked again by the next command.
func TestFailureNotRemembered(t *testing.T) {
	t.Parallel()
	down := true
	h := &fakeHost{}
	h.spawn = func(_ int, s Spawn) (Job, error) {
		switch {
		case down:
			return nil, &ConnError{Backend: "fake", Reason: "down"}
		case s.Login:
			return login1(s), nil
		}
		return ended(s, "ran", process.Exit{}, nil), nil
	}
	s := fakeShell(h)
	var conn *ConnError
	if _, err := s.Run(t.Context(), Command{Text: "x"}); !errors.As(err, &conn) {
		t.Errorf("got %v", err)
	}
	down = false
	if res, err := s.Run(t.Context(), Command{Text: "x"}); err != nil || res.Output != "ran" || res.Recreated {
		t.Errorf("%+v, %v", res, err)
	}
}

// No bash at all is a fault of the place.
func TestNoBash(t *testing.T) {
	t.Parallel()
	h := &fakeHost{spawn: func(_ int, s Spawn) (Job, error) {
		return ended(s, "bash: not found", process.Exit{Code: 127}, nil), nil
	}}
	var conn *ConnError
	if _, err := fakeShell(h).Run(t.Context(), Command{Text: "x"}); !errors.As(err, &conn) {
		t.Errorf("got %v", err)
	}
}

// The end of a command that nobody saw is an error, with what it printed so far.
func TestLostEnd(t *testing.T) {
	t.Parallel()
	cut := errors.New("contact lost")
	h := &fakeHost{}
	h.spawn = func(_ int, s Spawn) (Job, error) {
		if s.Login {
			return login1(s), nil
		}
		return ended(s, "so far", process.Exit{}, cut), nil
	}
	if res, err := fakeShell(h).Run(t.Context(), Command{Text: "x"}); !errors.Is(err, cut) || res.Output != "so far" {
		t.Errorf("%+v, %v", res, err)
	}
}

// Neither login nor plain shells report themselves: each command gets a login shell.
func TestLoginEachTime(t *testing.T) {
	t.Parallel()
	h := &fakeHost{}
	h.spawn = func(n int, s Spawn) (Job, error) {
		if n < 2 {
			return ended(s, "", process.Exit{Code: 1}, nil), nil
		}
		return ended(s, "ran", process.Exit{}, nil), nil
	}
	s := fakeShell(h)
	s.c.Login = []string{"~/.profile"}
	if res, err := s.Run(t.Context(), Command{Text: "x"}); err != nil || res.Output != "ran" {
		t.Errorf("%+v, %v", res, err)
	}
	if sp := h.spawns[2]; !sp.Login || !strings.Contains(sp.Script, ".profile") || strings.Contains(sp.Script, "hermes-snap") {
		t.Errorf("%+v", sp)
	}
}
