// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// filled makes a closed file with enough messages that its trees have several pages.
func filled(t testing.TB) (path, session string) {
	t.Helper()
	path = dbPath(t)
	s := openStore(t, path, Options{Synchronous: "off"})
	session = create(t, s, Session{Title: "kept"}).ID
	for i := range 60 {
		say(t, s, session, "user", fmt.Sprintf("message number%d about wombats %s", i, strings.Repeat(fmt.Sprintf("filler%d ", i), 40)))
	}
	for i := range 60 {
		create(t, s, Session{Title: fmt.Sprintf("title %d %s", i, strings.Repeat("x", 80))})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if leftover(path + "-wal") {
		t.Fatal("the -wal is still there")
	}
	return path, session
}

// pagesOf are the pages of a table or index, from SQLite's own account.
func pagesOf(t testing.TB, path, name string) []int {
	t.Helper()
	db := rawDB(t, path)
	defer db.Close()
	var out []int
	for f := range strings.FieldsSeq(ask(t, db, "SELECT pageno FROM dbstat WHERE name = ? ORDER BY pageno", name)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// spoil overwrites bytes of a page of a file that nobody has open.
func spoil(t testing.TB, path string, page int, fill func([]byte)) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size := int(data[16])<<8 | int(data[17])
	fill(data[(page-1)*size : page*size])
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func garbage(p []byte) {
	for i := range p {
		p[i] = 0xA5
	}
}

func last(pages []int) int { return pages[len(pages)-1] }

// TestReportB9Classes damages one page of each kind of owner and expects it to be named for
// what it is: a search index is rebuilt, so is an ordinary index, and a table ends all writing.
func TestReportB9Classes(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Class{
		"messages_fts_data":                 SearchOnly,
		"messages_fts_docsize":              SearchOnly,
		"messages_fts_trigram_data":         SearchOnly,
		"idx_messages_session_active":       IndexOnly,
		"idx_sessions_effective_activity":   IndexOnly,
		"messages":                          Structural,
		"sessions":                          Structural,
		"sqlite_autoindex_system_prompts_1": IndexOnly,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, session := filled(t)
			pages := pagesOf(t, path, name)
			spoil(t, path, last(pages), garbage)
			s := openStore(t, path, Options{CheckEvery: time.Nanosecond})
			settleDown(t, s)
			h := s.Health()
			switch want {
			case Structural:
				if h.Damage == nil || h.Damage.Class != Structural || !slices.Contains(h.Damage.Parts, name) || h.State != ReadOnly || !strings.Contains(h.Reason, ".recover") {
					t.Fatalf("health %+v, damage %+v", h, h.Damage)
				}
				if _, err := s.Append(t.Context(), session, Message{Role: "user", Content: "x"}); !errors.Is(err, ErrReadOnly) {
					t.Errorf("append: %v, want ErrReadOnly", err)
				}
				if h.Backup == nil || h.Backup.Path == "" || h.Backup.Sound || h.Backup.Error != "" {
					t.Errorf("backup %+v: want a copy, and that it is as damaged as the file", h.Backup)
				}
				if _, err := os.Stat(h.Backup.Path); err != nil {
					t.Error(err)
				}
			default:
				if name == "sqlite_autoindex_system_prompts_1" && h.State == ReadOnly {
					return // the only page of a key's index: REINDEX may not get over it
				}
				if h.Repaired == nil || h.Repaired.Class != want || h.Damage != nil || h.State != Sound {
					t.Fatalf("health %+v, repaired %+v", h, h.Repaired)
				}
				say(t, s, session, "user", "after the repair")
				if n := len(find(t, s, "wombats")); n != 20 {
					t.Errorf("found %d", n)
				}
				if n := len(find(t, s, "repair")); n != 1 {
					t.Errorf("found %d of what was written afterwards", n)
				}
				if d, err := s.Check(t.Context()); err != nil || d.Class != Whole {
					t.Errorf("check after the repair: %+v %v", d, err)
				}
				if _, err := filepath.Glob(path + ".damaged-*"); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestReportB8SearchDamage is what quick_check does not see: the tree of the index is whole, its
// content is not. Opening finds it by writing, a search by reading, a write by itself.
func TestReportB8SearchDamage(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"structure", "segment", "rows", "drift"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			path, session := filled(t)
			db := rawDB(t, path)
			switch how {
			case "structure":
				must(t, db, "UPDATE messages_fts_data SET block = x'deadbeef' WHERE id = 10")
			case "segment":
				must(t, db, "UPDATE messages_fts_data SET block = zeroblob(50) WHERE id > 10")
			case "rows":
				must(t, db, "DELETE FROM messages_fts_docsize WHERE id % 2 = 0")
			case "drift":
				must(t, db, "DROP TRIGGER messages_fts_update", "UPDATE messages SET content = 'changed behind its back' WHERE id = 3")
			}
			if got := ask(t, db, "PRAGMA quick_check(messages)"); got != "ok" {
				t.Fatalf("quick_check: %s", got)
			}
			db.Close()
			s := openStore(t, path, Options{CheckEvery: time.Nanosecond})
			settleDown(t, s)
			h := s.Health()
			if h.State != Sound || !h.Index.Ready || how != "drift" && (h.Repaired == nil || h.Repaired.Class != SearchOnly) {
				t.Fatalf("health %+v %+v", h, h.Repaired)
			}
			say(t, s, session, "user", "after the repair")
			if len(find(t, s, "wombats")) != 20 || len(find(t, s, "repair")) != 1 || how == "drift" && len(find(t, s, "behind")) != 1 {
				t.Error("not everything is found")
			}
			if d, err := s.Check(t.Context()); err != nil || d.Class != Whole {
				t.Errorf("check: %+v %v", d, err)
			}
		})
	}
}

// TestDamageWhileOpen damages the index under an open store: the message that meets it is
// written all the same, at the first try.
func TestDamageWhileOpen(t *testing.T) {
	t.Parallel()
	path, session := filled(t)
	s := openStore(t, path, Options{})
	db := rawDB(t, path)
	must(t, db, "UPDATE messages_fts_data SET block = x'00' WHERE id = 10")
	say(t, s, session, "user", "written through the damage")
	settleDown(t, s)
	if h := s.Health(); h.State != Sound || h.Repaired == nil || h.Repaired.Class != SearchOnly {
		t.Errorf("health %+v %+v", h, h.Repaired)
	}
	if len(find(t, s, "through")) != 1 {
		t.Error("not found after the repair")
	}
	// And a search that meets it still answers.
	must(t, db, "UPDATE messages_fts_data SET block = x'00' WHERE id = 10")
	if len(find(t, s, "wombats")) != 20 {
		t.Error("a search on a damaged index does not read the messages")
	}
	settleDown(t, s)
	if h := s.Health(); h.State != Sound {
		t.Errorf("health %+v", h)
	}
}

// TestStaleIndex opens a file whose indexes upstream has detached.
func TestStaleIndex(t *testing.T) {
	t.Parallel()
	path, session := filled(t)
	db := rawDB(t, path)
	for _, n := range ftsTriggers() {
		must(t, db, "DROP TRIGGER "+n)
	}
	must(t, db, "INSERT INTO state_meta VALUES ('fts_stale', '1')", "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('"+session+"', 'user', 'written meanwhile', 1)")
	db.Close()
	s := openStore(t, path, Options{})
	if len(find(t, s, "meanwhile")) != 1 || len(find(t, s, "number7")) != 1 {
		t.Error("not found")
	}
	if h := s.Health(); h.State != Sound || !h.Index.Ready {
		t.Errorf("health %+v", h)
	}
	db = rawDB(t, path)
	if got := ask(t, db, "SELECT count(*) FROM state_meta WHERE key LIKE 'fts_%' AND key <> 'fts_storage_version'"); got != "0" {
		t.Errorf("%s marks are left", got)
	}
	must(t, db, "INSERT INTO messages_fts(messages_fts, rank) VALUES('integrity-check', 1)", "INSERT INTO messages_fts_trigram(messages_fts_trigram, rank) VALUES('integrity-check', 1)")
}

// TestRebuildGoesOn stops a rebuild in the middle, of upstream or of an earlier run: until it is
// finished search finds everything, what is written, changed and deleted meanwhile is right,
// and the next opening finishes it.
func TestRebuildGoesOn(t *testing.T) {
	t.Parallel()
	path, session := filled(t)
	s := openStore(t, path, Options{})
	if err := s.update(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return replaceIndexes(ctx, tx) }); err != nil {
		t.Fatal(err)
	}
	db := rawDB(t, path)
	must(t, db, "BEGIN IMMEDIATE")
	for _, stmt := range ftsFill() {
		if _, err := db.ExecContext(t.Context(), stmt, 0, 20); err != nil {
			t.Fatal(err)
		}
	}
	must(t, db, "UPDATE state_meta SET value = '20' WHERE key = 'fts_rebuild_progress'", "COMMIT")
	say(t, s, session, "user", "brand new wombats")
	must(t, db, "UPDATE messages SET content = 'wombats changed early' WHERE id = 5", "UPDATE messages SET content = 'wombats changed late' WHERE id = 50", "DELETE FROM messages WHERE id IN (6, 51)")
	hits, err := s.Search(t.Context(), Query{Text: "wombats", Limit: 100})
	if err != nil || len(hits) != 59 {
		t.Errorf("found %d of 59 while the rebuild is half done, %v", len(hits), err)
	}
	for _, text := range []string{"early", "late", "brand"} {
		if len(find(t, s, text)) != 1 {
			t.Errorf("%s is not found", text)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := openStore(t, path, Options{})
	if h := again.Health(); !h.Index.Ready || h.State != Sound {
		t.Errorf("health %+v", h)
	}
	must(t, db, "INSERT INTO messages_fts(messages_fts, rank) VALUES('integrity-check', 1)", "INSERT INTO messages_fts_trigram(messages_fts_trigram, rank) VALUES('integrity-check', 1)")
	if hits, err := again.Search(t.Context(), Query{Text: "wombats", Limit: 100}); err != nil || len(hits) != 59 {
		t.Errorf("found %d of 59 afterwards, %v", len(hits), err)
	}
}

// TestNotADatabase opens files whose schema cannot be read. They stay byte for byte.
func TestNotADatabase(t *testing.T) {
	t.Parallel()
	whole, _ := filled(t)
	for name, spoil := range map[string]func([]byte) []byte{
		"text":        func([]byte) []byte { return []byte(strings.Repeat("this is no database\n", 100)) },
		"schema page": func(b []byte) []byte { garbage(b[100:2000]); return b },
		"cut":         func(b []byte) []byte { return b[:50] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(whole)
			if err != nil {
				t.Fatal(err)
			}
			path := dbPath(t)
			data = spoil(data)
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			var damaged *DamagedError
			if _, err := Open(t.Context(), path, Options{}); !errors.As(err, &damaged) {
				t.Fatalf("got %v, want a DamagedError", err)
			}
			after, err := os.ReadFile(path)
			if err != nil || !slices.Equal(after, data) {
				t.Errorf("the file changed (%v)", err)
			}
			// The place is free again: a restored file can be opened in the same process.
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			openStore(t, path, Options{})
		})
	}
}

// TestFlippedBytes flips random bytes of a whole file and opens it. Whatever comes of it: no
// panic, no write into a file that is known to be damaged, and never "sound" while SQLite says
// otherwise.
func TestFlippedBytes(t *testing.T) {
	t.Parallel()
	whole, session := filled(t)
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 7))
		path := dbPath(t)
		bad := slices.Clone(data)
		for range 1 + r.IntN(200) {
			bad[100+r.IntN(len(bad)-100)] ^= byte(1 + r.IntN(255))
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), path, Options{CheckEvery: time.Nanosecond, CheckAfter: -1})
		if err != nil {
			if !corrupt(err) && !errors.As(err, new(*DamagedError)) && code(err) == 0 {
				t.Errorf("seed %d: %v", seed, err)
			}
			continue
		}
		settleDown(t, s)
		_, werr := s.Append(t.Context(), session, Message{Role: "user", Content: "x"})
		s.Search(t.Context(), Query{Text: "wombats"})
		s.History(t.Context(), session)
		settleDown(t, s)
		if s.Health().State == ReadOnly {
			if _, err := s.Append(t.Context(), session, Message{Role: "user"}); err == nil {
				t.Errorf("seed %d: a damaged file was written", seed)
			}
		} else if d, err := s.Check(context.Background()); d.Class == Structural && err == nil && s.Health().State != ReadOnly {
			t.Errorf("seed %d: %+v and still written, %v", seed, d, werr)
		}
		s.Close()
	}
}

// TestReplaced restores another file over an open one: writing must end at once, not be lost in
// a file that nobody sees.
func TestReplaced(t *testing.T) {
	t.Parallel()
	path, session := filled(t)
	other, _ := filled(t)
	s := openStore(t, path, Options{})
	say(t, s, session, "user", "x")
	if err := os.Rename(other, path); err != nil {
		testkit.Need(t, "posix", false, "an open file cannot be replaced here")
	}
	if _, err := s.Append(t.Context(), session, Message{Role: "user"}); !errors.Is(err, ErrReplaced) {
		t.Errorf("got %v, want ErrReplaced", err)
	}
	if h := s.Health(); h.State != ReadOnly || !strings.Contains(h.Reason, "replaced") {
		t.Errorf("health %+v", h)
	}
	// Its -wal must not go over the new file.
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, ErrOpen) {
		t.Errorf("opened again beside the old one: %v", err)
	}
}

// TestWalTaken removes the -wal of an open file, as a second writer with lost locks does.
func TestWalTaken(t *testing.T) {
	t.Parallel()
	path, session := filled(t)
	s := openStore(t, path, Options{})
	say(t, s, session, "user", "x")
	say(t, s, session, "user", "y")
	if s.Health().JournalMode != "wal" {
		t.Skip("no WAL on this file system")
	}
	if err := os.Remove(path + "-wal"); err != nil {
		testkit.Need(t, "posix", false, "an open file cannot be removed here")
	}
	if _, err := s.Append(t.Context(), session, Message{Role: "user"}); !errors.Is(err, ErrReplaced) {
		t.Errorf("got %v, want ErrReplaced", err)
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	path, session := filled(t)
	s := openStore(t, path, Options{})
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := s.Copy(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if sound, err := soundFile(t.Context(), to); !sound || err != nil {
		t.Errorf("the copy is not sound: %v", err)
	}
	c := openStore(t, to, Options{})
	if got := history(t, c, session); got != history(t, s, session) {
		t.Error("the copy holds something else")
	}
	if err := s.Copy(t.Context(), to); err == nil {
		t.Error("a file was overwritten")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	gone := filepath.Join(t.TempDir(), "gone.db")
	if err := s.Copy(ctx, gone); err == nil {
		t.Error("a copy that is not wanted any more succeeded")
	}
	if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it left a file: %v", err)
	}
}

// small mounts a file system of that many MiB.
func small(t testing.TB, opts string) string {
	t.Helper()
	testkit.NeedRoot(t)
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", opts, "none", dir).CombinedOutput()
	testkit.Need(t, "mount", err == nil, "mount: "+string(out))
	t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
	return dir
}

// readOnly takes the right to write from a file system. A process that another test starts has for
// a moment, until its exec, what this one had open; the file system is busy so long.
func readOnly(t testing.TB, dir string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		out, err := exec.CommandContext(t.Context(), "mount", "-o", "remount,ro", dir).CombinedOutput()
		if err == nil {
			return
		}
		if !strings.Contains(string(out), "busy") || time.Now().After(end) {
			t.Fatalf("%v %s", err, out)
		}
	}
}

// TestDiskFull fills the disk under an open store, and frees it again.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := small(t, "size=3m")
	s := openStore(t, filepath.Join(dir, "state.db"), Options{})
	id := create(t, s, Session{}).ID
	say(t, s, id, "user", "before")
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(ballast, zeros{}); err == nil {
		t.Fatal("the disk has no end")
	}
	ballast.Close()
	failed := 0
	for i := 0; i < 200 && failed == 0; i++ {
		_, err := s.Append(t.Context(), id, Message{Role: "user", Content: fmt.Sprintf("full %d %s", i, strings.Repeat("z", 20_000))})
		if err != nil {
			failed++
			if !errors.Is(err, ErrFull) {
				t.Fatalf("got %v, want ErrFull", err)
			}
		}
	}
	if failed == 0 {
		t.Fatal("the disk never got full")
	}
	if h := s.Health(); h.State != Degraded || !strings.Contains(h.WriteError, "full") {
		t.Errorf("health %+v", h)
	}
	if len(find(t, s, "before")) != 1 {
		t.Error("reading fails too")
	}
	if err := os.Remove(ballast.Name()); err != nil {
		t.Fatal(err)
	}
	say(t, s, id, "user", "after")
	if h := s.Health(); h.State != Sound {
		t.Errorf("health when there is room again: %+v", h)
	}
	if d, err := s.Check(t.Context()); d.Class != Whole || err != nil {
		t.Errorf("check %+v %v", d, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestReadOnlyFileSystem opens a file that cannot be written.
func TestReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"delete", "wal"} {
		dir := small(t, "size=8m")
		path := filepath.Join(dir, "state.db")
		s, err := Open(t.Context(), path, Options{JournalMode: mode, CheckAfter: -1})
		if err != nil {
			t.Fatal(err)
		}
		settleDown(t, s)
		id := create(t, s, Session{}).ID
		say(t, s, id, "user", "readable")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		readOnly(t, dir)
		ro, err := Open(t.Context(), path, Options{JournalMode: mode, CheckAfter: -1})
		if err != nil {
			// SQLite cannot read a file in WAL mode where it can make no -shm: said, not guessed around.
			if mode != "wal" || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", mode, err)
			}
			continue
		}
		settleDown(t, ro)
		if h := ro.Health(); h.State != ReadOnly || h.Damage != nil || !strings.Contains(h.Reason, "cannot be written") {
			t.Errorf("%s: health %+v", mode, h)
		}
		if got := history(t, ro, id); got != "user:readable" || len(find(t, ro, "readable")) != 1 {
			t.Errorf("%s: history %s", mode, got)
		}
		if _, err := ro.Append(t.Context(), id, Message{Role: "user"}); !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: append: %v", mode, err)
		}
		if err := ro.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestBusy waits for another program's transaction, and says so when it takes too long.
func TestBusy(t *testing.T) {
	t.Parallel()
	s := openStore(t, dbPath(t), Options{BusyTimeout: 50 * time.Millisecond})
	id := create(t, s, Session{}).ID
	db := rawDB(t, s.Path())
	must(t, db, "BEGIN IMMEDIATE")
	if _, err := s.Append(t.Context(), id, Message{Role: "user"}); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
	if h := s.Health(); h.State != Degraded || h.WriteError == "" {
		t.Errorf("health %+v", h)
	}
	must(t, db, "COMMIT")
	say(t, s, id, "user", "x")
	if h := s.Health(); h.State != Sound {
		t.Errorf("health %+v", h)
	}
}
