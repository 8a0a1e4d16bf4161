// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// CompressionLock keeps other processes from compressing a session while its summary is made.
// Messages may be appended meanwhile: they are taken over.
type CompressionLock struct {
	s         *Store
	session   string
	holder    string
	watermark int64
}

// Compression is how a conversation goes on.
type Compression struct {
	// Child may give ID, Model, ModelConfig, SystemPrompt and Title; the rest is inherited.
	Child Session
	// Handoff is what stands for the older messages: the summary, and the last messages word
	// for word. At least one.
	Handoff []Message
}

// LockCompression locks a session for compression and remembers its last message: what the
// summary will cover. It fails with [ErrCompressing] while another process has the lock.
func (s *Store) LockCompression(ctx context.Context, session string) (*CompressionLock, error) {
	l := &CompressionLock{s: s, session: session, holder: s.self.named("compress-" + NewID(s.opts.Now())[16:])}
	err := s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := open(ctx, tx, session); err != nil {
			return err
		}
		if err := s.uncompressed(ctx, tx, session, ""); err != nil {
			return err
		}
		now := s.opts.Now()
		if _, err := tx.ExecContext(ctx, "INSERT INTO compression_locks (session_id, holder, acquired_at, expires_at) VALUES (?, ?, ?, ?)",
			session, l.holder, seconds(now), seconds(now.Add(LeaseTime))); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT COALESCE(MAX(id), 0) FROM messages WHERE session_id = ? AND IFNULL(active, 1) = 1", session).Scan(&l.watermark)
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// uncompressed fails while somebody other than own compresses the session, and clears the lock
// of one that is over.
func (s *Store) uncompressed(ctx context.Context, tx *sql.Tx, session, own string) error {
	var row string
	var expires float64
	err := tx.QueryRowContext(ctx, "SELECT holder, expires_at FROM compression_locks WHERE session_id = ?", session).Scan(&row, &expires)
	if err != nil {
		return none(err, nil)
	}
	if row == own {
		return nil
	}
	if !s.over(row, expires) {
		return fmt.Errorf("%s: %w", session, ErrCompressing)
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM compression_locks WHERE session_id = ? AND holder = ?", session, row)
	return err
}

// Refresh keeps the lock for another [LeaseTime].
func (l *CompressionLock) Refresh(ctx context.Context) error {
	return l.s.update(ctx, func(ctx context.Context, tx *sql.Tx) error { return l.held(ctx, tx) })
}

func (l *CompressionLock) held(ctx context.Context, tx *sql.Tx) error {
	res, err := tx.ExecContext(ctx, "UPDATE compression_locks SET expires_at = ? WHERE session_id = ? AND holder = ?",
		seconds(l.s.opts.Now().Add(LeaseTime)), l.session, l.holder)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, fmt.Errorf("%s: %w", l.session, ErrCompressing))
	}
	return nil
}

// Release gives the lock back. It is no error if it is gone. It works after ctx has ended.
func (l *CompressionLock) Release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return l.s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM compression_locks WHERE session_id = ? AND holder = ?", l.session, l.holder)
		return err
	})
}

// Publish ends the session with the reason "compression" and makes the child in which it goes
// on, with the handoff and every message that was appended since the lock was taken, in one
// step: a reader sees the old session alive or the whole new one. The child's title is the next
// number of the old one's. The lock is gone afterwards. A turn of the session goes on in the
// child with [Turn.Continue].
func (l *CompressionLock) Publish(ctx context.Context, c Compression) (Session, error) {
	if len(c.Handoff) == 0 {
		return Session{}, errors.New("compression: an empty handoff would lose the conversation")
	}
	s := l.s
	var id string
	err := s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := l.held(ctx, tx); err != nil {
			return err
		}
		if err := open(ctx, tx, l.session); err != nil {
			return err
		}
		p, err := scanSession(tx.QueryRowContext(ctx, "SELECT "+sessionColumns+" FROM sessions AS s WHERE s.id = ?", l.session))
		if err != nil {
			return err
		}
		if id, err = s.insertSession(ctx, tx, continuation(c.Child, p)); err != nil {
			return err
		}
		if err := inheritPrompt(ctx, tx, p.ID, id, c.Child.SystemPrompt); err != nil {
			return err
		}
		if err := changeIn(ctx, tx, l.session, "ended_at = ?, end_reason = ?", seconds(s.opts.Now()), compression); err != nil {
			return err
		}
		if err := titleContinuation(ctx, tx, id, c.Child.Title, p); err != nil {
			return err
		}
		for _, m := range c.Handoff {
			if _, err := s.insert(ctx, tx, id, m); err != nil {
				return err
			}
		}
		if err := clone(ctx, tx, l.session, id, l.watermark, 1<<63-1); err != nil {
			return err
		}
		if err := recount(ctx, tx, id); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM compression_locks WHERE session_id = ? AND holder = ?", l.session, l.holder)
		return err
	})
	if err != nil {
		return Session{}, err
	}
	return s.Get(ctx, id)
}

// continuation is the child's row: the parent's place in chats, profile and pins stay with the
// conversation.
func continuation(n, p Session) Session {
	inherit(&n, p)
	for _, f := range [][2]*string{
		{&n.SessionKey, &p.SessionKey},
		{&n.ChatID, &p.ChatID},
		{&n.ChatType, &p.ChatType},
		{&n.ThreadID, &p.ThreadID},
		{&n.DisplayName, &p.DisplayName},
		{&n.OriginJSON, &p.OriginJSON},
		{&n.Transport, &p.Transport},
	} {
		if *f[0] == "" {
			*f[0] = *f[1]
		}
	}
	n.Parent, n.Title = p.ID, ""
	n.Pinned, n.Archived, n.Hidden = p.Pinned, p.Archived, p.Hidden
	return n
}

func titleContinuation(ctx context.Context, tx *sql.Tx, id, title string, p Session) error {
	if title != "" {
		return setTitle(ctx, tx, id, title, TitleModel)
	}
	if p.Title == "" {
		return nil
	}
	next, err := nextTitle(ctx, tx, p.Title)
	if err != nil {
		return err
	}
	return changeIn(ctx, tx, id, "title = ?, title_source = ?", next, text(p.TitleSource))
}
