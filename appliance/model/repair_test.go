// SPDX-License-Identifier: MIT

package model

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

// anyHistory makes a history as crashes, stops and other programs may leave it.
func anyHistory(r *rand.Rand) []Message {
	var out []Message
	ids := []string{"a", "b", "c", "d:e/f", ""}
	for i := range r.IntN(12) {
		switch r.IntN(5) {
		case 0:
			out = append(out, Text(User, []string{"", " ", "hello", "<b>"}[r.IntN(4)]))
		case 1:
			out = append(out, Message{Role: User, Parts: []Part{{Image: &Image{URL: "https://x/y.png"}}}})
		case 2, 3:
			m := Text(Assistant, []string{"", "hm", "\n"}[r.IntN(3)])
			for k := range r.IntN(4) {
				m.Calls = append(m.Calls, Call{ID: fmt.Sprintf("%s%d.%d", ids[r.IntN(5)], i, k), Name: []string{"t", "", "a b/c"}[r.IntN(3)], Args: []string{"", "{", `{"x":1}`, "[]"}[r.IntN(4)]})
			}
			out = append(out, m)
			for _, c := range m.Calls {
				for range r.IntN(3) { // none, one or two results
					out = append(out, Result(c, []string{"", "r"}[r.IntN(2)], r.IntN(2) == 0))
				}
			}
			r.Shuffle(len(out), func(i, j int) {
				if out[i].Role == Tool && out[j].Role == Tool {
					out[i], out[j] = out[j], out[i]
				}
			})
		case 4:
			out = append(out, Result(Call{ID: "nobody's"}, "x", false))
		}
	}
	return out
}

// TestRepairProperty: any history becomes one that strict providers of both wires accept,
// twice repaired is once repaired, and the input is left alone.
func TestRepairProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		history := anyHistory(r)
		before := string(mustJSON(history))
		req := ask("x")
		req.Messages = Repair(append(history, Text(User, "go on")))
		if string(mustJSON(history)) != before {
			t.Fatalf("seed %d: the input changed", seed)
		}
		if diff := cmp.Diff(req.Messages, Repair(req.Messages)); diff != "" {
			t.Fatalf("seed %d: repaired twice differs:\n%s", seed, diff)
		}
		chat, err := chatParams(Route{Model: "m"}, req).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := modelserver.CheckChat(chat); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, chat)
		}
		msgs, err := anthropicParams(Route{Model: "m"}, req).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := modelserver.CheckMessages(msgs); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, msgs)
		}
	}
}

func TestRepairKeepsOrder(t *testing.T) {
	t.Parallel()
	a, b := Call{ID: "a", Name: "t", Args: "{}"}, Call{ID: "b", Name: "t", Args: "{}"}
	good := []Message{
		Text(User, "x"),
		{Role: Assistant, Calls: []Call{a, b}},
		Result(a, "1", false), Result(b, "2", true),
		Text(Assistant, "done"),
	}
	if diff := cmp.Diff(good, Repair(good)); diff != "" {
		t.Errorf("a good history changed:\n%s", diff)
	}
	late := []Message{good[0], good[1], good[3], Text(User, "in between"), good[2], good[4]}
	want := []Message{good[0], good[1], good[2], good[3], Text(User, "in between"), good[4]}
	if diff := cmp.Diff(want, Repair(late)); diff != "" {
		t.Error(diff)
	}
	cut := []Message{good[0], good[1], good[2]}
	if got := Repair(cut); len(got) != 4 || got[3].CallID != "b" || !got[3].Failed || got[3].Text() != InterruptedText {
		t.Errorf("got %+v", got)
	}
	if !json.Valid([]byte(InterruptedText)) {
		t.Error("the interrupted result is no JSON")
	}
}

// TestThinkingNeedsItsThought: switching thinking on in the middle of a tool loop that
// another model began would be refused.
func TestThinkingNeedsItsThought(t *testing.T) {
	t.Parallel()
	req := ask("x")
	req.Effort = "high"
	c := Call{ID: "a", Name: "t", Args: "{}"}
	if p := anthropicParams(Route{Model: "m"}, req); p.Thinking.OfEnabled == nil || p.MaxTokens <= p.Thinking.OfEnabled.BudgetTokens {
		t.Errorf("%+v", p)
	}
	req.Messages = append(req.Messages, Message{Role: Assistant, Calls: []Call{c}}, Result(c, "r", false))
	if p := anthropicParams(Route{Model: "m"}, req); p.Thinking.OfEnabled != nil {
		t.Errorf("%+v", p.Thinking)
	}
}
