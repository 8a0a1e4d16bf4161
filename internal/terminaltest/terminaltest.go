// SPDX-License-Identifier: MIT

// Package terminaltest is the conformance suite of terminal backends: every rule that a
// backend must keep, tried with real shells. It is imported by tests only and never by the
// program.
package terminaltest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
)

// Patience is how long something may take that should be quick, before a test calls it hung.
const Patience = time.Minute

// Maker makes a backend for one test. It fills in Host, Temp, and an environment in which
// bash is found, adds vars, and cleans up after the test. Everything else of the config is
// the suite's.
type Maker func(t testing.TB, c *terminal.Config, vars *Vars)

// Vars are what the environment of each command holds besides. It is safe for concurrent use.
type Vars struct {
	mu     sync.Mutex
	vars   map[string]string
	scoped []string
	err    error
}

// Set sets a variable of every later command.
func (v *Vars) Set(name, value string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.vars == nil {
		v.vars = map[string]string{}
	}
	v.vars[name] = value
}

// Unset takes it away again.
func (v *Vars) Unset(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.vars, name)
}

// Scope makes names each call's own.
func (v *Vars) Scope(names ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.scoped = names
}

// Refuse makes every later command be refused.
func (v *Vars) Refuse(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.err = err
}

// Env is base with the variables.
func (v *Vars) Env(base ...string) terminal.EnvFunc {
	return func(context.Context, process.Kind) (terminal.Env, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		e := terminal.Env{Vars: slices.Clone(base), Scoped: slices.Clone(v.scoped)}
		for name, value := range v.vars {
			e.Vars = append(e.Vars, name+"="+value)
		}
		return e, v.err
	}
}

// place is a backend under test.
type place struct {
	*terminal.Shell
	t    testing.TB
	c    terminal.Config
	vars *Vars
	out  *buffer // what all its commands have printed, as far as the shell has it
	work string  // a directory there, empty at first
}

// open makes a backend. change may change what the suite has set.
func open(t testing.TB, mk Maker, change func(c *terminal.Config)) *place {
	t.Helper()
	p := &place{t: t, vars: &Vars{}, out: &buffer{}}
	p.c = terminal.Config{Log: slog.New(slog.DiscardHandler), Snapshot: Patience}
	mk(t, &p.c, p.vars)
	p.c.Host = overheard{p.c.Host, p.out}
	if change != nil {
		change(&p.c)
	}
	p.Shell = terminal.New(p.c)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	p.work = p.c.Temp + "/work-" + strings.ToLower(rand.Text())
	p.script("mkdir -p -- "+terminal.Quote(p.work), nil)
	t.Cleanup(func() { p.script("rm -rf -- "+terminal.Quote(p.work), nil) })
	return p
}

// overheard is a host whose commands' output is noted once the shell has it.
type overheard struct {
	terminal.Host
	out *buffer
}

func (o overheard) Spawn(ctx context.Context, s terminal.Spawn) (terminal.Job, error) {
	if s.Name == "command" {
		s.Stdout = io.MultiWriter(s.Stdout, o.out)
	}
	return o.Host.Spawn(ctx, s)
}

// script runs a script that must succeed, outside of every session.
func (p *place) script(text string, stdin []byte) []byte {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), Patience)
	defer cancel()
	out, err := p.Exec(ctx, terminal.Script{Text: text, Stdin: stdin})
	if err != nil || out.Code != 0 {
		p.t.Fatalf("script %q: exit %d, %v\n%s%s", text, out.Code, err, out.Stdout, out.Stderr)
	}
	return out.Stdout
}

// run runs a command to its end, in the working directory at first.
func (p *place) run(c terminal.Command) terminal.Result {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), Patience)
	defer cancel()
	res, err := p.Run(ctx, c)
	if err != nil {
		p.t.Fatalf("run %q: %v", c.Text, err)
	}
	if res.Interrupted {
		p.t.Fatalf("run %q: did not end in %v\n%s", c.Text, Patience, res.Output)
	}
	return res
}

// want runs a command of the one session and compares its output.
func (p *place) want(text, out string) {
	p.t.Helper()
	if res := p.run(terminal.Command{Text: text}); res.Output != out || res.Code != 0 {
		p.t.Errorf("%s: got exit %d, %q, want %q", text, res.Code, res.Output, out)
	}
}

// enter makes the one session go to the working directory.
func (p *place) enter() { p.t.Helper(); p.want("cd "+terminal.Quote(p.work), "") }

// alive counts the processes there that have a text in their arguments. The text itself is
// handed over by the input: nothing that looks has it in its own.
func (p *place) alive(token string) int {
	p.t.Helper()
	return p.look(`[[ $args != *"$t"* ]] || n=$((n+1))`, token)
}

// look runs a line for each process there and returns what it has counted in n.
func (p *place) look(line, token string) int {
	p.t.Helper()
	var n int
	out := p.script(`IFS= read -r t; n=0
for d in /proc/[0-9]*; do
args=; while IFS= read -r -d '' w; do args="$args $w"; done 2>/dev/null < $d/cmdline
`+line+`
done; echo $n`, []byte(token+"\n"))
	if _, err := fmt.Sscan(string(out), &n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

// sleeping counts the processes there that sleep for that long.
func (p *place) sleeping(token string) int {
	p.t.Helper()
	return p.look(`[[ $args != " sleep $t" ]] || n=$((n+1))`, token)
}

// kill ends the process there that sleeps for that long, once it is there.
func (p *place) kill(token string) {
	p.t.Helper()
	eventually(p.t, "a process to kill", func() bool {
		return p.look(`[[ $args != " sleep $t" ]] || { kill ${d##*/} && n=$((n+1)); }`, token) > 0
	})
}

// eventually polls for what another process is about to do.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after %v: %s", Patience, what)
		}
	}
}

// token is a number of seconds that no other process sleeps.
func token() string {
	var b [8]byte
	rand.Read(b[:])
	return fmt.Sprintf("3600.%d", binary.BigEndian.Uint64(b[:]))
}

// blob is a megabyte of every byte there is.
func blob() []byte {
	b := make([]byte, 1<<20)
	rand.Read(b)
	return b
}

// buffer collects what a command prints. It is safe for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) has(s string) bool { return b.count(s) > 0 }

func (b *buffer) count(s string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.b.String(), s)
}

// Run tries all rules.
func Run(t *testing.T, mk Maker) {
	for _, c := range slices.Concat(stateCases(), streamCases(), lifeCases()) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, mk)
		})
	}
}

type testCase struct {
	name string
	test func(t *testing.T, mk Maker)
}
