// SPDX-License-Identifier: MIT

package appliance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/approval"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/metrics"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

var taskText = regexp.MustCompile(`Your task: ([a-z]+)`)

// delegating is a profile whose model hands out tasks once; child answers for a subagent, and
// after says how often it was asked before.
func delegating(t *testing.T, args map[string]any, more string, child func(task string, after int, body string) modelserver.Reply) (*Runtime, *modelserver.Server, string) {
	t.Helper()
	srv := modelserver.NewFunc(t, func(r modelserver.Request) modelserver.Reply {
		body := string(r.Body)
		if m := taskText.FindStringSubmatch(body); m != nil && !strings.Contains(body, "delegate_task") {
			return child(m[1], strings.Count(body, `"role":"tool"`), body)
		}
		if strings.Contains(body, `"role":"tool"`) {
			return modelserver.Reply{Text: "all done"}
		}
		return modelserver.Reply{Calls: []modelserver.Call{call("d", "delegate_task", args)}}
	})
	e, launch, log := world(t, map[string]string{
		"home/config.yaml": "_config_version: 50\nmodel: {provider: custom, default: scripted, base_url: " + srv.URL + "/v1}\n" + more,
	})
	return runtimeOf(t, e, log), srv, launch.Dir
}

func tasks(names ...string) map[string]any {
	var out []any
	for _, n := range names {
		out = append(out, map[string]any{"goal": n})
	}
	return map[string]any{"tasks": out}
}

// toolsOf are the names of the tools that a request offers.
func toolsOf(body string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`"function":\{[^{}]*"name":"([a-z_]+)"`).FindAllStringSubmatch(body, -1) {
		out = append(out, m[1])
	}
	return out
}

func TestDelegate(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "mark")
	rt, srv, _ := delegating(t, map[string]any{"tasks": []any{
		map[string]any{"goal": "alpha", "context": "the file is " + mark},
		map[string]any{"goal": "beta", "toolsets": []any{"file", "delegation", "memory"}},
		map[string]any{"goal": "danger"},
		map[string]any{"goal": "broken"},
	}}, "", func(task string, after int, body string) modelserver.Reply {
		switch {
		case task == "broken":
			return modelserver.Reply{Status: 400, Body: `{"error":{"message":"no such thing"}}`}
		case task == "alpha" && after == 0:
			return modelserver.Reply{Calls: []modelserver.Call{call("t", "terminal", map[string]any{"command": "echo $HERMES_SESSION_ID > " + mark})}}
		case task == "danger" && after == 0:
			return modelserver.Reply{Calls: []modelserver.Call{call("t", "terminal", map[string]any{"command": "rm -rf " + filepath.Dir(mark)})}}
		case task == "danger" && strings.Contains(body, "BLOCKED"):
			return modelserver.Reply{Text: "danger was refused"}
		}
		return modelserver.Reply{Text: task + " is finished"}
	})
	tenant, err := rt.Tenant("")
	if err != nil {
		t.Fatal(err)
	}
	turn, err := tenant.Ask(t.Context(), gateway.Ask{Source: "telegram", Input: model.Text(model.User, "go")})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := turn.Result(t.Context()); err != nil || res.Text != "all done" {
		t.Fatalf("%+v, %v", res, err)
	}
	var last, alpha, beta string
	for _, r := range srv.Requests() {
		switch body := string(r.Body); {
		case strings.Contains(body, "Your task: alpha") && !strings.Contains(body, "delegate_task"):
			alpha = body
		case strings.Contains(body, "Your task: beta") && !strings.Contains(body, "delegate_task"):
			beta = body
		case strings.Contains(body, `"role":"tool"`) && strings.Contains(body, "delegate_task"):
			last = body
		}
	}
	for _, want := range []string{"alpha is finished", "beta is finished", "danger was refused", "no such thing"} {
		if !strings.Contains(last, want) {
			t.Errorf("the turn was not told %q: %s", want, last)
		}
	}
	if got := toolsOf(alpha); !slices.Contains(got, "terminal") || slices.Contains(got, "memory") || slices.Contains(got, "clarify") {
		t.Errorf("alpha has %v", got)
	}
	if got := toolsOf(beta); !slices.Contains(got, "read_file") || slices.Contains(got, "terminal") || slices.Contains(got, "memory") || slices.Contains(got, "delegate_task") {
		t.Errorf("beta has %v", got)
	}
	if strings.Contains(alpha, `"content":"go"`) {
		t.Error("a subagent sees its parent's conversation")
	}
	store, err := tenant.Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id, err := os.ReadFile(mark)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Get(t.Context(), strings.TrimSpace(string(id)))
	if err != nil || s.Source != "subagent" || s.Parent != turn.Session() || s.Ended.IsZero() || s.Messages < 4 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := store.Delete(t.Context(), turn.Session()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), s.ID); !errors.Is(err, session.ErrNoSession) {
		t.Errorf("the subagent's session outlives its parent's: %v", err)
	}
}

// TestReportB15SubagentsAsk (H#81026): the questions of subagents wait side by side in the turn
// that they work for, each with its id and its subagent, and each answer counts for its own.
func TestReportB15SubagentsAsk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(task string) string { return filepath.Join(dir, task) }
	rt, _, _ := delegating(t, tasks("one", "two", "three"), "approvals: {mode: manual}\n", func(task string, after int, body string) modelserver.Reply {
		if after == 0 {
			return modelserver.Reply{Calls: []modelserver.Call{call("t", "terminal", map[string]any{"command": "rm -rf " + at(task)})}}
		}
		return modelserver.Reply{Text: fmt.Sprint(task, " refused ", strings.Contains(body, "BLOCKED"))}
	})
	for _, task := range []string{"one", "two", "three"} {
		if err := os.Mkdir(at(task), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	tenant, err := rt.Tenant("")
	if err != nil {
		t.Fatal(err)
	}
	turn, err := tenant.Ask(t.Context(), gateway.Ask{Source: "telegram", Input: model.Text(model.User, "go"), Attended: true})
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]gateway.Approval{}
	who := map[string]bool{}
	for feed := turn.Feed(); len(asked) < 3; {
		e, ok, err := feed.Next(t.Context())
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		if e.Kind == gateway.ApprovalAsked {
			asked[e.Approval.Command] = *e.Approval
			who[e.Approval.Subagent] = true
		}
	}
	if waiting := turn.Approvals(); len(waiting) != 3 || len(who) != 3 || who[""] || who[turn.Session()] {
		t.Errorf("waiting %+v, of %v", waiting, who)
	}
	for task, a := range map[string]approval.Answer{"two": approval.Once, "three": approval.Deny, "one": approval.Deny} {
		if err := turn.Answer(asked["rm -rf "+at(task)].ID, a); err != nil {
			t.Errorf("%s: %v", task, err)
		}
	}
	if _, err := turn.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	for task, stays := range map[string]bool{"one": true, "two": false, "three": true} {
		if _, err := os.Stat(at(task)); (err == nil) != stays {
			t.Errorf("%s: %v", task, err)
		}
	}
}

// TestDelegateInterrupt: three of four tasks run; a stop of the turn ends them, and the fourth
// never begins.
func TestDelegateInterrupt(t *testing.T) {
	t.Parallel()
	held := make(chan string, 8)
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	rt, srv, _ := delegating(t, tasks("one", "two", "three", "four"), "", func(task string, _ int, _ string) modelserver.Reply {
		held <- task
		return modelserver.Reply{Text: "x", Hold: never}
	})
	tenant, err := rt.Tenant("")
	if err != nil {
		t.Fatal(err)
	}
	turn, err := tenant.Ask(t.Context(), gateway.Ask{Source: "cli", Input: model.Text(model.User, "go")})
	if err != nil {
		t.Fatal(err)
	}
	for range childrenAtOnce {
		<-held
	}
	if n := len(srv.Requests()); n != 1+childrenAtOnce {
		t.Errorf("%d requests while %d subagents run", n, childrenAtOnce)
	}
	turn.Stop("enough")
	res, err := turn.Result(t.Context())
	if err != nil || res.Stop != agent.Interrupted {
		t.Errorf("%+v, %v", res, err)
	}
	if n := len(srv.Requests()); n != 1+childrenAtOnce {
		t.Errorf("%d requests in all", n)
	}
	store, err := tenant.Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := store.List(t.Context(), session.Filter{Sources: []string{childSource}, Children: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != childrenAtOnce {
		t.Errorf("%d sessions", len(list))
	}
	for _, s := range list {
		if s.Ended.IsZero() {
			t.Errorf("session %s is open", s.ID)
		}
	}
}

// TestDelegateBounds: too many tasks, and tasks of nothing, are refused before anything runs;
// the cap of a turn is counted once.
func TestDelegateBounds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := metrics.New(metrics.Options{Home: dir, Providers: []string{"openai"}})
	w := &work{meter: &meter{store: store}, routes: []model.Route{{Provider: "openai", Model: "gpt-5"}}}
	many := func(n int) (out []delegated) {
		for i := range n {
			out = append(out, delegated{Goal: fmt.Sprint("task ", i)})
		}
		return out
	}
	for _, bad := range [][]delegated{many(childrenACall + 1), {{}}, {{Goal: "a"}, {Goal: " "}}} {
		if err := w.admit(bad, childrenACall); err == nil {
			t.Errorf("%d tasks are admitted", len(bad))
		}
	}
	for range childrenATurn / childrenACall {
		if err := w.admit(many(childrenACall), childrenACall); err != nil {
			t.Error(err)
		}
	}
	for range 3 {
		if err := w.admit(many(1), childrenACall); err == nil {
			t.Error("more than a turn may have")
		}
	}
	if err := store.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows, err := metrics.Read(dir)
	if err != nil || len(rows) != 1 || rows[0].Value != 1 || rows[0].Dims["detector"] != "subagent_cap" {
		t.Errorf("got %v, %v", rows, err)
	}
}
