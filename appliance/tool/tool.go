// SPDX-License-Identifier: MIT

// Package tool is what a model can call: the registry of tools with their names, schemas and
// toolsets, and the tools that need no other part of the gateway (files, memory, skills, the
// task list, questions to the user, web pages). A call's arguments are checked against the
// tool's schema and its result is a JSON object; a tool that panics has failed and nothing
// else. The package never lets a model call what its platform does not offer, never runs a
// command, and never reaches an address of the internal network for a web page.
//
// Tools of other packages are added to a [Registry] by whoever wires them.
package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
)

// Tool is one thing that a model can call.
type Tool struct {
	Name        string
	Aliases     []string // older names
	Toolset     string   // the group it belongs to; see [Registry.Select]
	Description string
	Schema      Schema // of its arguments, an object
	// Parallel says that calls of it may run beside others of the same turn.
	Parallel bool
	// Available says whether it can run now; a tool that cannot is not shown. nil = always.
	Available func() bool
	// MaxChars is the length from which a result goes to a file; 0 = 100,000, negative = never.
	MaxChars int
	// Run does it. The result is marshalled to JSON and must become an object; an error becomes
	// {"error": …} and is for the model to read. Run must be safe for concurrent use if Parallel.
	Run func(ctx context.Context, args Args) (any, error)
}

// Schema is a JSON schema.
type Schema map[string]any

// Call is one call by a model.
type Call struct {
	ID   string // the model's name for this call; names the file of a large result
	Name string
	Args json.RawMessage // a JSON object, or a JSON string that holds one; empty = no arguments
}

// Result is what a call gave.
type Result struct {
	Name    string // the tool's own name, also if the call used an alias
	Content string // for the model: a JSON object, or where the whole of a large one is
	Failed  bool   // the object has an error
}

// CallError is an error with more for the model than its text.
type CallError struct {
	Text  string
	Extra map[string]any // further keys of the object; "error" is Text
}

func (f *CallError) Error() string { return f.Text }

// failed is the object of an error.
func failed(err error) map[string]any {
	out := map[string]any{}
	if f, ok := errors.AsType[*CallError](err); ok {
		maps.Copy(out, f.Extra)
	}
	out["error"] = err.Error()
	return out
}

// encode writes a result as a JSON object without the escapes that only browsers need.
func encode(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if !strings.HasPrefix(text, "{") {
		return "", fmt.Errorf("result is %T, not an object", v)
	}
	return text, nil
}

// Args are a call's arguments after the schema's check: an integer is an int, a number a
// float64. A name that is not there, or null, is the zero value.
type Args map[string]any

// String returns a text.
func (a Args) String(name string) string {
	s, _ := a[name].(string)
	return s
}

// Int returns a whole number.
func (a Args) Int(name string) int {
	n, _ := a[name].(int)
	return n
}

// Bool returns a truth value.
func (a Args) Bool(name string) bool {
	b, _ := a[name].(bool)
	return b
}

// Has reports whether a name is given and not null.
func (a Args) Has(name string) bool { return a[name] != nil }

// List returns a list.
func (a Args) List(name string) []any {
	l, _ := a[name].([]any)
	return l
}

// Strings returns the texts of a list.
func (a Args) Strings(name string) []string {
	var out []string
	for _, v := range a.List(name) {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// Objects returns the objects of a list.
func (a Args) Objects(name string) []Args {
	var out []Args
	for _, v := range a.List(name) {
		if m, ok := v.(map[string]any); ok {
			out = append(out, Args(m))
		}
	}
	return out
}

// object builds the schema of an object; required names come last.
func object(properties map[string]Schema, required ...string) Schema {
	p := map[string]any{}
	for k, v := range properties {
		p[k] = map[string]any(v)
	}
	r := []any{}
	for _, n := range required {
		r = append(r, n)
	}
	return Schema{"type": "object", "properties": p, "required": r}
}

func text(description string) Schema {
	return Schema{"type": "string", "description": description}
}

func flag(description string) Schema {
	return Schema{"type": "boolean", "description": description, "default": false}
}

func choice(description string, values ...string) Schema {
	e := make([]any, len(values))
	for i, v := range values {
		e[i] = v
	}
	return Schema{"type": "string", "enum": e, "description": description}
}

func whole(description string, from, to, def int) Schema {
	s := Schema{"type": "integer", "description": description, "minimum": from, "default": def}
	if to > 0 {
		s["maximum"] = to
	}
	return s
}

func list(description string, of Schema) Schema {
	return Schema{"type": "array", "description": description, "items": map[string]any(of)}
}

// parseArgs reads what a model sent as arguments.
func parseArgs(raw json.RawMessage) (map[string]any, error) {
	raw = bytes.TrimSpace(raw)
	for range 2 { // an object, or a string that holds one
		if len(raw) == 0 || string(raw) == "null" {
			return map[string]any{}, nil
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("arguments are no valid JSON (%w): send the call again with all its arguments", err)
		}
		if _, err := d.Token(); err == nil {
			return nil, errors.New("arguments are more than one JSON value: send one object")
		}
		switch v := v.(type) {
		case map[string]any:
			return v, nil
		case string:
			raw = bytes.TrimSpace([]byte(v))
		default:
			return nil, fmt.Errorf("arguments are %s: send an object", kindOf(v))
		}
	}
	return nil, errors.New("arguments are a text: send an object")
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return fmt.Sprintf("the text %q", clip(v, 40))
	case json.Number, float64, int:
		return fmt.Sprintf("the number %v", v)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("%T", v)
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// wholeNumber reads a number or a text as a whole number.
func wholeNumber(s string) (int, bool) {
	s = strings.TrimSpace(s)
	if n, err := strconv.Atoi(s); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int(f), true
}
