// SPDX-License-Identifier: MIT

package model

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// InterruptedText is the result of a call whose real result is unknown: the turn was stopped,
// or the program ended, before it was there.
const InterruptedText = `{"error": "interrupted: the call was stopped before its result was there; it may have had effects"}`

// Interrupted makes the result of a call that was stopped.
func Interrupted(c Call) Message { return Result(c, InterruptedText, true) }

// Repair returns a history that every provider accepts: each call is followed by exactly one
// result, in the order of the calls; no two calls have the same id; results that answer no
// call are left out, as are messages without content; and messages of the user that follow
// each other become one. A history that is in order comes back as it is, with the same
// contents.
//
// Repair never changes the messages it is given, and depends on nothing else: the same
// history gives the same result, and a longer one the same beginning.
func Repair(history []Message) []Message {
	out := make([]Message, 0, len(history))
	used := map[string]bool{"": true}
	for i, m := range history {
		switch m.Role {
		case Assistant:
			if len(m.Calls) == 0 && m.Text() == "" {
				continue // a thought without an answer
			}
			answers := results(m.Calls, history[i+1:])
			m.Calls = distinct(m.Calls, answers, used)
			out = append(append(out, m), answers...)
		case User:
			out = appendUser(out, m)
		case Tool: // taken with the message that asked for it, or nobody's
		}
	}
	return out
}

// results finds the answers to calls among the messages up to the next one of the assistant.
func results(calls []Call, rest []Message) []Message {
	if len(calls) == 0 {
		return nil
	}
	var given []Message
	for _, m := range rest {
		if m.Role == Assistant {
			break
		}
		if m.Role == Tool {
			given = append(given, m)
		}
	}
	out := make([]Message, 0, len(calls))
	for _, c := range calls {
		m := Interrupted(c)
		if i := slices.IndexFunc(given, func(m Message) bool { return m.CallID == c.ID }); i >= 0 {
			m = given[i]
			given = slices.Delete(given, i, i+1)
		}
		if len(m.Parts) == 0 {
			m.Parts = []Part{{Text: "{}"}}
		}
		out = append(out, m)
	}
	return out
}

// distinct renames calls whose ids were used before, and their answers.
func distinct(calls []Call, answers []Message, used map[string]bool) []Call {
	copied := false
	for i, c := range calls {
		id := c.ID
		for n := 2; used[id]; n++ {
			id = fmt.Sprintf("%s_%d", cmp.Or(c.ID, "call"), n)
		}
		used[id] = true
		if id == c.ID {
			continue
		}
		if !copied {
			calls, copied = slices.Clone(calls), true
		}
		calls[i].ID, answers[i].CallID = id, id
	}
	return calls
}

func appendUser(out []Message, m Message) []Message {
	var parts []Part
	for _, p := range m.Parts {
		if p.Text != "" || p.Image != nil {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return out
	}
	if n := len(out) - 1; n >= 0 && out[n].Role == User {
		both := make([]Part, 0, len(out[n].Parts)+len(parts))
		out[n].Parts = append(append(both, out[n].Parts...), parts...)
		return out
	}
	m.Parts = parts
	return append(out, m)
}

// unique gives every call an id that no other call of the history has. Servers exist that
// send none, or count from zero in each answer. The new ids follow from the place in the
// history alone.
func unique(calls []Call, history []Message) {
	used := map[string]bool{"": true}
	for _, m := range history {
		for _, c := range m.Calls {
			used[c.ID] = true
		}
	}
	for i := range calls {
		id := calls[i].ID
		for n := 0; used[id]; n++ {
			sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%d\x00%d\x00%s", len(history), i, n, calls[i].ID))
			id = "call_" + hex.EncodeToString(sum[:12])
		}
		calls[i].ID = id
		used[id] = true
	}
}
