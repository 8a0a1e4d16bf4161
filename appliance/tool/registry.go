// SPDX-License-Identifier: MIT

package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// Registry holds the tools of one profile. It is safe for concurrent use.
type Registry struct {
	log    *slog.Logger
	redact func(string) string
	spill  *Spill

	mu     sync.Mutex
	tools  map[string]Tool   // by name
	names  map[string]string // aliases and names -> name
	order  []string
	warned map[string]bool
}

// NoMCP in a platform's toolsets leaves all tools of MCP servers out.
const NoMCP = "no_mcp"

// mcpSet is how the toolset of an MCP server starts; the server's name follows.
const mcpSet = "mcp-"

// NewRegistry makes an empty registry. redact hides the profile's secrets in results, nil =
// nothing. spill keeps results that are too large for the model, nil = they are cut.
func NewRegistry(log *slog.Logger, redact func(string) string, spill *Spill) *Registry {
	if redact == nil {
		redact = func(s string) string { return s }
	}
	return &Registry{log: log, redact: redact, spill: spill, tools: map[string]Tool{}, names: map[string]string{}, warned: map[string]bool{}}
}

// Add adds tools. A name or alias that is taken is an error, and nothing is added.
func (r *Registry) Add(tools ...Tool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]string{}
	for _, t := range tools {
		if t.Name == "" || t.Run == nil || t.Toolset == "" {
			return fmt.Errorf("tool %q needs a name, a toolset and a function", t.Name)
		}
		for _, n := range append([]string{t.Name}, t.Aliases...) {
			if by, taken := r.names[n]; taken || seen[n] != "" {
				return fmt.Errorf("tool %s: the name %s is taken by %s%s", t.Name, n, by, seen[n])
			}
			seen[n] = t.Name
		}
	}
	maps.Copy(r.names, seen)
	for _, t := range tools {
		r.tools[t.Name] = t
		r.order = append(r.order, t.Name)
	}
	return nil
}

// Remove takes the tools of a toolset out, as when an MCP server is listed anew.
func (r *Registry) Remove(toolset string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order = slices.DeleteFunc(r.order, func(n string) bool {
		t := r.tools[n]
		if t.Toolset != toolset {
			return false
		}
		delete(r.tools, n)
		delete(r.names, n)
		for _, a := range t.Aliases {
			delete(r.names, a)
		}
		return true
	})
}

// Offer says what a platform's sessions may call.
type Offer struct {
	Platform string   // "telegram", "cron", "api_server" …
	Toolsets []string // platform_toolsets.<platform>; nil = the platform's own
	Disabled []string // agent.disabled_toolsets; takes tools away whatever offers them
}

// Select returns the tools that an offer names and that can run now. Names that nobody knows
// are logged once and left out.
func (r *Registry) Select(o Offer) *Set {
	wanted := o.Toolsets
	if wanted == nil {
		wanted = []string{platformToolset(o.Platform)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	allowed, mcp := map[string]bool{}, true
	servers := map[string]bool{}
	for _, w := range wanted {
		switch {
		case w == NoMCP:
			mcp = false
		case r.isServer(w):
			servers[strings.TrimPrefix(w, mcpSet)] = true
		default:
			r.collect(w, "platform_toolsets."+o.Platform, allowed)
		}
	}
	disabled := map[string]bool{}
	for _, d := range o.Disabled {
		if r.isServer(d) || d == "mcp" {
			disabled[mcpSet+strings.TrimPrefix(d, mcpSet)] = true
			continue
		}
		r.collect(d, "agent.disabled_toolsets", disabled)
	}
	s := &Set{registry: r, tools: map[string]bool{}}
	for _, n := range r.order {
		t := r.tools[n]
		ok := allowed[n]
		if server, is := strings.CutPrefix(t.Toolset, mcpSet); is {
			ok = mcp && (len(servers) == 0 || servers[server]) && !disabled[t.Toolset] && !disabled[mcpSet+"mcp"]
		}
		if ok && !disabled[n] {
			s.tools[n] = true
			s.order = append(s.order, n)
		}
	}
	return s
}

// isServer reports whether a name stands for an MCP server that has tools here.
func (r *Registry) isServer(name string) bool {
	if _, known := toolsets()[name]; known {
		return false
	}
	set := mcpSet + strings.TrimPrefix(name, mcpSet)
	return slices.ContainsFunc(r.order, func(n string) bool { return r.tools[n].Toolset == set })
}

// collect adds the tools of a toolset, a toolset that only tools name, or a single tool.
func (r *Registry) collect(name, key string, into map[string]bool) {
	name = strings.TrimSpace(name)
	tools, ok := expand(name)
	for _, n := range tools {
		into[n] = true
	}
	for n, t := range r.tools {
		if t.Toolset == name {
			into[n], ok = true, true
		}
	}
	if n, is := r.names[name]; is && !ok {
		into[n], ok = true, true
	}
	if !ok && !r.warned[key+"\x00"+name] {
		r.warned[key+"\x00"+name] = true
		r.log.Warn("no such toolset, ignored", "toolset", name, "key", key)
	}
}

// Set is what one session may call. It is safe for concurrent use.
type Set struct {
	registry *Registry
	tools    map[string]bool
	order    []string
}

// Tools returns the tools that can run now, in the order in which they were added, so that a
// prompt made of them does not change by itself.
func (s *Set) Tools() []Tool {
	s.registry.mu.Lock()
	var out []Tool
	for _, n := range s.order {
		if t, ok := s.registry.tools[n]; ok {
			out = append(out, t)
		}
	}
	s.registry.mu.Unlock()
	return slices.DeleteFunc(out, func(t Tool) bool { return t.Available != nil && !t.Available() })
}

// Find returns the tool that a call names, by its name or an alias.
func (s *Set) Find(name string) (Tool, bool) {
	s.registry.mu.Lock()
	n := s.registry.names[strings.TrimSpace(name)]
	t, ok := s.registry.tools[n]
	s.registry.mu.Unlock()
	return t, ok && s.tools[n] && (t.Available == nil || t.Available())
}

// Call runs a call. It never panics and always has a result.
func (s *Set) Call(ctx context.Context, c Call) Result {
	t, ok := s.Find(c.Name)
	if !ok {
		return s.refuse(c.Name, fmt.Errorf("there is no tool %q here. There are: %s", c.Name, strings.Join(s.visible(), ", ")))
	}
	raw, err := parseArgs(c.Args)
	if err == nil {
		var args Args
		if args, err = check(t.Schema, raw); err == nil {
			return s.run(ctx, t, c, args)
		}
	}
	return s.refuse(t.Name, fmt.Errorf("%s: %w", t.Name, err))
}

func (s *Set) visible() []string {
	var out []string
	for _, t := range s.Tools() {
		out = append(out, t.Name)
	}
	return out
}

func (s *Set) refuse(name string, err error) Result {
	content, eerr := encode(failed(err))
	if eerr != nil {
		content = `{"error":"the error cannot be shown"}`
	}
	return Result{Name: name, Content: s.registry.hide(content), Failed: true}
}

func (s *Set) run(ctx context.Context, t Tool, c Call, args Args) Result {
	v, err := s.protected(ctx, t, args)
	if err != nil {
		return s.refuse(t.Name, err)
	}
	content, err := encode(v)
	if err != nil {
		return s.refuse(t.Name, fmt.Errorf("%s: its result cannot be shown: %w", t.Name, err))
	}
	content = s.registry.hide(content)
	var head struct {
		Error   any   `json:"error"`
		Success *bool `json:"success"`
	}
	bad := json.Unmarshal([]byte(content), &head) == nil && (head.Error != nil || head.Success != nil && !*head.Success)
	return Result{Name: t.Name, Content: s.registry.spill.keep(ctx, s.registry.log, t, c, content), Failed: bad}
}

// protected runs a tool; its panic is an error.
func (s *Set) protected(ctx context.Context, t Tool, args Args) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.registry.log.Error("tool panicked", "tool", t.Name, "panic", s.registry.redact(fmt.Sprint(p)), "stack", string(debug.Stack()))
			v, err = nil, fmt.Errorf("%s failed unexpectedly; the gateway's log has the details. Try another way", t.Name)
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s was not started: %w", t.Name, err)
	}
	v, err = t.Run(ctx, args)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%s was interrupted: %w", t.Name, err)
	}
	return v, err
}

// hide redacts a JSON text and keeps it JSON.
func (r *Registry) hide(content string) string {
	out := r.redact(content)
	if out == content || json.Valid([]byte(out)) {
		return out
	}
	var v any
	if err := json.Unmarshal([]byte(content), &v); err != nil {
		return `{"error":"the result cannot be shown"}`
	}
	out, err := encode(r.hideIn(v))
	if err != nil {
		return `{"error":"the result cannot be shown"}`
	}
	return out
}

func (r *Registry) hideIn(v any) any {
	switch x := v.(type) {
	case string:
		return r.redact(x)
	case []any:
		for i := range x {
			x[i] = r.hideIn(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = r.hideIn(x[k])
		}
	}
	return v
}
