// SPDX-License-Identifier: MIT

package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func day() time.Time { return time.Date(2026, 11, 30, 23, 59, 0, 0, time.UTC) }

func store(home string) *Store {
	return calm(Options{Home: home, Tools: []string{"terminal", "patch"}})
}

// calm makes a store that writes when a test says so, and at its end.
func calm(o Options) *Store {
	o.Providers, o.Now = []string{"openai"}, day
	s := New(o)
	s.every = time.Hour
	return s
}

// rows closes a store and returns what it wrote, one text a row.
func rows(t *testing.T, s *Store) []string {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := Read(s.o.Home)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range all {
		dims, err := json.Marshal(r.Dims)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s %s %s %d", r.Day, r.Name, dims, r.Value))
	}
	return out
}

func TestClosedValues(t *testing.T) {
	t.Parallel()
	type dims = map[string]string
	for name, tt := range map[string]struct {
		counter string
		in      dims
		want    string // the values; "" = dropped
	}{
		"edit":            {FileEdit, dims{"tool": "patch", "mode": "v4a", "outcome": "applied", "match_strategy": "block_anchor"}, `{"match_strategy":"block_anchor","mode":"v4a","outcome":"applied","tool":"patch"}`},
		"edit, unknown":   {FileEdit, dims{"tool": "patch", "mode": "?", "outcome": "?", "match_strategy": "?"}, `{"match_strategy":"none","mode":"replace","outcome":"failed","tool":"patch"}`},
		"edit, other":     {FileEdit, dims{"tool": "skill_manage", "mode": "replace", "outcome": "applied"}, ""},
		"guard":           {LoopGuard, dims{"provider": "openai", "model": "gpt-5", "signal": "iteration_cap", "detector": "iteration_budget"}, `{"detector":"iteration_budget","model":"gpt-5","provider":"openai","signal":"iteration_cap"}`},
		"guard, signal":   {LoopGuard, dims{"provider": "openai", "model": "gpt-5", "signal": "x", "detector": "iteration_budget"}, ""},
		"guard, detector": {LoopGuard, dims{"provider": "openai", "model": "gpt-5", "signal": "iteration_cap", "detector": "self_answering_cap"}, ""},
		"recovery":        {ToolRecovery, dims{"provider": "mine", "model": "secret", "tool": "mcp_acme_pay", "next_tool": "same", "next_outcome": "error"}, `{"model":"custom","next_outcome":"error","next_tool":"same","provider":"custom","tool":"mcp"}`},
		"recovery, named": {ToolRecovery, dims{"provider": "openai", "model": "gpt-5", "tool": "terminal", "next_tool": "read_file", "next_outcome": "error"}, ""},
		"recovery, tool":  {ToolRecovery, dims{"provider": "", "model": "", "tool": "acme_tool", "next_tool": "none", "next_outcome": "gave_up"}, `{"model":"unknown","next_outcome":"gave_up","next_tool":"none","provider":"unknown","tool":"plugin"}`},
		"terminal":        {Terminal, dims{"backend": "docker", "command_kind": "git", "outcome": "ok"}, `{"backend":"docker","command_kind":"git","outcome":"ok"}`},
		"terminal, else":  {Terminal, dims{"backend": "acme", "command_kind": "rm -rf /", "outcome": "nonzero"}, `{"backend":"other","command_kind":"other","outcome":"nonzero"}`},
		"terminal, end":   {Terminal, dims{"backend": "docker", "command_kind": "git", "outcome": "exploded"}, ""},
		"reply":           {ModelReplyIssue, dims{"provider": "OpenAI", "model": "GPT-5", "issue": "none", "prompt": "hello"}, `{"issue":"none","model":"gpt-5","provider":"openai"}`},
		"no counter":      {"hermes.secrets.count", dims{"value": "x"}, ""},
		"no dimensions":   {ModelReplyIssue, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			s := store(home)
			s.Count(tt.counter, tt.in)
			s.Count(tt.counter, tt.in)
			got := rows(t, s)
			if tt.want == "" {
				if entries, err := os.ReadDir(home); err != nil || len(entries) != 0 || got != nil {
					t.Errorf("a dropped count left %v, %v, %v", got, entries, err)
				}
				return
			}
			if diff := cmp.Diff([]string{"2026-11-30 " + tt.counter + " " + tt.want + " 2"}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestModelNames(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"GPT-5": "gpt-5", "anthropic/claude-opus-4.5": "anthropic/claude-opus-4.5", "qwen3:free": "qwen3:free", "x-v1:0": "x-v1:0", "": "unknown",
		"http://10.0.0.1/m": custom, "localhost:8080": custom, "localhost/llama": custom, "10.0.0.7/llama": custom, "box:8080/llama": custom,
		"/home/ann/m.gguf": custom, "m.gguf": custom, "c:/models/x": custom, "arn:aws:bedrock:1234:x": custom, "ft:gpt-4:acme::1": custom,
		"two words": custom, "name\nline": custom, strings.Repeat("m", 129): custom, "ä": custom,
	} {
		if got := modelName(raw, "openai"); got != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
		if got := modelName(raw, custom); got != custom {
			t.Errorf("%q at a server of one's own: got %q", raw, got)
		}
	}
}

// TestNoFileWithoutACount: neither a store nor its end leaves anything in the home.
func TestNoFileWithoutACount(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s := store(home)
	if got := rows(t, s); got != nil {
		t.Errorf("got %v", got)
	}
	s.Count(ModelReplyIssue, map[string]string{"issue": "none"})
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 0 {
		t.Errorf("got %v, %v", entries, err)
	}
}

func reply(model string) map[string]string {
	return map[string]string{"provider": "openai", "model": model, "issue": "none"}
}

func TestSums(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	var wg sync.WaitGroup
	one, two := store(home), store(home)
	for range 8 {
		wg.Go(func() {
			for range 100 {
				one.Count(ModelReplyIssue, reply("a"))
				one.Count(ModelReplyIssue, reply("b"))
			}
		})
	}
	wg.Wait()
	rows(t, one)
	two.Count(ModelReplyIssue, reply("a")) // another process goes on with the same file
	want := []string{
		`2026-11-30 hermes.model_reply_issue.count {"issue":"none","model":"a","provider":"openai"} 801`,
		`2026-11-30 hermes.model_reply_issue.count {"issue":"none","model":"b","provider":"openai"} 800`,
	}
	if diff := cmp.Diff(want, rows(t, two)); diff != "" {
		t.Error(diff)
	}
	if runtime.GOOS != "windows" {
		for path, mode := range map[string]os.FileMode{Path(home): 0o600, filepath.Dir(Path(home)): 0o700} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
		}
	}
}

// TestWritesByItself: a gateway that runs for months writes before it ends.
func TestWritesByItself(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	written := make(chan struct{}, 8)
	s := calm(Options{Home: home, Files: atomicfile.Writer{Before: func(op atomicfile.Op, _ string) error {
		if op == atomicfile.OpRename {
			written <- struct{}{}
		}
		return nil
	}}})
	s.every = 0
	for range 2 {
		s.Count(ModelReplyIssue, reply("a"))
		<-written
	}
	if got := rows(t, s); len(got) != 1 || !strings.HasSuffix(got[0], " 2") {
		t.Errorf("got %v", got)
	}
}

func TestOldDaysGo(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	testkit.WriteTree(t, home, map[string]string{"metrics/counters.json": `{"schema":1,"counters":[
		{"day":"2026-10-30","name":"old","dims":{},"value":1},{"day":"2026-10-31","name":"kept","dims":{},"value":7}]}`})
	s := store(home)
	s.Count(ModelReplyIssue, reply("a"))
	got := rows(t, s)
	if len(got) != 2 || got[0] != "2026-10-31 kept {} 7" {
		t.Errorf("got %v", got)
	}
}

// TestRowsAreBounded: who names models without end fills neither memory nor disk.
func TestRowsAreBounded(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, names := range []string{"a", "b"} {
		s := store(home)
		for i := range maxRows + 10 {
			s.Count(ModelReplyIssue, reply(fmt.Sprint(names, i)))
		}
		s.mu.Lock()
		waiting := len(s.pending)
		s.mu.Unlock()
		if waiting != maxRows {
			t.Errorf("%d rows wait", waiting)
		}
		got := rows(t, s)
		if len(got) != maxRows {
			t.Fatalf("%d rows", len(got))
		}
	}
}

// TestTroubleNeverRaises: a file that cannot be read or written costs a log line; what was
// counted is written once it can be.
func TestTroubleNeverRaises(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"not JSON":    {map[string]string{"metrics/counters.json": "{"}, "move it away"},
		"newer":       {map[string]string{"metrics/counters.json": `{"schema":2}`}, "schema 2"},
		"in the way":  {map[string]string{"metrics": "a file"}, "metrics"},
		"a directory": {map[string]string{"metrics/counters.json/": ""}, "counters.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			testkit.WriteTree(t, home, tt.files)
			var log strings.Builder
			s := calm(Options{Home: home, Log: slog.New(slog.NewTextHandler(&log, nil))})
			s.Count(ModelReplyIssue, reply("a"))
			for range 2 {
				if err := s.flush(); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
			}
			if n := strings.Count(log.String(), "counters were not written"); n != 1 {
				t.Errorf("%d warnings: %s", n, log.String())
			}
			before := testkit.ReadTree(t, home)
			if err := s.flush(); err == nil {
				t.Error("no error")
			}
			if diff := cmp.Diff(before, testkit.ReadTree(t, home)); diff != "" {
				t.Errorf("the file in the way was changed: %s", diff)
			}
			if err := os.RemoveAll(filepath.Join(home, "metrics")); err != nil {
				t.Fatal(err)
			}
			if got := rows(t, s); len(got) != 1 {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestDeletedHomeStaysDeleted: a late write does not make a removed profile again.
func TestDeletedHomeStaysDeleted(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "gone")
	s := store(home)
	s.Count(ModelReplyIssue, reply("a"))
	if err := s.Close(t.Context()); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestCountDoesNotWait: counting goes on while the disk hangs, and Close gives up with its
// context.
func TestCountDoesNotWait(t *testing.T) {
	t.Parallel()
	hold, held := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := calm(Options{Home: t.TempDir(), Files: atomicfile.Writer{Before: func(atomicfile.Op, string) error {
		once.Do(func() { close(held) })
		<-hold
		return nil
	}}})
	s.Count(ModelReplyIssue, reply("a"))
	flushed := make(chan error, 1)
	go func() { flushed <- s.flush() }()
	<-held
	for range 1000 {
		s.Count(ModelReplyIssue, reply("b"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(hold)
	if err := errors.Join(<-flushed, <-s.done); err != nil {
		t.Error(err)
	}
	if got, err := Read(s.o.Home); err != nil || len(got) != 2 || got[1].Value != 1000 {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestNothingIsTornOrLost fails every step of a write in turn: the file stays whole, and the
// count comes with the next one.
func TestNothingIsTornOrLost(t *testing.T) {
	t.Parallel()
	for step := range 40 {
		home := t.TempDir()
		first := store(home)
		first.Count(ModelReplyIssue, reply("a"))
		rows(t, first)
		n, failed := 0, false
		boom := errors.New("boom")
		s := calm(Options{Home: home, Files: atomicfile.Writer{Before: func(op atomicfile.Op, _ string) error {
			// After the rename the new content is there: only a power cut takes it back.
			if n++; n == step+1 && op != atomicfile.OpSyncDir {
				failed = true
				return boom
			}
			return nil
		}}})
		s.Count(ModelReplyIssue, reply("a"))
		err := s.flush()
		if failed && !errors.Is(err, boom) {
			t.Fatalf("step %d: %v", step, err)
		}
		if got := rows(t, s); len(got) != 1 || !strings.HasSuffix(got[0], " 2") {
			t.Errorf("step %d: %v", step, got)
		}
		if n <= step {
			return
		}
	}
	t.Error("a write has more steps than this test")
}

func TestConsent(t *testing.T) {
	t.Parallel()
	yes, no, none, bad := Profile{Has: true, On: true}, Profile{Has: true}, Profile{}, Profile{Has: true, On: true, Err: errors.New("text")}
	for name, tt := range map[string]struct {
		profile Profile
		file    string
		env     string
		on      bool
		by      Source
	}{
		"nobody":              {none, "", "", false, FromDefault},
		"profile":             {yes, "", "", true, FromProfile},
		"profile over all":    {no, `{"share":true}`, "true", false, FromProfile},
		"profile, against":    {yes, `{"share":false}`, "false", true, FromProfile},
		"profile, unreadable": {bad, `{"share":true}`, "true", false, FromProfile},
		"person":              {none, `{"share":true,"decided_at":"x"}`, "false", true, FromPerson},
		"person, against":     {none, `{"share":false}`, "true", false, FromPerson},
		"person, unreadable":  {none, `{"share":"yes"}`, "true", false, FromPerson},
		"person, torn":        {none, `{"sha`, "true", false, FromPerson},
		"deployment":          {none, "", " On ", true, FromDeployment},
		"deployment, against": {none, "", "false", false, FromDeployment},
		"deployment, else":    {none, "", "perhaps", false, FromDeployment},
		"deployment, blank":   {none, "", "  ", false, FromDefault},
	} {
		root := t.TempDir()
		if tt.file != "" {
			testkit.WriteTree(t, root, map[string]string{"telemetry-consent.json": tt.file})
		}
		on, by := Consent(tt.profile, root, func(n string) string {
			if n != ConsentVar {
				t.Errorf("asked for %s", n)
			}
			return tt.env
		})
		if on != tt.on || by != tt.by {
			t.Errorf("%s: got %v by %s, want %v by %s", name, on, by, tt.on, tt.by)
		}
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code           int
		timed, stopped bool
		want           string
	}{
		{0, false, false, "ok"},
		{1, false, false, "nonzero"},
		{124, false, false, "nonzero"},
		{124, true, false, "timeout"}, // the command's own 124 is no deadline of ours
		{137, false, false, "killed"},
		{143, false, false, "killed"},
		{-9, false, false, "killed"},
		{130, false, false, "nonzero"},
		{137, true, false, "timeout"},
		{0, false, true, "killed"},
		{0, true, true, "timeout"},
	} {
		if got := Outcome(tt.code, tt.timed, tt.stopped); got != tt.want {
			t.Errorf("%+v: got %s", tt, got)
		}
	}
}

func TestCommandKind(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"git status": "git", "  /usr/bin/git log": "git", "GIT_DIR=x FOO='a' git log": "git", "sudo -E apt-get install x": "package_manager",
		"env A=1 nice -n make": "build", "env A=1 nice -n 5 make": "other", "time make": "build", "python3.12 x.py": "python", "python3x": "other", "\"pytest\" -q": "test_runner",
		"ls|wc": "file_ops", "(cd /tmp && ls)": "other", "cd /tmp && git pull": "shell_builtin", "bash -c 'git x'": "shell", "curl http://x": "network",
		"docker ps": "container", "npx x": "node", "NPM ci": "package_manager", "acme-secret --token x": "other", "": "other", "   ": "other",
		"A=1 B=2 C=3 D=4 git x": "git", "A=1 B=2 C=3 D=4 E=5 git x": "other", strings.Repeat(" ", 254) + "git": "other", "/": "other", "\x00": "other",
		"2>/dev/null ls": "other", "{ ls; }": "shell_builtin", "[ -f x ]": "shell_builtin",
	} {
		if got := CommandKind(command); got != want {
			t.Errorf("%q: got %s, want %s", command, got, want)
		}
	}
}

// TestKindsAreUpstreams holds the list to the contract: twelve kinds with other, and no program
// of two.
func TestKindsAreUpstreams(t *testing.T) {
	t.Parallel()
	names := append(kindNames(), "other")
	slices.Sort(names)
	want := []string{"build", "container", "file_ops", "git", "network", "node", "other", "package_manager", "python", "shell", "shell_builtin", "test_runner"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	seen := map[string]string{}
	for kind, programs := range kinds() {
		for p := range strings.FieldsSeq(programs) {
			if seen[p] != "" {
				t.Errorf("%s is %s and %s", p, seen[p], kind)
			}
			seen[p] = kind
		}
	}
}

// FuzzCommandKind: whatever the command, the kind is of the closed list.
func FuzzCommandKind(f *testing.F) {
	for _, s := range []string{"git x", "A=1 sudo x", "\xff\xfe", "((", "'\"'"} {
		f.Add(s)
	}
	names := append(kindNames(), "other")
	f.Fuzz(func(t *testing.T, command string) {
		if got := CommandKind(command); !slices.Contains(names, got) {
			t.Errorf("%q: %q", command, got)
		}
	})
}

func BenchmarkCount(b *testing.B) {
	s := store(b.TempDir())
	dims := reply("gpt-5")
	for b.Loop() {
		s.Count(ModelReplyIssue, dims)
	}
	if err := s.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkCommandKind(b *testing.B) {
	for b.Loop() {
		CommandKind("FOO=1 sudo -E acme --x " + "y")
	}
}
