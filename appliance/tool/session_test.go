// SPDX-License-Identifier: MIT

package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/files"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestTodo(t *testing.T) {
	t.Parallel()
	list := &Todo{}
	tl := list.Tool()
	if got := call(t, tl, `{}`); got["revision"] != 0.0 || len(got["todos"].([]any)) != 0 {
		t.Errorf("%v", got)
	}
	call(t, tl, `{"todos":[{"id":"1","content":"one","status":"pending"},{"id":"2","content":"two","status":"in_progress","parent":"1"},{"id":"3","content":"three","status":"pending","parent":"nope"},{"id":"3","content":"drei","status":"completed"}]}`)
	call(t, tl, `{"merge":true,"todos":[{"id":"2","status":"completed"},{"id":"4","content":"four","status":"pending","parent":"4"}]}`)
	items, revision := list.Items()
	want := []TodoItem{{"1", "one", "pending", ""}, {"2", "two", "completed", "1"}, {"3", "drei", "completed", ""}, {"4", "four", "pending", ""}}
	if diff := cmp.Diff(want, items); diff != "" || revision != 2 {
		t.Errorf("revision %d (-want +got):\n%s", revision, diff)
	}
	if got := call(t, tl, `{"todos":"[{\"id\":\"a\",\"content\":\"as text\"}]"}`); got["summary"].(map[string]any)["total"] != 1.0 {
		t.Errorf("a list in a text: %v", got)
	}
	list.Restore([]TodoItem{{"a", "x", "in_progress", "b"}, {"b", "y", "completed", "a"}, {"c", "z", "completed", ""}, {"d", "w", "pending", "c"}}, 7)
	if _, revision := list.Items(); revision != 7 {
		t.Errorf("revision %d", revision)
	}
	block := list.Block()
	for _, want := range []string{"- [>] a. x (in_progress)", "- [x] c. z (completed)\n  - [ ] d. w (pending)"} {
		if !strings.Contains(block, want) {
			t.Errorf("%q is not in\n%s", want, block)
		}
	}
	if (&Todo{}).Block() != "" {
		t.Error("an empty list has a block")
	}
	many := make([]TodoItem, 400)
	for i := range many {
		many[i] = TodoItem{ID: fmt.Sprint(i), Content: strings.Repeat("x", 5000), Parent: fmt.Sprint((i + 1) % 400)}
	}
	list.Restore(many, 0)
	if items, _ := list.Items(); len(items) != maxTodos || len(items[0].Content) > maxTodoChars+4 {
		t.Errorf("%d items", len(items))
	}
	list.Block() // a circle of parents ends
}

type asker func(q Question) ([]string, error)

func (a asker) Ask(_ context.Context, q Question) ([]string, error) { return a(q) }

func TestClarify(t *testing.T) {
	t.Parallel()
	if Clarify(nil).Available() {
		t.Error("offered where nobody can be asked")
	}
	var seen []Question
	tl := Clarify(asker(func(q Question) ([]string, error) {
		seen = append(seen, q)
		switch q.Text {
		case "gone":
			return nil, ErrNoAnswer
		case "broken":
			return nil, errors.New("the chat is closed")
		case "many":
			return []string{q.Choices[0], q.Choices[1]}, nil
		case "free":
			return []string{"my own words"}, nil
		}
		return q.Choices[:1], nil
	}))
	for _, row := range []struct{ args, want string }{
		{`{"question":"which","choices":["a","b"]}`, `{"choices_offered":["a","b"],"question":"which","user_response":"a"}`},
		{`{"question":"many","choices":[{"label":"a"},"{\"text\":\"b\"}","c (Recommended)","d","e"],"multi_select":"true"}`, `{"choices_offered":["a","b","c","d"],"question":"many","user_response":["a","b"]}`},
		{`{"question":"free","choices":[],"multi_select":true}`, `{"choices_offered":null,"question":"free","user_response":"my own words"}`},
		{`{"question":"gone"}`, `{"choices_offered":null,"question":"gone","user_response":"The user did not provide a response within the time limit. Use your best judgement to make the choice and proceed."}`},
		{`{"question":"broken"}`, `{"error":"the chat is closed"}`},
		{`{"question":" "}`, `{"error":"the question is empty"}`},
		{`{"questions":[{"id":"x","question":"free"},{"question":"gone"},{"question":"free"}]}`, `{"responses":[{"choices_offered":null,"id":"x","question":"free","user_response":"my own words"},{"choices_offered":null,"question":"gone","user_response":""},{"choices_offered":null,"question":"free","user_response":""}],"timed_out":true}`},
	} {
		text, err := encode(call(t, tl, row.args))
		if err != nil || text != row.want {
			t.Errorf("%s:\n got %s\nwant %s", row.args, text, row.want)
		}
	}
	if seen[0].Choices[0] != "a (Recommended)" {
		t.Errorf("shown: %q", seen[0].Choices)
	}
}

func TestFileTools(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	testkit.WriteTree(t, dir, map[string]string{"a.txt": "one\ntwo\n"})
	fs := files.New(&files.Direct{Dir: func() string { return dir }, Home: dir}, files.Guard{}, files.Limits{})
	r := registry(t, Files(func(context.Context) (*files.FS, error) { return fs, nil })...)
	set := r.Select(Offer{Toolsets: []string{"file"}})
	for _, row := range []struct {
		name, args, want string
		failed           bool
	}{
		{"read_file", `{"path":"a.txt"}`, `{"content":"1|one\n2|two","total_lines":2,"file_size":8}`, false},
		{"read_file", `{"path":"a.txt","offset":"2","limit":0}`, `"content":"2|two"`, false},
		{"read_file", `{"path":"nope.txt"}`, `"error":"file not found`, true},
		{"read_file", `{"file":"a.txt"}`, `\"file\" is not one of its arguments`, true},
		{"write_file", `{"path":"b.txt","content":"<&>\n"}`, `"verified":true`, false},
		{"write_file", `{"path":"b.txt"}`, `content\" is missing`, true},
		{"patch", `{"path":"b.txt","old_string":"<&>","new_string":"x"}`, `"diff":"--- a/`, false},
		{"patch", `{"mode":"replace","path":"b.txt"}`, `old_string\" is missing`, true},
		{"patch", `{"patch":"*** Begin Patch\n*** Delete File: b.txt\n*** End Patch"}`, `"files_deleted":["` + filepath.Join(dir, "b.txt"), false},
		{"patch", `{"mode":"patch"}`, `takes a V4A patch`, true},
		{"patch", `{"path":"a.txt","old_string":"nothing like","new_string":"x"}`, `"success":false`, true},
		{"search_files", `{"pattern":"tw.","target":"grep"}`, `"matches":[{"path":"` + filepath.Join(dir, "a.txt") + `","line":2,"content":"two"}]`, false},
		{"search_files", `{"pattern":"*.txt","target":"find"}`, `"files":["`, false},
		{"search_files", `{"pattern":"("}`, "regular expression", true},
	} {
		got := set.Call(t.Context(), Call{Name: row.name, Args: json.RawMessage(row.args)})
		if got.Failed != row.failed || !strings.Contains(got.Content, row.want) {
			t.Errorf("%s %s:\n got %s\nwant %s", row.name, row.args, got.Content, row.want)
		}
	}
	down := registry(t, Files(func(context.Context) (*files.FS, error) { return nil, errors.New("no backend") })...).Select(Offer{Toolsets: []string{"file"}})
	for _, row := range []Call{{Name: "read_file", Args: json.RawMessage(`{"path":"x"}`)}, {Name: "search_files", Args: json.RawMessage(`{"pattern":"x"}`)}} {
		if got := down.Call(t.Context(), row); got.Content != `{"error":"no backend"}` {
			t.Errorf("%+v", got)
		}
	}
}

func TestSpill(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("a line of a large result\n", 10_000)
	tl := Tool{Name: "big", Toolset: "big", MaxChars: 1000, Run: func(_ context.Context, a Args) (any, error) {
		if a.Bool("mcp") {
			return map[string]any{"result": big, "_meta": map[string]any{"k": "v"}}, nil
		}
		return map[string]any{"text": big}, nil
	}}
	home := t.TempDir()
	testkit.WriteTree(t, home, map[string]string{"cache/spillover/old.txt": "x", "cache/spillover/new.txt": "x"})
	past := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(filepath.Join(home, "cache/spillover/old.txt"), past, past); err != nil {
		t.Fatal(err)
	}
	run := func(s *Spill, id, args string) string {
		r := NewRegistry(quiet(), nil, s)
		if err := r.Add(tl); err != nil {
			t.Fatal(err)
		}
		return r.Select(Offer{Toolsets: []string{"big"}}).Call(t.Context(), Call{ID: id, Name: "big", Args: json.RawMessage(args)}).Content
	}
	s := &Spill{Home: home}
	got := run(s, "call_1", `{}`)
	path := filepath.Join(home, "cache", "spillover", "call_1.txt")
	if !strings.HasPrefix(got, "<persisted-output>") || !strings.Contains(got, "Full output saved to: "+path+"\n") || len(got) > 3000 {
		t.Errorf("%s", got)
	}
	var m map[string]string
	if err := json.Unmarshal([]byte(get(t, path)), &m); err != nil || m["text"] != big {
		t.Errorf("the file is not the result: %v", err)
	}
	if _, err := os.Stat(filepath.Join(home, "cache/spillover/old.txt")); err == nil {
		t.Error("yesterday's result is still there")
	}
	if _, err := os.Stat(filepath.Join(home, "cache/spillover/new.txt")); err != nil {
		t.Error("today's result is gone")
	}
	run(s, "mcp", `{"mcp":true}`)
	if text := get(t, filepath.Join(home, "cache/spillover/mcp.txt")); !strings.HasPrefix(text, big) || !strings.Contains(text, `"k": "v"`) {
		t.Errorf("an MCP result's lines are not lines: %.80q", text)
	}
	there := &Spill{Home: home, Visible: func(_ context.Context, p string) (string, bool) { return "/in" + p, true }}
	if got := run(there, "c2", `{}`); !strings.Contains(got, "saved to: /in"+home) {
		t.Errorf("where the backend reads it: %.200s", got)
	}
	kept := &Spill{Home: home, Visible: func(context.Context, string) (string, bool) { return "", false }, Keep: func(_ context.Context, name string, data []byte) (string, error) {
		return fmt.Sprintf("/tmp/%s:%d", name, len(data)), nil
	}}
	if got := run(kept, "c3", `{}`); !strings.Contains(got, "saved to: /tmp/c3.txt:26") {
		t.Errorf("kept in the backend: %.200s", got)
	}
	for name, s := range map[string]*Spill{
		"nowhere": nil, "backend cannot": {Home: home, Visible: kept.Visible},
		"disk full": {Home: home, Files: atomicfile.Writer{Before: func(op atomicfile.Op, _ string) error {
			if op == atomicfile.OpWrite {
				return errors.New("no space left")
			}
			return nil
		}}},
	} {
		if got := run(s, "c4", `{}`); !strings.Contains(got, "[Truncated") || len(got) > 2000 {
			t.Errorf("%s: %.200s", name, got)
		}
	}
}

func TestSafeName(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, id := range []string{"call_1", "", "../../etc/passwd", "a/b", "a_b", "a b", strings.Repeat("x", 500), strings.Repeat("x", 501), "..", "ü", "toolu_01A.b-c"} {
		got := safeName(id)
		if strings.ContainsAny(got, "/\\ ") || strings.HasPrefix(got, ".") || len(got) > maxStem+13+4 {
			t.Errorf("%q: %q", id, got)
		}
		if seen[got] != "" {
			t.Errorf("%q and %q are both %q", seen[got], id, got)
		}
		seen[got] = id
	}
	if safeName("call_1") != "call_1.txt" {
		t.Error("a plain id changed")
	}
}
