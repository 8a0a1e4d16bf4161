// SPDX-License-Identifier: MIT

package apiserver

import (
	"errors"
	"strconv"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/approval"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
)

func asFailure(err error, f **failure) bool { return errors.As(err, f) }

// runEvents is GET /v1/runs/{id}/events: every event from the first on, or from the one after
// Last-Event-ID. Any number of clients may follow, and go and come back.
func runEvents(c *call) error {
	t, err := c.run()
	if err != nil {
		return err
	}
	seen := 0
	if last := c.r.Header.Get("Last-Event-ID"); last != "" {
		if seen, err = strconv.Atoi(last); err != nil || seen < 0 {
			return bad("invalid_last_event_id", "Last-Event-ID", "Last-Event-ID must be the number of an event")
		}
	}
	out := c.stream()
	c.echo(t)
	out.comment("events of " + t.ID)
	n := 0
	send := func(name string, fields map[string]any) {
		if n++; n <= seen {
			return
		}
		fields["event"], fields["run_id"], fields["timestamp"] = name, t.ID, epoch(c.s.o.Now())
		out.send("", strconv.Itoa(n), fields)
	}
	f := flow{sep: "\n\n"}
	if err := c.follow(t, out, func(e gateway.Event) { c.runEvent(t, &f, e, send) }); err != nil {
		return err
	}
	send("run."+c.ended(t), c.outcome(t))
	return out.flush()
}

// runEvent sends what an event of a turn is to the clients of runs and session streams.
func (c *call) runEvent(t *gateway.Turn, f *flow, e gateway.Event, send func(string, map[string]any)) {
	if text := f.next(e); text != "" {
		send("message.delta", map[string]any{"delta": text})
	}
	switch e.Kind { //nolint:exhaustive // the end has events of its own
	case gateway.SessionNamed:
		send("run.started", map[string]any{"session_id": e.Text, "model": c.shownModel(t.Ask.Route)})
	case agent.SessionChanged:
		send("session.changed", map[string]any{"session_id": e.Text})
	case agent.ReasoningDelta:
		if c.set.Reasoning && e.Text != "" {
			send("reasoning.delta", map[string]any{"delta": e.Text})
		}
	case agent.ToolStarted:
		send("tool.started", map[string]any{"tool": e.Call.Name, "tool_call_id": e.Call.ID, "preview": preview(e.Call)})
	case agent.ToolFinished:
		send("tool.completed", map[string]any{"tool": e.Call.Name, "tool_call_id": e.Call.ID, "duration": seconds(e.Took), "error": e.Failed})
	case agent.Retrying:
		send("run.retrying", map[string]any{"wait": seconds(e.Wait), "reason": errorText(e.Err)})
	case agent.Notice:
		send("notice", map[string]any{"text": e.Text})
	case gateway.ApprovalAsked:
		send("approval.request", question(*e.Approval))
	case gateway.SubagentStarted:
		send("subagent.started", map[string]any{"subagent_session_id": e.Subagent.Session, "goal": e.Subagent.Goal})
	case gateway.SubagentTool:
		send("subagent.tool", map[string]any{"subagent_session_id": e.Subagent.Session, "tool": e.Call.Name, "tool_call_id": e.Call.ID, "preview": preview(e.Call)})
	case gateway.SubagentEnded:
		send("subagent.completed", map[string]any{"subagent_session_id": e.Subagent.Session, "status": e.Subagent.Status, "steps": e.Subagent.Steps})
	case gateway.Reviewed:
		send("approval.reviewed", reviewed(*e.Review))
	case gateway.ApprovalDone:
		send("approval.responded", map[string]any{"request_id": e.Approval.ID, "choice": choiceOf(e.Approval.Answer)})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// reviewed is what a model decided about a command, as clients see it.
func reviewed(r gateway.Review) map[string]any {
	out := map[string]any{"command": r.Command, "description": r.Reason, "verdict": "deny"}
	if r.Passed {
		out["verdict"] = "approve"
	}
	if r.Subagent != "" {
		out["subagent_session_id"] = r.Subagent
	}
	return out
}

func choiceOf(a approval.Answer) string {
	switch a {
	case approval.Once:
		return "once"
	case approval.ForSession:
		return "session"
	case approval.Always:
		return "always"
	case approval.Deny:
	}
	return "deny"
}
