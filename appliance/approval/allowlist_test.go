// SPDX-License-Identifier: MIT

package approval

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// configs is a [Store] in memory.
type configs struct {
	mu     sync.Mutex
	lists  map[string][]string
	broken map[string]bool
	locked map[string]bool
}

var errBroken = errors.New("config.yaml: line 3: not YAML")

func (c *configs) LoadAllowlist(_ context.Context, home string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken[home] {
		return []string{"*"}, errBroken // what comes with an error must not count
	}
	return c.lists[home], nil
}

func (c *configs) EditAllowlist(_ context.Context, home string, edit func([]string) []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken[home] || c.locked[home] {
		return errBroken
	}
	c.lists[home] = edit(c.lists[home])
	return nil
}

func book(t *testing.T) (*configs, Book) {
	t.Helper()
	c := &configs{lists: map[string][]string{}, broken: map[string]bool{}, locked: map[string]bool{}}
	return c, Book{Sessions: &Sessions{}, Lists: NewLists(c, slog.New(slog.DiscardHandler))}
}

// in judges a command for one profile and session.
func (b Book) in(ctx context.Context, p Policy, command, home, id string) Verdict {
	c := at()
	c.Permanent = b.Lists.Read(ctx, home)
	c.Session, c.Yolo = b.Sessions.Granted(home, id)
	return Decide(p, command, c)
}

func TestListsA1(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, b := book(t)
	c.lists["/a"] = []string{"delete in root path"}
	const command = "rm -rf /data"
	for range 2 { // warm under A, read under B, A again
		if v := b.in(ctx, Policy{}, command, "/a", "s"); v.Decision != Allow {
			t.Fatalf("A: %v", v.Decision)
		}
		if v := b.in(ctx, Policy{}, command, "/b", "s"); v.Decision != Ask {
			t.Fatalf("B: %v", v.Decision)
		}
	}
	v := b.in(ctx, Policy{}, "git push -f", "/b", "s")
	if run, err := b.Settle(ctx, "/b", "s", v, Always); !run || err != nil {
		t.Fatalf("got %v, %v", run, err)
	}
	if v := b.in(ctx, Policy{}, "git push -f", "/b", "other"); v.Decision != Allow {
		t.Errorf("B in another session: %v", v.Decision)
	}
	if v := b.in(ctx, Policy{}, "git push -f", "/a", "s"); v.Decision != Ask {
		t.Errorf("A, same session id: %v", v.Decision)
	}
	if want := []string{"git force push (rewrites remote history)"}; !slices.Equal(c.lists["/b"], want) || len(c.lists["/a"]) != 1 {
		t.Errorf("got %q and %q, want %q in B only", c.lists["/a"], c.lists["/b"], want)
	}
	c.lists["/b"] = nil
	b.Sessions.Forget("/b", "s")
	if v := b.in(ctx, Policy{}, "git push -f", "/b", "s"); v.Decision != Ask {
		t.Errorf("removed from the config: %v", v.Decision)
	}
}

func TestListsA2(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, b := book(t)
	policy := func(r Reviewer) Policy {
		return Policy{Mode: Smart, Required: []Requirement{{Pattern: "deploy *", Reviewer: r}}}
	}
	for _, home := range []string{"/a", "/b"} {
		v := b.in(ctx, policy(Guardian), "deploy x", home, "s")
		if _, err := b.Settle(ctx, home, "s", v, Always); err != nil {
			t.Fatal(err)
		}
	}
	before := slices.Clone(c.lists["/a"])
	v := b.in(ctx, policy(Human), "deploy x", "/b", "s")
	if v.Decision != Ask {
		t.Fatalf("tightened: %v", v.Decision)
	}
	if run, err := b.Settle(ctx, "/b", "s", v, Deny); run || err != nil {
		t.Fatalf("got %v, %v", run, err)
	}
	if len(c.lists["/b"]) != 0 || !slices.Equal(c.lists["/a"], before) {
		t.Errorf("B has %q, A has %q, want nothing and %q", c.lists["/b"], c.lists["/a"], before)
	}
	if v := b.in(ctx, policy(Guardian), "deploy x", "/b", "s"); v.Decision != Ask {
		t.Errorf("lax again in B: %v", v.Decision)
	}
	if v := b.in(ctx, policy(Guardian), "deploy x", "/a", "s"); v.Decision != Allow {
		t.Errorf("A: %v", v.Decision)
	}
}

func TestListsA3(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var log bytes.Buffer
	c, b := book(t)
	b.Lists = NewLists(c, slog.New(slog.NewTextHandler(&log, nil)))
	c.lists["/a"] = []string{"*"}
	c.lists["/b"] = []string{"*"}
	c.broken["/b"] = true
	if got := b.Lists.Read(ctx, "/b"); len(got) != 0 {
		t.Errorf("got %q for a config that cannot be read", got)
	}
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("not logged: %q", log.String())
	}
	c.broken["/b"] = false
	if got := b.Lists.Read(ctx, "/b"); len(got) != 1 {
		t.Errorf("readable again: got %q", got)
	}
	if got := b.Lists.Read(ctx, ""); got != nil {
		t.Errorf("no home: got %q", got)
	}
}

func TestListsAreCopies(t *testing.T) {
	t.Parallel()
	c, b := book(t)
	c.lists["/a"] = []string{"x"}
	b.Lists.Read(t.Context(), "/a")[0] = "*"
	if c.lists["/a"][0] != "x" {
		t.Error("a reader changed the list")
	}
}

// TestProfilesInParallel is for the race detector: 8 profiles grant, read and forget at once,
// and none sees another's.
func TestProfilesInParallel(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, b := book(t)
	commands := []string{"rm -rf /data", "git push -f", "git clean -f", "find . -delete", "chmod 777 x", "pip uninstall x", "docker stop x", "git reset --hard"}
	var wg sync.WaitGroup
	for i := range commands {
		wg.Go(func() {
			home := fmt.Sprintf("/p%d", i)
			for round := range 20 {
				for j, command := range commands {
					v := b.in(ctx, Policy{}, command, home, "s")
					if want := j == i && round > 0; (v.Decision == Allow) != want {
						t.Errorf("%s, round %d: %q is %v", home, round, command, v.Decision)
					}
				}
				v := b.in(ctx, Policy{}, commands[i], home, "s")
				if _, err := b.Settle(ctx, home, "s", v, []Answer{Always, ForSession}[i%2]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestSettle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, command string
		answer        Answer
		run, again    bool // it runs now; it runs unasked the next time
		elsewhere     bool // and in another session
	}{
		{"deny", "git push -f", Deny, false, false, false},
		{"no answer at all", "git push -f", Answer(200), false, false, false},
		{"once is once", "git push -f", Once, true, false, false},
		{"session", "git push -f", ForSession, true, true, false},
		{"always", "git push -f", Always, true, true, true},
		{"unparsable is once", "if x", Always, true, false, false},
		{"unparsable beside a danger", "git push -f\nif x", Always, true, false, false},
		{"floor", "rm -rf /", Always, false, false, false},
		{"harmless", "ls", Deny, true, true, true},
	} {
		c, b := book(t)
		v := b.in(t.Context(), Policy{}, tt.command, "/a", "s")
		run, err := b.Settle(t.Context(), "/a", "s", v, tt.answer)
		again := b.in(t.Context(), Policy{}, tt.command, "/a", "s").Decision == Allow
		elsewhere := b.in(t.Context(), Policy{}, tt.command, "/a", "s2").Decision == Allow
		if err != nil || run != tt.run || again != tt.again || elsewhere != tt.elsewhere {
			t.Errorf("%s: got run %v, again %v, elsewhere %v, %v", tt.name, run, again, elsewhere, err)
		}
		if (len(c.lists["/a"]) > 0) != (tt.elsewhere && tt.name != "harmless") {
			t.Errorf("%s: config has %q", tt.name, c.lists["/a"])
		}
	}
}

// TestSettleCannotSave is a managed home: the answer counts for the session.
func TestSettleCannotSave(t *testing.T) {
	t.Parallel()
	c, b := book(t)
	c.locked["/a"] = true
	v := b.in(t.Context(), Policy{}, "git push -f", "/a", "s")
	run, err := b.Settle(t.Context(), "/a", "s", v, Always)
	if !run || !errors.Is(err, errBroken) {
		t.Errorf("got %v, %v", run, err)
	}
	if v := b.in(t.Context(), Policy{}, "git push -f", "/a", "s"); v.Decision != Allow {
		t.Errorf("same session: %v", v.Decision)
	}
	if v := b.in(t.Context(), Policy{}, "git push -f", "/a", "s2"); v.Decision != Ask {
		t.Errorf("another session: %v", v.Decision)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	var s Sessions
	s.Grant("", "s", []string{"x"})
	s.Grant("/a", "", []string{"x"})
	s.SetYolo("/a", "", true)
	if keys, yolo := s.Granted("/a", ""); keys != nil || yolo {
		t.Errorf("no session id: got %q, %v", keys, yolo)
	}
	s.SetYolo("/a", "1", true)
	if _, yolo := s.Granted("/b", "1"); yolo {
		t.Error("yolo crossed profiles")
	}
	if _, yolo := s.Granted("/a", "2"); yolo {
		t.Error("yolo crossed sessions")
	}
	s.Forget("/a", "1")
	if _, yolo := s.Granted("/a", "1"); yolo {
		t.Error("yolo outlived its session")
	}
}

// TestSessionsAreBounded: sessions without end keep no grants without end. Whoever uses its
// grants keeps them, a session without any takes no place, and no profile takes another's.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	var s Sessions
	s.Grant("/b", "quiet", []string{"x"})
	s.Grant("/a", "used", []string{"x"})
	for i := range 2 * mostSessions {
		id := strconv.Itoa(i)
		s.Grant("/a", id, []string{"x"})
		s.Revoke("/a", "never granted "+id, []string{"y"})
		if keys, _ := s.Granted("/a", "used"); len(keys) != 1 {
			t.Fatalf("after %d others a session that uses its grants has %q", i, keys)
		}
	}
	if n, m := len(s.of["/a"].by), s.of["/a"].order.Len(); n != mostSessions || m != n {
		t.Errorf("%d and %d sessions are kept, want %d", n, m, mostSessions)
	}
	for _, at := range [][2]string{{"/b", "quiet"}, {"/a", strconv.Itoa(2*mostSessions - 1)}} {
		if keys, _ := s.Granted(at[0], at[1]); len(keys) != 1 {
			t.Errorf("%q has %q", at, keys)
		}
	}
	if keys, _ := s.Granted("/a", "0"); keys != nil {
		t.Errorf("the oldest has %q", keys)
	}
	s.Revoke("/b", "quiet", []string{"x"})
	s.ForgetAll("/a")
	if len(s.of) != 0 {
		t.Errorf("profiles without grants are kept: %v", s.of)
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	answer := func(a Answer, err error) func(context.Context) (Answer, error) {
		return func(context.Context) (Answer, error) { return a, err }
	}
	never := func(ctx context.Context) (Answer, error) { <-ctx.Done(); return Always, nil }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name    string
		ctx     context.Context
		timeout time.Duration
		ask     func(context.Context) (Answer, error)
		want    Answer
	}{
		{"yes", t.Context(), 0, answer(Once, nil), Once},
		{"always", t.Context(), time.Minute, answer(Always, nil), Always},
		{"error", t.Context(), time.Minute, answer(Always, errBroken), Deny},
		{"nonsense", t.Context(), time.Minute, answer(Answer(9), nil), Deny},
		{"timeout", t.Context(), time.Millisecond, never, Deny},
		{"ended", ended, time.Minute, never, Deny},
	} {
		if got := Await(tt.ctx, tt.timeout, tt.ask); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestReadList(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   any
		want []string
		ok   bool
	}{
		{nil, nil, true},
		{[]any{"a", "b *"}, []string{"a", "b *"}, true},
		{[]string{"a"}, []string{"a"}, true},
		{[]any{}, nil, true},
		{"ls", nil, false}, // must not become "l" and "s"
		{[]any{"a", 1}, nil, false},
		{map[string]any{"a": 1}, nil, false},
		{true, nil, false},
	} {
		got, err := ReadList(tt.in)
		if !slices.Equal(got, tt.want) || (err == nil) != tt.ok {
			t.Errorf("%v: got %q, %v", tt.in, got, err)
		}
	}
	list := []string{"a", "b"}
	if got := AddTo(list, []string{"b", " c ", "", "c"}); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("AddTo: %q", got)
	}
	if got := RemoveFrom(list, []string{"a", "x"}); !slices.Equal(got, []string{"b"}) || list[0] != "a" {
		t.Errorf("RemoveFrom: %q of %q", got, list)
	}
}

func TestParsePolicy(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	for _, tt := range []struct {
		name     string
		in       any
		want     Policy
		problems int
	}{
		{"absent", nil, Policy{Mode: Smart}, 0},
		{"empty", m{}, Policy{Mode: Smart, Timeout: DefaultTimeout}, 0},
		{"full", m{"mode": "manual", "timeout": 60, "cron_mode": "approve", "unattended_mode": "deny", "deny": []any{"a *", 1}}, Policy{Timeout: time.Minute, ApproveCron: true, Deny: []string{"a *", "1"}}, 0},
		{"off", m{"mode": "off"}, Policy{Mode: Off, Timeout: DefaultTimeout}, 0},
		{"YAML 1.1 off", m{"mode": false}, Policy{Mode: Off, Timeout: DefaultTimeout}, 0},
		{"YAML 1.1 on", m{"mode": true}, Policy{Timeout: DefaultTimeout}, 1},
		{"mode auto", m{"mode": "auto", "cron_mode": "auto"}, Policy{Timeout: DefaultTimeout}, 2},
		{"not a mapping", "off", Policy{}, 1},
		{"deny is text", m{"mode": "off", "deny": "rm *"}, Policy{Mode: Off, Timeout: DefaultTimeout, Deny: []string{"rm *"}}, 0},
		{"deny cannot be read", m{"mode": "off", "deny": []any{"a", m{"x": 1}}}, Policy{Timeout: DefaultTimeout, Deny: []string{"a"}}, 1},
		{"timeout", m{"timeout": "soon"}, Policy{Mode: Smart, Timeout: DefaultTimeout}, 1},
		{"timeout 0", m{"timeout": 0}, Policy{Mode: Smart, Timeout: DefaultTimeout}, 1},
		{
			"required",
			m{"command_approval_required": []any{m{"pattern": "a", "description": "b", "review": "smart"}, m{"pattern": "c", "review": "x"}}},
			Policy{Mode: Smart, Timeout: DefaultTimeout, Required: []Requirement{{"a", "b", Guardian}, {"c", "", Human}}},
			0,
		},
		{"required without a pattern", m{"mode": "smart", "command_approval_required": []any{m{"review": "smart"}}}, Policy{Timeout: DefaultTimeout}, 1},
	} {
		got, problems := ParsePolicy(tt.in)
		if fmt.Sprint(got) != fmt.Sprint(tt.want) || len(problems) != tt.problems {
			t.Errorf("%s: got %+v %q, want %+v and %d problems", tt.name, got, problems, tt.want, tt.problems)
		}
	}
}

// TestIDs holds every rule to a text, a level that fits its name, and keys that no other rule
// shares.
func TestIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]ID{}
	produced := map[ID]bool{}
	for _, r := range append(floorRows(), askRows()...) {
		for _, f := range Decide(Policy{Deny: []string{"reboot"}}, r.command, at()).Findings {
			produced[f.ID] = true
		}
	}
	for id := range produced {
		text := id.text()
		if text == "" || text == string(id) || strings.Contains(text, "\n") {
			t.Errorf("%s: text %q", id, text)
		}
		if (id.level() == Floor) != (strings.HasPrefix(string(id), "floor.") || id == FloorDenied) {
			t.Errorf("%s: level %v", id, id.level())
		}
		for _, k := range append(id.upstream(), string(id)) {
			if other, ok := seen[k]; ok && other != id {
				t.Errorf("%s and %s share the key %q", id, other, k)
			}
			seen[k] = id
		}
	}
	if len(produced) < 54 {
		t.Errorf("the tables produce %d rules", len(produced))
	}
}
