// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"fmt"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/approval"
	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// BlockedError says that a command was not run. It is for the model and names no rule that
// could be worked around, but says what a person may be asked.
type BlockedError struct{ Reason string }

func (e *BlockedError) Error() string { return "BLOCKED: " + e.Reason }

// permit decides whether a command of the turn may run, and asks if a person must say so. It
// is the one gate for every surface (H#30882). said is what the model is told of an approval.
func (w *work) permit(ctx context.Context, command, dir string, policy *config.Terminal) (said string, err error) {
	rules, err := w.approvals()
	if err != nil {
		return "", err
	}
	lists := approval.NewLists(w.t.rt.env.Allowlists(), w.t.log())
	talk := w.root().session // a subagent works for the conversation of its turn, and by its grants
	granted, yolo := w.t.rt.grants.Granted(w.t.home.Dir, talk)
	c := approval.Context{
		Presence: w.presence(), Yolo: yolo, Contained: policy.Backend() != "local", Dir: dir,
		UserHome: w.t.rt.env.Getenv("HOME"), Homes: w.homes(), GatewayPID: w.t.rt.pid,
		Permanent: lists.Read(ctx, w.t.home.Dir), Session: granted,
	}
	if c.Presence != approval.Attended && w.approveSubagents(ctx) {
		rules.ApproveCron, rules.ApproveSingleQuery, rules.ApproveUnattended = true, true, true
	}
	v := approval.Decide(rules, command, c)
	log := w.t.rt.log.With("profile", w.t.home.Profile, "session", w.session, "command", v.Shown)
	switch v.Decision {
	case approval.Allow:
		return "", nil
	case approval.Refuse:
		log.InfoContext(ctx, "command refused", "reason", v.Reason)
		return "", &BlockedError{v.Reason}
	case approval.Ask: // below
	}
	answer, by, no := approval.Once, "a model", "nobody approved it"
	switch w.review(ctx, v, command, dir) {
	case approval.Passes: // this one call: a model grants nothing
	case approval.Fails:
		answer, no = approval.Deny, "the review of commands denied it"
	case approval.Escalate:
		by = "the user"
		answer = w.root().turn.Permit(ctx, gateway.Question{Verdict: v, Timeout: rules.Timeout, Subagent: w.subagent()})
	}
	book := approval.Book{Sessions: &w.t.rt.grants, Lists: lists}
	run, err := book.Settle(ctx, w.t.home.Dir, talk, v, answer)
	if err != nil {
		log.WarnContext(ctx, "the answer could not be kept", "error", err)
	}
	log.InfoContext(ctx, "command decided", "by", by, "run", run)
	if !run {
		return "", &BlockedError{v.Reason + "; " + no + ". Do not try it again in another form: ask the user"}
	}
	return "approved by " + by, nil
}

// root is the turn that a person started: the one that a subagent works for, or this one.
func (w *work) root() *work {
	for w.parent != nil {
		w = w.parent
	}
	return w
}

// subagent is the session of the subagent that this is, "" for a turn of its own.
func (w *work) subagent() string {
	if w.parent == nil {
		return ""
	}
	return w.session
}

// approvals are the profile's rules of now. What cannot be read asks more, never less.
func (w *work) approvals() (approval.Policy, error) {
	section, err := w.b.view.Value("approvals")
	if err != nil {
		return approval.Policy{}, fmt.Errorf("nothing runs while the approval rules cannot be read: %w", err)
	}
	rules, problems := approval.ParsePolicy(section)
	if len(problems) > 0 {
		w.t.rt.log.Warn("approvals", "profile", w.t.home.Profile, "problems", strings.Join(problems, "; "))
	}
	return rules, nil
}

// presence is who could answer.
func (w *work) presence() approval.Presence {
	ask := &w.root().turn.Ask // for a subagent: who follows the turn that it works for
	switch {
	case ask.Attended:
		return approval.Attended
	case ask.Source == "cron":
		return approval.Cron
	case ask.Source == "cli":
		return approval.SingleQuery
	}
	return approval.Unattended
}

// homes are the directories that commands must leave alone.
func (w *work) homes() []string {
	launch := w.t.rt.env.o.Launch
	out := []string{launch.Root().Dir, w.t.home.Dir}
	profiles, err := launch.Profiles()
	if err == nil {
		for _, h := range profiles {
			out = append(out, h.Dir)
		}
	}
	if dir := home.AdminDir(w.t.rt.env.Getenv); dir != "" {
		out = append(out, dir)
	}
	return out
}
