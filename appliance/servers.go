// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"encoding/json"
	"path/filepath"
	"reflect"
	"sync"

	"github.com/hermes-appliance/hermes-appliance/appliance/childenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/mcp"
	"github.com/hermes-appliance/hermes-appliance/appliance/tool"
)

// servers keeps a profile's MCP servers in step with its config.
type servers struct {
	t *Tenant

	mu      sync.Mutex
	entries map[string]any // that were applied last
	applied bool
	callers map[string][]*work // turns with a call to a server under way, by its name
}

// apply makes the servers those of the config of now; nothing happens while it says the same.
// A server that must not be started is logged and left out.
func (s *servers) apply(ctx context.Context, b bound) {
	log := s.t.log()
	entries, err := b.view.Map("mcp_servers")
	if err != nil {
		log.Warn("MCP servers are left as they are", "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.applied && reflect.DeepEqual(entries, s.entries) || !s.applied && len(entries) == 0 {
		return
	}
	list, problems := mcp.Parse(entries)
	for _, p := range problems {
		log.Warn("mcp_servers", "problem", p)
	}
	logs, err := s.t.dir("logs")
	if err != nil {
		log.Warn("no directory for logs of MCP servers", "error", err)
	}
	change, err := s.t.rt.servers.Apply(ctx, mcp.Profile{
		Key: string(s.t.key), Env: s.env, Dir: s.t.home.Dir, StderrLog: filepath.Join(logs, "mcp-stderr.log"), Redactor: b.redact,
		Tokens: filepath.Join(s.t.home.Dir, tokensDir), Login: s.t.loginCommand(),
	}, list)
	if err != nil {
		log.Warn("MCP servers", "error", err)
		return
	}
	for name, why := range change.Refused {
		log.Warn("MCP server refused", "server", name, "reason", why)
	}
	s.entries, s.applied = entries, true
}

// env builds the environment of a server at its start.
func (s *servers) env(ctx context.Context, server mcp.Server) ([]string, error) {
	snapshot, err := s.t.rt.env.Snapshot(ctx, s.t.home)
	if err != nil {
		return nil, err
	}
	for name, value := range server.Env {
		snapshot.Extra = append(snapshot.Extra, childenv.Var{Name: name, Value: value, Origin: childenv.Extra})
	}
	return s.t.rt.env.policy.Build("mcp", snapshot)
}

// tools are what the profile's servers offer now. One that its owner does not trust asks
// before it changes anything.
func (s *servers) tools(ctx context.Context, w *work) []tool.Tool {
	var out []tool.Tool
	for _, m := range s.t.rt.servers.Tools(ctx, string(s.t.key)) {
		var schema tool.Schema
		if json.Unmarshal(m.Schema, &schema) != nil || schema == nil {
			schema = tool.Schema{"type": "object"}
		}
		out = append(out, tool.Tool{
			Name: m.Name, Toolset: "mcp-" + m.Server, Description: m.Description, Schema: schema, Parallel: m.Parallel && m.ReadOnly,
			Run: func(ctx context.Context, args tool.Args) (any, error) {
				if m.Untrusted && !m.ReadOnly {
					if err := w.permitCall(ctx, m.Server, m.Name); err != nil {
						return nil, err
					}
				}
				raw, err := json.Marshal(map[string]any(args))
				if err != nil {
					return nil, err
				}
				defer s.calling(m.Server, w)()
				r, err := s.t.rt.servers.Call(ctx, string(s.t.key), m.Name, raw)
				if r.JSON != "" {
					return json.RawMessage(r.JSON), nil
				}
				return nil, err
			},
		})
	}
	return out
}
