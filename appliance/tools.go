// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/files"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
	"github.com/hermes-appliance/hermes-appliance/appliance/tool"
)

// tools are what the model of this turn may call.
func (w *work) tools(ctx context.Context) (*tool.Set, error) {
	spill := &tool.Spill{Home: w.t.home.Dir, Now: w.t.rt.now}
	r := tool.NewRegistry(w.t.log(), w.b.redact.String, spill)
	memory := &tool.Memory{Home: w.t.home.Dir, NoteOff: w.off("memory", "memory_enabled"), UserOff: w.off("memory", "user_profile_enabled")}
	web := &tool.Web{Redact: w.b.redact.String}
	if w.b.view.Has("security", "allow_private_urls") {
		on, err := w.b.view.Bool("security", "allow_private_urls")
		if err != nil {
			return nil, err
		}
		web.AllowPrivate = on
	}
	d, bad := readDelegation(w.b.view, w.b.lookup, w.routes)
	all := []tool.Tool{w.terminalTool(), w.processTool()}
	all = append(all, w.meter.edits(tool.Files(w.files))...)
	all = append(all, memory.Tool())
	all = append(all, w.skills().Tools()...)
	all = append(all, w.todoTool(), w.searchTool(), web.Tool(), w.delegateTool(d, bad))
	if err := r.Add(all...); err != nil {
		return nil, err
	}
	for _, m := range w.t.mcp.tools(ctx, w) {
		if err := r.Add(m); err != nil {
			w.t.log().Warn("a tool of an MCP server is left out", "tool", m.Name, "error", err)
		}
	}
	offer := tool.Offer{Platform: strings.ReplaceAll(w.source(), "-", "_"), Toolsets: w.askedToolsets()}
	var err error
	if offer.Toolsets == nil && w.b.view.Has("platform_toolsets", offer.Platform) {
		if offer.Toolsets, err = w.b.view.Strings("platform_toolsets", offer.Platform); err != nil {
			return nil, err
		}
	}
	if w.b.view.Has("agent", "disabled_toolsets") {
		if offer.Disabled, err = w.b.view.Strings("agent", "disabled_toolsets"); err != nil {
			return nil, err
		}
	}
	if w.parent != nil {
		offer = w.forChild(r, offer)
	}
	return r.Select(offer), nil
}

// askedToolsets are those that the request names, for a subagent its parent's.
func (w *work) askedToolsets() []string {
	if w.parent != nil {
		return w.parent.askedToolsets()
	}
	return w.turn.Ask.Toolsets
}

func (w *work) skills() *tool.Skills {
	s := &tool.Skills{Home: w.t.home.Dir}
	if manager, err := w.t.home.Manager(w.t.rt.env.Getenv); err != nil || manager != "" {
		s.Manager = manager
		if err != nil {
			s.Manager = "somebody (the marker cannot be read)"
		}
	}
	return s
}

// schema makes a Schema of one written as JSON.
func schema(raw json.RawMessage) tool.Schema {
	var s tool.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return tool.Schema{"type": "object"} // a test holds ours to be JSON
	}
	return s
}

// decode brings checked arguments into a struct.
func decode(args tool.Args, to any) error {
	raw, err := json.Marshal(map[string]any(args))
	if err == nil {
		err = json.Unmarshal(raw, to)
	}
	return err
}

// commands are the profile's terminal tools for this turn.
func (w *work) commands(ctx context.Context) (*terminal.Tools, terminal.Backend, *config.Terminal, error) {
	backend, policy, err := w.t.term.at(ctx, w.b)
	if err != nil {
		return nil, nil, nil, err
	}
	return terminal.NewTools(terminal.ToolsConfig{
		Backend: func(context.Context) (terminal.Backend, error) { return backend, nil },
		Procs:   w.t.term.procs, Timeout: policy.Seconds("timeout"), Fail: policy.Text("degraded_mode") == "fail",
		Redact: func(text, _ string) string { return w.b.redact.String(text) }, Log: w.t.log(), Now: w.t.rt.now,
	}), backend, policy, nil
}

// of is the context of the session's commands.
func (w *work) of(ctx context.Context) context.Context {
	return context.WithValue(ctx, sessionKey{}, sessionVars{w.session, w.source()})
}

func (w *work) terminalTool() tool.Tool {
	return tool.Tool{
		Name: terminal.ToolName, Toolset: "terminal", Description: terminal.About, Schema: schema(terminal.Schema()),
		Run: func(ctx context.Context, args tool.Args) (any, error) {
			var a terminal.ToolArgs
			if err := decode(args, &a); err != nil {
				return nil, err
			}
			cmds, backend, policy, err := w.commands(ctx)
			if err != nil {
				return nil, err
			}
			dir := a.Workdir
			if dir == "" {
				dir = dirOf(backend, policy, w.session)
			}
			said, err := w.permit(ctx, a.Command, dir, policy)
			if err != nil {
				return nil, err
			}
			out := cmds.Terminal(w.of(ctx), terminal.Call{Session: w.session, Approval: said}, a)
			w.meter.command(policy.Backend(), a, out)
			return out, nil
		},
	}
}

func (w *work) processTool() tool.Tool {
	return tool.Tool{
		Name: terminal.ProcessToolName, Aliases: []string{"process"}, Toolset: "terminal", Description: terminal.ProcessAbout,
		Schema: schema(terminal.ProcessSchema()),
		Run: func(ctx context.Context, args tool.Args) (any, error) {
			var a terminal.ProcessArgs
			if err := decode(args, &a); err != nil {
				return nil, err
			}
			cmds, _, policy, err := w.commands(ctx)
			if err != nil {
				return nil, err
			}
			if a.Action == "write" || a.Action == "submit" {
				// What is typed into a shell is a command like any other.
				if _, err := w.permit(ctx, a.Data, "", policy); err != nil {
					return nil, err
				}
			}
			return cmds.Process(w.of(ctx), terminal.Call{Session: w.session}, a), nil
		},
	}
}

// files are the files that the session works on: this machine's, or those inside its backend.
func (w *work) files(ctx context.Context) (*files.FS, error) {
	backend, policy, err := w.t.term.at(ctx, w.b)
	if err != nil {
		return nil, err
	}
	guard := files.Guard{Profile: w.t.home.Profile}
	for _, dir := range w.homes() {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			real = dir
		}
		name := filepath.Base(dir)
		if dir == w.t.rt.env.o.Launch.Root().Dir {
			name = "default"
		}
		guard.Homes = append(guard.Homes, files.Home{Dir: real, Profile: name})
	}
	if roots, ok := w.b.lookup("HERMES_WRITE_SAFE_ROOT"); ok && roots != "" {
		guard.SafeRoots = filepath.SplitList(roots)
	}
	session := w.session
	if policy.Backend() == "local" {
		return files.New(&files.Direct{Home: w.t.rt.env.Getenv("HOME"), Dir: func() string {
			if dir := backend.Dir(session); filepath.IsAbs(dir) {
				return dir
			}
			if dir := policy.Text("cwd"); filepath.IsAbs(dir) {
				return dir
			}
			return w.t.rt.env.Getenv("HOME")
		}}, guard, files.Limits{}), nil
	}
	d := backend.Describe()
	return files.New(&files.Shell{Label: strings.TrimSpace(d.Backend + " " + d.Target), Runner: inside{backend, w}}, guard, files.Limits{}), nil
}

// inside runs the file tools' scripts in a backend.
type inside struct {
	backend terminal.Backend
	w       *work
}

// Run implements [files.Runner].
func (i inside) Run(ctx context.Context, script string, stdin []byte) (files.Output, error) {
	out, err := i.backend.Exec(i.w.of(ctx), terminal.Script{Text: script, Dir: i.backend.Dir(i.w.session), Stdin: stdin})
	return files.Output{Stdout: out.Stdout, Code: out.Code}, err
}

// searchTool finds past conversations.
func (w *work) searchTool() tool.Tool {
	return tool.Tool{
		Name: "session_search", Toolset: "session_search", Parallel: true,
		Description: "Recall past conversations. With query: find sessions that mention it (words, \"phrases\", AND, OR, NOT). With session_id: read that session, around message_id if given. With neither: list the latest sessions.",
		Schema: tool.Schema{"type": "object", "properties": map[string]any{
			"query":      map[string]any{"type": "string"},
			"session_id": map[string]any{"type": "string"},
			"message_id": map[string]any{"type": "integer", "description": "with session_id: read around this message"},
			"limit":      map[string]any{"type": "integer", "minimum": 1, "maximum": 10, "description": "how many sessions; 3 unless set"},
		}},
		Run: func(ctx context.Context, args tool.Args) (any, error) {
			store, err := w.t.Sessions(ctx)
			if err != nil {
				return nil, err
			}
			id, limit := args.String("session_id"), args.Int("limit")
			switch {
			case id != "" && args.Has("message_id"):
				v, err := store.Around(ctx, id, int64(args.Int("message_id")), 10)
				return map[string]any{"view": v}, err
			case id != "":
				head, tail, total, err := store.Read(ctx, id)
				return map[string]any{"session_id": id, "first": head, "last": tail, "messages": total}, err
			case args.String("query") != "":
				found, err := store.Recall(ctx, session.Recall{Query: session.Query{Text: args.String("query")}, Current: w.session, Most: limit})
				if len(found) == 0 {
					return map[string]any{"sessions": []any{}, "hint": "no other session mentions that; this conversation itself is not searched"}, err
				}
				return map[string]any{"sessions": found}, err
			}
			list, err := store.List(ctx, session.Filter{Limit: max(limit, 3)})
			return map[string]any{"sessions": list}, err
		},
	}
}
