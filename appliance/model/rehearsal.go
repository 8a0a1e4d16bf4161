// SPDX-License-Identifier: MIT

package model

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// RehearsalName begins every answer of the rehearsal model.
const RehearsalName = "[rehearsal model]"

// rehearsalHelp is what it says when it is not asked to do anything it can.
const rehearsalHelp = `I am not an AI. I am the built-in rehearsal model: I am used because no model provider is configured, I work offline, and I always answer in the same way. I can show you a whole turn with real tool calls. Try one of:

  run: uname -a
  what time is it?
  list the files
  call: read_file {"path": "SOUL.md"}

Several lines make several steps. For a real model, put a provider's key into the .env of this home (OPENROUTER_API_KEY=…) or set model.provider, model.default and model.base_url in config.yaml, and restart.`

// Rehearsal is a model without a provider: deterministic, offline, and no AI, which it says
// in every answer. It does what single lines ask for ("run: COMMAND", "call: TOOL JSON", and
// a few questions in plain words) with the tools that it is given, one call a step, and then
// tells what came back. It runs nothing itself.
type Rehearsal struct{}

// Stream answers as [Client.Stream] does. It fails only when ctx is cancelled.
func (Rehearsal) Stream(ctx context.Context, r Route, req Request, emit func(Delta)) (Answer, error) {
	if emit == nil {
		emit = func(Delta) {}
	}
	text, call := rehearse(req)
	a := Answer{Finish: FinishStop, Model: "rehearsal", Message: Message{Role: Assistant, Origin: r.origin()}}
	text = RehearsalName + " " + text
	for _, word := range strings.SplitAfter(text, " ") {
		if ctx.Err() != nil {
			return a, context.Cause(ctx)
		}
		emit(Delta{Text: word})
	}
	a.Message.Parts = []Part{{Text: text}}
	if call != nil {
		emit(Delta{Call: call.Name})
		a.Finish, a.Message.Calls = FinishCalls, []Call{*call}
		unique(a.Message.Calls, req.Messages)
	}
	a.Usage = Usage{}.plausible(req, a.Message)
	return a, nil
}

// step is one tool call that a line asks for.
type step struct {
	command string // for the terminal; "" = tool and args are given
	tool    string
	args    string
}

// rehearse decides what to say, and which call to make.
func rehearse(req Request) (string, *Call) {
	asked, after := lastAsked(req.Messages)
	steps := plan(asked)
	var done []Message
	for _, m := range after {
		if m.Role == Tool {
			done = append(done, m)
		}
	}
	switch {
	case len(steps) == 0 && len(done) == 0:
		return rehearsalHelp, nil
	case len(done) >= len(steps) || req.NoCalls:
		return tell(steps, done), nil
	}
	next := steps[len(done)]
	name, args, problem := next.resolve(req.Tools)
	if problem != "" {
		return problem + "\n\n" + tell(steps, done), nil
	}
	return fmt.Sprintf("Step %d of %d: I call the tool %s with %s. I am no AI; the call is real.", len(done)+1, len(steps), name, args), &Call{Name: name, Args: args}
}

// lastAsked returns the last text of the user and what came after it.
func lastAsked(history []Message) (string, []Message) {
	for i, m := range slices.Backward(history) {
		if m.Role == User {
			return m.Text(), history[i+1:]
		}
	}
	return "", nil
}

var (
	reRun  = regexp.MustCompile(`(?i)^(?:(?:please|now|then|can you|could you)[ ,]+)*(?:run|execute)(?::| )\s*(.+)$`)
	reCall = regexp.MustCompile(`(?i)^call(?::| )\s*([A-Za-z0-9_-]+)\s*(\{.*\})?\s*$`)
	rePath = regexp.MustCompile("`([^`]+)`")
	// reProse are commands that are none: "run the tests".
	reProse = regexp.MustCompile(`(?i)^(?:the|a|an|my|some|this|that|it|all|your)\b`)
)

// phrase is a question in plain words and the command that answers it.
type phrase struct{ words, command string }

func phrases() []phrase {
	return []phrase{
		{"time is it", "date"},
		{"what day", "date"},
		{"list the files", "ls -la"},
		{"list files", "ls -la"},
		{"which files", "ls -la"},
		{"where are you", "pwd"},
		{"which directory", "pwd"},
		{"who are you running as", "id"},
		{"who am i", "id"},
		{"what system", "uname -a"},
		{"which system", "uname -a"},
		{"disk space", "df -h"},
		{"free memory", "free -m"},
		{"how long have you been up", "uptime"},
	}
}

// plan reads what a text asks for, line by line.
func plan(text string) []step {
	var out []step
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if m := reCall.FindStringSubmatch(line); m != nil {
			args := m[2]
			if args == "" {
				args = "{}"
			}
			out = append(out, step{tool: m[1], args: args})
			continue
		}
		if command, ok := strings.CutPrefix(line, "$ "); ok && strings.TrimSpace(command) != "" {
			out = append(out, step{command: strings.TrimSpace(command)})
			continue
		}
		if m := reRun.FindStringSubmatch(line); m != nil && !reProse.MatchString(m[1]) {
			command := m[1]
			if q := rePath.FindStringSubmatch(command); q != nil {
				command = q[1]
			}
			out = append(out, step{command: strings.TrimSpace(command)})
			continue
		}
		lower := strings.ToLower(line)
		for _, p := range phrases() {
			if strings.Contains(lower, p.words) {
				out = append(out, step{command: p.command})
				break
			}
		}
	}
	return out
}

// resolve finds the tool for a step among those that there are.
func (s step) resolve(tools []ToolSpec) (name, args, problem string) {
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	have := "There are no tools in this session."
	if len(names) > 0 {
		have = "The tools of this session are: " + strings.Join(names, ", ") + "."
	}
	if s.tool != "" {
		for _, n := range names {
			if n == s.tool {
				return n, s.args, ""
			}
		}
		return "", "", fmt.Sprintf("There is no tool %q here. %s", s.tool, have)
	}
	args = string(mustJSON(map[string]string{"command": s.command}))
	for _, t := range tools {
		if t.Name == "terminal" {
			return t.Name, args, ""
		}
	}
	for _, t := range tools {
		if takesCommand(t) {
			return t.Name, args, ""
		}
	}
	return "", "", fmt.Sprintf("I would run `%s` now, but no tool of this session runs commands. %s", s.command, have)
}

// takesCommand reports whether a tool has a parameter "command" and needs no other.
func takesCommand(t ToolSpec) bool {
	var schema struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	if json.Unmarshal(t.Schema, &schema) != nil {
		return false
	}
	_, ok := schema.Properties["command"]
	return ok && (len(schema.Required) == 0 || len(schema.Required) == 1 && schema.Required[0] == "command")
}

// tell reports what the calls brought.
func tell(steps []step, done []Message) string {
	var b strings.Builder
	b.WriteString("I am not an AI: no model provider is configured, and this is all I can say about it.\n")
	for i, m := range done {
		what := m.Name
		if i < len(steps) && steps[i].command != "" {
			what = "`" + steps[i].command + "`"
		}
		fmt.Fprintf(&b, "\n%s %s\n", what, outcome(m.Text()))
	}
	if len(done) == 0 {
		b.WriteString("\nNothing was called. " + rehearsalHelp)
	}
	return strings.TrimRight(b.String(), "\n")
}

// outcome puts a tool's JSON into words.
func outcome(result string) string {
	const most = 1500
	var r struct {
		Output *string          `json:"output"`
		Code   *int             `json:"exit_code"`
		Error  *json.RawMessage `json:"error"`
	}
	body, head := result, "came back with:"
	if json.Unmarshal([]byte(result), &r) == nil && r.Output != nil {
		body = *r.Output
		if r.Code != nil {
			head = fmt.Sprintf("ended with exit code %d and said:", *r.Code)
		}
	} else if r.Error != nil && string(*r.Error) != "null" {
		head = "failed:"
		if text, ok := str(*r.Error); ok {
			body = text
		}
	}
	body = strings.TrimSpace(body)
	if body == "" {
		return strings.TrimSuffix(strings.TrimSuffix(head, " and said:"), ":") + " without any output."
	}
	if len(body) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(body[cut]) {
			cut--
		}
		body = body[:cut] + "\n…"
	}
	return head + "\n```\n" + body + "\n```"
}
