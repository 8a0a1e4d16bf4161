// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/tool"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

// TestDelegationSettings: what delegation.* says of a subagent's models, of how many run and for
// how long.
func TestDelegationSettings(t *testing.T) {
	t.Parallel()
	held := make(chan string, 8)
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	var mu sync.Mutex
	asked := map[string]int{}
	own := modelserver.NewFunc(t, func(r modelserver.Request) modelserver.Reply {
		body := string(r.Body)
		task := taskText.FindStringSubmatch(body)[1]
		mu.Lock()
		asked[task]++
		n := asked[task]
		mu.Unlock()
		switch {
		case !strings.Contains(body, `"model":"small"`):
			t.Errorf("the model asked for: %s", body)
		case task == "fails":
			return modelserver.Reply{Status: 400, Body: `{"error":{"message":"no"}}`}
		case task == "loops" && !strings.Contains(body, "no more calls are allowed"):
			return modelserver.Reply{Calls: []modelserver.Call{call(fmt.Sprint("c", n), "todo_list", map[string]any{"todos": []any{map[string]any{"id": fmt.Sprint(n), "content": "x", "status": "pending"}}})}}
		case task == "loops":
			return modelserver.Reply{Text: "stopped"}
		}
		held <- task
		return modelserver.Reply{Text: "done by small", Hold: gate}
	})
	rt, srv, _ := delegating(t, tasks("one", "two", "fails", "loops"), "delegation: {provider: little, model: small, max_concurrent_children: 4, max_iterations: 2, fallback_providers: []}\n"+
		"providers: {little: {base_url: "+own.URL+"/v1}}\n", func(task string, _ int, _ string) modelserver.Reply {
		t.Errorf("the parent's model works on %s", task)
		return modelserver.Reply{Text: "x"}
	})
	tenant, err := rt.Tenant("")
	if err != nil {
		t.Fatal(err)
	}
	turn, err := tenant.Ask(t.Context(), gateway.Ask{Source: "cli", Input: model.Text(model.User, "go")})
	if err != nil {
		t.Fatal(err)
	}
	ended := map[string]gateway.Subagent{}
	began := map[string]int{}
	tools := 0
	waiting := 0
	for feed := turn.Feed(); ; {
		e, ok, err := feed.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		switch e.Kind {
		case gateway.SubagentStarted:
			if began[e.Subagent.Goal]++; len(began) == 4 && waiting == 0 { // all four at once
				for ; waiting < 2; waiting++ {
					<-held
				}
				open()
			}
		case gateway.SubagentTool:
			if tools++; e.Call.Name != "todo_list" || e.Subagent.Goal != "loops" {
				t.Errorf("%+v of %+v", e.Call, e.Subagent)
			}
		case gateway.SubagentEnded:
			ended[e.Subagent.Goal] = *e.Subagent
		}
	}
	if res, err := turn.Result(t.Context()); err != nil || res.Text != "all done" || len(srv.Requests()) != 2 {
		t.Errorf("%+v, %v, %d requests to the parent's model", res, err, len(srv.Requests()))
	}
	for goal, want := range map[string]string{"one": "answered", "two": "answered", "fails": "failed", "loops": "step_limit"} {
		if ended[goal].Status != want || ended[goal].Session == "" {
			t.Errorf("%s: %+v, want %s", goal, ended[goal], want)
		}
	}
	if tools != 2 || ended["loops"].Steps != 3 {
		t.Errorf("%d tools, %+v", tools, ended["loops"])
	}
}

// TestDelegationBroken: settings that make no sense are an error of the one tool, with what to do.
func TestDelegationBroken(t *testing.T) {
	t.Parallel()
	for _, section := range []string{"{provider: nonesuch, model: x}", "{max_iterations: many}", "{fallback_providers: [5]}", "{subagent_auto_approve: perhaps}"} {
		rt, srv, _ := delegating(t, tasks("one"), "delegation: "+section+"\n", func(string, int, string) modelserver.Reply {
			t.Errorf("%s: a subagent runs", section)
			return modelserver.Reply{Text: "x"}
		})
		if got := turnOf(t, rt, "", "go"); got != "all done" {
			t.Errorf("%s: %s", section, got)
		}
		all := srv.Requests()
		if last := string(all[len(all)-1].Body); !strings.Contains(last, "delegation") || !strings.Contains(last, "error") {
			t.Errorf("%s: nothing says what is wrong: %s", section, last)
		}
	}
}

// TestDelegationAutoApprove: subagent_auto_approve counts where nobody can be asked, and lifts no
// deny rule.
func TestDelegationAutoApprove(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		dir := t.TempDir()
		testkit.WriteTree(t, dir, map[string]string{"danger/x": "1", "denied/x": "1"})
		rt, _, _ := delegating(t, tasks("danger", "denied"), fmt.Sprintf("delegation: {subagent_auto_approve: %v}\napprovals: {mode: manual, deny: ['*denied*']}\n", on), func(task string, after int, _ string) modelserver.Reply {
			if after == 0 {
				return modelserver.Reply{Calls: []modelserver.Call{call("t", "terminal", map[string]any{"command": "rm -rf " + filepath.Join(dir, task)})}}
			}
			return modelserver.Reply{Text: "x"}
		})
		turnOf(t, rt, "", "go")
		left := testkit.ReadTree(t, dir)
		if _, ok := left["danger/x"]; ok == on {
			t.Errorf("%v: left %v", on, left)
		}
		if left["denied/x"] == "" {
			t.Errorf("%v: what is denied ran", on)
		}
	}
}

// TestDelegationMCP: a subagent that is narrowed keeps its parent's MCP tools, unless told not to,
// and never gets one that its parent has not.
func TestDelegationMCP(t *testing.T) {
	t.Parallel()
	r := tool.NewRegistry(slog.New(slog.DiscardHandler), func(s string) string { return s }, nil)
	for name, set := range map[string]string{"read_file": "file", "terminal": "terminal", "mcp__x__look": "mcp-x", "mcp__y__look": "mcp-y"} {
		err := r.Add(tool.Tool{
			Name: name, Toolset: set, Description: "d", Schema: tool.Schema{"type": "object", "properties": map[string]any{}},
			Run: func(context.Context, tool.Args) (any, error) { return nil, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for keep, want := range map[bool][]string{true: {"mcp__x__look", "read_file"}, false: {"read_file"}} {
		w := &work{parent: &work{}, only: []string{"file", tool.NoMCP}, keepMCP: keep}
		offer := w.forChild(r, tool.Offer{Platform: "cli", Disabled: []string{"mcp__y__look"}})
		var got []string
		for _, one := range r.Select(offer).Tools() {
			got = append(got, one.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("keep %v: %v, want %v", keep, got, want)
		}
	}
}
