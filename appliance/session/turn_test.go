// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func begin(t testing.TB, s *Store, session string) *Turn {
	t.Helper()
	turn, err := s.Begin(t.Context(), session, "test")
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func put(t testing.TB, turn *Turn, ms ...Message) {
	t.Helper()
	for _, m := range ms {
		if _, err := turn.Append(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTurn(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	id := create(t, s, Session{}).ID
	turn := begin(t, s, id)
	if _, err := s.Begin(t.Context(), id, "other"); !errors.Is(err, ErrTurnRunning) {
		t.Errorf("second turn: got %v, want ErrTurnRunning", err)
	}
	if on, err := s.Running(t.Context(), id); !on || err != nil {
		t.Errorf("running: %v %v", on, err)
	}
	put(t, turn, Message{Role: "user", Content: "go"}, calling("a:x", "b:y"), result("b", "done"))
	// The stop: the context of the turn is over when it is closed.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.Join(turn.Close(ctx), turn.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	if got, want := history(t, s, id), "user:go assistant:call(a,b) tool(a):interrupted tool(b):done"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if on, err := s.Running(t.Context(), id); on || err != nil {
		t.Errorf("running after close: %v %v", on, err)
	}
	if _, err := turn.Append(t.Context(), Message{Role: "user"}); !errors.Is(err, ErrTurnLost) {
		t.Errorf("append to a closed turn: %v", err)
	}
	ms, err := s.History(t.Context(), id)
	if err != nil || ms[2].ToolName != "x" || ms[2].Effect != "unknown" {
		t.Errorf("interrupted result %+v %v: want the tool's name, and that its effect is unknown", ms[2], err)
	}
	again := begin(t, s, id)
	if again.Settled != 0 {
		t.Errorf("settled %d a second time", again.Settled)
	}
	if err := again.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTurnSettlesWhatOthersLeft(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	id := create(t, s, Session{}).ID
	appendTo(t, s, id, calling("a:x"))
	say(t, s, id, "user", "never mind")
	appendTo(t, s, id, calling("b:x", "c:x"))
	appendTo(t, s, id, result("c", "ok"))
	turn := begin(t, s, id)
	defer turn.Close(t.Context())
	if turn.Settled != 2 {
		t.Errorf("settled %d, want 2", turn.Settled)
	}
	if got, want := history(t, s, id), "assistant:call(a) tool(a):interrupted user:never mind assistant:call(b,c) tool(b):interrupted tool(c):ok"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestTurnLost(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := openStore(t, dbPath(t), Options{Now: func() time.Time { return now }})
	id := create(t, s, Session{}).ID
	first := begin(t, s, id)
	put(t, first, calling("a:x"))
	now = now.Add(LeaseTime - time.Second)
	if err := first.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(LeaseTime - time.Second)
	if _, err := s.Begin(t.Context(), id, "early"); !errors.Is(err, ErrTurnRunning) {
		t.Errorf("a refreshed lease was taken: %v", err)
	}
	now = now.Add(time.Second)
	second := begin(t, s, id)
	if second.Settled != 1 {
		t.Errorf("settled %d, want 1", second.Settled)
	}
	for _, err := range []error{first.Refresh(t.Context()), func() error { _, err := first.Append(t.Context(), result("a", "late")); return err }(), func() error { _, err := first.Settle(t.Context()); return err }()} {
		if !errors.Is(err, ErrTurnLost) {
			t.Errorf("the first turn goes on: %v", err)
		}
	}
	if err := first.Close(t.Context()); err != nil {
		t.Errorf("closing a lost turn: %v", err)
	}
	put(t, second, Message{Role: "assistant", Content: "fine"})
	if got, want := history(t, s, id), "assistant:call(a) tool(a):interrupted assistant:fine"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestSettleModel holds settlement and arrangement against a plain model: whatever the order of
// rows, afterwards each call has one result, right behind the message that asked, and no text
// is lost.
func TestSettleModel(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		id := create(t, s, Session{}).ID
		texts, calls := 0, 0
		for range 3 + r.IntN(25) {
			switch r.IntN(4) {
			case 0:
				say(t, s, id, "user", fmt.Sprintf("text%d", texts))
				texts++
			case 1:
				var list []string
				for range 1 + r.IntN(3) {
					list = append(list, fmt.Sprintf("c%d:tool", r.IntN(6))) // ids come again
					calls++
				}
				appendTo(t, s, id, calling(list...))
			default:
				appendTo(t, s, id, result(fmt.Sprintf("c%d", r.IntN(6)), "r"))
			}
		}
		turn := begin(t, s, id)
		ms, err := s.History(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range ms {
			for j, c := range callsOf(m.ToolCalls) {
				if i+1+j >= len(ms) || ms[i+1+j].CallID != c.id {
					t.Fatalf("seed %d: call %s of message %d has no result behind it: %s", seed, c.id, i, shapeOf(ms))
				}
			}
		}
		for i := range texts {
			if n := strings.Count(shapeOf(ms), fmt.Sprintf("text%d ", i)) + strings.Count(shapeOf(ms)+"\n", fmt.Sprintf("text%d\n", i)); n != 1 {
				t.Fatalf("seed %d: text%d is there %d times", seed, i, n)
			}
		}
		if n, err := turn.Settle(t.Context()); n != 0 || err != nil {
			t.Fatalf("seed %d: settled %d again, %v", seed, n, err)
		}
		if err := turn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCallsOf(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		``:                                    "[]",
		`null`:                                "[]",
		`{"id":"a"}`:                          "[]",
		`[{"id":"a","name":"n"}]`:             "[{a n}]",
		`[{"call_id":"b","function":null}]`:   "[{b }]",
		`[{"name":"no id"},{"id":"c"}]`:       "[{c }]",
		`[{"id":"a","function":{"name":"f"}}`: "[]",
	} {
		if got := fmt.Sprint(callsOf([]byte(in))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestHolder(t *testing.T) {
	t.Parallel()
	me := newHolder("gateway")
	row := me.named("a b:c")
	got := parseHolder(row)
	if got != me {
		t.Errorf("%s reads as %+v, want %+v", row, got, me)
	}
	if !strings.HasPrefix(row, fmt.Sprintf("pid=%d:", me.pid)) {
		t.Errorf("%s: upstream looks for pid= at the beginning", row)
	}
	same := func(change func(h *holder)) string { h := me; change(&h); return h.named("t") }
	for name, c := range map[string]struct {
		row  string
		dead bool
	}{
		"ours":                        {row, false},
		"ours of another role":        {same(func(h *holder) { h.role = "cli" }), false},
		"pid 1, alive":                {same(func(h *holder) { h.pid, h.start, h.role = 1, "", "" }), false},
		"no such process":             {same(func(h *holder) { h.pid, h.role = 1<<22+12345, "" }), true},
		"elsewhere":                   {same(func(h *holder) { h.pid, h.ns, h.role = 1<<22+12345, "1", "" }), false},
		"elsewhere, of the same role": {same(func(h *holder) { h.ns = "1" }), true},
		"not understood":              {"cli-session-7", false},
		"empty":                       {"", false},
	} {
		if got := me.dead(c.row); got != c.dead {
			t.Errorf("%s (%s): dead %v, want %v", name, c.row, got, c.dead)
		}
	}
	if me.start == "" {
		return // no start times here
	}
	for name, row := range map[string]string{
		"our number, earlier start":    same(func(h *holder) { h.start, h.role = "1", "" }),
		"our number, of upstream":      same(func(h *holder) { h.start, h.role = "", "" }),
		"pid 1 with a start of before": same(func(h *holder) { h.pid, h.start, h.role = 1, "99999999999", "" }),
	} {
		if !me.dead(row) {
			t.Errorf("%s (%s) counts as alive", name, row)
		}
	}
}

func TestHistoryLimit(t *testing.T) {
	t.Parallel()
	s := openStore(t, dbPath(t), Options{MaxHistory: 3})
	id := create(t, s, Session{}).ID
	for range 3 {
		say(t, s, id, "user", "x")
	}
	if _, err := s.History(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	say(t, s, id, "user", "x")
	var long *TooLongError
	if _, err := s.History(t.Context(), id); !errors.As(err, &long) || long.Limit != 3 {
		t.Errorf("got %v, want a TooLongError", err)
	}
	if _, err := s.History(t.Context(), "nobody"); !errors.Is(err, ErrNoSession) {
		t.Errorf("unknown session: %v", err)
	}
}

func TestRewind(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	id := create(t, s, Session{}).ID
	say(t, s, id, "user", "one")
	at := say(t, s, id, "user", "two unicorns")
	appendTo(t, s, id, calling("a:x"))
	n, err := s.Rewind(t.Context(), id, at)
	if err != nil || n != 2 || history(t, s, id) != "user:one" {
		t.Errorf("took back %d, %v; left %s", n, err, history(t, s, id))
	}
	if len(find(t, s, "unicorns")) != 0 {
		t.Error("what was taken back is found")
	}
	if got, _ := s.Get(t.Context(), id); got.Messages != 1 || got.ToolCalls != 0 {
		t.Errorf("counters %d %d", got.Messages, got.ToolCalls)
	}
	if page, _ := s.Messages(t.Context(), id, Page{All: true}); len(page) != 3 {
		t.Errorf("%d messages are left in the file, want all 3", len(page))
	}
	if _, err := s.Rewind(t.Context(), id, 999); !errors.Is(err, ErrNoMessage) {
		t.Errorf("unknown message: %v", err)
	}
}

func TestMessagesPages(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	id := create(t, s, Session{}).ID
	var ids []int64
	for i := range 7 {
		ids = append(ids, say(t, s, id, "user", fmt.Sprint(i)))
	}
	for _, c := range []struct {
		p    Page
		want string
	}{
		{Page{}, "0 1 2 3 4 5 6"},
		{Page{Limit: 2}, "0 1"},
		{Page{Limit: 2, After: ids[1]}, "2 3"},
		{Page{Limit: 2, Newest: true}, "5 6"},
		{Page{Limit: 2, Newest: true, Before: ids[5]}, "3 4"},
		{Page{After: ids[6]}, ""},
	} {
		ms, err := s.Messages(t.Context(), id, c.p)
		if got := strings.ReplaceAll(shapeOf(ms), "user:", ""); got != c.want || err != nil {
			t.Errorf("%+v: got %q %v, want %q", c.p, got, err, c.want)
		}
	}
}
