// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

// anyReply is an answer, or a mishap.
func anyReply(r *rand.Rand, n int) modelserver.Reply {
	names := []string{"echo", "look", "boom", "wait", "stop", "nothing", "big"}
	args := []string{`{}`, `{"x":1}`, `{"x":`, ``, `[]`, `{"y":"<é>"}`}
	reply := modelserver.Reply{Text: []string{"", "some words of text", "one"}[r.IntN(3)], Reasoning: []string{"", "", "deep thought"}[r.IntN(3)]}
	if r.IntN(3) > 0 {
		for i := range 1 + r.IntN(4) {
			id := fmt.Sprintf("call_%d_%d", n, i)
			if r.IntN(4) == 0 {
				id = []string{"", "same", "x:y/z"}[r.IntN(3)]
			}
			reply.Calls = append(reply.Calls, call(id, names[r.IntN(len(names))], args[r.IntN(len(args))]))
		}
	}
	switch r.IntN(12) {
	case 0:
		return fails(500, "<html>")
	case 1:
		return modelserver.Reply{Status: 429, Body: "{}", Header: map[string]string{"Retry-After": "1"}}
	case 2:
		return fails(400, `{"error":{"message":"prompt is too long: 2 > 1","code":"context_length_exceeded"}}`)
	case 3:
		reply.CutAfter, reply.CutHalf = 1+r.IntN(6), r.IntN(2) == 0
	case 4:
		reply.EndAfter = 1 + r.IntN(6)
	case 5:
		reply.Usage = []string{"none", `{"prompt_tokens":-1,"input_tokens":-1}`}[r.IntN(2)]
	case 6:
		reply.Finish = []string{"length", "max_tokens"}[r.IntN(2)]
	}
	return reply
}

// TestHistoryProperty: for any script of the model, any interrupts, steering and crashes, the
// record is well formed after each turn, and strict providers of both wires accept it.
func TestHistoryProperty(t *testing.T) {
	t.Parallel()
	check := map[model.APIMode]*modelserver.Server{}
	for _, mode := range []model.APIMode{model.ChatCompletions, model.AnthropicMessages} {
		check[mode] = modelserver.NewFunc(t, func(modelserver.Request) modelserver.Reply { return say("ok") })
	}
	for seed := range uint64(150) {
		propertySession(t, seed, check)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func propertySession(t *testing.T, seed uint64, check map[model.APIMode]*modelserver.Server) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	var mu sync.Mutex // the server asks on its own goroutines
	n := 0
	s := modelserver.NewFunc(t, func(modelserver.Request) modelserver.Reply {
		mu.Lock()
		defer mu.Unlock()
		if n++; n > 25 {
			return say("the end")
		}
		return anyReply(r, n)
	})
	modes := []model.APIMode{model.ChatCompletions, model.AnthropicMessages}
	d := newDesk(t, route(s, modes[seed%2], "one"), route(s, modes[seed/2%2], "two"))
	d.MaxSteps, d.SpillOver = 8, 5000
	d.Compression.Keep = 50
	var control atomic.Pointer[Control] // a tool that was left alone may still look at it in the next turn
	b := d.Tools.(*box)
	b.tools["boom"] = func(context.Context, json.RawMessage) Output { panic("bang") }
	b.tools["wait"] = func(ctx context.Context, _ json.RawMessage) Output {
		control.Load().Steer("hurry")
		return Output{Text: "waited", Failed: ctx.Err() != nil}
	}
	b.tools["stop"] = func(ctx context.Context, _ json.RawMessage) Output {
		control.Load().Interrupt("the tool says so")
		<-ctx.Done()
		return Output{Text: `{"error":"stopped"}`, Failed: true}
	}
	b.tools["big"] = ok(strings.Repeat("line\n", 3000))
	b.traits["wait"], b.traits["stop"] = Traits{Parallel: true}, Traits{Parallel: true}
	a, err := New(d.Options)
	if err != nil {
		t.Fatal(err)
	}
	current := d.store
	for range 3 {
		mine := &Control{}
		control.Store(mine)
		interruptAt, seen := r.IntN(60), 0
		d.log = &events{}
		res, err := a.Run(t.Context(), current, model.Text(model.User, "next"), mine, func(e Event) {
			d.log.add(e)
			if seen++; seen == interruptAt {
				mine.Interrupt("enough")
			}
		})
		current = res.Session.(*store)
		if e := wellFormed(current.messages()); e != nil {
			t.Errorf("seed %d: %v", seed, e)
		}
		if ends := d.log.count(Final) + d.log.count(Stopped) + d.log.count(Failed); ends != 1 || (err != nil) != (res.Stop == Errored) {
			t.Errorf("seed %d: %d ends, stop %s, error %v", seed, ends, res.Stop, err)
		}
		if res.Stop == Answered && res.Text == "" {
			t.Errorf("seed %d: an empty answer", seed)
		}
		if r.IntN(3) == 0 && len(current.rows) > 0 { // a crash: the last rows were never written
			current.rows = current.rows[:r.IntN(len(current.rows))]
		}
	}
	for mode, s := range check {
		req := model.Request{System: "s", Messages: append(current.messages(), model.Text(model.User, "go on")), Tools: a.o.Tools.Specs()}
		if _, err := d.Model.Stream(t.Context(), route(s, mode, "one"), req, nil); err != nil {
			t.Errorf("seed %d: %s: %v", seed, mode, err)
		}
	}
}

// TestNothingIsLeftRunning looks for goroutines of ours after turns that were stopped in
// every way. It runs alone.
func TestNothingIsLeftRunning(t *testing.T) { //nolint:paralleltest // it counts goroutines
	held := make(chan struct{})
	never := make(chan struct{})
	for name, script := range map[string][]modelserver.Reply{
		"answer":    {does(call("a", "look", "{}"), call("b", "look", "{}")), say("ok")},
		"cut":       {{Text: "a b c", CutAfter: 2}, say("ok")},
		"stopped":   {does(call("a", "stop", "{}"), call("b", "stop", "{}"), call("c", "look", "{}"))},
		"streaming": {{Text: "a b c d e", Hold: never, Held: held, HoldAfter: 6}},
	} {
		s := modelserver.New(t, script...)
		d := newDesk(t, route(s, model.ChatCompletions, "p"))
		control := &Control{}
		b := d.Tools.(*box)
		b.tools["stop"] = func(ctx context.Context, _ json.RawMessage) Output {
			control.Interrupt("now")
			<-ctx.Done()
			return Output{Text: "x"}
		}
		b.traits["stop"] = Traits{Parallel: true}
		if name == "streaming" {
			go func() {
				<-held
				control.Interrupt("now")
			}()
		}
		if _, err := d.run(t.Context(), t, "x", control); err != nil {
			t.Fatal(err)
		}
		d.Model.(*model.Client).Close()
		if left := ours(); left != "" {
			t.Errorf("%s: still running:\n%s", name, left)
		}
	}
}

// ours returns the stacks of goroutines that run code of the agent or the model. What has
// given its result may need a moment to end.
func ours() string {
	var left []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		left = slices.DeleteFunc(strings.Split(string(buf), "\n\n"), func(g string) bool {
			return strings.Contains(g, "testing.tRunner") || !strings.Contains(g, "appliance/agent.") && !strings.Contains(g, "appliance/model.")
		})
		if len(left) == 0 {
			return ""
		}
	}
	return strings.Join(left, "\n\n")
}
