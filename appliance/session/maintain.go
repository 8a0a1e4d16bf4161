// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// probe writes a message the way every message is written, reads it back through both indexes
// and takes it all back. A check that only reads misses an index that fails on the next write.
func (s *Store) probe(ctx context.Context) {
	undo := errors.New("undo")
	err := s.transact(ctx, func(tx *sql.Tx) error {
		const id, word = "appliance-probe", "applianceprobe"
		now := seconds(s.opts.Now())
		if _, err := tx.ExecContext(ctx, "INSERT INTO sessions (id, source, started_at) VALUES (?, 'probe', ?)", id, now); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO messages (session_id, role, content, timestamp, active) VALUES (?, 'user', ?, ?, 1)", id, word, now); err != nil {
			return ofMessage(err)
		}
		for _, ix := range []string{wordIndex, trigramIndex} {
			var n int
			err := tx.QueryRowContext(ctx, "SELECT count(*) FROM "+ix+" WHERE "+ix+" MATCH ?", word).Scan(&n)
			if corrupt(err) {
				return err
			}
		}
		return undo
	})
	switch {
	case errors.Is(err, undo):
	case corrupt(err):
		s.contain(ctx, err)
	case readOnlyFile(err):
		s.unwritable(err)
	default:
		s.know(func(h *Health) { h.WriteError = fault(err).Error() })
	}
}

// unwritable goes on with reading alone.
func (s *Store) unwritable(err error) {
	_ = s.halt(fmt.Errorf("%w: %s cannot be written (%v)", ErrReadOnly, s.path, err)) //nolint:errcheck,errorlint // kept for Health; the cause is for people
}

// kickOff tells the background that there is work.
func (s *Store) kickOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.kick <- struct{}{}:
	default:
	}
	select {
	case <-s.idle: // there was none before
		s.idle = make(chan struct{})
	default:
	}
}

// rest says that the background has done what it was told.
func (s *Store) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.idle: // as before
	default:
		if len(s.kick) == 0 {
			close(s.idle)
		}
	}
}

// Wait waits until the background has nothing left to do that is due: indexes are complete,
// damage is answered, or it is known why not.
func (s *Store) Wait(ctx context.Context) error {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maintain is the background work of a store: indexes that are missing, a rebuild, the check
// of the whole file when it is due, and a backup after damage.
func (s *Store) maintain(ctx context.Context, fresh, unclean bool) {
	if s.writable() == nil && !fresh {
		s.report("ordinary indexes", s.addIndexes(ctx))
	}
	s.report("search index", s.rebuild(ctx))
	var due <-chan time.Time
	switch {
	case fresh:
	case unclean || s.opts.CheckAfter < 0:
		s.report("check", s.check(ctx, unclean))
	default:
		due = time.After(s.opts.CheckAfter)
	}
	for {
		s.rest()
		select {
		case <-ctx.Done():
			return
		case <-due:
			s.report("check", s.check(ctx, unclean))
		case <-s.kick:
			if s.writable() == nil {
				s.report("search index", s.rebuild(ctx))
			} else {
				s.keepCopy(ctx)
			}
		}
	}
}

// report notes an error of the background.
func (s *Store) report(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrClosed) && s.writable() == nil {
		s.note(what + ": " + err.Error())
	}
}

// addIndexes makes the ordinary indexes that an existing file lacks.
func (s *Store) addIndexes(ctx context.Context) error {
	sh, err := look(ctx, s.r)
	if err != nil {
		return err
	}
	todo := sh.missingIndexes()
	if _, ok := sh.objects["idx_sessions_title_unique"]; !ok {
		todo = append(todo, titleIndex)
	}
	for _, stmt := range todo {
		err := s.update(ctx, func(ctx context.Context, tx *sql.Tx) error { return run(ctx, tx, stmt) })
		if stmt == titleIndex && code(err)&0xff == codeConstraint {
			s.note("some sessions have the same title: they stay so, and titles are kept unique only among new ones")
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check looks at the whole file if the last sound check is too long ago.
func (s *Store) check(ctx context.Context, unclean bool) error {
	last, err := s.Meta(ctx, metaChecked)
	if err != nil {
		return err
	}
	if n, err := strconv.ParseInt(last, 10, 64); err == nil {
		s.know(func(h *Health) { h.Checked = time.Unix(n, 0).UTC() })
		if age := s.opts.Now().Sub(time.Unix(n, 0)); !unclean && age >= 0 && age < s.opts.CheckEvery {
			return nil
		}
	}
	_, err = s.Check(ctx)
	return err
}

// Check looks at the whole file: every page, every index against its table, the search indexes
// against the messages. What is derived it repairs; other damage ends writing. It returns what
// it found, the zero class if nothing. It reads beside other work and takes some seconds for
// 100,000 messages.
func (s *Store) Check(ctx context.Context) (Damage, error) {
	d, err := s.diagnose(ctx, s.r)
	if err == nil && d.Class == Whole {
		err = s.compare(ctx, &d)
	}
	if err != nil {
		return d, fmt.Errorf("check: %w", fault(err))
	}
	if d.Class != Whole {
		s.treat(ctx, d)
		return d, nil
	}
	now := s.opts.Now()
	s.know(func(h *Health) { h.Checked = now })
	if s.writable() == nil {
		err = s.SetMeta(ctx, metaChecked, strconv.FormatInt(now.Unix(), 10))
	}
	return d, err
}

// compare holds the search indexes against the messages. In files with more than compareMost
// messages only the numbers of rows are compared: the whole comparison needs the write lock.
func (s *Store) compare(ctx context.Context, d *Damage) error {
	const compareMost = 10_000
	ix, _, err := indexState(ctx, s.r)
	if err != nil || !ix.Ready || s.writable() != nil {
		return err
	}
	sh, err := look(ctx, s.r)
	if err != nil || !sh.current() {
		return err // older layouts index another text than their content tables give
	}
	var messages, indexed int64
	if err := s.r.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM messages_fts_docsize)").Scan(&messages, &indexed); err != nil {
		return err
	}
	if messages != indexed {
		*d = d.add(SearchOnly, wordIndex, fmt.Errorf("%d messages, %d of them indexed", messages, indexed))
		return nil
	}
	if messages > compareMost {
		return nil
	}
	for _, name := range []string{wordIndex, trigramIndex} {
		err := s.transact(ctx, func(tx *sql.Tx) error {
			return run(ctx, tx, "INSERT INTO "+name+"("+name+", rank) VALUES ('integrity-check', 1)")
		})
		if corrupt(err) {
			*d, err = d.add(SearchOnly, name, err), nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
