// SPDX-License-Identifier: MIT

package session

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestTwoProcesses has three processes write to one file at the same time.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			const n = 40
			s := openStore(t, dbPath(t), Options{JournalMode: mode})
			id := create(t, s, Session{}).ID
			var wg sync.WaitGroup
			for _, name := range []string{"a", "b"} {
				wg.Go(func() { startChild(t, "write", s.Path(), id, name, fmt.Sprint(n)) })
			}
			for i := range n {
				say(t, s, id, "user", fmt.Sprintf("c-%d", i))
			}
			wg.Wait()
			ms, err := s.History(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			next := map[string]int{}
			for _, m := range ms {
				name, num, _ := strings.Cut(m.Content, "-")
				if fmt.Sprint(next[name]) != num {
					t.Fatalf("%s follows %s-%d", m.Content, name, next[name]-1)
				}
				next[name]++
			}
			if next["a"] != n || next["b"] != n || next["c"] != n {
				t.Errorf("messages %v, want %d each", next, n)
			}
			if got, _ := s.Get(t.Context(), id); got.Messages != 3*n {
				t.Errorf("counter %d, want %d", got.Messages, 3*n)
			}
			if d, err := s.Check(t.Context()); err != nil || d.Class != Whole {
				t.Errorf("check %+v %v", d, err)
			}
		})
	}
}

// TestKilledInATurn kills a process in the middle of a turn. The next one to open the file
// gives the calls results; so does one that had it open all the time and begins a turn.
func TestKilledInATurn(t *testing.T) {
	t.Parallel()
	const want = "user:go assistant:call(x,y) tool(x):interrupted tool(y):interrupted"
	t.Run("reopened", func(t *testing.T) {
		t.Parallel()
		path := dbPath(t)
		s := openStore(t, path, Options{})
		id := create(t, s, Session{}).ID
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		cmd, _ := startChild(t, "turn", path, id, "x:terminal,y:terminal")
		kill(t, cmd)
		again := openStore(t, path, Options{})
		if got := history(t, again, id); got != want || again.Health().Settled != 2 {
			t.Errorf("got %s, settled %d\nwant %s", got, again.Health().Settled, want)
		}
		turn := begin(t, again, id)
		if err := turn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("open all the time", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		id := create(t, s, Session{}).ID
		cmd, _ := startChild(t, "turn", s.Path(), id, "x:terminal,y:terminal")
		if _, err := s.Begin(t.Context(), id, "early"); !errors.Is(err, ErrTurnRunning) {
			t.Errorf("while the other process lives: got %v, want ErrTurnRunning", err)
		}
		kill(t, cmd)
		turn := begin(t, s, id)
		defer turn.Close(t.Context())
		if got := history(t, s, id); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
	t.Run("compressed meanwhile", func(t *testing.T) {
		t.Parallel()
		path := dbPath(t)
		s := openStore(t, path, Options{})
		id := create(t, s, Session{}).ID
		child := compress(t, s, id, Compression{Handoff: handoff()})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		cmd, _ := startChild(t, "turn", path, child.ID, "x:terminal,y:terminal")
		kill(t, cmd)
		again := openStore(t, path, Options{})
		if got := history(t, again, child.ID); got != "user:[summary] "+want {
			t.Errorf("got %s", got)
		}
	})
}

// TestLiveTurnIsLeftAlone opens a file while another process has a turn in it.
func TestLiveTurnIsLeftAlone(t *testing.T) {
	t.Parallel()
	path := dbPath(t)
	s := openStore(t, path, Options{})
	id := create(t, s, Session{}).ID
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	startChild(t, "turn", path, id, "x:terminal")
	// Nothing is known of the role "gateway" here.
	again := openStore(t, path, Options{})
	if got := history(t, again, id); got != "user:go assistant:call(x)" {
		t.Errorf("a living turn was settled: %s", got)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	// The one gateway of this home is we: what an earlier one left is over.
	only := openStore(t, path, Options{Role: "gateway"})
	if got := history(t, only, id); got != "user:go assistant:call(x) tool(x):interrupted" {
		t.Errorf("the turn of an earlier gateway: %s", got)
	}
}

// TestExpiredLeaseOfElsewhere: a lease of another container can only expire.
func TestExpiredLeaseOfElsewhere(t *testing.T) {
	t.Parallel()
	path := dbPath(t)
	s := openStore(t, path, Options{})
	live, gone := create(t, s, Session{}).ID, create(t, s, Session{}).ID
	for _, id := range []string{live, gone} {
		appendTo(t, s, id, calling("x:t"))
	}
	now := time.Now()
	db := rawDB(t, path)
	for id, expires := range map[string]time.Time{live: now.Add(time.Hour), gone: now.Add(-time.Minute)} {
		if _, err := db.ExecContext(t.Context(), "INSERT INTO session_turn_leases VALUES (?, 'pid=7:pidns=1:turn=t', 0, ?)", id, seconds(expires)); err != nil {
			t.Fatal(err)
		}
	}
	db.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := openStore(t, path, Options{})
	if got := history(t, again, live) + " / " + history(t, again, gone); got != "assistant:call(x) / assistant:call(x) tool(x):interrupted" {
		t.Errorf("got %s", got)
	}
}

// TestManyGoroutines uses one store from many sides; it is for the race detector.
func TestManyGoroutines(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	shared := create(t, s, Session{}).ID
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			n := create(t, s, Session{Title: fmt.Sprintf("t%d", i)})
			for j := range 8 {
				turn, err := s.Begin(t.Context(), n.ID, "t")
				if err != nil {
					t.Error(err)
					return
				}
				for _, m := range []Message{{Role: "user", Content: fmt.Sprintf("word%d", j)}, calling("a:x"), result("a", "r")} {
					if _, err := turn.Append(t.Context(), m); err != nil {
						t.Error(err)
					}
				}
				if _, err := s.Begin(t.Context(), shared, "s"); err == nil { // never closed: exactly one gets it
					if _, err := s.Append(t.Context(), shared, Message{Role: "user", Content: "mine"}); err != nil {
						t.Error(err)
					}
				} else if !errors.Is(err, ErrTurnRunning) {
					t.Error(err)
				}
				if _, err := s.Search(t.Context(), Query{Text: "word1"}); err != nil {
					t.Error(err)
				}
				if _, err := s.List(t.Context(), Filter{}); err != nil {
					t.Error(err)
				}
				if _, err := s.History(t.Context(), n.ID); err != nil {
					t.Error(err)
				}
				s.Health()
				if err := errors.Join(s.AddUsage(t.Context(), n.ID, "m", "", Usage{Calls: 1}), turn.Close(t.Context())); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		if _, err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	if got := history(t, s, shared); got != "user:mine" {
		t.Errorf("the shared session got %s", got)
	}
	list, err := s.List(t.Context(), Filter{Limit: 50})
	if err != nil || len(list) != 13 {
		t.Fatalf("%d sessions %v", len(list), err)
	}
	for _, n := range list {
		if n.ID != shared && (n.Messages != 24 || n.Usage.Calls != 8) {
			t.Errorf("%s: %d messages, %d calls", n.Title, n.Messages, n.Usage.Calls)
		}
	}
}

// TestReportB8StrayFd is report B8: closing any other descriptor of the file drops the locks of
// this process. After everything this package does with an open store, another process must
// still find it locked.
func TestReportB8StrayFd(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"wal", "delete"} { // the locks are on different files
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			strayFd(t, openStore(t, dbPath(t), Options{JournalMode: mode}))
		})
	}
}

func strayFd(t *testing.T, s *Store) {
	t.Helper()
	id := create(t, s, Session{}).ID
	say(t, s, id, "user", "hello")
	_, err := os.Stat("/proc/self/fd")
	testkit.Need(t, "proc", err == nil, "the test counts descriptors in /proc")
	if lockedOutside(t, s.Path()) {
		t.Error("locked while nothing is written")
	}
	before := descriptors(t, s.Path())
	if err := os.Chmod(s.Path(), 0o644); err != nil { // tighten has something to do
		t.Fatal(err)
	}
	// A transaction is under way: its locks must be seen from outside after each of these.
	tx, err := s.w.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for name, use := range map[string]func() error{
		"open again": func() error { _, err := Open(t.Context(), s.Path(), Options{}); return ignore(err, ErrOpen) },
		"diagnose":   func() error { _, err := s.diagnose(t.Context(), s.r); return err },
		"copy":       func() error { return s.Copy(t.Context(), s.Path()+".copy") },
		"tighten":    func() error { s.tighten(); return nil },
		"admit":      s.admit,
		"search":     func() error { _, err := s.Search(t.Context(), Query{Text: "hello"}); return err },
		"history":    func() error { _, err := s.History(t.Context(), id); return err },
		"backups":    func() error { s.earlierCopy(); return nil },
	} {
		if err := use(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !lockedOutside(t, s.Path()) {
			t.Fatalf("%s: another process could take the write lock: this process has lost it", name)
		}
	}
	if s.Health().JournalMode == "wal" {
		if _, line := startChild(t, "alone", s.Path()); line != "locked" {
			t.Error("another process could have the file for itself: this process has lost its share")
		}
	}
	if after := descriptors(t, s.Path()); after > before+2*readers {
		t.Errorf("%d descriptors of the file, were %d", after, before)
	}
}

func ignore(err, is error) error {
	if errors.Is(err, is) {
		return nil
	}
	return err
}

// descriptors counts those of this process that lead to the file or its companions.
func descriptors(t testing.TB, path string) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, path) {
			n++
		}
	}
	return n
}

// TestReportB23NoTranscriptKept reads a long history many times: what the store keeps does not
// grow with what it has read.
func TestReportB23NoTranscriptKept(t *testing.T) { //nolint:paralleltest // it measures the whole process
	s := newStore(t)
	id := create(t, s, Session{}).ID
	for range 50 {
		say(t, s, id, "user", strings.Repeat("long ", 4000)) // 1 MB in all, ten times that for each look
	}
	kept := func() int64 {
		for range 10 {
			if _, err := s.History(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	first := kept()
	for range 3 {
		if now := kept(); now-first > 2<<20 {
			t.Fatalf("after reading again %d bytes more are kept", now-first)
		}
	}
}

// TestReportB31BoundedRecovery opens a file with thousands of sessions that were left in the
// middle: only those with a lease are looked at, and none of them is resumed.
func TestReportB31BoundedRecovery(t *testing.T) {
	t.Parallel()
	path := dbPath(t)
	if err := openStore(t, path, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	db := rawDB(t, path)
	must(t, db, "BEGIN",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO sessions (id, source, started_at) SELECT 's' || i, 'cli', i FROM n",
		`INSERT INTO messages (session_id, role, tool_calls, timestamp) SELECT id, 'assistant', '[{"id":"c"}]', 1 FROM sessions`,
		fmt.Sprintf("INSERT INTO session_turn_leases SELECT id, '%s', 1, 1e12 FROM sessions WHERE started_at <= 5", (holder{pid: 1<<22 + 1, ns: pidNamespace()}).named("t")),
		"COMMIT")
	db.Close()
	s := openStore(t, path, Options{})
	if n := s.Health().Settled; n != 5 {
		t.Errorf("settled %d, want the 5 with a lease", n)
	}
	db = rawDB(t, path)
	if got := ask(t, db, "SELECT count(*), max(session_id) FROM messages WHERE role = 'tool'"); got != "5|s5" {
		t.Errorf("results: %s", got)
	}
	// The others get theirs when somebody goes on with them.
	turn := begin(t, s, "s2000")
	defer turn.Close(t.Context())
	if turn.Settled != 1 {
		t.Errorf("settled %d", turn.Settled)
	}
}
