// SPDX-License-Identifier: MIT

//go:build linux

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const echo = "mcp__f__echo"

func TestCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ch := w.apply("a", fake("f"))
	equal(t, "started", ch.Started, []string{"f"})
	equal(t, "tools", w.tools("a"), []string{
		"mcp__f__die", echo, "mcp__f__env", "mcp__f__fail", "mcp__f__grow", "mcp__f__huge", "mcp__f__odd", "mcp__f__pid", "mcp__f__wait",
	})
	for _, tool := range w.host.Tools(soon(t), "a") {
		if tool.ReadOnly != (tool.Original == "pid") || tool.Server != "f" || string(tool.Schema) != `{"properties":{},"type":"object"}` {
			t.Errorf("got %+v, schema %s", tool, tool.Schema)
		}
	}
	if got := w.call("a", echo, "text", "<hällo>"); got != "<hällo>" {
		t.Errorf("got %q", got)
	}
	r, err := w.try("a", "mcp__f__fail")
	if err != nil || !r.Error || r.JSON != `{"error":"it broke"}` {
		t.Errorf("got %+v, %v", r, err)
	}
	r, err = w.try("a", "mcp__f__odd") // content that nobody knows fails the call and nothing else
	if err == nil || !r.Error || !strings.Contains(r.JSON, "hologram") {
		t.Errorf("got %+v, %v", r, err)
	}
	var unknown *UnknownToolError
	for _, c := range [][2]string{{"a", "mcp__f__nope"}, {"a", "echo"}, {"a", ""}, {"b", echo}} {
		if r, err := w.try(c[0], c[1]); !errors.As(err, &unknown) || !r.Error || !json.Valid([]byte(r.JSON)) {
			t.Errorf("%v: got %+v, %v", c, r, err)
		}
	}
	if got := w.call("a", echo, "text", "still"); got != "still" {
		t.Errorf("got %q", got)
	}
	st := w.status("a", "f")
	if st.State != Ready || st.PID == 0 || st.Tools != 9 || st.Connects != 1 || st.Tries != 1 || st.Error != "" || st.Transport != "stdio" {
		t.Errorf("got %+v", st)
	}
	if _, n := w.host.Health(); n != (Counts{1, 1, 1}) {
		t.Errorf("got %+v", n)
	}
}

// Calls of one server overlap, from many goroutines.

func TestCallConcurrent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("a", fake("f"))
	w.tools("a")
	var work sync.WaitGroup
	for i := range 50 {
		work.Go(func() {
			text := strconv.Itoa(i)
			r, err := w.try("a", echo, "text", text)
			if err != nil || r.JSON != `{"result":"`+text+`"}` {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
	work.Wait()
}

// A server that exits at once is reported with its exit code and last words, without secrets.

// #57355, #60385, #47510, hermes-webui #5961: children leaked on each reconnect.

// #67187, #94335: a server that came back had no tools, and a live one was taken for dead.

// The keepalive brings back a server that answers nothing any more, and leaves a live one.

// SIGTERM is ignored, and grandchildren are started, one in a session of its own.

// When time is over nobody is asked politely.

// The exit fence ends servers, and they are not brought back.

// A host that is killed without a chance to clean up: its server reads the end of its input.

// A server that writes errors as fast as it can fills no disk and holds up no call.

// A server that knows no handshake is spoken to without one.

func TestCancel(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"caller", "timeout"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			note := filepath.Join(w.dir, "note")
			s := fake("f")
			s.Env["FAKE_NOTE"] = note
			if how == "timeout" {
				s.Timeout = 300 * time.Millisecond
			}
			w.apply("a", s)
			w.tools("a")
			ctx, cancel := context.WithCancel(soon(t))
			if how == "caller" {
				go func() {
					waitFor(t, note, "called")
					cancel()
				}()
			}
			_, err := w.host.Call(ctx, "a", "mcp__f__wait", nil)
			var timeout *TimeoutError
			for how == "timeout" && errors.As(err, &timeout) && !exists(note) && ctx.Err() == nil {
				_, err = w.host.Call(ctx, "a", "mcp__f__wait", nil) // the last one's time was over before the server had it
			}
			cancel()
			if how == "caller" && !errors.Is(err, context.Canceled) || how == "timeout" && !errors.As(err, &timeout) {
				t.Errorf("got %v", err)
			}
			waitFor(t, note, "cancelled")
			if st := w.status("a", "f"); st.Connects != 1 || st.State != Ready {
				t.Errorf("got %+v", st)
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func waitFor(t *testing.T, path, want string) {
	t.Helper()
	for ctx := soon(t); ; {
		if data, err := os.ReadFile(path); err == nil && string(data) == want {
			return
		}
		if ctx.Err() != nil {
			t.Errorf("%s never held %q", path, want)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Stopping a server ends the calls that wait for it.

func TestStopEndsCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := fake("f")
	note := filepath.Join(w.dir, "note")
	s.Env["FAKE_NOTE"] = note
	w.apply("a", s)
	w.tools("a")
	done := make(chan error)
	go func() {
		_, err := w.try("a", "mcp__f__wait")
		done <- err
	}()
	waitFor(t, note, "called")
	w.apply("a")
	if err := <-done; err == nil {
		t.Error("no error")
	}
}

// Tools does not wait longer than its caller wants.

// A second server whose name is spelled the same gives neither of them the other's tools.

// Reloads, calls and removals at the same time.
