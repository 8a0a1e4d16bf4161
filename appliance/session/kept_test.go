// SPDX-License-Identifier: MIT

package session

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// clock is a time that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func TestResponsesAreKept(t *testing.T) {
	t.Parallel()
	c := &clock{time.Unix(1_800_000_000, 0)}
	path := dbPath(t)
	s := openStore(t, path, Options{Now: c.now, Synchronous: "off"})
	ctx := t.Context()
	keep := func(id, of string, body []byte) {
		t.Helper()
		if err := s.KeepResponse(ctx, Response{ID: id, Session: of, Through: 7, Instructions: "short", Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	has := func(id string) bool {
		t.Helper()
		r, err := s.Response(ctx, id)
		if err != nil && !errors.Is(err, ErrNotKept) {
			t.Fatal(err)
		}
		return err == nil && r.Through == 7 && r.Instructions == "short"
	}
	for i := range mostResponses + 5 {
		keep(fmt.Sprint("r", i), "x", []byte("{}"))
	}
	if has("r4") || !has("r5") || !has(fmt.Sprint("r", mostResponses+4)) {
		t.Error("not the newest are kept")
	}
	keep("large", "x", bytes.Repeat([]byte(" "), mostKeptBytes+1))
	if !has("large") || has(fmt.Sprint("r", mostResponses+4)) {
		t.Error("the size counts wrongly")
	}
	n := create(t, s, Session{})
	keep("of n", n.ID, []byte(`{"a":"é"}`))
	if r, err := s.Response(ctx, "of n"); err != nil || string(r.Body) != `{"a":"é"}` || r.Session != n.ID {
		t.Errorf("%+v %v", r, err)
	}
	if has("large") {
		t.Error("a large one stays for ever")
	}
	keep("other", "x", []byte("{}"))
	if err := s.Delete(ctx, n.ID); err != nil || has("of n") || !has("other") {
		t.Errorf("what was said in a session that is deleted is kept: %v", err)
	}
	c.at = c.at.Add(KeepResponses)
	if !has("other") {
		t.Error("forgotten too early")
	}
	c.at = c.at.Add(time.Second)
	if has("other") {
		t.Error("never forgotten")
	}
	keep("new", "x", []byte("{}"))
	if got := ask(t, rawDB(t, path), "SELECT group_concat(id) FROM appliance_responses"); got != "new" {
		t.Errorf("in the file: %s", got)
	}
	if err := s.DropResponse(ctx, "new"); err != nil || has("new") {
		t.Error(err)
	}
	if err := s.DropResponse(ctx, "new"); !errors.Is(err, ErrNotKept) {
		t.Error(err)
	}
}

func TestRunKeys(t *testing.T) {
	t.Parallel()
	c := &clock{time.Unix(1_800_000_000, 0)}
	path := dbPath(t)
	s := openStore(t, path, Options{Now: c.now, Synchronous: "off"})
	ctx := t.Context()
	claim := func(key, run string) (RunKey, bool) {
		t.Helper()
		k, taken, err := s.ClaimRun(ctx, RunKey{Key: key, Sum: "sum of " + run, Run: run})
		if err != nil {
			t.Fatal(err)
		}
		return k, taken
	}
	if k, taken := claim("a", "run_1"); !taken || k.Run != "run_1" || k.Status != "" || !k.Made.Equal(c.at) {
		t.Errorf("%+v %v", k, taken)
	}
	if err := s.EndRun(ctx, "run_1", "completed", "s1"); err != nil {
		t.Fatal(err)
	}
	if k, taken := claim("a", "run_2"); taken || k.Run != "run_1" || k.Sum != "sum of run_1" || k.Status != "completed" || k.Session != "s1" {
		t.Errorf("%+v %v", k, taken)
	}
	if k, err := s.Run(ctx, "run_1"); err != nil || k.Key != "a" {
		t.Errorf("%+v %v", k, err)
	}
	if _, err := s.Run(ctx, "run_2"); !errors.Is(err, ErrNotKept) {
		t.Error(err)
	}
	claim("b", "run_3")
	if err := s.FreeRun(ctx, "run_3"); err != nil {
		t.Fatal(err)
	}
	if _, taken := claim("b", "run_4"); !taken {
		t.Error("a key that was given back is taken")
	}
	c.at = c.at.Add(KeepRunKeys)
	if _, taken := claim("a", "run_5"); taken {
		t.Error("forgotten too early")
	}
	c.at = c.at.Add(time.Second)
	if _, taken := claim("a", "run_6"); !taken {
		t.Error("never forgotten")
	}
	must(t, rawDB(t, path), fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d)
		INSERT INTO appliance_run_keys (key, sum, run_id, made_at) SELECT 'k'||i, '', 'r'||i, %d FROM n`, mostRunKeys+10, c.at.Unix()))
	claim("last", "run_7")
	if got := ask(t, rawDB(t, path), "SELECT count(*), max(key = 'last'), max(key = 'k1') FROM appliance_run_keys"); got != fmt.Sprintf("%d|1|0", mostRunKeys) {
		t.Error(got)
	}
}

// TestKeptWithoutTables: a file of upstream's that cannot be written lacks our tables; that is no
// damage.
func TestKeptWithoutTables(t *testing.T) {
	t.Parallel()
	dir := small(t, "size=8m")
	text, err := os.ReadFile("testdata/upstream30.sql")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "state.db")
	db := rawDB(t, path)
	must(t, db, string(text))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	readOnly(t, dir)
	s := openStore(t, path, Options{JournalMode: "delete"})
	if _, err := s.Response(t.Context(), "x"); !errors.Is(err, ErrNotKept) {
		t.Error(err)
	}
	if err := s.KeepResponse(t.Context(), Response{ID: "x"}); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
}
