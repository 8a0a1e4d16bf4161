// SPDX-License-Identifier: MIT

package model

import (
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

// TestWrongUsage: whatever a provider says of tokens, the books stay sane.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for name, usage := range map[string]string{
		"none":     "none",
		"null":     `{"prompt_tokens":null,"completion_tokens":null,"input_tokens":null}`,
		"zero":     `{"prompt_tokens":0,"completion_tokens":0,"input_tokens":0,"output_tokens":0}`,
		"negative": `{"prompt_tokens":-5,"completion_tokens":-5,"input_tokens":-5,"output_tokens":-5}`,
		"absurd":   `{"prompt_tokens":9e14,"completion_tokens":9e14,"input_tokens":9e14,"output_tokens":9e14}`,
		"strings":  `{"prompt_tokens":"12","completion_tokens":"x","input_tokens":"12"}`,
		"list":     `[1,2]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWire(t, func(t *testing.T, mode APIMode) {
				s := modelserver.New(t, modelserver.Reply{Text: "some words of an answer", Usage: usage})
				a, err := newClient(t).Stream(t.Context(), routeTo(s, mode), ask("x"), nil)
				if err != nil {
					t.Fatal(err)
				}
				if u := a.Usage; !u.Estimated || u.Input <= 0 || u.Input > 1000 || u.Output <= 0 || u.Output > 1000 {
					t.Errorf("%+v", u)
				}
			})
		})
	}
}

func TestUsageParts(t *testing.T) {
	t.Parallel()
	var u Usage
	// Running totals in each event; the last one counts.
	readChat(&u, []byte(`{"prompt_tokens":10,"completion_tokens":1}`))
	readChat(&u, []byte(`{"prompt_tokens":10,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":99},"completion_tokens_details":{"reasoning_tokens":3}}`))
	readChat(&u, nil)
	got := u.plausible(Request{}, Text(Assistant, "x"))
	if want := (Usage{Input: 10, Output: 7, CacheRead: 10, Reasoning: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if sum := got.Add(Usage{Input: 1, Estimated: true}); sum.Input != 11 || !sum.Estimated {
		t.Errorf("%+v", sum)
	}
}
