// SPDX-License-Identifier: MIT

package model

import (
	"encoding/json"
	"strings"
	"testing"
)

func rehearsalTurn(t *testing.T, text string, tools []ToolSpec, result string) (calls []Call, answers []string) {
	t.Helper()
	req := Request{Messages: []Message{Text(User, text)}, Tools: tools}
	for range 10 {
		var said strings.Builder
		a, err := newClient(t).Stream(t.Context(), Route{APIMode: RehearsalMode}, req, func(d Delta) { said.WriteString(d.Text) })
		if err != nil {
			t.Fatal(err)
		}
		if said.String() != a.Message.Text() || !strings.HasPrefix(said.String(), RehearsalName) || !strings.Contains(said.String(), "no AI") && !strings.Contains(said.String(), "not an AI") {
			t.Errorf("it does not say what it is: %q", said.String())
		}
		answers = append(answers, a.Message.Text())
		if len(a.Message.Calls) == 0 {
			return calls, answers
		}
		req.Messages = append(req.Messages, a.Message)
		for _, c := range a.Message.Calls {
			calls = append(calls, c)
			req.Messages = append(req.Messages, Result(c, result, false))
		}
	}
	t.Fatal("it does not come to an end")
	return nil, nil
}

func TestRehearsal(t *testing.T) {
	t.Parallel()
	terminal := ask("").Tools
	reader := []ToolSpec{{Name: "read_file", Schema: json.RawMessage(`{"type":"object","properties":{"path":{}},"required":["path"]}`)}}
	shell := []ToolSpec{{Name: "sh", Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)}}
	cmd := func(s string) string { return string(mustJSON(map[string]string{"command": s})) }
	tests := []struct {
		text  string
		tools []ToolSpec
		want  []string // arguments of the calls
	}{
		{"run: uname -a", terminal, []string{cmd("uname -a")}},
		{"Please run `echo \"a b\" && ls`", terminal, []string{cmd(`echo "a b" && ls`)}},
		{"could you execute: df -h", terminal, []string{cmd("df -h")}},
		{"$ id", terminal, []string{cmd("id")}},
		{"run: date\nthen run: pwd\n", terminal, []string{cmd("date"), cmd("pwd")}},
		{"Hi! What time is it?", terminal, []string{cmd("date")}},
		{"Can you list the files here?", shell, []string{cmd("ls -la")}},
		{"call: read_file {\"path\": \"SOUL.md\"}", reader, []string{`{"path": "SOUL.md"}`}},
		{"run the tests", terminal, nil},
		{"run: uname -a", reader, nil},
		{"run: uname -a", nil, nil},
		{"call: nothing", terminal, nil},
		{"hello", terminal, nil},
		{"", nil, nil},
	}
	for _, tt := range tests {
		calls, answers := rehearsalTurn(t, tt.text, tt.tools, `{"output": "it works\n", "exit_code": 3}`)
		var got []string
		for _, c := range calls {
			got = append(got, c.Args)
		}
		if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%q: calls %q, want %q", tt.text, got, tt.want)
		}
		last := answers[len(answers)-1]
		if len(tt.want) > 0 && (!strings.Contains(last, "it works") || len(tt.want[0]) > 0 && strings.Contains(tt.want[0], "command") && !strings.Contains(last, "exit code 3")) {
			t.Errorf("%q: the result is not told: %q", tt.text, last)
		}
	}
}

func TestRehearsalTellsFailures(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]string{
		`{"error": "BLOCKED: no"}`:      "failed:\n```\nBLOCKED: no",
		`{"output": "", "exit_code":0}`: "ended with exit code 0 without any output",
		`no JSON`:                       "came back with:\n```\nno JSON",
	} {
		_, answers := rehearsalTurn(t, "run: x", ask("").Tools, result)
		if last := answers[len(answers)-1]; !strings.Contains(last, want) {
			t.Errorf("got %q, want %q in it", last, want)
		}
	}
}

func TestRehearsalClosesWithoutCalls(t *testing.T) {
	t.Parallel()
	req := ask("run: ls")
	req.NoCalls = true
	a, err := Rehearsal{}.Stream(t.Context(), Route{}, req, nil)
	if err != nil || len(a.Message.Calls) != 0 {
		t.Errorf("%+v, %v", a, err)
	}
}
