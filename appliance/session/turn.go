// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// LeaseTime is how long a turn's lease holds without a sign of life. Every Append is one.
const LeaseTime = 5 * time.Minute

// closeTime is how long the end of a turn may take after its context has ended.
const closeTime = 10 * time.Second

// Turn is the right to write the messages of a running turn: one at a time for a conversation,
// over all its parts and all processes. It is safe for concurrent use. Close it however the
// turn ends.
type Turn struct {
	s      *Store
	key    string // of the conversation
	holder string

	// Settled is how many calls of an earlier turn got an "interrupted" result.
	Settled int

	mu      sync.Mutex
	session string
	closed  bool
}

// Begin takes the lease of a session's conversation for a turn; name is for people who look at
// the row. It fails with [ErrTurnRunning] while another turn has it, with [ErrNoSession], and
// with a [*ContinuedError] if the session was compressed. A lease that has expired, or whose
// process is gone, is taken over. Calls that an earlier turn left without a result have one
// when Begin returns.
func (s *Store) Begin(ctx context.Context, session, name string) (*Turn, error) {
	t := &Turn{s: s, session: session, holder: s.self.named(name + "-" + NewID(s.opts.Now())[16:])}
	err := s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := open(ctx, tx, session); err != nil {
			return err
		}
		key, err := conversation(ctx, tx, session)
		if err != nil {
			return err
		}
		if err := s.unheld(ctx, tx, key); err != nil {
			return err
		}
		t.key = key
		now := s.opts.Now()
		if _, err := tx.ExecContext(ctx, "INSERT INTO session_turn_leases (conversation_id, holder, acquired_at, expires_at) VALUES (?, ?, ?, ?)",
			key, t.holder, seconds(now), seconds(now.Add(LeaseTime))); err != nil {
			return err
		}
		t.Settled, err = s.settle(ctx, tx, session)
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// held fails if the lease is not this turn's any more, and extends it.
func (t *Turn) held(ctx context.Context, tx *sql.Tx) error {
	res, err := tx.ExecContext(ctx, "UPDATE session_turn_leases SET expires_at = ? WHERE conversation_id = ? AND holder = ?",
		seconds(t.s.opts.Now().Add(LeaseTime)), t.key, t.holder)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, fmt.Errorf("%s: %w", t.key, ErrTurnLost))
	}
	return nil
}

func (t *Turn) where() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return "", fmt.Errorf("%s: %w", t.session, ErrTurnLost)
	}
	return t.session, nil
}

// Session is where the turn writes.
func (t *Turn) Session() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session
}

// Append writes one message of the turn and returns its id. When it returns the message is in
// the file. Afterwards [ErrTurnLost] means that the turn must stop: somebody else goes on.
func (t *Turn) Append(ctx context.Context, m Message) (id int64, err error) {
	err = t.append(ctx, []Message{m}, &id)
	return id, err
}

// mostAppended is how many messages one commit takes: others wait for it.
const mostAppended = 200

// Fits fails with a [*TooLongError] of no session if a session that begins with so many messages
// could not be loaded again.
func (s *Store) Fits(messages int) error {
	if limit := s.opts.MaxHistory; limit > 0 && messages >= limit {
		return &TooLongError{Limit: limit}
	}
	return nil
}

// AppendAll writes many messages, with few commits. It fails with a [*TooLongError], and writes
// nothing, if they are more than may be loaded again.
func (t *Turn) AppendAll(ctx context.Context, ms []Message) error {
	if err := t.s.Fits(len(ms)); err != nil {
		return err
	}
	for part := range slices.Chunk(ms, mostAppended) {
		if err := t.append(ctx, part, new(int64)); err != nil {
			return err
		}
	}
	return nil
}

func (t *Turn) append(ctx context.Context, ms []Message, last *int64) error {
	session, err := t.where()
	if err != nil {
		return err
	}
	return t.s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := t.held(ctx, tx); err != nil {
			return err
		}
		if err := open(ctx, tx, session); err != nil {
			return err
		}
		for _, m := range ms {
			if *last, err = t.s.insert(ctx, tx, session, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// Refresh shows that the turn lives. It is needed only where no message is written for longer
// than [LeaseTime]: during a long tool call.
func (t *Turn) Refresh(ctx context.Context) error {
	if _, err := t.where(); err != nil {
		return err
	}
	return t.s.update(ctx, func(ctx context.Context, tx *sql.Tx) error { return t.held(ctx, tx) })
}

// Settle gives every tool call without a result an "interrupted" one, and returns how many it
// were. Close does it too.
func (t *Turn) Settle(ctx context.Context) (n int, err error) {
	session, err := t.where()
	if err != nil {
		return 0, err
	}
	err = t.s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := t.held(ctx, tx); err != nil {
			return err
		}
		n, err = t.s.settle(ctx, tx, session)
		return err
	})
	return n, err
}

// Close settles and gives the lease back. It works also after ctx has ended, for ten seconds: a
// turn that is stopped must end like any other. Closing again does nothing.
func (t *Turn) Close(ctx context.Context) error {
	t.mu.Lock()
	session, closed := t.session, t.closed
	t.closed = true
	t.mu.Unlock()
	if closed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	err := t.s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := t.held(ctx, tx); err != nil {
			return err
		}
		if _, err := t.s.settle(ctx, tx, session); err != nil && !errors.Is(err, ErrNoSession) {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM session_turn_leases WHERE conversation_id = ? AND holder = ?", t.key, t.holder)
		return err
	})
	if errors.Is(err, ErrTurnLost) {
		return nil // whoever took it over has settled
	}
	return err
}

// Continue makes the turn write into the session in which a compression continues.
func (t *Turn) Continue(child string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.session = child
}

// Running tells whether a turn of the session's conversation runs, here or elsewhere.
func (s *Store) Running(ctx context.Context, session string) (bool, error) {
	key, err := conversation(ctx, s.r, session)
	if err != nil {
		return false, err
	}
	var row string
	var expires float64
	err = s.r.QueryRowContext(ctx, "SELECT holder, expires_at FROM session_turn_leases WHERE conversation_id = ?", key).Scan(&row, &expires)
	if err != nil {
		return false, none(err, nil)
	}
	return !s.over(row, expires), nil
}
