// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// shape is what the file has.
type shape struct {
	columns map[string]map[string]bool // table → column
	objects map[string]string          // name of a table, view, index or trigger → its SQL
	version int                        // schema number, 0 = none
}

// look reads the shape in two queries.
func look(ctx context.Context, q queryer) (shape, error) {
	sh := shape{columns: map[string]map[string]bool{}, objects: map[string]string{}}
	rows, err := q.QueryContext(ctx, "SELECT name, COALESCE(sql, '') FROM sqlite_master")
	if err != nil {
		return sh, err
	}
	if err := each(rows, func() error {
		var name, text string
		err := rows.Scan(&name, &text)
		sh.objects[name] = text
		return err
	}); err != nil {
		return sh, err
	}
	for _, t := range tables() {
		if _, ok := sh.objects[t.name]; ok {
			sh.columns[t.name] = map[string]bool{}
		}
	}
	rows, err = q.QueryContext(ctx, "SELECT t.name, c.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c WHERE t.type = 'table' AND t.sql NOT LIKE 'CREATE VIRTUAL%'")
	if err != nil {
		return sh, err
	}
	if err := each(rows, func() error {
		var table, column string
		err := rows.Scan(&table, &column)
		if cols := sh.columns[table]; cols != nil {
			cols[column] = true
		}
		return err
	}); err != nil {
		return sh, err
	}
	if _, ok := sh.objects["schema_version"]; ok {
		err = q.QueryRowContext(ctx, "SELECT COALESCE(MAX(version), 0) FROM schema_version").Scan(&sh.version)
	}
	return sh, err
}

// queryer is a database, a connection or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// each calls fn for every row and closes the rows.
func each(rows *sql.Rows, fn func() error) error {
	defer rows.Close() //nolint:errcheck // Err has what matters
	for rows.Next() {
		if err := fn(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// missing are the statements that the shape lacks.
func (sh shape) missing() []string {
	var out []string
	for _, t := range tables() {
		have := sh.columns[t.name]
		if have == nil {
			out = append(out, t.create())
			continue
		}
		for _, c := range t.columns {
			if !have[c.name] {
				out = append(out, t.add(c))
			}
		}
	}
	return out
}

// missingIndexes are the statements for ordinary indexes that the shape lacks.
func (sh shape) missingIndexes() []string {
	var out []string
	for _, ix := range indexes() {
		if _, ok := sh.objects[ix.name]; !ok {
			out = append(out, "CREATE INDEX IF NOT EXISTS "+ix.name+" ON "+ix.on)
		}
	}
	return out
}

// ensure adds what the file lacks. Ordinary indexes of an existing file are left to the
// background: making one may take long.
func (s *Store) ensure(ctx context.Context, fresh bool) error {
	sh, err := look(ctx, s.w)
	if err != nil {
		return err
	}
	if sh.version > SchemaVersion {
		s.note(fmt.Sprintf("%s has schema %d, newer than %d of this program: everything known is read and written, nothing else is touched", s.path, sh.version, SchemaVersion))
	}
	if len(sh.missing()) > 0 || s.indexWork(sh) {
		if err := s.transact(ctx, func(tx *sql.Tx) error {
			if sh, err = look(ctx, tx); err != nil { // another process may have been faster
				return err
			}
			return s.complete(ctx, tx, sh, fresh)
		}); err != nil {
			return err
		}
	}
	s.know(func(h *Health) {
		if h.Schema = sh.version; h.Schema == 0 {
			h.Schema = SchemaVersion
		}
	})
	return s.stamp(ctx)
}

// complete brings the tables, and of a new file everything, up to the schema.
func (s *Store) complete(ctx context.Context, tx *sql.Tx, sh shape, fresh bool) error {
	todo := sh.missing()
	fresh = fresh && len(sh.objects) == 0
	if fresh {
		todo = append(append(todo, sh.missingIndexes()...), titleIndex,
			fmt.Sprintf("INSERT INTO schema_version (version) VALUES (%d)", SchemaVersion))
	}
	for _, stmt := range todo {
		if _, err := tx.ExecContext(ctx, stmt); err != nil {
			return fmt.Errorf("schema: %s: %w", strings.SplitN(stmt, "\n", 2)[0], err)
		}
	}
	return s.ensureSearch(ctx, tx, sh)
}

// stamp gives the file the name by which upstream notices that it was replaced.
func (s *Store) stamp(ctx context.Context) error {
	var have string
	var id uint32
	if err := s.w.QueryRowContext(ctx, "SELECT COALESCE((SELECT value FROM state_meta WHERE key = ?), '')", metaFile).Scan(&have); err != nil {
		return err
	}
	if err := s.w.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return err
	}
	if have != "" && id != 0 {
		return nil
	}
	return s.transact(ctx, func(tx *sql.Tx) error {
		var raw [16]byte
		if _, err := rand.Read(raw[:]); err != nil {
			return err
		}
		if have == "" {
			have = hex.EncodeToString(raw[:])
			if _, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO state_meta (key, value) VALUES (?, ?)", metaFile, have); err != nil {
				return err
			}
		}
		if id == 0 {
			id = max(binary.BigEndian.Uint32(raw[:4])&0x7fffffff, 1)
			if b, err := hex.DecodeString(have[:min(8, len(have))]); err == nil && len(b) == 4 {
				id = max(binary.BigEndian.Uint32(b)&0x7fffffff, 1)
			}
			_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", id))
			return err
		}
		return nil
	})
}
