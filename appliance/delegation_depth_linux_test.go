// SPDX-License-Identifier: MIT

package appliance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

// TestDelegationDepth: an orchestrator has subagents of its own as deep as max_spawn_depth says
// and no deeper, has no tool that its parent has not, and all draw on the turn's one budget.
func TestDelegationDepth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, settings string
		want           []string // whose tools hold delegate_task
		roles          []string // whose schema of it has a role
	}{
		{"unset", "", []string{"root"}, nil},
		{"two", "delegation: {max_spawn_depth: 2}\n", []string{"boss", "root"}, []string{"root"}},
		{"three", "delegation: {max_spawn_depth: 3}\n", []string{"boss", "clerk", "root"}, []string{"boss", "root"}},
		{"off", "delegation: {max_spawn_depth: 3, orchestrator_enabled: false}\n", []string{"root"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			next := map[string]string{"root": "boss", "boss": "clerk", "clerk": "temp", "temp": "nobody"}
			var mu sync.Mutex
			offered := map[string][]string{}
			roles := map[string]bool{}
			srv := modelserver.NewFunc(t, func(r modelserver.Request) modelserver.Reply {
				body, who := string(r.Body), "root"
				if m := taskText.FindStringSubmatch(body); m != nil {
					who = m[1]
				}
				got := toolsOf(body)
				mu.Lock()
				offered[who], roles[who] = got, strings.Contains(body, `"enum":["leaf","orchestrator"]`)
				mu.Unlock()
				if strings.Contains(body, `"role":"tool"`) || !slices.Contains(got, "delegate_task") {
					return modelserver.Reply{Text: who + " is done"}
				}
				task := map[string]any{"goal": next[who], "role": "orchestrator"}
				if who == "boss" {
					task["toolsets"] = []any{"web"} // and its subagents have no more than that
				}
				if who == "clerk" {
					task["toolsets"] = []any{"file"}
				}
				return modelserver.Reply{Calls: []modelserver.Call{call("d", "delegate_task", task)}}
			})
			e, _, log := world(t, map[string]string{
				"home/config.yaml": "_config_version: 50\nmodel: {provider: custom, default: scripted, base_url: " + srv.URL + "/v1}\n" + c.settings,
			})
			if got := turnOf(t, runtimeOf(t, e, log), "", "go"); got != "root is done" {
				t.Fatal(got)
			}
			var may, withRole []string
			for who, tools := range offered {
				if slices.Contains(tools, "delegate_task") {
					may = append(may, who)
				}
				if roles[who] {
					withRole = append(withRole, who)
				}
				if who != "root" && (slices.Contains(tools, "memory") || slices.Contains(tools, "clarify")) {
					t.Errorf("%s has %v", who, tools)
				}
			}
			slices.Sort(may)
			slices.Sort(withRole)
			if !slices.Equal(may, c.want) || !slices.Equal(withRole, c.roles) {
				t.Errorf("delegate_task: %v, want %v; role: %v, want %v", may, c.want, withRole, c.roles)
			}
			if tools, ok := offered["clerk"]; ok && !slices.Contains(tools, "web_extract") || slices.Contains(tools, "read_file") {
				t.Errorf("clerk has %v", tools)
			}
			if tools := offered["temp"]; slices.Contains(tools, "read_file") {
				t.Errorf("temp has what clerk has not: %v", tools)
			}
		})
	}
}

// TestDelegationBudget: subagents of subagents count for the turn.
func TestDelegationBudget(t *testing.T) {
	t.Parallel()
	w := &work{parent: &work{parent: &work{}}, routes: []model.Route{{}}}
	w.root().children.Store(childrenATurn - 1)
	if err := w.admit([]delegated{{Goal: "one"}}, 10); err != nil {
		t.Error(err)
	}
	if w.depth() != 2 {
		t.Errorf("depth %d", w.depth())
	}
	if err := w.admit([]delegated{{Goal: "two"}}, 10); err == nil || !strings.Contains(err.Error(), fmt.Sprint(childrenATurn)) {
		t.Errorf("one more than %d: %v", childrenATurn, err)
	}
}
