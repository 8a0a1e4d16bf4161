// SPDX-License-Identifier: MIT

//go:build linux

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/redact"
)

// world is a host with everything around it.
type world struct {
	t        testing.TB
	procs    *process.Registry
	host     *Host
	log      *lockedBuffer
	dir      string
	profiles map[string]Profile
}

func newWorld(t testing.TB, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, log: &lockedBuffer{}, dir: t.TempDir(), profiles: map[string]Profile{}}
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.procs = process.New(log)
	c := Config{Processes: w.procs, Log: log, Version: "test", Backoff: Backoff{First: time.Millisecond, Max: time.Millisecond}}
	for _, f := range change {
		f(&c)
	}
	w.host = New(context.Background(), c)
	w.host.waits = waits{ping: forever, reason: time.Minute, stream: time.Minute, bye: time.Minute} // a busy machine stalls for seconds
	t.Cleanup(func() {
		if err := w.host.Close(soon(t)); err != nil {
			t.Error(err)
		}
		if live := w.procs.Live(); len(live) > 0 {
			t.Errorf("left alive: %v", live)
			w.procs.KillNow()
		}
		if t.Failed() {
			t.Logf("log:\n%s", w.log)
		}
	})
	return w
}

// once keeps a server that failed from being tried again.
func once(c *Config) { c.Backoff = Backoff{First: forever, Max: forever} }

// profile returns a profile whose servers get the server's env and a canary of its own.
func (w *world) profile(key string) Profile {
	if p, ok := w.profiles[key]; ok {
		return p
	}
	canary := "canary-of-" + key
	p := Profile{
		Key: key, StderrLog: filepath.Join(w.dir, key, "logs", "mcp-stderr.log"), Redactor: redact.New(true, []string{canary}),
		Env: func(_ context.Context, s Server) ([]string, error) {
			env := []string{"PATH=" + os.Getenv("PATH"), "CANARY=" + canary}
			for _, k := range sortedKeys(s.Env) {
				env = append(env, k+"="+s.Env[k])
			}
			return env, nil
		},
	}
	if err := os.MkdirAll(filepath.Join(w.dir, key), 0o700); err != nil {
		w.t.Fatal(err)
	}
	w.profiles[key] = p
	return p
}

func (w *world) apply(key string, servers ...Server) Change {
	w.t.Helper()
	ch, err := w.host.Apply(soon(w.t), w.profile(key), servers)
	if err != nil {
		w.t.Fatal(err)
	}
	return ch
}

func (w *world) tools(key string) []string {
	w.t.Helper()
	var out []string
	for _, t := range w.host.Tools(soon(w.t), key) {
		out = append(out, t.Name)
	}
	return out
}

// call returns the text of a result.
func (w *world) call(key, tool string, args ...any) string {
	w.t.Helper()
	r, err := w.try(key, tool, args...)
	if err != nil {
		w.t.Fatalf("%s: %v", tool, err)
	}
	var a struct{ Result, Error string }
	if err := json.Unmarshal([]byte(r.JSON), &a); err != nil {
		w.t.Fatalf("%s: %v: %s", tool, err, r.JSON)
	}
	return a.Result + a.Error
}

func (w *world) try(key, tool string, args ...any) (Result, error) {
	w.t.Helper()
	m := map[string]any{}
	for i := 0; i+1 < len(args); i += 2 {
		m[args[i].(string)] = args[i+1]
	}
	data, err := json.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.host.Call(soon(w.t), key, tool, data)
}

func (w *world) status(key, server string) Status {
	w.t.Helper()
	all, _ := w.host.Health()
	for _, s := range all {
		if s.Profile == key && s.Server == server {
			return s
		}
	}
	w.t.Fatalf("no status of %s in %s", server, key)
	return Status{}
}

// until waits for a change of a server.
func (w *world) until(key, name string, holds func(*server) bool) {
	w.t.Helper()
	s := w.host.of(key).find(name)
	if err := s.await(soon(w.t), func() bool { return holds(s) }); err != nil {
		w.t.Fatalf("%s: %v; %+v", name, err, w.status(key, name))
	}
}

// fake is a stdio server: this binary with the given habits.
func fake(name string, habits ...string) Server {
	return Server{
		Name: name, Command: self(), Env: map[string]string{fakeEnv: strings.Join(habits, ",")},
		Timeout: forever, ConnectTimeout: forever, AskTimeout: forever, Resources: true, Prompts: true,
		Sampling: Sampling{MaxTokens: 100, Timeout: forever, PerMinute: 1000},
	}
}

func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// marked returns the processes, also dead ones, whose environment has a value.
func marked(t testing.TB, value string) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range dirs {
		env, err := os.ReadFile(d + "/environ")
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !strings.Contains(err.Error(), "no such process") {
			t.Fatal(err)
		}
		if bytes.Contains(env, []byte(value)) {
			out = append(out, filepath.Base(d))
		}
	}
	return out
}

// children returns the children of this process, zombies too.
func children(t testing.TB) []string {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range tasks {
		data, err := os.ReadFile(f)
		if err != nil {
			continue // a thread that ended
		}
		out = append(out, strings.Fields(string(data))...)
	}
	return out
}

func fds(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
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
