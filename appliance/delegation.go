// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"fmt"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// delegation is what a profile's config says of subagents.
type delegation struct {
	atOnce int // that run at the same time
	call   int // tasks of one call
	steps  int // calls of the model in one task; 0 = as many as are usual
	depth  int // levels of subagents below a turn: a subagent on the last one has none
	// approve lets their dangerous commands run where nobody can answer; floors, deny rules and
	// what cannot be checked stay.
	approve bool
	mcp     bool // a subagent that is narrowed to some toolsets keeps its parent's MCP tools
	routes  []model.Route
}

// readDelegation reads delegation.* for the subagents of a turn that uses these routes.
func readDelegation(v config.View, lookup config.Lookup, parent []model.Route) (d delegation, err error) {
	d = delegation{atOnce: childrenAtOnce, call: childrenACall, depth: 1, mcp: true, routes: parent}
	nested := true
	for key, to := range map[string]*int{"max_concurrent_children": &d.atOnce, "max_iterations": &d.steps, "max_spawn_depth": &d.depth} {
		if v.Has("delegation", key) {
			n, err := v.Int("delegation", key)
			if err != nil {
				return d, err
			}
			*to = int(min(max(n, 1), 1000))
		}
	}
	d.call = max(d.call, d.atOnce)
	for key, to := range map[string]*bool{"subagent_auto_approve": &d.approve, "inherit_mcp_toolsets": &d.mcp, "orchestrator_enabled": &nested} {
		if v.Has("delegation", key) {
			if *to, err = v.Bool("delegation", key); err != nil {
				return d, err
			}
		}
	}
	if !nested {
		d.depth = 1
	}
	if len(parent) > 0 {
		d.routes, err = childRoutes(router{v: v, lookup: lookup}, parent)
	}
	return d, err
}

// childRoutes are the models of subagents: their own with their own fallbacks, or those of the
// turn (H#65038).
func childRoutes(r router, parent []model.Route) ([]model.Route, error) {
	name, err := r.text("delegation", "provider")
	if err != nil {
		return nil, err
	}
	id, err := r.text("delegation", "model")
	if err != nil {
		return nil, err
	}
	out := parent
	switch {
	case name == "" && id == "":
	case name == "" || name == parent[0].Provider:
		own := parent[0]
		own.Model = first(id, own.Model)
		out = []model.Route{own}
	default:
		own, err := r.named(name, id, override{})
		if err != nil {
			return nil, fmt.Errorf("delegation: %w", err)
		}
		out = []model.Route{own}
	}
	if !r.v.Has("delegation", "fallback_providers") {
		return out, nil
	}
	more, err := r.fallbacks("delegation", "fallback_providers")
	return append(out[:1:1], more...), err
}

// followed tells those who follow the turn what a subagent begins to do.
func (w *work) followed(s gateway.Subagent) func(agent.Event) {
	root := w.root().turn
	return func(e agent.Event) {
		if e.Kind == agent.ToolStarted {
			root.Subagent(gateway.SubagentTool, s, e)
		}
	}
}

// approveSubagents reports whether a subagent's dangerous commands may run where nobody can be
// asked.
func (w *work) approveSubagents(ctx context.Context) bool {
	if w.parent == nil {
		return false
	}
	d, err := readDelegation(w.b.view, w.b.lookup, nil)
	if err != nil || !d.approve {
		return false
	}
	w.t.rt.log.WarnContext(ctx, "delegation.subagent_auto_approve is on", "profile", w.t.home.Profile, "session", w.session)
	return true
}
