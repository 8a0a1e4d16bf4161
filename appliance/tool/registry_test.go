// SPDX-License-Identifier: MIT

package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func simple(name, set string) Tool {
	return Tool{Name: name, Toolset: set, Description: name, Schema: object(nil), Run: func(context.Context, Args) (any, error) { return map[string]any{"ok": name}, nil }}
}

func shown(s *Set) []string {
	var out []string
	for _, t := range s.Tools() {
		out = append(out, t.Name)
	}
	return out
}

func registry(t testing.TB, tools ...Tool) *Registry {
	t.Helper()
	r := NewRegistry(quiet(), nil, nil)
	if err := r.Add(tools...); err != nil {
		t.Fatal(err)
	}
	return r
}

func all() []Tool {
	process := simple("process_manage", "terminal")
	process.Aliases = []string{"process"}
	hidden := simple("web_search", "web")
	hidden.Available = func() bool { return false }
	return []Tool{
		simple("terminal", "terminal"), process, simple("read_file", "file"), simple("patch", "file"), simple("memory", "memory"), simple("clarify", "clarify"), hidden, simple("web_extract", "web"),
		simple("cronjob_manage", "cronjob"), simple("mcp__git__log", "mcp-git"), simple("mcp__db__query", "mcp-db"), simple("own_tool", "own"),
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	everything := []string{"terminal", "process_manage", "read_file", "patch", "memory", "clarify", "web_extract", "cronjob_manage", "mcp__git__log", "mcp__db__query"}
	for _, row := range []struct {
		name  string
		offer Offer
		want  []string
	}{
		{"telegram's own", Offer{Platform: "telegram"}, everything},
		{"api server has nobody to ask", Offer{Platform: "api_server"}, slices.DeleteFunc(slices.Clone(everything), func(n string) bool { return n == "clarify" })},
		{"webhook payloads are untrusted", Offer{Platform: "webhook", Toolsets: []string{"hermes-webhook", NoMCP}}, []string{"clarify", "web_extract"}},
		{"a list", Offer{Platform: "slack", Toolsets: []string{"file", "memory", "no_mcp"}}, []string{"read_file", "patch", "memory"}},
		{"an empty list is no tool", Offer{Platform: "slack", Toolsets: []string{NoMCP}}, nil},
		{"composite", Offer{Toolsets: []string{"debugging", NoMCP}}, []string{"terminal", "process_manage", "read_file", "patch", "web_extract"}},
		{"disabled wins", Offer{Platform: "telegram", Disabled: []string{"terminal", "web", "mcp"}}, []string{"read_file", "patch", "memory", "clarify", "cronjob_manage"}},
		{"one server", Offer{Toolsets: []string{"memory", "git"}}, []string{"memory", "mcp__git__log"}},
		{"a server disabled", Offer{Toolsets: []string{"memory"}, Disabled: []string{"mcp-db"}}, []string{"memory", "mcp__git__log"}},
		{"a single tool", Offer{Toolsets: []string{"patch", NoMCP}}, []string{"patch"}},
		{"an old name", Offer{Toolsets: []string{"process", NoMCP}}, []string{"process_manage"}},
		{"a toolset that only a tool names", Offer{Toolsets: []string{"own", NoMCP}}, []string{"own_tool"}},
		{"unknown names are dropped", Offer{Toolsets: []string{"nonsense", "memory", NoMCP}, Disabled: []string{"more nonsense"}}, []string{"memory"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(row.want, shown(registry(t, all()...).Select(row.offer))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownToolsetWarnsOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := NewRegistry(slog.New(slog.NewTextHandler(&log, nil)), nil, nil)
	for range 3 {
		r.Select(Offer{Platform: "slack", Toolsets: []string{"nonsense"}})
	}
	if n := strings.Count(log.String(), "nonsense"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
}

// TestToolsetsNameKnownTools: every toolset can be expanded, and none is empty.
func TestToolsetsNameKnownTools(t *testing.T) {
	t.Parallel()
	for name, set := range toolsets() {
		tools, ok := expand(name)
		if !ok || len(tools) == 0 {
			t.Errorf("%s: %v %v", name, tools, ok)
		}
		for _, i := range set.includes {
			if _, ok := toolsets()[i]; !ok {
				t.Errorf("%s includes %s, which does not exist", name, i)
			}
		}
		for _, n := range tools {
			if !slices.Contains(core(), n) {
				t.Errorf("%s has %s, which is no upstream name", name, n)
			}
		}
	}
	for _, p := range []string{"telegram", "api_server", "webhook", "cron", "", "homeassistant"} {
		if _, ok := expand(platformToolset(p)); !ok {
			t.Errorf("the platform %q has no toolset", p)
		}
	}
}

func TestAddRefusesTakenNames(t *testing.T) {
	t.Parallel()
	r := registry(t, all()...)
	for _, bad := range []Tool{simple("patch", "x"), simple("process", "x"), {Name: "x"}} {
		if err := r.Add(simple("fine"+bad.Name, "x"), bad); err == nil {
			t.Errorf("%s was added", bad.Name)
		}
	}
	if slices.Contains(shown(r.Select(Offer{Toolsets: []string{"x"}})), "finepatch") {
		t.Error("half of a refused list was added")
	}
	r.Remove("mcp-git")
	if err := r.Add(simple("mcp__git__log", "mcp-git")); err != nil {
		t.Errorf("listed anew: %v", err)
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	secret := "sk-verysecretvalue"
	echo := Tool{
		Name: "echo", Aliases: []string{"say"}, Toolset: "own",
		Schema: object(map[string]Schema{"text": text("What to say"), "n": whole("How often", 1, 3, 1)}, "text"),
		Run: func(_ context.Context, a Args) (any, error) {
			switch a.String("text") {
			case "panic":
				panic("boom " + secret)
			case "fail":
				return nil, errors.New("no <good> & bad")
			case "extra":
				return nil, &CallError{"refused", map[string]any{"why": "because", "error": "not this"}}
			case "soft":
				return map[string]any{"success": false, "error": "soft"}, nil
			case "list":
				return []string{"no object"}, nil
			case "channel":
				return make(chan int), nil
			}
			return map[string]any{"text": strings.Repeat(a.String("text"), max(1, a.Int("n")))}, nil
		},
	}
	hidden := simple("hidden", "own")
	hidden.Available = func() bool { return false }
	r := NewRegistry(quiet(), func(s string) string { return strings.ReplaceAll(s, secret, `"***"`) }, nil)
	if err := r.Add(echo, hidden, simple("elsewhere", "other")); err != nil {
		t.Fatal(err)
	}
	set := r.Select(Offer{Toolsets: []string{"own"}})
	for _, row := range []struct {
		name, args, want string
		failed           bool
	}{
		{"echo", `{"text":"hi"}`, `{"text":"hi"}`, false},
		{"say", `{"text":"hi","n":"2"}`, `{"text":"hihi"}`, false},
		{" echo ", `"{\"text\":\"<hi>\"}"`, `{"text":"<hi>"}`, false},
		{"echo", `{"text":"a ` + secret + `"}`, `{"text":"a \"***\""}`, false},
		{"echo", `{"text":"fail"}`, `{"error":"no <good> & bad"}`, true},
		{"echo", `{"text":"extra"}`, `{"error":"refused","why":"because"}`, true},
		{"echo", `{"text":"soft"}`, `{"error":"soft","success":false}`, true},
		{"echo", `{"text":"panic"}`, "failed unexpectedly", true},
		{"echo", `{"text":"list"}`, "not an object", true},
		{"echo", `{"text":"channel"}`, "cannot be shown", true},
		{"echo", `{}`, `"text\" is missing (What to say)`, true},
		{"echo", ``, "is missing", true},
		{"echo", `{"text":"x","n":9}`, "at most 3", true},
		{"echo", `{"text"`, "no valid JSON", true},
		{"echo", `[1]`, "send an object", true},
		{"hidden", `{}`, "there is no tool", true},
		{"elsewhere", `{}`, "there is no tool", true},
		{"nope", `{}`, `There are: echo`, true},
	} {
		got := set.Call(t.Context(), Call{Name: row.name, Args: json.RawMessage(row.args)})
		if got.Failed != row.failed || !strings.Contains(got.Content, row.want) {
			t.Errorf("%s %s: got %+v, want %s", row.name, row.args, got, row.want)
		}
		var m map[string]any
		if err := json.Unmarshal([]byte(got.Content), &m); err != nil {
			t.Errorf("%s %s: no JSON object: %s", row.name, row.args, got.Content)
		}
		if strings.Contains(got.Content, secret) {
			t.Errorf("%s: the secret is in %s", row.name, got.Content)
		}
	}
	if got := set.Call(t.Context(), Call{Name: "say", Args: json.RawMessage(`{"text":"x"}`)}); got.Name != "echo" {
		t.Errorf("name %q, want the tool's own", got.Name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := set.Call(ctx, Call{Name: "echo", Args: json.RawMessage(`{"text":"x"}`)}); !got.Failed || !strings.Contains(got.Content, "not started") {
		t.Errorf("after the end: %+v", got)
	}
}

// TestRegistryRace: tools come and go while others are called.
func TestRegistryRace(t *testing.T) {
	t.Parallel()
	r := registry(t, all()...)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 200 {
				if i%2 == 0 {
					r.Remove("mcp-git")
					_ = r.Add(simple("mcp__git__log", "mcp-git"))
					continue
				}
				s := r.Select(Offer{Platform: "telegram"})
				s.Tools()
				s.Call(t.Context(), Call{Name: "mcp__git__log"})
			}
		})
	}
	wg.Wait()
}

func TestCheck(t *testing.T) {
	t.Parallel()
	schema := object(map[string]Schema{
		"s": text("a text"), "i": whole("a number", 0, 10, 0), "f": {"type": "number"}, "b": flag("a flag"), "e": choice("one of", "add", "remove"),
		"l": list("texts", text("t")), "o": object(map[string]Schema{"x": whole("x", 0, 0, 0)}, "x"), "n": {"type": []any{"integer", "null"}}, "any": {},
		"os": list("objects", object(map[string]Schema{"k": text("k")}, "k")), "two": {"type": "array", "minItems": 2, "items": map[string]any{"type": "integer"}},
	})
	for _, row := range []struct{ in, want, fail string }{
		{`{"s":"x","i":3,"f":1.5,"b":true,"e":"add","l":["a"],"o":{"x":1}}`, `{"s":"x","i":3,"f":1.5,"b":true,"e":"add","l":["a"],"o":{"x":1}}`, ""},
		{`{"i":"7","f":"2.5","b":"True","e":"ADD"}`, `{"i":7,"f":2.5,"b":true,"e":"add"}`, ""},
		{`{"i":7.0,"b":"no","s":5}`, `{"i":7,"b":false,"s":"5"}`, ""},
		{`{"b":1}`, `{"b":true}`, ""},
		{`{"l":"a","os":{"k":"v"}}`, `{"l":["a"],"os":[{"k":"v"}]}`, ""},
		{`{"l":"[\"a\",\"b\"]","o":"{\"x\":\"4\"}"}`, `{"l":["a","b"],"o":{"x":4}}`, ""},
		{`{"l":[1,{"a":"<b>"}]}`, `{"l":["1","{\"a\":\"<b>\"}"]}`, ""},
		{`{"n":null,"s":null}`, `{"n":null}`, ""},
		{`{"n":"null"}`, `{"n":null}`, ""},
		{`{"unknown":[1,2.5,"x"],"any":{"a":1}}`, `{"unknown":[1,2.5,"x"],"any":{"a":1}}`, ""},
		{`{"i":11}`, "", `"i" must be at most 10, not 11`},
		{`{"i":-1}`, "", `"i" must be at least 0`},
		{`{"i":"many"}`, "", `"i" must be a whole number, not the text "many"`},
		{`{"i":2.5}`, "", `"i" must be a whole number, not the number 2.5`},
		{`{"i":1e300}`, "", "whole number"},
		{`{"b":"maybe"}`, "", "true or false"},
		{`{"e":"drop"}`, "", `must be one of "add", "remove"`},
		{`{"o":{"y":1}}`, "", `"o.x" is missing (x); "y" is not one of its arguments`},
		{`{"os":[{"k":1},{}]}`, "", `"os[1].k" is missing`},
		{`{"two":[1]}`, "", "at least 2 items"},
		{`{"s":{"a":1}}`, "", `"s" must be a text, not an object`},
	} {
		raw, err := parseArgs(json.RawMessage(row.in))
		if err != nil {
			t.Fatal(err)
		}
		got, err := check(schema, raw)
		if row.fail != "" {
			if err == nil || !strings.Contains(err.Error(), row.fail) {
				t.Errorf("%s: got %v, %v, want %q", row.in, got, err, row.fail)
			}
			continue
		}
		text, merr := encode(got)
		var a, b any
		if err := errors.Join(err, merr, json.Unmarshal([]byte(text), &a), json.Unmarshal([]byte(row.want), &b)); err != nil {
			t.Errorf("%s: %v", row.in, err)
		}
		if diff := cmp.Diff(b, a); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.in, diff)
		}
	}
}

// FuzzCall: whatever arguments a model sends, there is a JSON object for it, and what the
// tool gets has the types that its schema promises.
func FuzzCall(f *testing.F) {
	f.Add(`{"s":"x","i":"3","b":1,"l":"a"}`)
	f.Add(`"{\"i\":[[]]}"`)
	f.Add(`{"i":1e400,"f":"NaN","l":{"a":[null]}}`)
	schema := object(map[string]Schema{"s": text(""), "i": whole("", 0, 0, 0), "f": {"type": "number"}, "b": flag(""), "l": list("", text(""))})
	r := registry(f, Tool{Name: "t", Toolset: "t", Schema: schema, Run: func(_ context.Context, a Args) (any, error) {
		for k, want := range map[string]string{"s": "string", "i": "int", "f": "float64", "b": "bool", "l": "[]interface {}"} {
			if v, ok := a[k]; ok && v != nil && fmt.Sprintf("%T", v) != want {
				panic(fmt.Sprintf("%s is %T", k, v))
			}
		}
		return map[string]any{"args": a}, nil
	}})
	set := r.Select(Offer{Toolsets: []string{"t"}})
	f.Fuzz(func(t *testing.T, args string) {
		got := set.Call(t.Context(), Call{Name: "t", Args: json.RawMessage(args)})
		var m map[string]any
		if err := json.Unmarshal([]byte(got.Content), &m); err != nil && !strings.HasPrefix(got.Content, "<persisted") && !strings.Contains(got.Content, "[Truncated") {
			t.Fatalf("%q: %s", args, got.Content)
		}
		if strings.Contains(got.Content, "unexpectedly") {
			t.Fatalf("%q: wrong type reached the tool", args)
		}
	})
}
