// SPDX-License-Identifier: MIT

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of what a server may put before the model.
const (
	MaxTools       = 512
	MaxDescription = 8 << 10
	maxSchema      = 256 << 10
	maxPages       = 100
)

// listing is what a server offers, under its own names.
type listing struct {
	tools     []Tool // Name is not set yet
	resources bool
	prompts   bool
}

// tool is one of a server's, ready to be called.
type tool struct {
	Tool
	run func(ctx context.Context, c *conn, args json.RawMessage) (Result, error)
}

// list asks the server what it offers, within the time for a connection.
func (s *server) list(ctx context.Context, c *conn) (listing, error) {
	ctx, release := c.within(ctx)
	defer release()
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.ConnectTimeout, &TimeoutError{What: "a list of its tools", After: s.cfg.ConnectTimeout})
	defer cancel()
	var out listing
	caps := &sdk.ServerCapabilities{}
	if r := c.session.InitializeResult(); r != nil && r.Capabilities != nil {
		caps = r.Capabilities
	}
	out.resources = s.cfg.Resources && caps.Resources != nil
	out.prompts = s.cfg.Prompts && caps.Prompts != nil
	if caps.Tools == nil {
		return out, nil
	}
	seen := map[string]bool{}
	params := &sdk.ListToolsParams{}
	for range maxPages {
		r, err := c.session.ListTools(ctx, params)
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return listing{}, err
		}
		for _, t := range r.Tools {
			if reason := s.judge(t, seen); reason != "" {
				s.host.cfg.Log.Warn("tool of mcp server is left out", "profile", s.ledger.current().Key, "server", s.cfg.Name, "tool", t.Name, "reason", reason)
				continue
			}
			seen[t.Name] = true
			if s.cfg.chosen(t.Name) {
				out.tools = append(out.tools, s.offer(t))
			}
		}
		if r.NextCursor == "" || len(seen) >= MaxTools {
			return out, nil
		}
		params.Cursor = r.NextCursor
	}
	return out, nil
}

// judge says why a tool cannot be offered, "" if it can.
func (s *server) judge(t *sdk.Tool, seen map[string]bool) string {
	switch {
	case t.Name == "":
		return "it has no name"
	case seen[t.Name]:
		return "the server lists a tool of this name before it"
	case len(seen) >= MaxTools:
		return fmt.Sprintf("the server lists more than %d tools", MaxTools)
	case len(schema(t)) > maxSchema:
		return fmt.Sprintf("its schema is larger than %d KiB", maxSchema>>10)
	}
	return ""
}

func (s *server) offer(t *sdk.Tool) Tool {
	about := t.Description
	if about == "" {
		about = fmt.Sprintf("MCP tool %s from %s", t.Name, s.cfg.Name)
	}
	if len(about) > MaxDescription {
		about = strings.ToValidUTF8(about[:MaxDescription-4], "") + " …"
	}
	return Tool{
		Description: about, Schema: schema(t), Server: s.cfg.Name, Original: t.Name,
		ReadOnly: t.Annotations != nil && t.Annotations.ReadOnlyHint, Untrusted: s.cfg.Untrusted, Parallel: s.cfg.Parallel,
	}
}

// schema returns a tool's schema as providers want it: an object with properties. What is no
// such thing is replaced; whatever else is in it stays as it is.
func schema(t *sdk.Tool) json.RawMessage {
	empty := json.RawMessage(`{"type":"object","properties":{}}`)
	m, ok := t.InputSchema.(map[string]any)
	if !ok {
		return empty
	}
	if kind, ok := m["type"]; ok && kind != "object" {
		return empty
	}
	m = maps.Clone(m)
	m["type"] = "object"
	if _, ok := m["properties"].(map[string]any); !ok {
		m["properties"] = map[string]any{}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(m) != nil {
		return empty
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// take makes a listing the server's tools. The lock is held.
func (s *server) take(l listing) {
	s.listed = l
	all := make([]tool, 0, len(l.tools)+4)
	var names []string
	for _, t := range l.tools {
		name := t.Original
		names = append(names, name)
		all = append(all, tool{Tool: t, run: func(ctx context.Context, c *conn, args json.RawMessage) (Result, error) {
			return c.call(ctx, name, args)
		}})
	}
	spelled := toolNames(s.slug, names)
	s.tools = make(map[string]tool, len(all)+4)
	for _, t := range all {
		t.Name = spelled[t.Original]
		s.tools[t.Name] = t
	}
	for _, t := range s.own() {
		t.Name = prefix + s.slug + delimiter + t.Name
		if _, taken := s.tools[t.Name]; !taken { // the server has its own
			s.tools[t.Name] = t
		}
	}
}

// rename gives the server another part in the names of its tools.
func (s *server) rename(slug string) {
	s.update(func() {
		if s.slug != slug {
			s.slug = slug
			if s.tools != nil {
				s.take(s.listed)
			}
		}
	})
}

// offered returns the server's tools. Those of a server that is being brought back stay.
func (s *server) offered() []Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final() {
		return nil
	}
	out := make([]Tool, 0, len(s.tools))
	for _, t := range s.tools {
		out = append(out, t.Tool)
	}
	return out
}

func (s *server) tool(name string) (tool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tools[name]
	return t, ok
}
