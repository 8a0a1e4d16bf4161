// SPDX-License-Identifier: MIT

//go:build linux

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestHangOnInitialize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, once)
	s := fake("f", "hang", "deaf")
	s.ConnectTimeout = 50 * time.Millisecond
	w.apply("a", s)
	if got := w.tools("a"); len(got) > 0 {
		t.Errorf("got %v", got)
	}
	st := w.status("a", "f")
	has(t, st.Error, "no answer to the connection within 50ms")
	if st.Connects != 0 || st.Tries < 1 {
		t.Errorf("got %+v", st)
	}
}

func TestExitAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, once)
	w.apply("a", fake("f", "exit"))
	w.tools("a")
	st := w.status("a", "f")
	has(t, st.Error, "mcp server f: ", "exited with code 7", "no licence found")
	hasNot(t, st.Error+w.log.String(), "canary-of-a")
	if st.Connects != 0 {
		t.Errorf("got %+v", st)
	}
}

func TestNoProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t, once)
	s := fake("f")
	s.Command = "no-such-program"
	w.apply("a", s)
	w.tools("a")
	has(t, w.status("a", "f").Error, "no-such-program")
}

func TestEnvRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, once)
	p := w.profile("a")
	good := p.Env
	var bad sync.Once
	p.Env = func(ctx context.Context, s Server) (env []string, err error) {
		bad.Do(func() { err = errors.New("manifest unreadable, canary-of-a") })
		if err != nil {
			return nil, err
		}
		return good(ctx, s)
	}
	w.profiles["a"] = p
	w.apply("a", fake("f"))
	w.tools("a")
	st := w.status("a", "f")
	has(t, st.Error, "environment cannot be built: manifest unreadable")
	hasNot(t, st.Error, "canary-of-a")
	if len(w.procs.Live()) > 0 {
		t.Error("started without an environment")
	}
	if _, err := w.host.of("a").find("f").connected(soon(t)); err != nil {
		t.Error(err)
	}
}

func TestDieMidCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("a", fake("f"))
	w.tools("a")
	r, err := w.try("a", "mcp__f__die")
	if err == nil || !r.Error {
		t.Fatalf("got %+v, %v", r, err)
	}
	has(t, r.JSON, "mcp server f", "may have been carried out", "exited with code 3", "fatal: dying with")
	hasNot(t, r.JSON+err.Error()+w.log.String(), "canary-of-a")
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("a", fake("f", "garbage"))
	w.tools("a")
	for i := range 20 {
		if got := w.call("a", echo, "text", strconv.Itoa(i)); got != strconv.Itoa(i) {
			t.Fatalf("got %q", got)
		}
	}
	if st := w.status("a", "f"); st.Connects != 1 {
		t.Errorf("got %+v", st)
	}
	if err := w.host.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(w.profile("a").StderrLog)
	if err != nil {
		t.Fatal(err)
	}
	has(t, string(data), "[f] standard output: Server listening on stdio!\n")
}

func TestFlood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("a", fake("f", "flood"))
	w.tools("a")
	for i := range 200 {
		if got := w.call("a", echo, "text", strconv.Itoa(i)); got != strconv.Itoa(i) {
			t.Fatalf("got %q", got)
		}
	}
	if err := w.host.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(w.profile("a").StderrLog)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > MaxLog {
		t.Errorf("the log has %d bytes", len(data))
	}
	has(t, string(data), "bytes of error output were dropped")
	hasNot(t, string(data), "canary-of-a")
}

func TestHugeResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("a", fake("f"))
	w.tools("a")
	if got := w.call("a", "mcp__f__huge", "size", 8<<20); len(got) != 8<<20 {
		t.Errorf("got %d bytes", len(got))
	}
	_, err := w.try("a", "mcp__f__huge", "size", maxFrame)
	if err == nil {
		t.Fatal("no error")
	}
	has(t, err.Error(), "more than 16 MiB")
	if got := w.call("a", echo, "text", "back"); got != "back" {
		t.Errorf("got %q", got)
	}
}

func TestLiar(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("a", fake("f", "liar"), fake("f__b"))
	tools := w.host.Tools(soon(t), "a")
	seen := map[string]string{}
	for _, tool := range tools {
		if !functionName(tool.Name) {
			t.Errorf("%q is no name of a function", tool.Name)
		}
		if other, ok := seen[tool.Name]; ok {
			t.Errorf("%q names %q and %q", tool.Name, other, tool.Original)
		}
		seen[tool.Name] = tool.Server + "/" + tool.Original
		if len(tool.Description) > MaxDescription || !json.Valid(tool.Schema) {
			t.Errorf("%s: description of %d bytes, schema %s", tool.Name, len(tool.Description), tool.Schema)
		}
		if !strings.HasPrefix(tool.Name, map[string]string{"f": "mcp__f__", "f__b": "mcp__f_b__"}[tool.Server]) {
			t.Errorf("%s of server %s", tool.Name, tool.Server)
		}
	}
	for name, want := range map[string]string{
		"mcp__f__a_b": "f/a_b", "mcp__f__dup": "f/dup", "mcp__f__b__mcp__other__echo": "f/b__mcp__other__echo", "mcp__f_b__echo": "f__b/echo",
	} {
		if seen[name] != want {
			t.Errorf("%s is %q, want %q", name, seen[name], want)
		}
	}
	log := w.log.String()
	has(t, log, "lists a tool of this name before it", "it has no name", "schema is larger")
	// What a name leads to is the server's own name of it.
	for name, original := range seen {
		if strings.HasPrefix(original, "f/a") || strings.Contains(original, "../x") {
			_, err := w.try("a", name)
			has(t, fmt.Sprint(err), "unknown tool "+strings.TrimPrefix(original, "f/"))
		}
	}
}

func TestEndlessPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("a", fake("f", "endless"))
	if got := len(w.tools("a")); got != maxPages {
		t.Errorf("got %d tools, want %d", got, maxPages)
	}
}

func TestListFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, once)
	w.apply("a", fake("f", "nolist"))
	w.tools("a")
	st := w.status("a", "f")
	has(t, st.Error, "exited with code 9")
	if st.Connects != 0 {
		t.Errorf("got %+v", st)
	}
}

func TestStateless(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("a", fake("f", "modern"))
	w.tools("a")
	if got := w.call("a", echo, "text", "x"); got != "x" {
		t.Errorf("got %q; %+v", got, w.status("a", "f"))
	}
}

// A process counts from its start, not from its first answer.
func TestHealthCountsProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("a", fake("f", "hang"))
	w.until("a", "f", func(s *server) bool { return s.pid != 0 })
	if _, n := w.host.Health(); n != (Counts{Servers: 1, Processes: 1}) {
		t.Errorf("got %+v", n)
	}
	w.apply("a")
	if all, n := w.host.Health(); n != (Counts{}) || len(all) > 0 {
		t.Errorf("got %+v, %+v", all, n)
	}
}
