// SPDX-License-Identifier: MIT

package appliance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/metrics"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
	"github.com/hermes-appliance/hermes-appliance/appliance/tool"
)

// Bounds of delegation: a model that splits its work without end must not.
const (
	childrenAtOnce = 3  // the others wait; delegation.max_concurrent_children
	childrenACall  = 10 // tasks of one call, or as many as may run at once
	childrenATurn  = 30 // tasks of all calls of a turn
	childSteps     = 50 // calls of the model in one task, or max_turns below that; delegation.max_iterations
)

// childSource is the source of a subagent's session, as upstream names it.
const childSource = "subagent"

const childOverlay = "You are a subagent: you work on one task that another agent gave you, and you see nothing of its conversation. " +
	"Nobody can answer a question: do what you can, and say what was in the way. " +
	"Your last message is all that comes back: say what you did, what you found, which files you changed, and what is left."

const orchestratorOverlay = " You may hand parts of your task to subagents of your own with delegate_task, and you wait for them."

// roleOrchestrator is the role of a subagent that may have subagents, where the depth allows it.
const roleOrchestrator = "orchestrator"

// delegated is one task for a subagent.
type delegated struct {
	Goal     string   `json:"goal"`
	Context  string   `json:"context"`
	Toolsets []string `json:"toolsets"`
	Role     string   `json:"role"`
}

// childReport is what came of a task.
type childReport struct {
	Task    int    `json:"task"` // its place in the call, from 1
	Status  string `json:"status"`
	Summary string `json:"summary,omitempty"`
	Error   string `json:"error,omitempty"`
	Session string `json:"session_id,omitempty"`
	Steps   int    `json:"steps"`
}

// delegateTool hands tasks to subagents: turns of the same profile with a session and a shell
// of their own, that belong to this turn and end with it. bad is what is wrong with the settings:
// whoever wants a subagent is told.
func (w *work) delegateTool(d delegation, bad error) tool.Tool {
	fields := map[string]any{
		"goal":     map[string]any{"type": "string", "description": "What to do, and what the answer must hold"},
		"context":  map[string]any{"type": "string", "description": "All that the subagent must know: it sees nothing of this conversation"},
		"toolsets": map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": "Only these of your toolsets, e.g. file, terminal, web"},
	}
	limits := "They cannot ask anybody, change memories, or delegate further."
	if w.depth()+1 < d.depth {
		fields["role"] = map[string]any{
			"type": "string", "enum": []any{"leaf", roleOrchestrator},
			"description": "orchestrator: it may hand parts of its task to subagents of its own; leaf unless set",
		}
		limits = "They cannot ask anybody or change memories; only orchestrators delegate further."
	}
	properties := map[string]any{"tasks": map[string]any{
		"type": "array", "description": fmt.Sprintf("Instead of goal: up to %d independent tasks, of which %d run at a time", d.call, d.atOnce),
		"items": map[string]any{"type": "object", "properties": fields, "required": []any{"goal"}},
	}}
	maps.Copy(properties, fields)
	return tool.Tool{
		Name: "delegate_task", Toolset: "delegation",
		Description: "Hand a task, or several independent ones, to subagents that work on their own and bring back a summary. " +
			limits + " What they say they did is their word: check what matters.",
		Schema: tool.Schema{"type": "object", "properties": properties},
		Run: func(ctx context.Context, args tool.Args) (any, error) {
			var a struct {
				delegated

				Tasks []delegated `json:"tasks"`
			}
			if err := cmp.Or(bad, decode(args, &a)); err != nil {
				return nil, err
			}
			tasks := a.Tasks
			if len(tasks) == 0 {
				tasks = []delegated{a.delegated}
			}
			if err := w.admit(tasks, d.call); err != nil {
				return nil, err
			}
			return map[string]any{"results": w.delegate(ctx, tasks, d)}, nil
		},
	}
}

// admit checks tasks against the bounds.
func (w *work) admit(tasks []delegated, most int) error {
	if len(tasks) > most {
		return fmt.Errorf("tasks: at most %d in one call, got %d", most, len(tasks))
	}
	for i, t := range tasks {
		if strings.TrimSpace(t.Goal) == "" {
			return fmt.Errorf("task %d has no goal: say what the subagent shall do", i+1)
		}
	}
	spawned := &w.root().children
	before := spawned.Load()
	if after := spawned.Add(int64(len(tasks))); after > childrenATurn {
		if before <= childrenATurn {
			w.meter.Count(metrics.LoopGuard, map[string]string{
				"provider": w.routes[0].Provider, "model": w.routes[0].Model, "signal": "loop_detected", "detector": "subagent_cap",
			})
		}
		return fmt.Errorf("this turn has used its %d subagents: do the rest yourself", childrenATurn)
	}
	return nil
}

// delegate runs tasks and returns a report of each, in their order.
func (w *work) delegate(ctx context.Context, tasks []delegated, d delegation) []childReport {
	reports := make([]childReport, len(tasks))
	slots := make(chan struct{}, d.atOnce)
	var all sync.WaitGroup
	for i, t := range tasks {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			reports[i] = w.child(ctx, t, d)
			reports[i].Task = i + 1
		})
	}
	all.Wait()
	return reports
}

// child runs one task to its report. A panic is a failed task: it must not end the gateway.
func (w *work) child(ctx context.Context, t delegated, d delegation) (r childReport) {
	defer func() {
		if p := recover(); p != nil {
			w.t.rt.log.ErrorContext(ctx, "panic in a subagent", "profile", w.t.home.Profile, "panic", fmt.Sprint(p))
			r.Status, r.Error = "failed", "internal error"
		}
	}()
	if ctx.Err() != nil {
		return childReport{Status: string(agent.Interrupted)}
	}
	rec, err := w.childSession(ctx, t, d.routes[0].Model)
	if err != nil {
		return childReport{Status: "failed", Error: err.Error()}
	}
	r.Session = rec.ID()
	defer w.endChild(context.WithoutCancel(ctx), rec)
	s := gateway.Subagent{Session: rec.ID(), Goal: titleOf(t.Goal)}
	w.root().turn.Subagent(gateway.SubagentStarted, s, agent.Event{})
	defer func() {
		s.Status, s.Steps = first(r.Status, "failed"), r.Steps
		w.root().turn.Subagent(gateway.SubagentEnded, s, agent.Event{})
	}()
	ask := gateway.Ask{Source: childSource, Overlay: childOverlay, Effort: w.turn.Ask.Effort}
	c := &work{
		t: w.t, b: w.b, session: rec.ID(), parent: w, only: t.Toolsets, keepMCP: d.mcp,
		leads: t.Role == roleOrchestrator && w.depth()+1 < d.depth,
		turn:  &gateway.Turn{Profile: w.turn.Profile, Ask: ask, Control: &agent.Control{}}, // nobody follows it, and nobody is there to ask
	}
	if c.leads {
		c.turn.Ask.Overlay += orchestratorOverlay
	}
	res, err := c.work(ctx, rec, t, d, w.followed(s))
	r.Status, r.Summary, r.Steps = string(res.Stop), res.Text, res.Steps
	if err != nil {
		r.Status, r.Error = "failed", err.Error()
	}
	return r
}

// work is the child's turn.
func (w *work) work(ctx context.Context, rec *record, t delegated, d delegation, emit func(agent.Event)) (agent.Result, error) {
	o, err := w.options(ctx, d.routes)
	if err != nil {
		return agent.Result{}, err
	}
	switch {
	case d.steps > 0:
		o.MaxSteps = d.steps
	case o.MaxSteps == 0 || o.MaxSteps > childSteps:
		o.MaxSteps = childSteps
	}
	o.ToolGrace = agent.DefaultToolGrace >> w.depth() // the turn that waits for this one has not more
	a, err := agent.New(o)
	if err != nil {
		return agent.Result{}, err
	}
	text := "Your task: " + t.Goal
	if t.Context != "" {
		text += "\n\nWhat you must know:\n" + t.Context
	}
	return a.Run(ctx, rec, model.Text(model.User, text), w.turn.Control, emit)
}

// childSession makes the session of a subagent and takes its lease.
func (w *work) childSession(ctx context.Context, t delegated, modelName string) (*record, error) {
	store, err := w.t.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	parent := w.session
	if now := w.turn.Session(); now != "" { // it may have been compressed since
		parent = now
	}
	from, err := json.Marshal(map[string]string{"_delegate_from": parent})
	if err != nil {
		return nil, err
	}
	s, err := store.Create(ctx, session.Session{
		Source: childSource, Parent: parent, ModelConfig: from, Model: modelName, Title: titleOf(t.Goal), TitleSource: session.TitleDerived,
	})
	if err != nil {
		return nil, err
	}
	lease, err := store.Begin(ctx, s.ID, "gateway")
	if err != nil {
		return nil, err
	}
	return &record{store, lease, s.ID}, nil
}

// endChild ends a subagent's session, and the commands that it left.
func (w *work) endChild(ctx context.Context, rec *record) {
	w.t.term.end(ctx, rec.ID())
	w.t.forget(ctx, rec.ID())
	if err := errors.Join(rec.turn.Close(ctx), rec.store.End(ctx, rec.ID(), "completed")); err != nil {
		w.t.rt.log.WarnContext(ctx, "a subagent's session was not ended", "profile", w.t.home.Profile, "session", rec.ID(), "error", err)
	}
}

// source is the surface that the turn, or the turn it works for, came from.
func (w *work) source() string {
	if w.parent != nil {
		return w.parent.source()
	}
	return w.turn.Ask.Source
}

// depth is how many turns wait for this one; 0 = a turn of its own.
func (w *work) depth() int {
	n := 0
	for ; w.parent != nil; w = w.parent {
		n++
	}
	return n
}

// forChild narrows what a subagent is offered: never more than the turn it works for has, and
// nothing that reaches past its task.
func (w *work) forChild(r *tool.Registry, offer tool.Offer) tool.Offer {
	if w.parent.parent != nil {
		offer = w.parent.forChild(r, offer)
	}
	offer.Disabled = append(slices.Clone(offer.Disabled), "clarify", "memory", "cronjob")
	if !w.leads {
		offer.Disabled = append(offer.Disabled, "delegation")
	}
	if w.only == nil {
		return offer
	}
	wanted := offer
	wanted.Toolsets = w.only
	want := r.Select(wanted)
	for _, t := range r.Select(offer).Tools() {
		_, ok := want.Find(t.Name)
		ok = ok || w.keepMCP && strings.HasPrefix(t.Name, "mcp__") || w.leads && t.Toolset == "delegation"
		if !ok {
			offer.Disabled = append(offer.Disabled, t.Name)
		}
	}
	return offer
}
