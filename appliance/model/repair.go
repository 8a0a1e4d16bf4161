// SPDX-License-Identifier: MIT

package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// InterruptedText is the result of a call whose real result is unknown: the turn was stopped,
// or the program ended, before it was there.
const InterruptedText = `{"error": "interrupted: the call was stopped before its result was there; it may have had effects"}`

// Interrupted makes the result of a call that was stopped.
func Interrupted(c Call) Message { return Result(c, InterruptedText, true) }

// Repair returns a history that every provider accepts: each call is followed by exactly one
// result, in the order of the calls; results that answer no call are left out, as are
// messages without content; and messages of the user that follow each other become one. A
// history that is in order comes back as it is, with the same contents.
//
// Repair never changes the messages it is given, and depends on nothing else: the same
// history gives the same result.
func Repair(history []Message) []Message {
	out := make([]Message, 0, len(history))
	for i := 0; i < len(history); i++ {
		switch m := history[i]; m.Role {
		case Assistant:
			if len(m.Calls) == 0 && m.Text() == "" {
				continue // a thought without an answer
			}
			out = append(out, m)
			out = append(out, results(m.Calls, history[i+1:])...)
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
	found := make(map[string]Message, len(calls))
	for _, m := range rest {
		if m.Role == Assistant {
			break
		}
		if _, twice := found[m.CallID]; m.Role == Tool && !twice {
			found[m.CallID] = m
		}
	}
	out := make([]Message, 0, len(calls))
	for _, c := range calls {
		m, ok := found[c.ID]
		if !ok {
			m = Interrupted(c)
		} else if len(m.Parts) == 0 {
			m.Parts = []Part{{Text: "{}"}}
		}
		out = append(out, m)
	}
	return out
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
