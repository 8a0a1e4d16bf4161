// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"errors"
	"slices"
)

// Writes that wait at the same time share one commit, and with it one flush to the disk: the
// flush is what a write costs, and a thousand turns that start together would else wait for a
// thousand of them, one after the other. Each caller still returns only when its own write is
// on the disk, and none sees the failure of another.

// change is what a write does. It may run again, so it must not keep what it did the first
// time, and it uses the context that it is given: within a shared commit that one never ends,
// because SQLite takes a whole transaction back when one statement of it is interrupted.
type change func(ctx context.Context, tx *sql.Tx) error

// mostShared bounds how long one commit has the write lock.
const mostShared = 128

// errAlone says that a shared commit came to nothing, and that the change has to be made by
// itself: its own failure is told to nobody else.
var errAlone = errors.New("to be written alone")

// waiting is a write that waits for its commit.
type waiting struct {
	ctx  context.Context //nolint:containedctx // of the caller, without its end
	fn   change
	done chan error // has room for one
}

// shared makes a change together with those that wait. When ctx ends before its turn has come
// nothing was done; afterwards it is seen through, so the answer is always what happened.
func (s *Store) shared(ctx context.Context, fn change) error {
	w := &waiting{ctx: context.WithoutCancel(ctx), fn: fn, done: make(chan error, 1)}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.line = append(s.line, w)
	if !s.writing {
		s.writing = true
		s.work.Go(s.write)
	}
	s.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		if s.leave(w) {
			return ctx.Err()
		}
		return <-w.done
	}
}

// leave takes a write out of the line; false = its turn has come.
func (s *Store) leave(w *waiting) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.line, w)
	if i >= 0 {
		s.line = slices.Delete(s.line, i, i+1)
	}
	return i >= 0
}

// write makes the changes that wait until there are none. One of it runs at a time.
func (s *Store) write() {
	for {
		s.mu.Lock()
		if len(s.line) == 0 {
			s.writing = false
			s.mu.Unlock()
			return
		}
		ctx := s.line[0].ctx
		s.mu.Unlock()
		// Whoever comes while the lock is waited for is taken along, and may still leave.
		tx, err := s.w.BeginTx(ctx, nil)
		s.mu.Lock()
		n := min(len(s.line), mostShared)
		batch := slices.Clone(s.line[:n])
		s.line = slices.Delete(s.line, 0, n)
		s.mu.Unlock()
		errs := slices.Repeat([]error{err}, len(batch))
		if err == nil {
			errs = s.commit(tx, batch)
		}
		for i, w := range batch {
			w.done <- errs[i]
		}
	}
}

// commit makes changes in one transaction and returns what became of each. Where one of them
// fails in a way that could touch the others, all are to be made alone.
func (s *Store) commit(tx *sql.Tx, batch []*waiting) []error {
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	errs := make([]error, len(batch))
	if len(batch) == 1 {
		if errs[0] = batch[0].do(tx); errs[0] == nil {
			errs[0] = ofMessage(tx.Commit()) // an index writes what it gathered at the commit
		}
		return errs
	}
	for i, w := range batch {
		if errs[i] = w.apart(tx); errors.Is(errs[i], errAlone) {
			return slices.Repeat([]error{errAlone}, len(batch))
		}
	}
	if tx.Commit() != nil {
		return slices.Repeat([]error{errAlone}, len(batch))
	}
	return errs
}

// do makes the change. One that panics is made again where its caller can be told.
func (w *waiting) do(tx *sql.Tx) (err error) {
	defer func() {
		if recover() != nil {
			err = errAlone
		}
	}()
	return w.fn(w.ctx, tx)
}

// apart makes the change so that its failure takes back nothing else. Where that is not certain
// the error is errAlone.
func (w *waiting) apart(tx *sql.Tx) error {
	if run(w.ctx, tx, "SAVEPOINT one") != nil {
		return errAlone
	}
	err := w.do(tx)
	if c := code(err); c != 0 && c&0xff != codeConstraint {
		return errAlone
	}
	if err != nil && run(w.ctx, tx, "ROLLBACK TO one") != nil {
		return errAlone // SQLite has taken the whole transaction back itself
	}
	if run(w.ctx, tx, "RELEASE one") != nil {
		return errAlone
	}
	return err
}
