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

// Meta reads a value of state_meta, "" if there is none.
func (s *Store) Meta(ctx context.Context, key string) (string, error) {
	var v string
	err := s.r.QueryRowContext(ctx, "SELECT value FROM state_meta WHERE key = ?", key).Scan(str(&v))
	return v, none(err, nil)
}

// SetMeta sets a value of state_meta.
func (s *Store) SetMeta(ctx context.Context, key, value string) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO state_meta (key, value) VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value", clean(key), clean(value))
		return err
	})
}

// SetRoute stores which session a chat has: entry is upstream's JSON object, with session_id
// in it. scope keeps the routes of several stores apart; "" is the usual one.
func (s *Store) SetRoute(ctx context.Context, scope, key, entry string) error {
	if key == "" || entry == "" {
		return errors.New("route: no key or no entry")
	}
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := seconds(s.opts.Now())
		// Early files have another primary key: look, then insert.
		res, err := tx.ExecContext(ctx, "UPDATE gateway_routing SET entry_json = ?, updated_at = ? WHERE scope = ? AND session_key = ?", clean(entry), now, scope, key)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); n > 0 || err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO gateway_routing (scope, session_key, entry_json, updated_at) VALUES (?, ?, ?, ?)", scope, clean(key), clean(entry), now)
		return err
	})
}

// Routes reads all routes of a scope, by session key.
func (s *Store) Routes(ctx context.Context, scope string) (map[string]string, error) {
	rows, err := s.r.QueryContext(ctx, "SELECT session_key, entry_json FROM gateway_routing WHERE scope = ?", scope)
	if err != nil {
		return nil, fault(err)
	}
	out := map[string]string{}
	err = each(rows, func() error {
		var key, entry string
		err := rows.Scan(str(&key), str(&entry))
		out[key] = entry
		return err
	})
	return out, fault(err)
}

// DropRoute removes a route. It is no error if there is none.
func (s *Store) DropRoute(ctx context.Context, scope, key string) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM gateway_routing WHERE scope = ? AND session_key = ?", scope, key)
		return err
	})
}

// resumable are ends that nobody meant: a program went away. Upstream's words.
const resumable = "('agent_close', 'ws_orphan_reap', 'superseded_by_resume', 'startup_orphan_reap')"

// resets are ends after which a chat starts over; see reset.
const resets = "('session_reset', 'session_switch', 'idle', 'daily', 'suspended', 'resume_pending_expired')"

// Resume finds the session that goes on in a chat whose route was lost: the latest of that key
// that did not end on purpose, unless the chat was reset after it. It fails with
// [ErrNoSession].
func (s *Store) Resume(ctx context.Context, source, key string) (Session, error) {
	n, err := scanSession(s.r.QueryRowContext(ctx, `SELECT `+sessionColumns+` FROM sessions AS s
		WHERE s.session_key = ?1 AND s.source = ?2 AND (s.ended_at IS NULL OR s.end_reason IN `+resumable+`)
		AND NOT EXISTS (SELECT 1 FROM sessions AS b WHERE b.session_key = s.session_key AND b.source = s.source
			AND b.ended_at IS NOT NULL AND b.end_reason IN `+resets+` AND b.ended_at > COALESCE(s.last_activity_at, s.started_at))
		ORDER BY COALESCE(s.message_count, 0) > 0 DESC, COALESCE(s.last_activity_at, s.started_at) DESC LIMIT 1`, key, source))
	if err != nil {
		return Session{}, none(err, fmt.Errorf("%s: %w", key, ErrNoSession))
	}
	return n, nil
}

// Generation counts how often the chat of a key has started over. It never goes back.
func (s *Store) Generation(ctx context.Context, source, key string) (n int64, err error) {
	err = s.r.QueryRowContext(ctx, "SELECT generation FROM conversation_generations WHERE source = ? AND session_key = ?", source, key).Scan(&n)
	return n, none(err, nil)
}

// Beat says that a long-running program lives; upstream's clean-up spares the sessions of those
// that do. started is when it began.
func (s *Store) Beat(ctx context.Context, program string, started time.Time) error {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO gateway_heartbeats (backend_id, pid, started_at, last_heartbeat, profile, host) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT(backend_id) DO UPDATE SET pid = excluded.pid, started_at = excluded.started_at, last_heartbeat = excluded.last_heartbeat`,
			clean(program), os.Getpid(), seconds(started), seconds(s.opts.Now()), clean(s.opts.Profile), clean(host))
		return err
	})
}

// Gone takes a program's sign of life away.
func (s *Store) Gone(ctx context.Context, program string) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM gateway_heartbeats WHERE backend_id = ?", program)
		return err
	})
}
