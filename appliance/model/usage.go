// SPDX-License-Identifier: MIT

package model

import (
	"encoding/json"
	"math"
)

// Usage counts the tokens of a call, or of many.
type Usage struct {
	Input      int64 `json:"input"`       // the whole prompt, cached or not
	Output     int64 `json:"output"`      // the answer with its reasoning
	CacheRead  int64 `json:"cache_read"`  // of Input: read from the provider's cache
	CacheWrite int64 `json:"cache_write"` // of Input: written to it
	Reasoning  int64 `json:"reasoning"`   // of Output
	// Estimated says that the provider sent no usage, or numbers that cannot be, and that
	// Input or Output was guessed from the length of the text.
	Estimated bool `json:"estimated,omitempty"`
}

// Add returns the sum.
func (u Usage) Add(o Usage) Usage {
	return Usage{
		Input: u.Input + o.Input, Output: u.Output + o.Output, CacheRead: u.CacheRead + o.CacheRead,
		CacheWrite: u.CacheWrite + o.CacheWrite, Reasoning: u.Reasoning + o.Reasoning,
		Estimated: u.Estimated || o.Estimated,
	}
}

// numbers are the fields of a usage object, at any depth of one: names do not repeat.
type numbers map[string]int64

func readNumbers(raw json.RawMessage) numbers {
	var v map[string]any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil || v == nil {
		return nil
	}
	n := numbers{}
	n.walk(v)
	return n
}

func (n numbers) walk(v map[string]any) {
	for name, x := range v {
		switch x := x.(type) {
		case float64:
			if math.Abs(x) < 1e15 {
				n[name] = int64(x)
			}
		case map[string]any:
			n.walk(x)
		}
	}
}

// set takes the first name that is there. Several reports of one call are running totals:
// the last one counts, and one that lacks a number does not erase it.
func (n numbers) set(to *int64, names ...string) {
	for _, name := range names {
		if v, ok := n[name]; ok {
			*to = v
			return
		}
	}
}

func readChat(u *Usage, raw json.RawMessage) {
	n := readNumbers(raw)
	n.set(&u.Input, "prompt_tokens", "input_tokens")
	n.set(&u.Output, "completion_tokens", "output_tokens")
	n.set(&u.CacheRead, "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
	n.set(&u.Reasoning, "reasoning_tokens")
}

// anthropicUsage keeps the parts that make up Input until the end.
type anthropicUsage struct{ fresh, output, read, write int64 }

func (a *anthropicUsage) add(raw json.RawMessage) {
	n := readNumbers(raw)
	n.set(&a.fresh, "input_tokens")
	n.set(&a.output, "output_tokens")
	n.set(&a.read, "cache_read_input_tokens")
	n.set(&a.write, "cache_creation_input_tokens")
}

func (a *anthropicUsage) usage() Usage {
	return Usage{Input: a.fresh + a.read + a.write, Output: a.output, CacheRead: a.read, CacheWrite: a.write}
}

// maxTokens is more than any model takes or gives in one call.
const maxTokens = 100_000_000

// plausible replaces numbers that cannot be by estimates.
func (u Usage) plausible(req Request, m Message) Usage {
	if u.Input <= 0 || u.Input > maxTokens {
		u.Input, u.Estimated = EstimateRequest(req), true
	}
	if said := Estimate(m); u.Output < 0 || u.Output > maxTokens || u.Output == 0 && said > 0 {
		u.Output, u.Estimated = said, true
	}
	part := func(n, of int64) int64 { return max(0, min(n, of)) }
	u.CacheRead = part(u.CacheRead, u.Input)
	u.CacheWrite = part(u.CacheWrite, u.Input-u.CacheRead)
	u.Reasoning = part(u.Reasoning, u.Output)
	return u
}

// perImage is about what providers charge for a picture.
const perImage = 1500

// Estimate guesses the tokens of a message: four bytes of text are about one.
func Estimate(m Message) int64 {
	n, images := len(m.Reasoning), int64(0)
	for _, p := range m.Parts {
		n += len(p.Text)
		if p.Image != nil {
			images++
		}
	}
	for _, c := range m.Calls {
		n += len(c.Name) + len(c.Args)
	}
	return int64(n+3)/4 + images*perImage
}

// EstimateRequest guesses the tokens of a prompt.
func EstimateRequest(req Request) int64 {
	n := len(req.System)
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	total := int64(n+3) / 4
	for _, m := range req.Messages {
		total += Estimate(m) + 4
	}
	return max(total, 1)
}
