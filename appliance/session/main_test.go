// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// childEnv makes the test binary a second program that uses the file: "what|path|…".
const childEnv = "HERMES_SESSION_TEST_CHILD"

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		if err := child(strings.Split(job, "|")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// patience is how long a write waits for another program's: the disk of a busy machine stalls.
const patience = 2 * time.Minute

func dbPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "state.db")
}

// open opens a store, waits for its background work and closes it at the end of the test.
func openStore(t testing.TB, path string, o Options) *Store {
	t.Helper()
	o.CheckAfter = -1
	if o.Synchronous == "" {
		o.Synchronous = "off" // no test takes the power away; a killed process loses nothing by it
	}
	if o.BusyTimeout == 0 {
		o.BusyTimeout = patience
	}
	s, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	settleDown(t, s)
	return s
}

func settleDown(t testing.TB, s *Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := s.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

func newStore(t testing.TB) *Store {
	t.Helper()
	return openStore(t, dbPath(t), Options{})
}

func create(t testing.TB, s *Store, n Session) Session {
	t.Helper()
	if n.Source == "" {
		n.Source = "telegram"
	}
	out, err := s.Create(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func appendTo(t testing.TB, s *Store, session string, m Message) int64 {
	t.Helper()
	id, err := s.Append(t.Context(), session, m)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func say(t testing.TB, s *Store, session, role, text string) int64 {
	t.Helper()
	return appendTo(t, s, session, Message{Role: role, Content: text})
}

// calling is an assistant's message with calls "id:name".
func calling(calls ...string) Message {
	var list []map[string]any
	for _, c := range calls {
		id, name, _ := strings.Cut(c, ":")
		list = append(list, map[string]any{"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": "{}"}})
	}
	out, _ := json.Marshal(list)
	return Message{Role: "assistant", ToolCalls: out}
}

func result(id, text string) Message { return Message{Role: "tool", CallID: id, Content: text} }

// shapeOf is a history in short: "user:hi assistant:call(a) tool(a):ok".
func shapeOf(ms []Message) string {
	var out []string
	for _, m := range ms {
		switch {
		case m.Role == "tool" && m.Content == Interrupted:
			out = append(out, "tool("+m.CallID+"):interrupted")
		case m.Role == "tool":
			out = append(out, "tool("+m.CallID+"):"+m.Content)
		case len(callsOf(m.ToolCalls)) > 0:
			var ids []string
			for _, c := range callsOf(m.ToolCalls) {
				ids = append(ids, c.id)
			}
			out = append(out, m.Role+":call("+strings.Join(ids, ",")+")")
		default:
			out = append(out, m.Role+":"+m.Content)
		}
	}
	return strings.Join(out, " ")
}

func history(t testing.TB, s *Store, session string) string {
	t.Helper()
	ms, err := s.History(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	return shapeOf(ms)
}

// rawDB opens a file as another program would, for building and looking.
func rawDB(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", fmt.Sprintf("%s?_pragma=busy_timeout(%d)", fileURL(path), patience.Milliseconds()))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func must(t testing.TB, db *sql.DB, stmts ...string) {
	t.Helper()
	for _, stmt := range stmts {
		if _, err := db.ExecContext(t.Context(), stmt); err != nil {
			t.Fatalf("%v\n%s", err, stmt)
		}
	}
}

func ask(t testing.TB, db *sql.DB, stmt string, args ...any) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), stmt, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, stmt)
	}
	cols, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	if err := each(rows, func() error {
		vals := make([]any, len(cols))
		dest := make([]any, len(cols))
		for i := range vals {
			dest[i] = &vals[i]
		}
		err := rows.Scan(dest...)
		var line []string
		for _, v := range vals {
			if b, ok := v.([]byte); ok {
				v = string(b)
			}
			line = append(line, fmt.Sprint(v))
		}
		out = append(out, strings.Join(line, "|"))
		return err
	}); err != nil {
		t.Fatalf("%v\n%s", err, stmt)
	}
	return strings.Join(out, "\n")
}

func find(t testing.TB, s *Store, text string) []Hit {
	t.Helper()
	hits, err := s.Search(t.Context(), Query{Text: text})
	if err != nil {
		t.Fatalf("search %q: %v", text, err)
	}
	return hits
}
