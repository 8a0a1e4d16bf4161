// SPDX-License-Identifier: MIT

package gateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/approval"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// Ask is a turn that somebody wants of a profile.
type Ask struct {
	ID     string // of the turn, which nobody has had before; "" = a new one
	Source string // the surface: "api-server", "webhook", "cli" …
	// Session is the conversation to go on with. "" = the one of Key, or a new one.
	Session string
	Key     string // of a chat, see [SessionKey]; "" = none
	UserID  string // who asks, as the surface knows them; "" = unknown
	Title   string // of a new session; "" = from the first message

	Input model.Message
	// History is what the client says was before Input. With Stateless it is all the model is
	// shown, and the session only records the new part; without, it begins a new session.
	History   []model.Message
	Stateless bool

	Overlay  string   // the client's own system prompt, layered on the profile's; "" = none
	Route    RouteAsk // which model; zero = the profile's
	Effort   string   // reasoning effort; "" = the profile's
	Toolsets []string // nil = those of the surface
	// Attended says that somebody can answer approvals of this turn (gateway spec 1.9).
	Attended bool
	// Nameless says that nobody is told the turn's id: it need not be found when it is over.
	Nameless bool
}

// RouteAsk is a model that a request names.
type RouteAsk struct {
	Model    string // an alias of model_routes, or a provider's name for it
	Provider string
}

// SessionKey is the key of a chat: agent:<namespace>:<platform>:<type>:<chat>[:<thread>]. The
// default profile's namespace is main; a profile that is called main gets another one.
func SessionKey(profile, platform, chatType, chat, thread string) string {
	namespace := profile
	switch profile {
	case "default", "":
		namespace = "main"
	case "main":
		namespace = "main~"
	}
	key := "agent:" + namespace + ":" + platform + ":" + chatType + ":" + chat
	if thread != "" {
		key += ":" + thread
	}
	return key
}

// Further kinds of events, beside those of [agent.Event].
const (
	ApprovalAsked agent.EventKind = "approval_asked" // Approval: somebody must answer
	ApprovalDone  agent.EventKind = "approval_done"  // Approval: it was answered, or its time is over
	Reviewed      agent.EventKind = "reviewed"       // Review: a model decided, nobody is asked
	// SubagentStarted, SubagentTool (Call) and SubagentEnded tell what a subagent does: Subagent.
	SubagentStarted agent.EventKind = "subagent_started"
	SubagentTool    agent.EventKind = "subagent_tool"
	SubagentEnded   agent.EventKind = "subagent_ended"
	SessionNamed    agent.EventKind = "session_named" // Text: the id of the session, before anything else
)

// Event is something that happens in a turn.
type Event struct {
	agent.Event

	Approval *Approval // of ApprovalAsked and ApprovalDone
	Review   *Review   // of Reviewed
	Subagent *Subagent // of SubagentStarted, SubagentTool and SubagentEnded
}

// Subagent is a task that the turn handed out.
type Subagent struct {
	Session string // that records it
	Goal    string // its first line
	Status  string // of SubagentEnded: how it ended
	Steps   int    // of SubagentEnded: calls of the model
}

// Review is what the auxiliary model decided about a command, for those who follow the turn.
type Review struct {
	Command  string // as a person may see it
	Reason   string // why it was reviewed
	Passed   bool
	Subagent string // as in [Approval]
}

// Question is what [Turn.Permit] asks.
type Question struct {
	Verdict  approval.Verdict
	Timeout  time.Duration // 0 = [approval.DefaultTimeout]
	Subagent string        // the session of the subagent that wants it; "" = the turn itself
}

// Approval is a question to a person: may this command run?
type Approval struct {
	ID      string    `json:"id"`
	Command string    `json:"command"` // as a person may see it: secrets masked
	Reason  string    `json:"reason"`
	Asked   time.Time `json:"asked_at"`
	Until   time.Time `json:"expires_at"` // then the answer is no
	Grants  bool      `json:"grantable"`  // "session" and "always" are possible
	// Subagent is the session of the subagent that wants to run it; "" = the turn itself.
	Subagent string          `json:"subagent,omitempty"`
	Answer   approval.Answer `json:"-"` // of ApprovalDone
}

// WaitingError says that a conversation takes no message, because a command of the turn that it
// is in waits for a person (H#27352). It wraps the store's error.
type WaitingError struct {
	Run       string     // the turn that asks
	Approvals []Approval // never empty, oldest first
	Err       error
}

func (e *WaitingError) Error() string {
	return fmt.Sprintf("a command of this session waits for approval %s: answer it with POST /v1/runs/%s/approval", e.Approvals[0].ID, e.Run)
}

func (e *WaitingError) Unwrap() error { return e.Err }

var (
	// ErrDraining says that the gateway is stopping and takes no new turns.
	ErrDraining = errors.New("the gateway is stopping; try again in a moment")
	// ErrBusy says that a profile has as many turns running as it may.
	ErrBusy = errors.New("too many turns are running for this profile; try again later")
	// ErrNoApproval says that no question of that id waits: it was answered, or its time is over.
	ErrNoApproval = errors.New("no approval of this id is waiting")
)
