// SPDX-License-Identifier: MIT

package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// call runs a tool by itself and returns its object.
func call(t testing.TB, tl Tool, args string) map[string]any {
	t.Helper()
	got := registry(t, tl).Select(Offer{Toolsets: []string{tl.Toolset}}).Call(t.Context(), Call{ID: "c", Name: tl.Name, Args: json.RawMessage(args)})
	var m map[string]any
	if err := json.Unmarshal([]byte(got.Content), &m); err != nil {
		t.Fatalf("%s: %v", got.Content, err)
	}
	return m
}

func get(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestMemory(t *testing.T) {
	t.Parallel()
	m := &Memory{Home: t.TempDir(), NoteLimit: 100}
	file := filepath.Join(m.Home, "memories", "MEMORY.md")
	tl := m.Tool()
	for _, row := range []struct{ args, file, say string }{
		{`{"action":"add","target":"memory","content":" first note "}`, "first note", `"entry_count":1`},
		{`{"action":"add","target":"memory","content":"first note"}`, "first note", "already"},
		{`{"action":"add","target":"memory","content":"second § note\nwith two lines"}`, "first note\n§\nsecond § note\nwith two lines", "41/100"},
		{`{"action":"replace","target":"memory","old_text":"note","content":"x"}`, "first note\n§\nsecond § note\nwith two lines", "several entries"},
		{`{"action":"replace","target":"memory","old_text":"nope","content":"x"}`, "first note\n§\nsecond § note\nwith two lines", "no entry has"},
		{`{"action":"replace","target":"memory","content":"x"}`, "first note\n§\nsecond § note\nwith two lines", "needs old_text"},
		{`{"action":"replace","target":"memory","old_text":"first","content":"changed"}`, "changed\n§\nsecond § note\nwith two lines", `"success":true`},
		{`{"action":"add","target":"memory","content":"` + strings.Repeat("ü", 80) + `"}`, "changed\n§\nsecond § note\nwith two lines", "of 100 characters"},
		{`{"action":"add","target":"memory","content":"a\n§\nb"}`, "changed\n§\nsecond § note\nwith two lines", "two entries"},
		{`{"target":"memory","operations":[{"action":"remove","old_text":"second"},{"action":"add","content":"` + strings.Repeat("y", 80) + `"}]}`, "changed\n§\n" + strings.Repeat("y", 80), `"success":true`},
		{`{"target":"memory","operations":[{"action":"remove","old_text":"changed"},{"action":"remove","old_text":"gone"}]}`, "changed\n§\n" + strings.Repeat("y", 80), "operation 2"},
		{`{"action":"remove","target":"memory","old_text":"yy"}`, "changed", `"entry_count":1`},
		{`{"action":"remove","target":"memory","old_text":"changed"}`, "", `"entry_count":0`},
		{`{"target":"memory"}`, "", "name an action"},
	} {
		got, err := json.Marshal(call(t, tl, row.args))
		if err != nil {
			t.Fatal(err)
		}
		if data, _ := os.ReadFile(file); string(data) != row.file || !strings.Contains(string(got), row.say) {
			t.Errorf("%s:\n got %q %s\nwant %q %s", row.args, data, got, row.file, row.say)
		}
	}
	if got := call(t, tl, `{"action":"add","target":"user","content":"likes tea"}`); got["success"] != true || get(t, filepath.Join(m.Home, "memories", "USER.md")) != "likes tea" {
		t.Errorf("%v", got)
	}
}

func TestMemoryBlock(t *testing.T) {
	t.Parallel()
	m := &Memory{Home: t.TempDir()}
	if got, err := m.Block("memory"); got != "" || err != nil {
		t.Errorf("nothing there: %q %v", got, err)
	}
	testkit.WriteTree(t, m.Home, map[string]string{"memories/MEMORY.md": "one\r\n§\r\ntwo\n§\none\n", "memories/USER.md": strings.Repeat("long ", 2000)})
	line := strings.Repeat("═", 46)
	want := line + "\nMEMORY (your personal notes) [0% — 9/2,200 chars]\n" + line + "\none\n§\ntwo"
	if got, err := m.Block("memory"); got != want || err != nil {
		t.Errorf("got %q, want %q (%v)", got, want, err)
	}
	got, err := m.Block("user")
	if err != nil || len(got) > 4500 || !strings.Contains(got, "OVER BUDGET") || !strings.Contains(got, "100% — 9,999/1,375") {
		t.Errorf("a file that somebody else filled: %d bytes, %v", len(got), err)
	}
	if got := call(t, m.Tool(), `{"action":"remove","target":"user","old_text":"long"}`); got["success"] != false || len(get(t, filepath.Join(m.Home, "memories", "USER.md"))) != 10_000 {
		t.Errorf("text that somebody else wrote was rewritten: %v", got)
	}
	m.NoteOff, m.UserOff = true, true
	if got, err := m.Block("memory"); got != "" || err != nil || m.Tool().Available() {
		t.Errorf("switched off: %q %v", got, err)
	}
}

func TestMemoryAsks(t *testing.T) {
	t.Parallel()
	var asked string
	m := &Memory{Home: t.TempDir(), AskToWrite: func(_ context.Context, summary, detail string) error {
		asked = summary + "\n" + detail
		return errors.New("the user said no")
	}}
	got := call(t, m.Tool(), `{"action":"add","target":"memory","content":"x"}`)
	if got["error"] != "the user said no" || !strings.Contains(asked, "add: x") {
		t.Errorf("%v, asked %q", got, asked)
	}
	if _, err := os.Stat(filepath.Join(m.Home, "memories", "MEMORY.md")); err == nil {
		t.Error("written all the same")
	}
}

const memoryEnv = "TOOL_TEST_MEMORY_HOME"

// TestMemoryTwoProcesses: processes and goroutines that add to one memory lose nothing.
func TestMemoryTwoProcesses(t *testing.T) {
	t.Parallel()
	const each = 15
	if home := os.Getenv(memoryEnv); home != "" {
		who, dir, _ := strings.Cut(home, ":")
		m := &Memory{Home: dir, NoteLimit: 1 << 20}
		for i := range each {
			if got := call(t, m.Tool(), fmt.Sprintf(`{"action":"add","target":"memory","content":"%s %d"}`, who, i)); got["success"] != true {
				t.Fatal(got)
			}
		}
		return
	}
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for p := range 3 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestMemoryTwoProcesses$", "-test.count=1")
			cmd.Env = append(os.Environ(), memoryEnv+"="+strconv.Itoa(p)+":"+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	m := &Memory{Home: dir, NoteLimit: 1 << 20}
	for g := range 2 {
		wg.Go(func() {
			for i := range each {
				if _, err := m.apply(t.Context(), "memory", []change{{"add", fmt.Sprintf("g%d %d", g, i), ""}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	entries, _, err := m.entries("memory")
	if err != nil || len(entries) != 5*each {
		t.Errorf("%d of %d entries are there (%v)", len(entries), 5*each, err)
	}
}

// TestMemoryModel: random changes against a plain list.
func TestMemoryModel(t *testing.T) {
	t.Parallel()
	m := &Memory{Home: t.TempDir(), NoteLimit: 60}
	rnd := rand.New(rand.NewPCG(9, 9))
	var model []string
	for range 400 {
		c := change{[]string{"add", "replace", "remove"}[rnd.IntN(3)], fmt.Sprintf("entry %c%c", 'a'+rnd.IntN(4), 'a'+rnd.IntN(4)), fmt.Sprintf("%c", 'a'+rnd.IntN(4))}
		next := slices.Clone(model)
		var hits []int
		for i, e := range model {
			if strings.Contains(e, c.old) {
				hits = append(hits, i)
			}
		}
		ok := true
		switch {
		case c.action == "add":
			if !slices.Contains(next, c.content) {
				next = append(next, c.content)
			}
		case len(hits) != 1:
			ok = false
		case c.action == "remove":
			next = slices.Delete(next, hits[0], hits[0]+1)
		default:
			if i := slices.Index(next, c.content); i >= 0 && i != hits[0] {
				next = slices.Delete(next, hits[0], hits[0]+1)
			} else {
				next[hits[0]] = c.content
			}
		}
		if count(next) > 60 && count(next) > count(model) {
			ok = false
		}
		_, err := m.apply(t.Context(), "memory", []change{c})
		if (err == nil) != ok {
			t.Fatalf("%+v on %q: %v", c, model, err)
		}
		if ok {
			model = next
		}
		if got, _, err := m.entries("memory"); err != nil || !slices.Equal(got, model) {
			t.Fatalf("%+v: got %q, want %q (%v)", c, got, model, err)
		}
	}
}
