// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/metrics"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

// runtimeOf is a running gateway over a world.
func runtimeOf(t *testing.T, e *Environments, log *syncLog) *Runtime {
	t.Helper()
	rt := NewRuntime(t.Context(), RuntimeOptions{Environments: e, Log: slog.New(slog.NewTextHandler(log, nil)), Now: time.Now, PID: os.Getpid()})
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Errorf("%v; log: %s", err, log)
		}
	})
	return rt
}

// turn asks a profile and returns the answer.
func turnOf(t *testing.T, rt *Runtime, profile, text string) string {
	t.Helper()
	tenant, err := rt.Tenant(profile)
	if err != nil {
		t.Fatal(err)
	}
	turn, err := tenant.Ask(t.Context(), gateway.Ask{Source: "cli", Input: model.Text(model.User, text)})
	if err != nil {
		t.Fatal(err)
	}
	res, err := turn.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return res.Text
}

// counted are the sums of a home without their day.
func counted(t *testing.T, h home.Home) []string {
	t.Helper()
	rows, err := metrics.Read(h.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range rows {
		dims, err := json.Marshal(r.Dims)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s %s %d", strings.TrimPrefix(r.Name, "hermes."), dims, r.Value))
	}
	return out
}

func call(id, name string, args map[string]any) modelserver.Call {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return modelserver.Call{ID: id, Name: name, Args: string(b)}
}

// TestCountersOfATurn runs the same turn, with real edits and commands, in a profile that opted
// in and in two that did not: the first has the rows of upstream's table, the others have no
// file at all.
func TestCountersOfATurn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.txt")
	terminal := func(id, command string) modelserver.Call {
		return call(id, "terminal", map[string]any{"command": command})
	}
	patch := func(id, old, with string) modelserver.Call {
		return call(id, "patch", map[string]any{"path": file, "old_string": old, "new_string": with})
	}
	v4a := "*** Begin Patch\n*** Update File: " + file + "\n-  first line\n+the first line\n*** End Patch"
	script := func() []modelserver.Reply {
		var out []modelserver.Reply
		for _, c := range []modelserver.Call{
			call("w", "write_file", map[string]any{"path": file, "content": "first line\nsame\nsame\nlast line\n"}),
			patch("p1", "last line", "the last line"), patch("p2", "last line, once", "the last line"), patch("p3", "same", "other"), patch("p4", "nowhere to be seen", "x"),
			call("p5", "patch", map[string]any{"mode": "patch", "patch": v4a}),
			call("p6", "write_file", map[string]any{"path": dir, "content": "x"}),
			terminal("t1", "true"), terminal("t2", "bash -c 'exit 124'"), terminal("t3", "sh -c 'kill -9 $$'"),
			call("t4", "terminal", map[string]any{"command": "sleep 1000 # CANARY", "timeout": 1}),
			call("t5", "terminal", map[string]any{"command": "sleep 1000", "background": true}),
		} {
			out = append(out, modelserver.Reply{Calls: []modelserver.Call{c}})
		}
		return append(out, modelserver.Reply{Text: "done"})
	}
	config := func(url, more string) string {
		return "_config_version: 50\ngateway: {multiplex_profiles: true}\napprovals: {mode: 'off'}\nmodel: {provider: custom, default: acme-secret, base_url: " + url + "/v1}\n" + more
	}
	in := "telemetry: {shared_metrics: {enabled: true}}\n"
	out := "telemetry: {shared_metrics: {enabled: false}}\n"
	e, launch, log := world(t, map[string]string{
		"home/config.yaml":                config(modelserver.New(t, script()...).URL, ""),
		"home/profiles/alice/config.yaml": config(modelserver.New(t, script()...).URL, in),
		"home/profiles/bob/config.yaml":   config(modelserver.New(t, script()...).URL, out),
	})
	rt := runtimeOf(t, e, log)
	for _, profile := range []string{"", "alice", "bob"} {
		if got := turnOf(t, rt, profile, "go"); got != "done" {
			t.Fatalf("%s: %q", profile, got)
		}
	}
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`file_edit.count {"match_strategy":"exact","mode":"replace","outcome":"applied","tool":"patch"} 1`,
		`file_edit.count {"match_strategy":"indentation_flexible","mode":"v4a","outcome":"applied","tool":"patch"} 1`,
		`file_edit.count {"match_strategy":"none","mode":"replace","outcome":"already_applied","tool":"patch"} 1`,
		`file_edit.count {"match_strategy":"none","mode":"replace","outcome":"ambiguous","tool":"patch"} 1`,
		`file_edit.count {"match_strategy":"none","mode":"replace","outcome":"no_match","tool":"patch"} 1`,
		`file_edit.count {"match_strategy":"none","mode":"whole_file","outcome":"applied","tool":"write_file"} 1`,
		`file_edit.count {"match_strategy":"none","mode":"whole_file","outcome":"failed","tool":"write_file"} 1`,
		`model_reply_issue.count {"issue":"none","model":"custom","provider":"custom"} 13`,
		`terminal.outcome.count {"backend":"local","command_kind":"other","outcome":"timeout"} 1`,
		`terminal.outcome.count {"backend":"local","command_kind":"shell","outcome":"killed"} 1`,
		`terminal.outcome.count {"backend":"local","command_kind":"shell","outcome":"nonzero"} 1`,
		`terminal.outcome.count {"backend":"local","command_kind":"shell_builtin","outcome":"ok"} 1`,
		`tool_recovery.count {"model":"custom","next_outcome":"error","next_tool":"same","provider":"custom","tool":"patch"} 1`,
		`tool_recovery.count {"model":"custom","next_outcome":"success","next_tool":"different","provider":"custom","tool":"write_file"} 1`,
		`tool_recovery.count {"model":"custom","next_outcome":"success","next_tool":"same","provider":"custom","tool":"patch"} 1`,
	}
	if diff := cmp.Diff(want, counted(t, named(t, launch, "alice"))); diff != "" {
		t.Errorf("%s\nlog: %s", diff, log)
	}
	for _, h := range []home.Home{launch, named(t, launch, "bob")} {
		if _, err := os.Stat(filepath.Dir(metrics.Path(h.Dir))); !os.IsNotExist(err) {
			t.Errorf("%s has a directory of counters: %v", h.Profile, err)
		}
	}
	raw, err := os.ReadFile(metrics.Path(named(t, launch, "alice").Dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"CANARY", "acme-secret", dir, "sleep"} {
		if strings.Contains(string(raw), secret) {
			t.Errorf("the file holds %q", secret)
		}
	}
}
