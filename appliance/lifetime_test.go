// SPDX-License-Identifier: MIT

package appliance

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func needBash(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("bash")
	testkit.Need(t, "bash", err == nil, "commands run in bash")
}

// lasting is a kit whose sessions keep what they have for a minute, with a clock that stands still but
// for pass.
func lasting(t *testing.T) (k *kit, pass func(time.Duration)) {
	t.Helper()
	var ahead atomic.Int64
	began := time.Now()
	k = newKit(t, "terminal:\n  lifetime_seconds: 60\napprovals:\n  mode: \"off\"\n", func() time.Time { return began.Add(time.Duration(ahead.Load())) })
	return k, func(d time.Duration) {
		ahead.Add(int64(d))
		k.tenant.lives.sweep(t.Context())
	}
}

// said is what a turn of a chat answers.
func (k *kit) said(t *testing.T, chat, text string) string {
	t.Helper()
	turn := k.ask(t, gateway.Ask{Key: "agent:main:test:" + chat}, text)
	res, err := turn.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return res.Text
}

// TestIdleSessionLosesItsShell: a session that nobody uses for terminal.lifetime_seconds loses
// its directory and its exports, and leaves no file; one that is used keeps them.
func TestIdleSessionLosesItsShell(t *testing.T) {
	t.Parallel()
	needBash(t)
	k, pass := lasting(t)
	const look = "run: echo at=$PWD who=${WHO-nobody}"
	for _, chat := range []string{"used", "idle"} {
		k.said(t, chat, "run: cd / && export WHO="+chat)
	}
	before := k.snapshots(t)
	pass(40 * time.Second)
	if got := k.said(t, "used", look); !strings.Contains(got, "at=/ who=used") {
		t.Errorf("after 40 s: %s", got)
	}
	pass(40 * time.Second)
	if after := k.snapshots(t); after != before-1 {
		t.Errorf("%d snapshots, were %d: one session of two was idle for too long", after, before)
	}
	if got := k.said(t, "used", look); !strings.Contains(got, "at=/ who=used") {
		t.Errorf("one that was used: %s", got)
	}
	if got := k.said(t, "idle", look); !strings.Contains(got, "who=nobody") || strings.Contains(got, "at=/ ") {
		t.Errorf("one that was idle: %s", got)
	}
}

func (k *kit) snapshots(t *testing.T) int {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(k.dir, "cache", "terminal", "hermes-snap-*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestReport41225BackgroundKeepsTheSession: a background command lives on however long nobody
// comes, and its session's shell with it; when it has ended the shell goes.
func TestReport41225BackgroundKeepsTheSession(t *testing.T) {
	t.Parallel()
	needBash(t)
	k, pass := lasting(t)
	k.said(t, "c", "run: export WHO=me")
	k.said(t, "c", `call: terminal {"command": "sleep 600", "background": true}`)
	if busy := k.tenant.term.busy(); len(busy) != 1 {
		t.Fatalf("sessions with a command that runs: %v", busy)
	}
	for range 3 {
		pass(10 * time.Minute)
	}
	if got := k.said(t, "c", "run: echo who=${WHO-nobody}"); !strings.Contains(got, "who=me") {
		t.Errorf("the session lost its shell: %s", got)
	}
	for session := range k.tenant.term.busy() {
		k.tenant.term.end(t.Context(), session)
	}
	pass(2 * time.Minute)
	if got := k.said(t, "c", "run: echo who=${WHO-nobody}"); !strings.Contains(got, "who=nobody") {
		t.Errorf("the session kept its shell: %s", got)
	}
}

// TestTerminalSettingsChange: settings that change while the gateway runs count with the next
// turn, and what the terminal of before has left is removed.
func TestTerminalSettingsChange(t *testing.T) {
	t.Parallel()
	needBash(t)
	k, _ := lasting(t)
	k.said(t, "c", "run: true")
	before := k.snapshots(t)
	testkit.WriteTree(t, k.dir, map[string]string{"config.yaml": "_config_version: 50\nterminal:\n  lifetime_seconds: 61\n  cwd: /usr\n"})
	answer := make(chan string, 1)
	go func() { answer <- k.said(t, "c", "run: echo at=$PWD") }()
	select {
	case got := <-answer:
		if !strings.Contains(got, "at=/usr") {
			t.Errorf("the next turn: %s", got)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("the next turn hangs")
	}
	if n := k.snapshots(t); n != before {
		t.Errorf("%d snapshots, were %d", n, before)
	}
}

// TestTaskListSurvives: the task list of a session is there again after the session was idle.
func TestTaskListSurvives(t *testing.T) {
	t.Parallel()
	k, pass := lasting(t)
	k.said(t, "c", `call: todo_list {"todos": [{"id": "1", "content": "buy flour", "status": "in_progress"}]}`)
	if len(k.tenant.todos) != 1 {
		t.Fatalf("%d lists", len(k.tenant.todos))
	}
	pass(2 * time.Minute)
	if len(k.tenant.todos) != 0 {
		t.Errorf("%d lists are kept", len(k.tenant.todos))
	}
	if got := k.said(t, "c", `call: todo_list {}`); !strings.Contains(got, "buy flour") {
		t.Errorf("after a while: %s", got)
	}
	if got := k.said(t, "d", `call: todo_list {}`); strings.Contains(got, "buy flour") {
		t.Errorf("another session: %s", got)
	}
}

// TestStatelessLeavesNothing: a conversation that nobody can come back to keeps nothing open.
func TestStatelessLeavesNothing(t *testing.T) {
	t.Parallel()
	needBash(t)
	k, _ := lasting(t)
	k.said(t, "c", "run: true") // the base snapshot
	before := k.snapshots(t)
	turn := k.ask(t, gateway.Ask{Stateless: true}, "run: cd / && export X=1")
	<-turn.Done()
	if n := k.snapshots(t); n != before {
		t.Errorf("%d snapshots, were %d", n, before)
	}
	if n := len(k.tenant.lives.of); n != 1 {
		t.Errorf("%d sessions are known, want the other one", n)
	}
}

// TestReportB23ManySessions: a hundred thousand sessions within one lifetime keep no more open
// than a bounded number (H#80764).
func TestReportB23ManySessions(t *testing.T) {
	t.Parallel()
	k, _ := lasting(t)
	x := &k.tenant.lives
	held := x.use("in use")
	for i := range 100_000 {
		id := fmt.Sprint(i)
		done := x.use(id)
		k.tenant.todo(id)
		done()
		if i%50_000 == 0 {
			done() // again does nothing
		}
	}
	bounded := func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		k.tenant.opening.Lock()
		defer k.tenant.opening.Unlock()
		return x.idle.Len() <= mostIdle && len(x.of) <= mostIdle+1 && len(k.tenant.todos) <= mostIdle
	}
	for until := time.Now().Add(5 * time.Minute); !bounded(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the sessions are not bounded")
		}
	}
	held()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of["99999"] == nil || x.of["in use"] == nil || x.of["0"] != nil {
		t.Error("not the longest idle ones went")
	}
}
