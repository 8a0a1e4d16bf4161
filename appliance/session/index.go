// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// fillRows is how many messages one transaction of a rebuild indexes: few enough that a turn
// never waits long for the write lock.
const fillRows = 500

// missingTriggers reports whether one of an index's triggers is gone.
func (sh shape) missingTriggers(names []string) bool {
	for _, n := range names {
		if _, ok := sh.objects[n]; !ok {
			return true
		}
	}
	return false
}

// current holds for files whose indexes have the layout that this package makes.
func (sh shape) current() bool {
	return strings.Contains(sh.objects[wordIndex], "messages_fts_src")
}

// indexWork reports whether the search indexes need a change before anything is written.
func (s *Store) indexWork(sh shape) bool {
	if _, ok := sh.objects[wordIndex]; !ok {
		return true
	}
	for _, n := range triggersOf(cjkIndex) {
		if _, ok := sh.objects[n]; ok {
			return true
		}
	}
	if _, ok := sh.objects[trigramIndex]; !ok && sh.current() {
		return true
	}
	return sh.missingTriggers(triggersOf(wordIndex)) || sh.missingTriggers(triggersOf(trigramIndex))
}

// ensureSearch makes the indexes of a file that has none, and takes out of the way what would
// make every write fail. Indexes of an older layout are complete as they are and stay.
func (s *Store) ensureSearch(ctx context.Context, tx *sql.Tx, sh shape) error {
	if err := s.detachCJK(ctx, tx, sh); err != nil {
		return err
	}
	if _, ok := sh.objects[wordIndex]; ok {
		if s.indexWork(sh) { // rows may have been written without the triggers
			return detach(ctx, tx)
		}
		return nil
	}
	return replaceIndexes(ctx, tx)
}

// detachCJK drops the triggers of the index whose tokenizer only upstream can load, as upstream
// does where it cannot: every write would fail in them. The mark makes upstream rebuild it.
func (s *Store) detachCJK(ctx context.Context, tx *sql.Tx, sh shape) error {
	var stmts []string
	for _, n := range triggersOf(cjkIndex) {
		if _, ok := sh.objects[n]; ok {
			stmts = append(stmts, "DROP TRIGGER IF EXISTS "+n)
		}
	}
	if stmts == nil {
		return nil
	}
	s.note("the CJK search index of upstream needs a library that this program does not load: it is detached (hermes sessions optimize-storage rebuilds it); the trigram index answers instead")
	return run(ctx, tx, append([]string{setMeta(metaCJKStale, "'1'")}, stmts...)...)
}

// run executes statements that need no values.
func run(ctx context.Context, tx *sql.Tx, stmts ...string) error {
	for _, stmt := range stmts {
		if _, err := tx.ExecContext(ctx, stmt); err != nil {
			return err
		}
	}
	return nil
}

// setMeta is a statement that sets a key to an SQL expression.
func setMeta(key, expr string) string {
	return "INSERT INTO state_meta (key, value) VALUES ('" + key + "', " + expr + ") ON CONFLICT(key) DO UPDATE SET value = excluded.value"
}

// detach takes the indexes out of the way of writes and marks them as incomplete, for this
// program and upstream alike.
func detach(ctx context.Context, tx *sql.Tx) error {
	stmts := []string{setMeta(metaStale, "'1'")}
	for _, n := range ftsTriggers() {
		stmts = append(stmts, "DROP TRIGGER IF EXISTS "+n)
	}
	return run(ctx, tx, stmts...)
}

// replaceIndexes starts a rebuild: new, empty indexes, triggers that keep them in step for all
// rows to come, and marks that say which older rows are still to be indexed. It needs no time,
// however many messages there are.
func replaceIndexes(ctx context.Context, tx *sql.Tx) error {
	var stmts []string
	for _, n := range ftsTriggers() {
		stmts = append(stmts, "DROP TRIGGER IF EXISTS "+n)
	}
	for _, ix := range []string{wordIndex, trigramIndex} {
		stmts = append(stmts, "DROP TABLE IF EXISTS "+ix)
	}
	if err := run(ctx, tx, stmts...); err != nil {
		return err
	}
	// What a recovery left of an index without the index itself is an ordinary table.
	for _, name := range shadows() {
		if err := run(ctx, tx, "DROP TABLE IF EXISTS "+name); err != nil {
			return err
		}
	}
	stmts = append([]string{"DROP VIEW IF EXISTS messages_fts_src", "DROP VIEW IF EXISTS messages_fts_trigram_src"}, ftsTables()...)
	for _, name := range ftsTriggers() {
		stmts = append(stmts, ftsTriggerSQL()[name])
	}
	stmts = append(stmts,
		"DELETE FROM state_meta WHERE key IN ('"+metaStale+"', '"+metaHigh+"', '"+metaDone+"')",
		setMeta(metaLayout, "'"+layout+"'"),
		"INSERT INTO state_meta (key, value) SELECT '"+metaHigh+"', MAX(id) FROM messages HAVING MAX(id) > 0",
		"INSERT INTO state_meta (key, value) SELECT '"+metaDone+"', '0' FROM messages LIMIT 1",
	)
	return run(ctx, tx, stmts...)
}

// shadows are the tables that FTS5 keeps for the two indexes.
func shadows() []string {
	var out []string
	for _, ix := range []string{wordIndex, trigramIndex} {
		for _, part := range []string{"data", "idx", "content", "docsize", "config"} {
			out = append(out, ix+"_"+part)
		}
	}
	return out
}

// indexState reads which rows the indexes have.
func indexState(ctx context.Context, q queryer) (ix Index, stale bool, err error) {
	rows, err := q.QueryContext(ctx, "SELECT key, COALESCE(value, '') FROM state_meta WHERE key IN (?, ?, ?)", metaStale, metaHigh, metaDone)
	if err != nil {
		return Index{}, false, err
	}
	err = each(rows, func() error {
		var key, v string
		if err := rows.Scan(&key, &v); err != nil {
			return err
		}
		var n int64
		_, _ = fmt.Sscan(v, &n) //nolint:errcheck // what is no number counts as 0, as in the triggers
		switch key {
		case metaStale:
			stale = true
		case metaHigh:
			ix.Total = n
		case metaDone:
			ix.Indexed = n
		}
		return nil
	})
	ix.Ready = err == nil && !stale && ix.Total == 0
	return ix, stale, err
}

// rebuild brings the indexes up to date: replaces them if they are detached, and indexes the
// rows that a rebuild, ours or upstream's, has not come to. It may be stopped at any time and
// goes on where it was, in any process.
func (s *Store) rebuild(ctx context.Context) error {
	ix, stale, err := indexState(ctx, s.r)
	if err != nil {
		return err
	}
	s.know(func(h *Health) { h.Index = ix })
	if s.writable() == nil && !ix.Ready {
		return s.fill(ctx, stale)
	}
	return nil
}

// fill does the work of a rebuild.
func (s *Store) fill(ctx context.Context, stale bool) error {
	if stale {
		if err := s.replace(ctx); err != nil {
			return err
		}
	}
	for more := true; more; {
		if err := s.update(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			more, err = fillSome(ctx, tx)
			return err
		}); err != nil {
			return err
		}
		ix, _, err := indexState(ctx, s.r)
		if err != nil {
			return err
		}
		s.know(func(h *Health) { h.Index = ix })
	}
	return nil
}

// replace starts over with new indexes. Where the pages of the old ones are too damaged even
// to be dropped they are forgotten: their entries in the schema go, their pages stay unused
// until the next VACUUM.
func (s *Store) replace(ctx context.Context) error {
	start := func(tx *sql.Tx) error { return replaceIndexes(ctx, tx) }
	if err := s.admit(); err != nil {
		return err
	}
	err := s.transact(ctx, start)
	if err == nil || !corrupt(err) {
		return err
	}
	if err := s.forget(ctx, append(shadows(), wordIndex, trigramIndex)...); err != nil {
		return err
	}
	return s.transact(ctx, start)
}

// forget removes entries of derived objects from the schema without touching their pages.
func (s *Store) forget(ctx context.Context, names ...string) (err error) {
	c, err := s.w.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	exec := func(stmt string, args ...any) {
		if err == nil {
			_, err = c.ExecContext(ctx, stmt, args...)
		}
	}
	var cookie int
	exec("PRAGMA writable_schema = ON")
	exec("BEGIN IMMEDIATE")
	if err == nil {
		err = c.QueryRowContext(ctx, "PRAGMA schema_version").Scan(&cookie)
	}
	for _, n := range names {
		exec("DELETE FROM sqlite_master WHERE name = ?", n)
	}
	exec(fmt.Sprintf("PRAGMA schema_version = %d", cookie+1)) // others read the schema anew
	exec("COMMIT")
	if err != nil {
		_, _ = c.ExecContext(ctx, "ROLLBACK") //nolint:errcheck // there is nothing to save
	}
	_, rerr := c.ExecContext(ctx, "PRAGMA writable_schema = RESET") // this connection too
	return errors.Join(err, rerr)
}

// fillSome indexes the next rows of a rebuild.
func fillSome(ctx context.Context, tx *sql.Tx) (more bool, err error) {
	ix, stale, err := indexState(ctx, tx)
	if err != nil || stale || ix.Total == 0 {
		return false, err
	}
	var to sql.NullInt64
	err = tx.QueryRowContext(ctx, "SELECT MAX(id) FROM (SELECT id FROM messages WHERE id > ? AND id <= ? ORDER BY id LIMIT ?)",
		ix.Indexed, ix.Total, fillRows).Scan(&to)
	if err != nil {
		return false, err
	}
	if to.Valid {
		for _, stmt := range ftsFill() {
			if _, err := tx.ExecContext(ctx, stmt, ix.Indexed, to.Int64); err != nil {
				return false, err
			}
		}
	}
	if !to.Valid || to.Int64 >= ix.Total {
		return false, run(ctx, tx, "DELETE FROM state_meta WHERE key IN ('"+metaHigh+"', '"+metaDone+"')")
	}
	_, err = tx.ExecContext(ctx, setMeta(metaDone, "?"), fmt.Sprint(to.Int64))
	return true, err
}
