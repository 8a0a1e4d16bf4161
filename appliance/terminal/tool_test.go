// SPDX-License-Identifier: MIT

//go:build linux

package terminal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal/local"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

type bench struct {
	*terminal.Tools
	t      *testing.T
	shell  *terminal.Shell
	procs  *terminal.Procs
	reg    *process.Registry
	events chan terminal.Event
}

func open(t *testing.T, change func(*terminal.ToolsConfig)) *bench {
	t.Helper()
	_, err := exec.LookPath("bash")
	testkit.Need(t, "bash", err == nil, "commands are run by bash")
	log := slog.New(slog.DiscardHandler)
	b := &bench{t: t, reg: process.New(log), events: make(chan terminal.Event, 100)}
	temp, home := t.TempDir(), t.TempDir()
	spill := t.TempDir()
	t.Cleanup(func() { b.reg.KillNow() }) // before the directories go
	b.shell = terminal.New(terminal.Config{
		Host: local.New(local.Config{Registry: b.reg, Temp: temp, Home: home}), Log: log, Temp: temp, Dir: home,
		Env: func(context.Context, process.Kind) (terminal.Env, error) {
			return terminal.Env{Vars: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}}, nil
		},
		Limit: 2000, ActivityEvery: 10 * time.Millisecond, Spill: &terminal.Spill{Dir: spill + "/cache/out", Now: time.Now},
	})
	if err := os.Mkdir(spill+"/cache", 0o700); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	b.procs = terminal.NewProcs(terminal.ProcsConfig{Log: log, Now: func() time.Time { return began }, Notify: func(e terminal.Event) { b.events <- e }})
	c := terminal.ToolsConfig{
		Backend: func(context.Context) (terminal.Backend, error) { return b.shell, nil },
		Procs:   b.procs, Log: log, Now: time.Now,
		Redact: func(s, _ string) string { return strings.ReplaceAll(s, "sk-secret", "***") },
	}
	if change != nil {
		change(&c)
	}
	b.Tools = terminal.NewTools(c)
	return b
}

func (b *bench) event(kind string) terminal.Event {
	b.t.Helper()
	select {
	case e := <-b.events:
		if e.Type != kind {
			b.t.Fatalf("got event %+v, want %s", e, kind)
		}
		return e
	case <-time.After(time.Minute):
		b.t.Fatalf("no event %s", kind)
	}
	return terminal.Event{}
}

// command waits until the command that was last started is live.
func (b *bench) command() {
	for !slices.ContainsFunc(b.reg.Live(), func(i process.Info) bool { return i.Name == "command" }) {
		time.Sleep(time.Millisecond)
	}
}

func TestTerminalTool(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	call := terminal.Call{Session: "s"}
	n := func(i int) *int { return &i }
	for _, c := range []struct {
		args, want string
	}{
		{`{"command":"echo hi"}`, `{"output":"hi","exit_code":0,"error":null}`},
		{`{"command":"echo '<&>'; false"}`, `{"output":"<&>","exit_code":1,"error":null}`},
		{`{"command":"cd /"}`, `{"output":"","exit_code":0,"error":null,"cwd":"/"}`},
		{`{"command":"pwd; cd /tmp","workdir":"/usr"}`, `{"output":"/usr","exit_code":0,"error":null}`},
		{`{"command":"echo k=sk-secret; printf '\\033[31mred\\033[0m'"}`, `{"output":"k=***\nred","exit_code":0,"error":null}`},
		{`{"command":"grep x /dev/null"}`, `{"output":"","exit_code":1,"error":null,"exit_code_meaning":"no match (not an error)"}`},
		{`{"command":"exit 124"}`, `{"output":"","exit_code":124,"error":null}`},
		{`{"command":"sleep 60","timeout":1}`, `{"output":"[Command timed out after 1s]","exit_code":124,"error":null,"hermes_timed_out":true}`},
		{`{"command":"  "}`, `{"output":"","exit_code":-1,"error":"command: is empty","status":"error"}`},
		{`{"command":"x","timeout":0}`, `{"output":"","exit_code":-1,"error":"timeout: must be at least 1 second, got 0","status":"error"}`},
		{`{"command":"x","workdir":"rel"}`, `{"output":"","exit_code":-1,"error":"workdir: \"rel\" is no absolute path","status":"error"}`},
		{`{"command":"x","background":true,"notify_on_complete":true,"watch_patterns":["a"]}`, `{"output":"","exit_code":-1,"error":"watch_patterns and notify_on_complete exclude each other: give one","status":"error"}`},
		{`{"command":"x","timeout":601}`, `{"output":"","exit_code":-1,"error":"timeout: 601 s is more than the 600s that a command may be waited for: use background=true with notify_on_complete=true","status":"error"}`},
	} {
		var a terminal.ToolArgs
		if err := json.Unmarshal([]byte(c.args), &a); err != nil {
			t.Fatal(err)
		}
		if got := terminal.JSON(b.Terminal(t.Context(), call, a)); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.args, got, c.want)
		}
	}
	res := b.Terminal(t.Context(), call, terminal.ToolArgs{Command: "echo sk-secret; seq 5000; echo sk-secret", Timeout: n(60)})
	data, err := os.ReadFile(res.Spill)
	if err != nil || strings.Contains(string(data), "sk-secret") || !strings.HasPrefix(string(data), "***\n1\n") || res.Total != 23913 || res.Note == "" {
		t.Errorf("%+v, %v", res, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	call.Approval = "Approved by the user."
	if got := b.Terminal(ctx, call, terminal.ToolArgs{Command: "touch x"}); !got.Interrupted || got.ExitCode != 130 || got.Approval != "Approved by the user, then interrupted." {
		t.Errorf("%+v", got)
	}
}

func TestTerminalDegraded(t *testing.T) {
	t.Parallel()
	conn := &terminal.ConnError{Backend: "docker", Reason: "no engine answers", Hint: "start Docker"}
	b := open(t, func(c *terminal.ToolsConfig) {
		c.Backend = func(context.Context) (terminal.Backend, error) { return nil, fmt.Errorf("x: %w", conn) }
	})
	if got := terminal.JSON(b.Terminal(t.Context(), terminal.Call{}, terminal.ToolArgs{Command: "x"})); got != `{"output":"","exit_code":-1,"error":"docker backend: no engine answers","status":"degraded","hint":"start Docker"}` {
		t.Error(got)
	}
	b = open(t, func(c *terminal.ToolsConfig) {
		c.Fail = true
		c.Backend = func(context.Context) (terminal.Backend, error) { return nil, conn }
	})
	if got := b.Terminal(t.Context(), terminal.Call{}, terminal.ToolArgs{Command: "x"}); got.Status != "error" || *got.Error != conn.Error() {
		t.Errorf("%+v", got)
	}
}

func TestBackgroundTool(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	call := terminal.Call{Session: "s"}
	started := b.Terminal(ctx, call, terminal.ToolArgs{Command: "while read -r l; do echo \"<$l>\"; done; echo sk-secret; exit 3", Background: true, Notify: true})
	if started.SessionID == "" || started.PID == 0 || started.Error != nil {
		t.Fatalf("%+v", started)
	}
	cancel() // the turn is over; the command is not
	do := func(session string, a terminal.ProcessArgs) terminal.ProcessResult {
		return b.Process(t.Context(), terminal.Call{Session: session}, a)
	}
	id := started.SessionID
	if r := do("other", terminal.ProcessArgs{Action: "poll", SessionID: id}); r.Status != "not_found" {
		t.Errorf("another session sees it: %+v", r)
	}
	if r := do("other", terminal.ProcessArgs{Action: "list"}); len(*r.Processes) != 0 {
		t.Errorf("another session lists it: %+v", r)
	}
	if r := do("s", terminal.ProcessArgs{Action: "submit", SessionID: id, Data: "one"}); r.Status != "ok" || *r.Written != 4 {
		t.Errorf("%+v", r)
	}
	if r := do("s", terminal.ProcessArgs{Action: "write", SessionID: id[5:10], Data: "two\n"}); r.Status != "ok" || r.SessionID != id {
		t.Errorf("%+v", r)
	}
	sec := 1
	if r := do("s", terminal.ProcessArgs{Action: "wait", SessionID: id, Timeout: &sec}); r.Status != "timeout" || !r.Live || r.TimeoutNote == "" {
		t.Errorf("%+v", r)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		r := do("s", terminal.ProcessArgs{Action: "poll", SessionID: id})
		if r.Status == "running" && *r.Preview == "<one>\n<two>\n" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", r)
		}
	}
	if r := do("s", terminal.ProcessArgs{Action: "list"}); len(*r.Processes) != 1 || (*r.Processes)[0].Status != "running" || !(*r.Processes)[0].Notify {
		t.Errorf("%+v", r)
	}
	if r := do("s", terminal.ProcessArgs{Action: "close", SessionID: id}); r.Status != "ok" {
		t.Errorf("%+v", r)
	}
	if e := b.event(terminal.EventCompleted); e.ID != id || e.Owner != "s" || e.Code != 3 {
		t.Errorf("%+v", e)
	}
	r := do("s", terminal.ProcessArgs{Action: "wait", SessionID: id})
	if r.Status != "exited" || *r.ExitCode != 3 || *r.Output != "<one>\n<two>\n***\n" || r.Reason != "exited" {
		t.Errorf("%+v", r)
	}
	zero, two := 0, 2
	if r := do("s", terminal.ProcessArgs{Action: "log", SessionID: id, Offset: &zero, Limit: &two}); *r.Output != "<one>\n<two>" || *r.Total != 3 || r.Showing != "2 lines" {
		t.Errorf("%+v", r)
	}
	for _, a := range []string{"write", "submit", "close"} {
		if r := do("s", terminal.ProcessArgs{Action: a, SessionID: id}); r.Status != "already_exited" {
			t.Errorf("%s: %+v", a, r)
		}
	}
	if r := do("s", terminal.ProcessArgs{Action: "kill", SessionID: id}); r.Status != "already_exited" {
		t.Errorf("%+v", r)
	}
	for _, a := range []terminal.ProcessArgs{{Action: "burn"}, {Action: "poll"}, {Action: "log", SessionID: id, Limit: &zero}, {Action: "wait", SessionID: id, Timeout: &zero}, {Action: "poll", SessionID: "proc_"}} {
		if r := do("s", a); r.Error == "" {
			t.Errorf("%+v: %+v", a, r)
		}
	}
}

func TestKillTool(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	call := terminal.Call{Session: "s"}
	s := b.Terminal(t.Context(), call, terminal.ToolArgs{Command: "trap '' TERM; echo up; sleep 3600; sleep 3600", Background: true, Notify: true})
	r := b.Process(t.Context(), call, terminal.ProcessArgs{Action: "kill", SessionID: s.SessionID})
	if r.Status != "killed" || r.Reason != "killed" {
		t.Errorf("%+v", r)
	}
	if r := b.Process(t.Context(), call, terminal.ProcessArgs{Action: "poll", SessionID: s.SessionID}); r.Status != "exited" {
		t.Errorf("%+v", r)
	}
	select {
	case e := <-b.events:
		t.Errorf("a kill by its owner is no news: %+v", e)
	default:
	}
}

func TestWatchTool(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	call := terminal.Call{Session: "s"}
	s := b.Terminal(t.Context(), call, terminal.ToolArgs{Command: "echo starting; echo 'listening on 1'; echo 'listening on 2'; read x", Background: true, Watch: []string{"listening"}})
	if e := b.event(terminal.EventMatched); e.Pattern != "listening" || e.Output != "listening on 1" || e.ID != s.SessionID {
		t.Errorf("%+v", e)
	}
	if r := b.Process(t.Context(), call, terminal.ProcessArgs{Action: "submit", SessionID: s.SessionID}); r.Status != "ok" {
		t.Errorf("%+v", r)
	}
	if r := b.Process(t.Context(), call, terminal.ProcessArgs{Action: "wait", SessionID: s.SessionID}); r.Status != "exited" {
		t.Errorf("%+v", r)
	}
	select {
	case e := <-b.events:
		t.Errorf("more than one notice: %+v", e)
	default:
	}
}

// Background commands end with their session, not with a turn, and those that are to outlive
// it do.
func TestReportB41225Lifetime(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	start := func(session string, persist bool) string {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := b.Terminal(ctx, terminal.Call{Session: session}, terminal.ToolArgs{Command: "sleep 3600", Background: true, Persist: persist})
		if r.Error != nil {
			t.Fatal(*r.Error)
		}
		return r.SessionID
	}
	mine, kept, others := start("s", false), start("s", true), start("o", false)
	if err := b.procs.EndSession(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	status := func(session, id string) string {
		return b.Process(t.Context(), terminal.Call{Session: session}, terminal.ProcessArgs{Action: "poll", SessionID: id}).Status
	}
	if a, k, o := status("s", mine), status("s", kept), status("o", others); a != "not_found" || k != "running" || o != "running" {
		t.Errorf("got %s, %s, %s", a, k, o)
	}
	if live := b.reg.Live(); len(live) != 2 || live[0].Kind != process.Background {
		t.Errorf("%+v", live)
	}
	if r := b.Process(t.Context(), terminal.Call{Session: "s"}, terminal.ProcessArgs{Action: "kill", SessionID: kept}); r.Status != "killed" {
		t.Errorf("%+v", r)
	}
}

func TestYieldTool(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	yield := make(chan struct{})
	call := terminal.Call{Session: "s", Yield: yield}
	go func() {
		b.command()
		close(yield)
	}()
	goOn := filepath.Join(t.TempDir(), "go")
	r := b.Terminal(t.Context(), call, terminal.ToolArgs{Command: "echo early; until [ -e " + goOn + " ]; do sleep 0.02; done; echo late; exit 5"})
	if r.Status != "yielded_to_background" || r.SessionID == "" {
		t.Fatalf("%+v", r)
	}
	if live := b.reg.Live(); len(live) != 1 || live[0].Kind != process.Background {
		t.Errorf("%+v", live)
	}
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := b.event(terminal.EventCompleted); e.Code != 5 || e.Output != "early\nlate\n" {
		t.Errorf("%+v", e)
	}
}

// Nothing starts once the appliance is exiting, and what runs is killed.
func TestFence(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	done, waited := make(chan terminal.ToolResult), make(chan struct{})
	waits := sync.OnceFunc(func() { close(waited) })
	call := terminal.Call{Activity: func(time.Duration) error { waits(); return nil }}
	go func() {
		done <- b.Terminal(t.Context(), call, terminal.ToolArgs{Command: "trap '' TERM; echo on; sleep 3600; sleep 3600"})
	}()
	<-waited // one that is live may yet be refused
	b.reg.KillNow()
	if r := <-done; r.ExitCode != 137 || r.TimedOut {
		t.Errorf("%+v", r)
	}
	if r := b.Terminal(t.Context(), terminal.Call{}, terminal.ToolArgs{Command: "echo ran"}); r.ExitCode != 130 || !strings.Contains(r.Output, process.ErrFenced.Error()) || r.Interrupted {
		t.Errorf("%+v", r)
	}
	if _, err := b.shell.Exec(t.Context(), terminal.Script{Text: "echo ran"}); !errors.Is(err, process.ErrFenced) {
		t.Errorf("got %v", err)
	}
}

// The schemas name every parameter there is, and no other.
func TestSchemas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema json.RawMessage
		args   any
	}{
		terminal.ToolName: {terminal.Schema(), terminal.ToolArgs{}}, terminal.ProcessToolName: {terminal.ProcessSchema(), terminal.ProcessArgs{}},
	} {
		var s struct{ Properties map[string]any }
		var have map[string]any
		if err := json.Unmarshal(c.schema, &s); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(terminal.JSON(c.args)), &have); err != nil {
			t.Fatal(err)
		}
		for p := range s.Properties {
			if _, ok := have[p]; !ok {
				t.Errorf("%s: %s is no parameter", name, p)
			}
		}
		if len(have) != len(s.Properties) {
			t.Errorf("%s: %d parameters, %d described", name, len(have), len(s.Properties))
		}
	}
}
