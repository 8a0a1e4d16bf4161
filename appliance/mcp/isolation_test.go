// SPDX-License-Identifier: MIT

//go:build linux

package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/childenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/redact"
)

// tenants are two profiles that configure the same server, each with canaries in its .env,
// from its sources and in the entry of the server, over a process that has canaries too.
func tenants(t *testing.T, w *world) {
	t.Helper()
	policy, err := childenv.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		home := filepath.Join(w.dir, key)
		p := w.profile(key)
		p.Redactor = redact.New(true, []string{"canary-applied-" + key, "canary-entry-" + key})
		p.Env = func(_ context.Context, s Server) ([]string, error) {
			snapshot := childenv.Snapshot{
				Multiplexed: true,
				Inherited: []string{
					"PATH=" + os.Getenv("PATH"), "HOME=/root", "LAUNCH_TOKEN=canary-process", "GITHUB_TOKEN=canary-process", "OPENAI_API_KEY=canary-process",
				},
				Launch: childenv.Launch{Key: "/launch", Dotenv: []string{"LAUNCH_TOKEN"}},
				Target: &childenv.Profile{
					Key: home, Dir: home, Applied: []string{"GITHUB_TOKEN"},
					Vars: []childenv.Var{
						{Name: "DOTENV_TOKEN", Value: "canary-dotenv-" + key, Origin: childenv.Dotenv},
						{Name: "GITHUB_TOKEN", Value: "canary-applied-" + key, Origin: childenv.Source},
					},
				},
			}
			for _, k := range sortedKeys(s.Env) {
				snapshot.Extra = append(snapshot.Extra, childenv.Var{Name: k, Value: s.Env[k], Origin: childenv.Extra})
			}
			return policy.Build("mcp", snapshot)
		}
		w.profiles[key] = p
	}
}

// #51029, #52446, #82936, #111151, #107630, #119242, hermes-webui #7721: servers ran with
// another profile's keys, or were another profile's servers.
func TestReportB7ServersOfTwoProfiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenants(t, w)
	pids := map[string]string{}
	for _, key := range []string{"a", "b"} {
		s := fake("atlassian")
		s.Env["ENTRY_TOKEN"] = "canary-entry-" + key
		w.apply(key, s)
		w.tools(key)
	}
	for key, other := range map[string]string{"a": "b", "b": "a"} {
		pids[key] = w.call(key, "mcp__atlassian__pid")
		text := w.call(key, "mcp__atlassian__env")
		kernel, err := os.ReadFile("/proc/" + pids[key] + "/environ")
		if err != nil {
			t.Fatal(err)
		}
		for from, env := range map[string]string{"the server's own word": text, "/proc": string(kernel)} {
			hasNot(t, env, "canary-process", "canary-applied-"+other, "canary-entry-"+other, "canary-dotenv", filepath.Join(w.dir, other))
			has(t, env, "GITHUB_TOKEN=canary-applied-"+key, "ENTRY_TOKEN=canary-entry-"+key)
			if t.Failed() {
				t.Fatalf("profile %s, seen by %s", key, from)
			}
		}
		var names []string
		if err := json.Unmarshal([]byte(text), &names); err != nil {
			t.Fatal(err)
		}
		for i, kv := range names {
			names[i], _, _ = strings.Cut(kv, "=")
		}
		slices.Sort(names)
		equal(t, "names", names, []string{"ENTRY_TOKEN", "GITHUB_TOKEN", "HERMES_APPLIANCE_SPAWN", "HERMES_HOME", fakeEnv, "HOME", "PATH"})
	}
	if pids["a"] == pids["b"] {
		t.Error("two profiles share a process")
	}
	// What happens to one is nothing to the other.
	if _, err := w.try("a", "mcp__atlassian__die"); err == nil {
		t.Error("no error")
	}
	if got := w.call("b", "mcp__atlassian__pid"); got != pids["b"] {
		t.Error("b's server was replaced when a's died")
	}
	for key, other := range map[string]string{"a": "b", "b": "a"} {
		data, err := os.ReadFile(w.profile(key).StderrLog)
		if err != nil {
			t.Fatal(err)
		}
		hasNot(t, string(data), "canary", "pid "+pids[other]+"\n")
		has(t, string(data), "[atlassian] started, pid "+pids[key]+"\n")
	}
	hasNot(t, w.log.String(), "canary")
}

// The same over HTTP: no connection, session or header is shared.
func TestReportB7HTTPOfTwoProfiles(t *testing.T) {
	t.Parallel()
	var (
		mu    sync.Mutex
		conns = map[any]string{} // connection -> credential
	)
	url := serveHTTP(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			auth, conn := r.Header.Get("Authorization"), r.Context().Value(connKey{})
			if seen, ok := conns[conn]; ok && seen != auth || auth == "" {
				t.Errorf("connection %s: %q and %q", r.RemoteAddr, seen, auth)
			}
			conns[conn] = auth
			mu.Unlock()
			next.ServeHTTP(rw, r)
			mu.Lock()
		})
	})
	w := newWorld(t)
	for _, key := range []string{"a", "b"} {
		w.apply(key, httpServer("h", url, "Authorization", "Bearer canary-"+key))
		w.tools(key)
	}
	var work sync.WaitGroup
	for i := range 40 {
		work.Go(func() {
			key := []string{"a", "b"}[i%2]
			r, err := w.try(key, "mcp__h__auth", "text", "")
			if err != nil || !strings.Contains(r.JSON, "Bearer canary-"+key+`"`) {
				t.Errorf("got %s, %v", r.JSON, err)
			}
		})
	}
	work.Wait()
	hasNot(t, w.log.String(), "canary")
}

// A profile that is gone is nobody's: its tools cannot be called through another.
func TestProfileGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("a", fake("f"))
	w.apply("b")
	w.tools("a")
	if got := w.tools("b"); len(got) > 0 {
		t.Errorf("got %v", got)
	}
	for _, key := range []string{"b", "c", ""} {
		if _, err := w.try(key, echo); err == nil {
			t.Errorf("profile %q calls a's server", key)
		}
	}
	if err := w.host.Remove(soon(t), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.try("a", echo); err == nil {
		t.Error("no error")
	}
	if got := marked(t, "FAKE_MARK=gone-"+strconv.Itoa(os.Getpid())); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}
