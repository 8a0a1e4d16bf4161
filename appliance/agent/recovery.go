// SPDX-License-Identifier: MIT

package agent

import (
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// recovery counts what a model does after a failed call: one row for each, resolved against
// the calls of its next message, or the end of the turn.
type recovery struct {
	open    []string   // tools that failed in the last round
	next    []nextCall // of the round that is running
	waiting []string   // failures of the round before that one
}

type nextCall struct {
	tool   string
	failed bool
}

const recoveryCounter = "hermes.tool_recovery.count"

// result notes how a call ended.
func (r *recovery) result(c model.Call, failed bool) {
	r.next = append(r.next, nextCall{c.Name, failed})
	if failed {
		r.open = append(r.open, c.Name)
	}
}

// round begins with a message of the model.
func (r *recovery) round(t *turn, calls []model.Call) {
	r.resolve(t)
	r.waiting, r.open, r.next = r.open, nil, nil
	if len(calls) > 0 {
		return
	}
	for _, tool := range r.waiting {
		t.count(recoveryCounter, "tool", tool, "next_tool", "none", "next_outcome", "no_tool_call")
	}
	r.waiting = nil
}

// resolve answers the failures that waited for the round that has just ended: by a call of
// the same tool, else by the first.
func (r *recovery) resolve(t *turn) {
	for _, tool := range r.waiting {
		pick := nextCall{}
		for i, n := range r.next {
			if i == 0 || n.tool == tool && pick.tool != tool {
				pick = n
			}
		}
		next, outcome := "different", "success"
		if pick.tool == tool {
			next = "same"
		}
		switch {
		case pick.tool == "":
			next, outcome = "none", "gave_up"
		case pick.failed:
			outcome = "error"
		}
		t.count(recoveryCounter, "tool", tool, "next_tool", next, "next_outcome", outcome)
	}
	r.waiting = nil
}

// end resolves what is open when the turn ends.
func (r *recovery) end(t *turn) {
	r.resolve(t)
	for _, tool := range r.open {
		t.count(recoveryCounter, "tool", tool, "next_tool", "none", "next_outcome", "gave_up")
	}
	r.open = nil
}
