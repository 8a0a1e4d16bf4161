// SPDX-License-Identifier: MIT

package session

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// upstreamFile builds a file as upstream leaves it: its tables in its order, columns and tables
// that this package does not know, its triggers and its indexes.
func upstreamFile(t testing.TB) string {
	t.Helper()
	path := dbPath(t)
	text, err := os.ReadFile("testdata/upstream30.sql")
	if err != nil {
		t.Fatal(err)
	}
	db := rawDB(t, path)
	must(t, db, "PRAGMA journal_mode = wal", string(text))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// dump is every row of every table, but for our own and the shadows of indexes.
func dump(t testing.TB, path string) string {
	t.Helper()
	db := rawDB(t, path)
	defer db.Close()
	var b strings.Builder
	for name := range strings.SplitSeq(ask(t, db, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'messages_fts%' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'appliance_%' ORDER BY 1"), "\n") {
		b.WriteString("== " + name + "\n" + ask(t, db, "SELECT * FROM "+name+" ORDER BY rowid") + "\n")
	}
	return b.String()
}

// TestUpstreamFile opens a file of upstream's, has a turn in it, and finds everything else as
// it was.
func TestUpstreamFile(t *testing.T) {
	t.Parallel()
	path := upstreamFile(t)
	before := dump(t, path)
	s := openStore(t, path, Options{})
	if h := s.Health(); h.State != Sound || h.Schema != 30 {
		t.Fatalf("health %+v", h)
	}
	checked := regexp.MustCompile(metaChecked + `.*\n`) // the one row that an opening adds
	if after := checked.ReplaceAllString(dump(t, path), ""); after != before {
		t.Errorf("opening changed rows (-want +got):\n%s", cmp.Diff(before, after))
	}
	const old = "20260911_080000_0a1b2c3d"
	if got, want := history(t, s, old), "user:where is the parcel? assistant:call(call_1) tool(call_1):{\"found\": true} assistant:It is in the hall."; got != want {
		t.Errorf("history\n got %s\nwant %s", got, want)
	}
	n, err := s.Get(t.Context(), old)
	if err != nil || n.Title != "Parcel" || n.SystemPrompt != "You are Hermes." || n.Usage.Input != 120 || n.SessionKey != "agent:main:telegram:dm:42" {
		t.Errorf("session %+v %v", n, err)
	}
	if hits := find(t, s, "parcel"); len(hits) != 1 || hits[0].SessionID != old {
		t.Errorf("search: %v", hits)
	}
	turn, err := s.Begin(t.Context(), old, "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []Message{{Role: "user", Content: "and the zebra letter?"}, calling("c2:terminal"), result("c2", "none"), {Role: "assistant", Content: "Not there."}} {
		if _, err := turn.Append(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := turn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	db := rawDB(t, path)
	for stmt, want := range map[string]string{
		"SELECT count(*) FROM session_daily_usage":                                                          "1",
		"SELECT * FROM plugin_notes":                                                                        "1|kept",
		"SELECT message_uid, future FROM messages WHERE id = 1":                                             "u-1|f",
		"SELECT auto_archived FROM sessions WHERE id = '" + old + "'":                                       "1",
		"SELECT message_count, tool_call_count FROM sessions WHERE id = '" + old + "'":                      "8|2",
		"SELECT count(*) FROM session_turn_leases":                                                          "0",
		"SELECT count(*) FROM messages WHERE display_order IS NULL":                                         "0", // by upstream's own trigger
		"SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'zebra'":                                   "5",
		"SELECT rowid FROM messages_fts_trigram WHERE messages_fts_trigram MATCH 'zeb'":                     "5",
		"SELECT version FROM schema_version":                                                                "30",
		"SELECT group_concat(name) FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'messages_dis%'": "messages_display_order_insert",
	} {
		if got := ask(t, db, stmt); got != want {
			t.Errorf("%s: got %q, want %q", stmt, got, want)
		}
	}
	must(t, db, "INSERT INTO messages_fts(messages_fts, rank) VALUES('integrity-check', 1)", "INSERT INTO messages_fts_trigram(messages_fts_trigram, rank) VALUES('integrity-check', 1)")
	if got := ask(t, db, "PRAGMA integrity_check"); got != "ok" {
		t.Error(got)
	}
}

// TestUpstreamIndexes compares what upstream's triggers and ours put into the indexes.
func TestUpstreamIndexes(t *testing.T) {
	t.Parallel()
	fill := []string{
		"INSERT INTO sessions (id, source, started_at) VALUES ('t', 'telegram', 1), ('c', 'cron', 1)",
		`INSERT INTO sessions (id, source, model_config, started_at) VALUES ('d', 'telegram', '{"_delegate_from":"t"}', 1), ('b', 'cli', 'broken{', 1)`,
	}
	for _, session := range []string{"t", "c", "d", "b"} {
		for _, role := range []string{"user", "assistant", "tool"} {
			fill = append(fill, "INSERT INTO messages (session_id, role, content, tool_name, tool_calls, timestamp) VALUES ('"+session+"', '"+role+"', 'text "+session+" "+role+" "+strings.Repeat("x", 9000)+" tail', 'tn', '[{\"id\":\"i\"}]', 1)")
		}
	}
	fill = append(fill, "UPDATE messages SET content = 'changed' WHERE session_id = 't' AND role = 'user'", "UPDATE messages SET role = 'tool' WHERE session_id = 'b' AND role = 'user'",
		"UPDATE messages SET active = 0", "DELETE FROM messages WHERE session_id = 'd' AND role = 'assistant'")
	content := func(path string) string {
		db := rawDB(t, path)
		must(t, db, "DELETE FROM messages", "DELETE FROM session_model_usage", "DELETE FROM session_turn_leases", "DELETE FROM sessions", "DELETE FROM sqlite_sequence")
		must(t, db, fill...)
		must(t, db, "CREATE VIRTUAL TABLE temp.w USING fts5vocab(main, messages_fts, instance)", "CREATE VIRTUAL TABLE temp.g USING fts5vocab(main, messages_fts_trigram, instance)")
		return ask(t, db, "SELECT * FROM temp.w ORDER BY 1, 2, 3, 4") + "\n==\n" + ask(t, db, "SELECT * FROM temp.g ORDER BY 1, 2, 3, 4")
	}
	own := dbPath(t)
	if err := openStore(t, own, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	if content(own) != content(upstreamFile(t)) {
		t.Error("the indexes hold something else than upstream's")
	}
}

// TestNewerSchema opens a file of a later upstream.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	path := upstreamFile(t)
	db := rawDB(t, path)
	must(t, db, "UPDATE schema_version SET version = 37", "ALTER TABLE sessions ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'", "CREATE TABLE beyond (x)", "INSERT INTO beyond VALUES (1)")
	db.Close()
	s := openStore(t, path, Options{})
	h := s.Health()
	if h.State != Degraded || h.Schema != 37 || len(h.Notices) != 1 || !strings.Contains(h.Notices[0], "schema 37, newer than 30") {
		t.Errorf("health %+v", h)
	}
	n := create(t, s, Session{})
	say(t, s, n.ID, "user", "hello")
	db = rawDB(t, path)
	if got := ask(t, db, "SELECT (SELECT version FROM schema_version), (SELECT mood FROM sessions WHERE id = ?), (SELECT x FROM beyond)", n.ID); got != "37|calm|1" {
		t.Errorf("got %s", got)
	}
}

// TestOlderSchema opens a file of an earlier upstream: what is missing is added, and the number
// stays, since upstream's own migrations have not run.
func TestOlderSchema(t *testing.T) {
	t.Parallel()
	path := dbPath(t)
	db := rawDB(t, path)
	must(t, db, `CREATE TABLE schema_version (version INTEGER NOT NULL)`, `INSERT INTO schema_version VALUES (12)`,
		`CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, model TEXT, system_prompt TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT, message_count INTEGER DEFAULT 0, title TEXT)`,
		`CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id), role TEXT NOT NULL, content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL, active INTEGER)`,
		`INSERT INTO sessions (id, source, system_prompt, started_at, title) VALUES ('a', 'cli', 'old prompt', 5, 'same'), ('b', 'cli', NULL, 6, 'same')`,
		`CREATE VIRTUAL TABLE messages_fts USING fts5(content)`,
		`CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN INSERT INTO messages_fts(rowid, content) VALUES (new.id, COALESCE(new.content, '') || ' ' || COALESCE(new.tool_name, '') || ' ' || COALESCE(new.tool_calls, '')); END`,
		`CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages BEGIN DELETE FROM messages_fts WHERE rowid = old.id; END`,
		`CREATE TRIGGER messages_fts_update AFTER UPDATE OF content ON messages BEGIN DELETE FROM messages_fts WHERE rowid = old.id; INSERT INTO messages_fts(rowid, content) VALUES (new.id, new.content); END`,
		`CREATE VIRTUAL TABLE messages_fts_trigram USING fts5(content, tokenize='trigram')`,
		`CREATE TRIGGER messages_fts_trigram_insert AFTER INSERT ON messages BEGIN INSERT INTO messages_fts_trigram(rowid, content) VALUES (new.id, new.content); END`,
		`CREATE TRIGGER messages_fts_trigram_delete AFTER DELETE ON messages BEGIN DELETE FROM messages_fts_trigram WHERE rowid = old.id; END`,
		`CREATE TRIGGER messages_fts_trigram_update AFTER UPDATE OF content ON messages BEGIN DELETE FROM messages_fts_trigram WHERE rowid = old.id; INSERT INTO messages_fts_trigram(rowid, content) VALUES (new.id, new.content); END`,
		`INSERT INTO messages (session_id, role, content, timestamp) VALUES ('a', 'user', 'ancient words', 5)`,
	)
	db.Close()
	s := openStore(t, path, Options{})
	if got := history(t, s, "a"); got != "user:ancient words" {
		t.Errorf("history %q: a row whose active is NULL counts as active", got)
	}
	if n, err := s.Get(t.Context(), "a"); err != nil || n.SystemPrompt != "old prompt" {
		t.Errorf("prompt %q %v", n.SystemPrompt, err)
	}
	say(t, s, "a", "user", "modern words")
	if hits := find(t, s, "words"); len(hits) != 2 {
		t.Errorf("found %v", hits)
	}
	h := s.Health()
	if h.Schema != 12 || len(h.Notices) != 1 || !strings.Contains(h.Notices[0], "same title") || !h.Index.Ready {
		t.Errorf("health %+v", h)
	}
	db = rawDB(t, path)
	for stmt, want := range map[string]string{
		"SELECT version FROM schema_version":                                            "12",
		"SELECT group_concat(title) FROM sessions":                                      "same,same",
		"SELECT count(*) FROM messages_fts":                                             "2", // the old index, kept in step by its own triggers
		"SELECT instr(sql, 'tool_name') FROM sqlite_master WHERE name = 'messages_fts'": "0",
	} {
		if got := ask(t, db, stmt); got != want {
			t.Errorf("%s: got %q, want %q", stmt, got, want)
		}
	}
}

// TestForeignTokenizer opens a file with upstream's optional third index, whose tokenizer is a
// library of its own. Writing must work, and upstream must learn that the index has a gap.
func TestForeignTokenizer(t *testing.T) {
	t.Parallel()
	path := upstreamFile(t)
	db := rawDB(t, path)
	must(t, db, "CREATE TABLE messages_fts_cjk (rowid_, content)") // stands for what cannot be made without the library
	for _, ev := range []string{"insert", "delete", "update"} {
		must(t, db, "CREATE TRIGGER messages_fts_cjk_"+ev+" AFTER "+ev+" ON messages BEGIN SELECT RAISE(FAIL, 'no such tokenizer: cjk_unicode61'); END")
	}
	db.Close()
	s := openStore(t, path, Options{})
	n := create(t, s, Session{})
	say(t, s, n.ID, "user", "written")
	if h := s.Health(); len(h.Notices) != 1 || !strings.Contains(h.Notices[0], "CJK") || h.State != Degraded {
		t.Errorf("health %+v", h)
	}
	db = rawDB(t, path)
	if got := ask(t, db, "SELECT (SELECT value FROM state_meta WHERE key = 'fts_cjk_stale'), (SELECT count(*) FROM sqlite_master WHERE name LIKE 'messages_fts_cjk_%')"); got != "1|0" {
		t.Errorf("stale mark and triggers: %s", got)
	}
}

// python is an interpreter whose SQLite is the C library with FTS5, as upstream runs.
func python(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err == nil {
		err = exec.CommandContext(t.Context(), path, "-c", "import sqlite3; c=sqlite3.connect(':memory:'); c.execute(\"create virtual table f using fts5(x, tokenize='trigram')\")").Run()
	}
	testkit.Need(t, "python3", err == nil, "python3 with SQLite and FTS5")
	return path
}

// TestPythonReadsAndWrites has the SQLite of another maker work on a file of ours, while we
// have it open and afterwards.
func TestPythonReadsAndWrites(t *testing.T) {
	t.Parallel()
	py := python(t)
	path := dbPath(t)
	s := openStore(t, path, Options{})
	n := create(t, s, Session{Title: "shared"})
	say(t, s, n.ID, "user", "ünïcode \U0001F600 first")
	const script = `
import sqlite3, sys
c = sqlite3.connect(sys.argv[1], timeout=10, isolation_level=None)
c.execute("PRAGMA foreign_keys=ON")
sid = c.execute("SELECT id FROM sessions WHERE title = 'shared'").fetchone()[0]
assert c.execute("SELECT content FROM messages").fetchone()[0] == "ünïcode \U0001F600 first"
c.execute("BEGIN IMMEDIATE")
c.execute("INSERT INTO messages (session_id, role, content, tool_calls, timestamp, active) VALUES (?, 'assistant', NULL, '[{\"id\": \"p1\", \"function\": {\"name\": \"t\"}}]', 1.5, 1)", (sid,))
c.execute("INSERT INTO messages (session_id, role, content, tool_call_id, timestamp, active) VALUES (?, 'tool', ?, 'p1', 2.5, 1)", (sid, "snake " + "y" * 20000))
c.execute("UPDATE messages SET content = content || ' second' WHERE role = 'user'")
c.execute("COMMIT")
for ix in ("messages_fts", "messages_fts_trigram"):
    c.execute("INSERT INTO %s(%s, rank) VALUES('integrity-check', 1)" % (ix, ix))
assert c.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
print(c.execute("SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'snake OR second'").fetchone()[0])
`
	cmd := exec.CommandContext(t.Context(), py, "-c", script, path)
	cmd.Env = []string{"PYTHONIOENCODING=utf-8", "LANG=C.UTF-8", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil || strings.TrimSpace(out.String()) != "2" {
		t.Fatalf("python: %v\n%s", err, out.String())
	}
	ms, err := s.History(context.Background(), n.ID)
	if err != nil || len(ms) != 3 || !strings.HasSuffix(ms[0].Content, "second") || ms[2].CallID != "p1" {
		t.Errorf("history %s %v", shapeOf(ms), err)
	}
	if hits := find(t, s, "snake"); len(hits) != 1 {
		t.Errorf("found %v", hits)
	}
	if d, err := s.Check(t.Context()); d.Class != Whole || err != nil {
		t.Errorf("check %+v %v", d, err)
	}
}
