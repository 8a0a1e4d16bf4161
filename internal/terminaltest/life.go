// SPDX-License-Identifier: MIT

package terminaltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
)

func lifeCases() []testCase {
	return []testCase{
		{"ReportB8340HeldOutput", testHeld},
		{"ReportB207Timeout", testTimeout},
		{"ReportB94187Escapees", testEscapees},
		{"Interrupt", testInterrupt},
		{"Yield", testYield},
		{"ActivityFails", testActivity},
		{"Background", testBackground},
		{"BackgroundKill", testBackgroundKill},
		{"Compound", testCompound},
		{"Closed", testClosed},
	}
}

// A process that the command left behind holds the output open; the result does not wait.
func testHeld(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.enter()
	tok := token()
	res := p.run(terminal.Command{Text: "mkdir d; cd d; sleep " + tok + " & echo $!"})
	if !res.Held && !p.Describe().Remote || res.Code != 0 || res.Dir != p.work+"/d" { // a remote end may let go of it
		t.Errorf("%+v", res)
	}
	eventually(t, "the one process that was left running", func() bool { return p.alive("sleep "+tok) == 1 })
	p.want("kill "+strings.TrimSpace(res.Output), "")
	eventually(t, "the end of the process", func() bool { return p.sleeping(tok) == 0 })
}

func testTimeout(t *testing.T, mk Maker) {
	over := make(chan time.Time)
	p := open(t, mk, func(c *terminal.Config) {
		c.After = func(d time.Duration) <-chan time.Time {
			if d == time.Second {
				return time.After(d)
			}
			return over
		}
	})
	p.enter()
	for i, text := range []string{"echo before; sleep T", "trap '' TERM; echo before; sleep T; sleep T", "trap 'echo bye; sleep T' EXIT; echo before; cd /; sleep T"} {
		tok := token()
		go func() {
			eventually(t, "the start of "+text, func() bool { return p.out.count("before\n") > i && p.sleeping(tok) > 0 })
			over <- time.Now()
		}()
		res := p.run(terminal.Command{Text: sleeps(text, tok), Timeout: 3 * time.Second})
		if res.Code != terminal.CodeTimeout || !res.TimedOut || res.DirObserved || res.Dir != p.work {
			t.Errorf("%s: %+v", text, res)
		}
		if !strings.HasPrefix(res.Output, "before\n") || !strings.HasSuffix(res.Output, "[Command timed out after 3s]") {
			t.Errorf("%s: output %q", text, res.Output)
		}
		eventually(t, "the end of "+text, func() bool { return p.alive(tok) == 0 })
	}
	p.want("echo on", "on\n")
	var all sync.WaitGroup
	for i := range 12 { // many, so that some shells see the end of their child before their own
		all.Go(func() {
			res, err := p.Run(t.Context(), terminal.Command{Session: fmt.Sprint(i), Text: sleeps("echo before; sleep T", token()), Timeout: time.Second})
			if err != nil || !res.TimedOut || strings.Contains(res.Output, "Terminated") {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	all.Wait()
}

// Nothing that a killed command has started lives on, wherever it has gone.
func testEscapees(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	if strings.Contains(string(p.script("command -v setsid || echo none", nil)), "none") {
		t.Skip("setsid is not there")
	}
	for text, n := range map[string]int{
		"sleep T":                              1,
		"trap '' TERM; sleep T":                1,
		"setsid sleep T & sleep T":             2,
		"( ( setsid sleep T & ) & ) ; sleep T": 2,
		"setsid bash -c 'trap \"\" TERM HUP; sleep T; sleep T' & sleep T": 2,
		"nohup sleep T >/dev/null 2>&1 & disown; sleep T":                 2,
		"bash -c 'setsid bash -c \"setsid sleep T & sleep T\" & sleep T'": 3,
		"env -i /usr/bin/setsid /bin/sleep T & sleep T":                   1,
	} {
		tok := token()
		ctx, cancel := context.WithCancel(t.Context())
		started := make(chan struct{})
		go func() {
			defer close(started)
			defer cancel()
			eventually(t, "the start of "+text, func() bool { return p.sleeping(tok) >= n })
		}()
		res, err := p.Run(ctx, terminal.Command{Text: sleeps(text, tok)})
		<-started
		if err != nil || !res.Interrupted {
			t.Errorf("%s: %+v, %v", text, res, err)
		}
		eventually(t, "the end of "+text, func() bool { return p.alive(tok) == 0 })
	}
}

// sleeps fills in how long a command sleeps.
func sleeps(text, tok string) string { return strings.ReplaceAll(text, "sleep T", "sleep "+tok) }

func testInterrupt(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.enter()
	tok := token()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "the start", func() bool { return p.out.count("before\n") > 0 && p.sleeping(tok) > 0 })
		cancel()
	}()
	res, err := p.Run(ctx, terminal.Command{Text: "echo before; sleep " + tok})
	if err != nil || res.Code != terminal.CodeInterrupted || !res.Interrupted || res.TimedOut || res.Dir != p.work ||
		!strings.HasPrefix(res.Output, "before\n") || !strings.HasSuffix(res.Output, "[Command interrupted]") || strings.Contains(res.Output, "__HERMES") {
		t.Errorf("%+v, %v", res, err)
	}
	eventually(t, "the end", func() bool { return p.alive(tok) == 0 })
	res, err = p.Run(ctx, terminal.Command{Text: "touch ran"})
	if err != nil || !res.Interrupted {
		t.Errorf("before it began: %+v, %v", res, err)
	}
	p.want("ls", "")
}

// A command that yields is handed over alive.
func testYield(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.enter()
	tok := token()
	yield := make(chan struct{})
	go func() {
		eventually(t, "the start", func() bool { return p.out.count("one\n") > 0 && p.sleeping(tok) > 0 })
		close(yield)
	}()
	res := p.run(terminal.Command{Text: "export Y=old; echo one; mkdir -p d; cd d; sleep " + tok + "; echo two", Yield: yield, Timeout: Patience})
	if res.Yielded == nil || strings.TrimSuffix(res.Output, "\n") != "one" || res.TimedOut {
		t.Fatalf("%+v", res)
	}
	var out buffer
	res.Yielded.Follow(&out)
	if !out.has("one") {
		t.Error("what it had printed is lost")
	}
	p.want("export Y=new", "")
	p.kill(tok)
	exit, err := res.Yielded.Wait(t.Context())
	if err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	if !out.has("two\n") || out.has("__HERMES") {
		t.Errorf("output %q", out.b.String())
	}
	if p.Dir("") != p.work {
		t.Errorf("it moved the session to %q", p.Dir(""))
	}
	p.want("echo $Y", "new\n")
}

// Progress reports that fail, or panic, never fail the command.
func testActivity(t *testing.T, mk Maker) {
	p := open(t, mk, func(c *terminal.Config) { c.ActivityEvery = 10 * time.Millisecond })
	var calls atomic.Int32
	p.enter()
	go func() {
		eventually(t, "two reports", func() bool { return calls.Load() > 2 })
		p.script("touch "+terminal.Quote(p.work)+"/go", nil)
	}()
	res := p.run(terminal.Command{Text: "until [ -e go ]; do sleep 0.02; done; echo done", Activity: func(d time.Duration) error {
		if calls.Add(1)%2 == 0 {
			panic("progress")
		}
		if d <= 0 {
			return nil
		}
		return errors.New("progress failed")
	}})
	if res.Code != 0 || res.Output != "done\n" {
		t.Errorf("%+v", res)
	}
}

func testBackground(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.enter()
	p.want("export SEEN=1; f() { echo f; }", "")
	r, err := p.Start(t.Context(), terminal.Command{Text: "export LEAK=1; cd /; f; while read -r l; do echo \"$SEEN <$l>\"; done; echo eof; exit 6"})
	if err != nil {
		t.Fatal(err)
	}
	var out buffer
	r.Follow(&out)
	for _, line := range []string{"a b", "日本", `\x`} {
		if _, err := r.Stdin().Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
		eventually(t, line, func() bool { return out.has("1 <" + line + ">\n") })
	}
	if err := r.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	if exit, err := r.Wait(t.Context()); err != nil || exit.Code != 6 {
		t.Errorf("%+v, %v", exit, err)
	}
	if !out.has("eof\n") || !out.has("f\n") || out.has("__HERMES") {
		t.Errorf("output %q", out.b.String())
	}
	p.want("echo ${LEAK-none}; pwd -P", "none\n"+p.work+"\n")
	r, err = p.Start(t.Context(), terminal.Command{Text: "echo ran", Dir: p.work + "/none"})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := r.Wait(t.Context()); err != nil || exit.Code != terminal.CodeNoDir {
		t.Errorf("%+v, %v", exit, err)
	}
}

func testBackgroundKill(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	tok := token()
	r, err := p.Start(t.Context(), terminal.Command{Text: "trap '' TERM; (setsid sleep " + tok + " &); sleep " + tok + "; sleep " + tok})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the start", func() bool { return p.sleeping(tok) > 1 })
	if err := r.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if exit, err := r.Wait(t.Context()); err != nil || !exit.Killed {
		t.Errorf("%+v, %v", exit, err)
	}
	eventually(t, "the end", func() bool { return p.alive(tok) == 0 })
}

func testCompound(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.enter()
	tok := token()
	res := p.run(terminal.Command{Text: "mkdir d && sleep " + tok + " >/dev/null 2>&1 &\nuntil [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done; echo started"})
	if res.Held && !p.Describe().Remote || res.Output != "started\n" { // a remote end may let go of it late
		t.Errorf("%+v", res)
	}
	eventually(t, "the one process that was left running", func() bool { return p.alive("sleep "+tok) == 1 })
	p.kill(tok)
	if res := p.run(terminal.Command{Text: "false && sleep 1 &"}); res.Code != 1 {
		t.Errorf("a failure is hidden: %+v", res)
	}
	if res := p.run(terminal.Command{Text: "false && sleep 1 &", Plain: true}); res.Code != 0 {
		t.Errorf("rewritten all the same: %+v", res)
	}
}

func testClosed(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.want("echo on", "on\n")
	q := terminal.New(terminal.Config{Host: keptHost{p.c.Host}, Temp: p.c.Temp, Env: p.c.Env, Log: p.c.Log})
	for _, session := range []string{"", "other"} {
		if _, err := q.Run(t.Context(), terminal.Command{Session: session, Text: "export X=1"}); err != nil {
			t.Fatal(err)
		}
	}
	list := func() int {
		return strings.Count(string(p.script("ls "+terminal.Quote(p.c.Temp), nil)), "hermes-snap-")
	}
	before := list()
	if err := q.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := list(); before-n != 3 {
		t.Errorf("%d of 3 snapshots were removed", before-n)
	}
	if _, err := q.Run(t.Context(), terminal.Command{Text: "true"}); !errors.Is(err, terminal.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// keptHost outlives the shell.
type keptHost struct{ terminal.Host }

func (keptHost) Close(context.Context) error { return nil }
