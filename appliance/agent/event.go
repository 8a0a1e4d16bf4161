// SPDX-License-Identifier: MIT

package agent

import (
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// EventKind says what an [Event] is.
type EventKind string

// The kinds of events. A turn ends with exactly one of Final, Stopped and Failed.
const (
	TextDelta      EventKind = "text"      // Text: a piece of the answer
	ReasoningDelta EventKind = "reasoning" // Text: a piece of a thought
	CallDelta      EventKind = "call"      // Text: the name of a tool whose call is being written
	Discard        EventKind = "discard"   // the text since the last MessageDone is void: it comes again
	MessageDone    EventKind = "message"   // Text: a whole message of the model, as recorded
	ToolStarted    EventKind = "tool_started"
	ToolFinished   EventKind = "tool_finished" // Call, Text: the result, Failed, Took
	Spent          EventKind = "usage"         // Usage of one call
	Retrying       EventKind = "retrying"      // Err, Wait
	Notice         EventKind = "notice"        // Text: something the user should know
	SessionChanged EventKind = "session"       // Text: the id of the child session
	Final          EventKind = "final"         // Text: the answer
	Stopped        EventKind = "stopped"       // Text: what had come until the interrupt
	Failed         EventKind = "failed"        // Err: why there is no answer
)

// Event is something that happens in a turn. Events come one at a time, in order, on the
// goroutine that called [Agent.Run]; who receives them must not wait for the turn.
type Event struct {
	Kind   EventKind
	Text   string
	Call   model.Call
	Failed bool
	Took   time.Duration
	Wait   time.Duration
	Usage  model.Usage
	Err    error
}

// StopReason says why a turn ended.
type StopReason string

// The reasons.
const (
	Answered    StopReason = "answered"
	Interrupted StopReason = "interrupted"
	StepLimit   StopReason = "step_limit" // agent.max_turns; the answer is a closing summary
	Looping     StopReason = "loop"       // the guard stopped it; likewise
	Errored     StopReason = "error"
)

// Result is what a turn came to.
type Result struct {
	Text    string // the answer, or what there is of it
	Stop    StopReason
	Session Session // where the conversation goes on: a child after a compression
	Steps   int     // calls of the model
	Usage   model.Usage
	// Unsteered is text that was accepted by [Control.Steer] and that no tool result came to
	// carry. It is the next message of the user.
	Unsteered []string
}
