// SPDX-License-Identifier: MIT

//go:build linux

package process

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Not parallel: it counts what belongs to the whole process.
func TestLeaks(t *testing.T) {
	round := func() {
		r := New(slog.New(slog.DiscardHandler))
		var out bytes.Buffer
		c := sh("cat; echo x >&2")
		c.Stdin, c.Stdout, c.Stderr = strings.NewReader("x"), &out, io.Discard
		if _, err := r.Run(soon(t), c); err != nil {
			t.Fatal(err)
		}
		c = sh("sleep 3600 & exit 0")
		c.Stdin, c.Stdout, c.Merge = bytes.NewReader(make([]byte, 1<<20)), &out, true
		held := startCmd(t, r, c)
		wait(t, held)
		held.KillNow()
		if _, err := r.Start(Cmd{Args: []string{"true"}, Env: basicEnv(), Dir: "/no/such/dir", Stdin: &out, Stdout: &out, Stderr: &out}); err == nil {
			t.Fatal("started")
		}
		if _, err := r.Start(Cmd{Args: []string{"true"}, Env: basicEnv(), StdinPipe: true, StdoutPipe: true, Stderr: &out, Dir: "/no/such/dir"}); err == nil {
			t.Fatal("started")
		}
		e, err := r.Enter(Foreground, "raced")
		if err != nil {
			t.Fatal(err)
		}
		raced, err := start(Cmd{Args: []string{"sleep", "3600"}, Env: basicEnv(), StdinPipe: true, StdoutPipe: true, Stderr: &out}, rand.Text())
		if err != nil {
			t.Fatal(err)
		}
		r.Fence()
		if err := r.publish(e, raced); !errors.Is(err, ErrFenced) {
			t.Fatalf("got %v, want %v", err, ErrFenced)
		}
		wait(t, raced)
	}
	round() // opens what the runtime keeps
	// A sweep that an earlier test no longer waits for may still be reading.
	eventually(t, KillDeadline, "no /proc file open", func() bool { return !strings.Contains(strings.Join(openFiles(t), "\n"), " /proc/") })
	fds, goroutines := openFiles(t), runtime.NumGoroutine()
	for range 3 {
		round()
	}
	eventually(t, time.Second, "no goroutine more", func() bool { return runtime.NumGoroutine() <= goroutines })
	// An earlier test's may go meanwhile.
	eventually(t, time.Second, "no file more", func() bool {
		return !slices.ContainsFunc(openFiles(t), func(f string) bool { return !slices.Contains(fds, f) })
	})
	eventually(t, time.Second, "no zombies", func() bool { return len(zombiesOf(t, os.Getpid())) == 0 })
}

func openFiles(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil { // not the directory's own
			out = append(out, e.Name()+" "+to)
		}
	}
	return out
}

func zombiesOf(t *testing.T, parent int) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscan(e.Name(), &pid); err != nil {
			continue
		}
		if p, dead, err := stat(pid); err == nil && dead && p.ppid == parent {
			out = append(out, e.Name())
		}
	}
	return out
}

func BenchmarkTrue(b *testing.B) {
	path, err := exec.LookPath("true")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("process", func(b *testing.B) {
		r := newRegistry(b)
		for b.Loop() {
			if _, err := r.Run(b.Context(), Cmd{Args: []string{path}, Env: []string{}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("os_exec", func(b *testing.B) {
		for b.Loop() {
			cmd := exec.CommandContext(b.Context(), path)
			cmd.Env = []string{}
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRegistry(b *testing.B) {
	r := newRegistry(b)
	k := &fakeKiller{}
	for b.Loop() {
		e, err := r.Enter(Foreground, "x")
		if err != nil {
			b.Fatal(err)
		}
		if err := e.Publish(k); err != nil {
			b.Fatal(err)
		}
		e.Leave()
	}
}

func BenchmarkScan(b *testing.B) {
	for b.Loop() {
		if _, err := scan(0); err != nil {
			b.Fatal(err)
		}
	}
}
