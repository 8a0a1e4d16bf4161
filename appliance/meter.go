// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/files"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/metrics"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
	"github.com/hermes-appliance/hermes-appliance/appliance/tool"
)

// Metered says whether a profile opted in to the counters, and whose word that is.
func Metered(h home.Home, v config.View, getenv func(string) string) (on bool, by metrics.Source) {
	p := metrics.Profile{Has: v.Has(metrics.Key()...)}
	p.On, p.Err = v.Bool(metrics.Key()...)
	return metrics.Consent(p, h.Root().Dir, getenv)
}

// meter counts for one turn. A nil meter, that of a profile that did not opt in, counts nothing.
type meter struct {
	store *metrics.Store
	own   map[string]bool // providers that the profile's config sends to another address
}

// meter returns what counts for a turn that may use the given models.
func (t *Tenant) meter(b bound, routes []model.Route) *meter {
	if on, _ := Metered(t.home, b.view, t.rt.env.Getenv); !on {
		return nil
	}
	m := &meter{own: map[string]bool{}}
	for _, r := range routes {
		if strings.TrimRight(r.BaseURL, "/") != providers()[r.Provider].url {
			m.own[r.Provider] = true
		}
	}
	t.counting.Lock()
	defer t.counting.Unlock()
	if t.counts == nil {
		t.counts = metrics.New(metrics.Options{
			Home: t.home.Dir, Tools: tool.Names(), Providers: publicProviders(), Now: t.rt.now, Log: t.log(),
		})
	}
	m.store = t.counts
	return m
}

// uncount writes what was counted, and ends the counting.
func (t *Tenant) uncount(ctx context.Context) error {
	t.counting.Lock()
	defer t.counting.Unlock()
	if t.counts == nil {
		return nil
	}
	return t.counts.Close(ctx)
}

// publicProviders are the names that say nothing about their user: not those of servers of
// one's own.
func publicProviders() []string {
	out := []string{"rehearsal"}
	for name, p := range providers() {
		if !p.free {
			out = append(out, name)
		}
	}
	return out
}

// Count implements [agent.Meter].
func (m *meter) Count(name string, dims map[string]string) {
	if m == nil {
		return
	}
	if m.own[dims["provider"]] {
		dims = maps.Clone(dims)
		dims["provider"] = "custom"
	}
	m.store.Count(name, dims)
}

// edits has the tools that change files count how their edits landed.
func (m *meter) edits(tools []tool.Tool) []tool.Tool {
	for i, t := range tools {
		if m == nil || t.Name != "patch" && t.Name != "write_file" {
			continue
		}
		tools[i].Run = func(ctx context.Context, args tool.Args) (any, error) {
			out, err := t.Run(ctx, args)
			dims := landed(out)
			dims["tool"], dims["mode"] = t.Name, "whole_file"
			if t.Name == "patch" {
				dims["mode"] = "replace"
				if mode := args.String("mode"); mode == "patch" || mode == "" && args.Has("patch") && !args.Has("old_string") {
					dims["mode"] = "v4a"
				}
			}
			m.Count(metrics.FileEdit, dims)
			return out, err
		}
	}
	return tools
}

// landed says how an edit ended.
func landed(out any) map[string]string {
	outcome, strategy := "failed", ""
	switch r := out.(type) {
	case files.WriteResult:
		if r.Error == "" {
			outcome = "applied"
		}
	case files.PatchResult:
		var several *files.AmbiguousError
		var none *files.NoMatchError
		switch {
		case r.Success && r.NoChange:
			outcome = "already_applied"
		case r.Success:
			outcome, strategy = "applied", r.Matched
		case errors.As(r.Err, &several):
			outcome = "ambiguous"
		case errors.As(r.Err, &none):
			outcome = "no_match"
		}
	}
	return map[string]string{"outcome": outcome, "match_strategy": strategy}
}

// command counts how a foreground command ended. One that went to the background, or that never
// ran, has no end to count.
func (m *meter) command(backend string, a terminal.ToolArgs, r terminal.ToolResult) {
	if m == nil || a.Background || r.Status != "" || r.Error != nil || r.SessionID != "" {
		return
	}
	m.Count(metrics.Terminal, map[string]string{
		"backend": backend, "command_kind": metrics.CommandKind(a.Command), "outcome": metrics.Outcome(r.ExitCode, r.TimedOut, r.Interrupted),
	})
}
