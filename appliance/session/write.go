// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"
)

// writable is nil while the store may be written.
func (s *Store) writable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	return s.halted
}

// update makes a change, in a transaction that has the write lock from its start; see [change].
// It returns when the change is on the disk.
func (s *Store) update(ctx context.Context, fn change) error {
	if err := s.admit(); err != nil {
		return err
	}
	alone := func() error {
		return s.transact(ctx, func(tx *sql.Tx) error { return fn(ctx, tx) })
	}
	err := s.shared(ctx, fn)
	if errors.Is(err, errAlone) {
		err = alone()
	}
	if err != nil && corrupt(err) && s.contain(ctx, err) {
		err = alone()
	}
	s.wrote(err)
	if err := s.writable(); err != nil && !errors.Is(err, ErrClosed) {
		return err
	}
	return fault(err)
}

// transact runs fn in one transaction and returns errors of SQLite as they are.
func (s *Store) transact(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := s.w.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	if err := fn(tx); err != nil {
		return err
	}
	return ofMessage(tx.Commit()) // an index writes what it gathered at the commit
}

// admit looks at whether the path still names the file that is open. Both looks are by name:
// they cost two system calls and touch no lock.
func (s *Store) admit() error {
	if err := s.writable(); err != nil {
		return err
	}
	now, err := os.Stat(s.path)
	s.mu.Lock()
	known, wal := s.info, s.wal
	s.mu.Unlock()
	if err != nil || !os.SameFile(known, now) {
		return s.halt(fmt.Errorf("%s: %w", s.path, ErrReplaced))
	}
	if s.health.JournalMode != "wal" {
		return nil
	}
	// SQLite removes a -wal only when the last connection closes, and ours is open.
	switch now, err := os.Stat(s.path + "-wal"); {
	case wal == nil && err == nil:
		s.mu.Lock()
		s.wal = now
		s.mu.Unlock()
	case wal != nil && (err != nil || !os.SameFile(wal, now)):
		return s.halt(fmt.Errorf("%s-wal: %w", s.path, ErrReplaced))
	}
	return nil
}

// wrote keeps the outcome of the last write for Health.
func (s *Store) wrote(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c := code(err); {
	case err == nil:
		s.health.WriteError = ""
	case c != 0 && c&0xff != codeConstraint:
		s.health.WriteError = fault(err).Error()
	}
}

// seconds is a time as upstream stores it; the zero time is NULL.
func seconds(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return float64(t.UnixNano()) / 1e9
}

// moment is a stored time; NULL and nonsense are the zero time.
func moment(v sql.NullFloat64) time.Time {
	const first, last = -62135596800, 253402300800 // years 1 and 9999
	if !v.Valid || v.Float64 <= first || v.Float64 >= last || v.Float64 == 0 {
		return time.Time{}
	}
	whole := int64(v.Float64)
	return time.Unix(whole, int64((v.Float64-float64(whole))*1e9)).UTC()
}

// text is a string as a column that may be NULL.
func text(v string) any {
	if v == "" {
		return nil
	}
	return clean(v)
}
