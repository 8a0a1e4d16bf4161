// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

// TestLoopGuard gives each kind of loop its own way of being endless.
func TestLoopGuard(t *testing.T) {
	t.Parallel()
	bad := func(context.Context, json.RawMessage) Output { return Output{Text: `{"error":"no"}`, Failed: true} }
	fixed := func(args ...string) func(int) string {
		return func(i int) string { return args[i%len(args)] }
	}
	counting := func(i int) string { return fmt.Sprintf(`{"i":%d}`, i) }
	tests := []struct {
		name, tool string
		args       func(i int) string
		traits     Traits
		bad        bool
		detector   string
		rounds     int // calls until the turn is stopped; 0 = it is not
	}{
		{"same failure", "bad", fixed(`{"a":1,"b":2}`, `{"b":2, "a":1}`), Traits{Tolerant: true}, true, "exact_failure", 5},
		{"any failure of a tool", "bad", counting, Traits{}, true, "same_tool_failure", 8},
		{"failing is its work", "bad", counting, Traits{Tolerant: true}, true, "", 0},
		{"reading the same", "good", fixed(`{}`), Traits{ReadOnly: true}, false, "idempotent_no_progress", 5},
		{"doing the same", "good", fixed(`{}`), Traits{}, false, "identical_call_streak", 5},
		{"a cycle of two", "good", fixed(`{"a":1}`, `{"a":2}`), Traits{}, false, "identical_cycle", 10},
		{"a cycle of four", "good", fixed(`{"a":1}`, `{"a":2}`, `{"a":3}`, `{"a":4}`), Traits{}, false, "identical_cycle", 20},
		{"polling", "good", fixed(`{}`), Traits{Polls: true}, false, "", 0},
		{"always something new", "good", counting, Traits{ReadOnly: true}, false, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := 0
			s := modelserver.NewFunc(t, func(r modelserver.Request) modelserver.Reply {
				if strings.Contains(string(r.Body), `"tool_choice":"none"`) {
					return say("I give up.")
				}
				n++
				return does(call(fmt.Sprint("c", n), tt.tool, tt.args(n-1)))
			})
			d := newDesk(t, route(s, model.ChatCompletions, "p"))
			d.MaxSteps = 30
			d.Tools = &box{tools: map[string]func(context.Context, json.RawMessage) Output{"bad": bad, "good": ok("x")}, traits: map[string]Traits{tt.tool: tt.traits}}
			res, err := d.run(t.Context(), t, "x", nil)
			if err != nil || res.Text != "I give up." {
				t.Fatalf("%+v, %v", res, err)
			}
			want := StepLimit
			if tt.rounds > 0 {
				want = Looping
			}
			if res.Stop != want || tt.rounds > 0 && n != tt.rounds {
				t.Errorf("stopped by %s after %d calls, want %s after %d", res.Stop, n, want, tt.rounds)
			}
			row := "loop_guard.count detector=" + tt.detector + " signal=loop_detected"
			if tt.rounds > 0 && !slices.Contains(d.meter.rows, row) {
				t.Errorf("not counted: %s in %v", row, d.meter.rows)
			}
			if tt.rounds > 0 && !strings.Contains(string(d.store.rows[2*tt.rounds-2]), "[") {
				t.Errorf("no warning came before: %s", d.store.rows[2*tt.rounds-2])
			}
		})
	}
}

func TestGuardWarnOnly(t *testing.T) {
	t.Parallel()
	n := 0
	s := modelserver.NewFunc(t, func(modelserver.Request) modelserver.Reply {
		if n++; n == 20 {
			return say("ok")
		}
		return does(call("c", "look", "{}"))
	})
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	d.Guard.WarnOnly = true
	if res, err := d.run(t.Context(), t, "x", nil); err != nil || res.Stop != Answered {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestProgressForgives: after a change, a call that failed may be tried again.
func TestProgressForgives(t *testing.T) {
	t.Parallel()
	g := newGuard(Guard{})
	g.defaults()
	test, edit := model.Call{Name: "terminal", Args: `{"command":"go test"}`}, model.Call{Name: "write_file", Args: "{}"}
	for i := range 20 {
		if v := g.after(test, Traits{Tolerant: true}, Output{Text: fmt.Sprint("fail ", i), Failed: true}); v.halt != "" {
			t.Fatalf("round %d: %+v", i, v)
		}
		g.after(edit, Traits{}, Output{Text: fmt.Sprint(i)})
	}
}

func TestRecoveryCounter(t *testing.T) {
	t.Parallel()
	s := modelserver.New(t, does(call("a", "bad", "{}")), does(call("b", "look", "{}"), call("c", "bad", `{"x":1}`)), does(call("d", "bad", `{"x":2}`)), say("ok"))
	d := newDesk(t, route(s, model.ChatCompletions, "p"))
	n := 0
	d.Tools.(*box).tools["bad"] = func(context.Context, json.RawMessage) Output {
		n++
		return Output{Text: "x", Failed: n < 3}
	}
	if _, err := d.run(t.Context(), t, "x", nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"tool_recovery.count next_outcome=error next_tool=same tool=bad",
		"tool_recovery.count next_outcome=success next_tool=same tool=bad",
	} {
		if !slices.Contains(d.meter.rows, want) {
			t.Errorf("%s is missing in %v", want, d.meter.rows)
		}
	}
}
