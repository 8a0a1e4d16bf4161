// SPDX-License-Identifier: MIT

//go:build linux

package process

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// slack is how much longer than a deadline a loaded machine may take.
const slack = 60

func newRegistry(t testing.TB) *Registry {
	t.Helper()
	r := New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { r.KillNow() })
	return r
}

// needSetsid is for tests whose children leave their session.
func needSetsid(t testing.TB) {
	t.Helper()
	_, err := exec.LookPath("setsid")
	testkit.Need(t, "setsid", err == nil, "the test starts processes in sessions of their own")
}

func basicEnv() []string { return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"} }

func sh(script string) Cmd { return Cmd{Args: []string{"sh", "-c", script}, Env: basicEnv()} }

func startCmd(t testing.TB, r *Registry, c Cmd) *Child {
	t.Helper()
	child, err := r.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	return child
}

// soon is a context that ends when something hangs.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), slack*(Grace+KillDeadline))
	t.Cleanup(cancel)
	return ctx
}

func wait(t testing.TB, c *Child) Exit {
	t.Helper()
	exit, err := c.Wait(soon(t))
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	return exit
}

// startPrinting starts a command with a pipe for its output and returns the processes whose
// pids are its first n lines.
func startPrinting(t testing.TB, r *Registry, c Cmd, n int) (*Child, []ident) {
	t.Helper()
	c.StdoutPipe = true
	child := startCmd(t, r, c)
	out := child.streams.stdout
	t.Cleanup(func() { out.Close() })
	if err := out.SetReadDeadline(time.Now().Add(slack * KillDeadline)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var ids []ident
	for len(ids) < n {
		if !lines.Scan() {
			t.Fatalf("got %d pids, want %d: %v", len(ids), n, lines.Err())
		}
		pid, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, identOf(t, pid))
	}
	return child, ids
}

func identOf(t testing.TB, pid int) ident {
	t.Helper()
	start, err := startOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	return ident{pid, start}
}

// isAlive does not count a zombie, whose parent has not come round yet.
func isAlive(id ident) bool {
	p, dead, err := stat(id.pid)
	return err == nil && !dead && p.start == id.start
}

func stateOf(t testing.TB, pid int) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))[0]
}

// withEnv lists the living processes that have a text in their environment. It shares
// nothing with the code under test.
func withEnv(t testing.TB, text string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		// A zombie's environment is empty.
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && bytes.Contains(env, []byte(text)) {
			out = append(out, e.Name())
		}
	}
	return out
}

// eventually polls for what another process is about to do; it fails only long after that
// should have happened.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(slack * within); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after %v: %s", slack*within, what)
		}
	}
}

func allDead(ids []ident) func() bool {
	return func() bool {
		return !slices.ContainsFunc(ids, isAlive)
	}
}
