// SPDX-License-Identifier: MIT

//go:build linux

package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestExit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		script string
		want   Exit
	}{
		{"exit 0", Exit{}},
		{"exit 7", Exit{Code: 7}},
		{"exit 124", Exit{Code: 124}},
		{"kill -9 $$", Exit{Code: 137, Signal: syscall.SIGKILL}},
		{"kill -TERM $$", Exit{Code: 143, Signal: syscall.SIGTERM}},
	} {
		t.Run(tc.script, func(t *testing.T) {
			t.Parallel()
			got, err := newRegistry(t).Run(soon(t), sh(tc.script))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestStartRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		cmd  Cmd
		want error // nil = any
	}{
		{"no command", Cmd{Env: basicEnv()}, nil},
		{"no environment", Cmd{Args: []string{"true"}}, ErrNoEnv},
		{"not in the child's PATH", Cmd{Args: []string{"sh"}, Env: []string{"PATH=" + filepath.Dir(file)}}, exec.ErrNotFound},
		{"no PATH", Cmd{Args: []string{"sh"}, Env: []string{}}, exec.ErrNotFound},
		{"relative PATH", Cmd{Args: []string{"sh"}, Env: []string{"PATH=bin::."}, Dir: "/"}, exec.ErrNotFound},
		{"not a program", Cmd{Args: []string{file}, Env: basicEnv()}, fs.ErrPermission},
		{"no directory", Cmd{Args: []string{"true"}, Env: basicEnv(), Dir: "/no/such/dir"}, fs.ErrNotExist},
		{"NUL in the environment", Cmd{Args: []string{"true"}, Env: append(basicEnv(), "A=\x00")}, syscall.EINVAL},
		{"two ends of stdin", Cmd{Args: []string{"true"}, Env: basicEnv(), StdinPipe: true, Stdin: os.Stdin}, nil},
		{"two ends of stdout", Cmd{Args: []string{"true"}, Env: basicEnv(), StdoutPipe: true, Stdout: os.Stdout}, nil},
		{"two ends of stderr", Cmd{Args: []string{"true"}, Env: basicEnv(), Merge: true, Stderr: os.Stderr}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			child, err := r.Start(tc.cmd)
			if err == nil {
				child.KillNow()
				t.Fatal("started")
			}
			if tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if n := r.inflight.Load(); n != 0 || len(r.Live()) > 0 {
				t.Errorf("%d in flight, live %v", n, r.Live())
			}
		})
	}
}

// The child gets the given environment and the mark, and nothing of ours.
func TestEnv(t *testing.T) {
	t.Setenv("TEST_OURS", "secret")
	for _, tc := range []struct {
		env, want []string
	}{
		{[]string{"A=1", "B="}, []string{"A=1", "B=", Mark + "=ID"}},
		{[]string{}, []string{Mark + "=ID"}},
		{[]string{Mark + "=outer", "A=1"}, []string{"A=1", Mark + "=ID,outer"}},
	} {
		out := NewCapture(0)
		path, err := exec.LookPath("env")
		if err != nil {
			t.Fatal(err)
		}
		given := slices.Clone(tc.env)
		child := startCmd(t, newRegistry(t), Cmd{Args: []string{path, "-0"}, Env: tc.env, Stdout: out})
		wait(t, child)
		got := strings.Split(strings.TrimSuffix(strings.ReplaceAll(out.String(), child.tree.id, "ID"), "\x00"), "\x00")
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if d := cmp.Diff(given, tc.env); d != "" {
			t.Errorf("the caller's slice was changed:\n%s", d)
		}
	}
}

// TestReport37763OwnSession: a child leads a session of its own, so that what it signals as its
// group is never the gateway (H#37763).
func TestReport37763OwnSession(t *testing.T) {
	t.Parallel()
	child, ids := startPrinting(t, newRegistry(t), sh(`echo $$; exec sleep 3600`), 1)
	p, _, err := stat(ids[0].pid)
	if err != nil {
		t.Fatal(err)
	}
	if p.pid != child.PID() || p.pgid != p.pid || p.sid != p.pid || p.ppid != os.Getpid() {
		t.Errorf("got %+v, want pid, group and session %d", p, child.PID())
	}
	if now := now(); p.start < child.tree.since || p.start > now {
		t.Errorf("started at %d, not between %d and %d", p.start, child.tree.since, now)
	}
}

func TestPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"bin/tool": "in PATH", "tool": "in Dir"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		testkit.WriteProgram(t, path, "#!/bin/sh\necho "+text+"; pwd\n")
	}
	env := []string{"PATH=.::rel:" + filepath.Join(dir, "none") + ":" + filepath.Join(dir, "bin")}
	for arg, want := range map[string]string{
		"tool": "in PATH", "./tool": "in Dir", "bin/tool": "in PATH", filepath.Join(dir, "tool"): "in Dir",
	} {
		out := NewCapture(0)
		exit, err := newRegistry(t).Run(soon(t), Cmd{Args: []string{arg}, Env: env, Dir: dir, Stdout: out})
		if err != nil || exit.Code != 0 || out.String() != want+"\n"+dir+"\n" {
			t.Errorf("%s: got %q, %+v, %v, want %q", arg, out, exit, err, want)
		}
	}
}

func TestWaitContext(t *testing.T) {
	t.Parallel()
	child := startCmd(t, newRegistry(t), sh("sleep 3600"))
	why := errors.New("turn was interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := child.Wait(ctx); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if child.over() {
		t.Error("the child is gone")
	}
	child.KillNow()
	wait(t, child)
	if _, err := child.Wait(ctx); err != nil { // it is known how it ended
		t.Error(err)
	}
}

func TestRunTimeout(t *testing.T) {
	t.Parallel()
	out := NewCapture(0)
	c := sh(`trap 'echo cleaned up; exit 9' TERM; echo begun; while :; do sleep 0.01; done`)
	c.Grace = time.Minute
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("time is over")
	c.Stdout = io.MultiWriter(out, writerFunc(func(p []byte) (int, error) { cancel(stop); return len(p), nil }))
	exit, err := newRegistry(t).Run(ctx, c)
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
	if exit.Code != 9 || !exit.Killed || out.String() != "begun\ncleaned up\n" {
		t.Errorf("got %+v, %q", exit, out)
	}
	if _, err := newRegistry(t).Run(ctx, c); !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
}

// Nothing of arguments, environment and output reaches the log.
func TestLogSecrets(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	r := New(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	c := sh("echo hunter2; : hunter2")
	c.Env = append(c.Env, "PASSWORD=hunter2")
	c.Stdout = io.Discard
	if _, err := r.Run(soon(t), c); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "name=sh") || strings.Contains(text, "hunter2") {
		t.Errorf("got %q", text)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
