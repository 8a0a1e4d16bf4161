// SPDX-License-Identifier: MIT

package session

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// queue has the changes wait for the write lock at the same time, in their order, lets them run
// together and returns what became of each.
func queue(t *testing.T, s *Store, changes ...change) []error {
	t.Helper()
	tx, err := s.w.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, len(changes))
	var wg sync.WaitGroup
	for i, fn := range changes {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("panic: %v", p)
				}
			}()
			errs[i] = s.update(t.Context(), fn)
		})
		waitLine(t, s, i+1)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	return errs
}

func waitLine(t *testing.T, s *Store, n int) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		have := len(s.line)
		s.mu.Unlock()
		if have == n {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%d writes wait, want %d", have, n)
		}
	}
}

func says(s *Store, session, text string, seen *[]*sql.Tx) change {
	return func(ctx context.Context, tx *sql.Tx) error {
		*seen = append(*seen, tx)
		_, err := s.insert(ctx, tx, session, Message{Role: "user", Content: text})
		return err
	}
}

// TestWritesShareACommit: what waits together is committed together, and one that is refused
// takes nothing of the others back, nor leaves anything of itself.
func TestWritesShareACommit(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	id := create(t, s, Session{}).ID
	var seen []*sql.Tx
	refused := errors.New("refused")
	errs := queue(t, s,
		says(s, id, "a", &seen),
		func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(says(s, id, "never", &seen)(ctx, tx), refused)
		},
		says(s, "nobody", "b", &seen),
		says(s, id, "c", &seen),
	)
	if errs[0] != nil || !errors.Is(errs[1], refused) || !errors.Is(errs[2], ErrNoSession) || errs[3] != nil {
		t.Errorf("errors: %v", errs)
	}
	if got := history(t, s, id); got != "user:a user:c" {
		t.Errorf("history: %s", got)
	}
	if got, err := s.Get(t.Context(), id); err != nil || got.Messages != 2 {
		t.Errorf("counter %d, %v", got.Messages, err)
	}
	for _, tx := range seen {
		if tx != seen[0] || len(seen) != 4 {
			t.Fatalf("%d changes ran, not all in one transaction", len(seen))
		}
	}
	if n := len(find(t, s, "never")); n != 0 {
		t.Errorf("the index has %d entries of what was refused", n)
	}
}

// TestSharedCommitFails: where the commit of many fails, each is made by itself, and only the
// one to blame fails.
func TestSharedCommitFails(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]change{
		"at the commit": func(ctx context.Context, tx *sql.Tx) error {
			return run(ctx, tx, "PRAGMA defer_foreign_keys = ON", "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('nobody', 'user', 'x', 1)")
		},
		"a panic":            func(context.Context, *sql.Tx) error { panic("broken") },
		"an error of SQLite": func(ctx context.Context, tx *sql.Tx) error { return run(ctx, tx, "SELECT nothing FROM nowhere") },
		"it ends the transaction": func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(run(ctx, tx, "ROLLBACK"), errors.New("gone"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			id := create(t, s, Session{}).ID
			var seen []*sql.Tx
			errs := queue(t, s, says(s, id, "a", &seen), bad, says(s, id, "b", &seen))
			if errs[0] != nil || errs[1] == nil || errors.Is(errs[1], errAlone) || errs[2] != nil {
				t.Errorf("errors: %v", errs)
			}
			if got := history(t, s, id); got != "user:a user:b" && got != "user:b user:a" {
				t.Errorf("history: %s", got)
			}
			say(t, s, id, "user", "c") // it goes on
		})
	}
}

// TestLeavesTheLine: a caller whose time is over before its write began has written nothing.
func TestLeavesTheLine(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	id := create(t, s, Session{}).ID
	tx, err := s.w.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone, stays := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.Append(ctx, id, Message{Role: "user", Content: "gone"})
		gone <- err
	}()
	waitLine(t, s, 1)
	go func() {
		_, err := s.Append(t.Context(), id, Message{Role: "user", Content: "stays"})
		stays <- err
	}()
	waitLine(t, s, 2)
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-stays; err != nil {
		t.Error(err)
	}
	if got := history(t, s, id); got != "user:stays" {
		t.Errorf("history: %s", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), id, Message{Role: "user", Content: "late"}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestKilledWhileManyWrite kills a process in which many turns write: each message whose write
// had returned is there, and of each session only its beginning.
func TestKilledWhileManyWrite(t *testing.T) {
	t.Parallel()
	path := dbPath(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{"many", path, "40"}, "|"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, lines := map[string]int{}, bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if id, k, ok := strings.Cut(lines.Text(), " "); ok {
			if said[id], err = strconv.Atoi(k); err != nil {
				t.Fatal(err)
			}
		}
		if n == 600 {
			cmd.Process.Kill() // what it said before is read on
		}
	}
	cmd.Wait()
	if len(said) == 0 {
		t.Fatal("nothing was written")
	}
	s := openStore(t, path, Options{})
	for id, k := range said {
		ms, err := s.History(t.Context(), id)
		if err != nil || len(ms) < k+1 {
			t.Errorf("%s: %d messages, %d were written; %v", id, len(ms), k+1, err)
		}
		for i, m := range ms {
			if m.Content != strconv.Itoa(i) {
				t.Fatalf("%s: message %d is %s", id, i, m.Content)
			}
		}
	}
	if d, err := s.Check(t.Context()); err != nil || d.Class != Whole {
		t.Errorf("check: %+v %v", d, err)
	}
}

// TestSameTitleManyTimes: a thousand chats begin with the same words, and the last one is named
// in a few looks.
func TestSameTitleManyTimes(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const n = 70
	titles := map[string]bool{}
	for range n {
		c := create(t, s, Session{Title: "hello", TitleSource: TitleDerived})
		titles[c.Title] = true
	}
	for i := 1; i <= n; i++ {
		name := "hello"
		if i > 1 {
			name = fmt.Sprintf("hello #%d", i)
		}
		if !titles[name] {
			t.Errorf("no session is called %s", name)
		}
	}
	// The last number is not on the way of a search that doubles: a gap is filled, none is taken twice.
	if err := s.SetTitle(t.Context(), create(t, s, Session{}).ID, "hello #200", TitleUser); err != nil {
		t.Fatal(err)
	}
	if c := create(t, s, Session{Title: "hello #200", TitleSource: TitleDerived}); titles[c.Title] || c.Title == "hello #200" {
		t.Errorf("the title %s is taken twice", c.Title)
	}
}
