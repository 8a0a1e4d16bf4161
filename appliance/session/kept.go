// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// What is kept of the API's responses; then the oldest go. The conversations themselves stay.
const (
	KeepResponses = 30 * 24 * time.Hour
	mostResponses = 500
	mostKeptBytes = 32 << 20
)

// What is kept of the keys of runs (gateway spec 1.2).
const (
	KeepRunKeys = 24 * time.Hour
	mostRunKeys = 10_000
)

// ErrNotKept says that no such response is kept, or no such run.
var ErrNotKept = errors.New("not kept")

// Response is an answer of the API that can be asked for, and gone on from.
type Response struct {
	ID           string
	Session      string
	Through      int64 // the last message of its turn
	Instructions string
	Body         []byte // JSON, as it was answered
}

// KeepResponse keeps a response and lets those go that are too old or too many.
func (s *Store) KeepResponse(ctx context.Context, r Response) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := s.opts.Now()
		if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO appliance_responses (id, session_id, through, instructions, made_at, size, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
			clean(r.ID), clean(r.Session), r.Through, clean(r.Instructions), seconds(now), len(r.Body), clean(string(r.Body))); err != nil {
			return err
		}
		// The one that was just made stays, however large it is.
		_, err := tx.ExecContext(ctx, `DELETE FROM appliance_responses WHERE id <> ?1 AND (made_at < ?2 OR rowid IN (
			SELECT rowid FROM (SELECT rowid, row_number() OVER w AS n, sum(size) OVER w AS total FROM appliance_responses WINDOW w AS (ORDER BY rowid DESC))
			WHERE n > ?3 OR total > ?4))`, clean(r.ID), seconds(now.Add(-KeepResponses)), mostResponses, mostKeptBytes)
		return err
	})
}

// Response finds a response. It fails with [ErrNotKept].
func (s *Store) Response(ctx context.Context, id string) (Response, error) {
	r := Response{ID: id}
	err := s.r.QueryRowContext(ctx, "SELECT session_id, through, instructions, body FROM appliance_responses WHERE id = ? AND made_at >= ?",
		id, seconds(s.opts.Now().Add(-KeepResponses))).Scan(str(&r.Session), &r.Through, str(&r.Instructions), &r.Body)
	return r, notKept(err, id)
}

// DropResponse forgets a response; its session stays. It fails with [ErrNotKept].
func (s *Store) DropResponse(ctx context.Context, id string) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, "DELETE FROM appliance_responses WHERE id = ?", id)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); n == 0 && err == nil {
			return fmt.Errorf("%s: %w", id, ErrNotKept)
		}
		return err
	})
}

// RunKey is what an idempotency key stands for.
type RunKey struct {
	Key     string
	Sum     string // of the request
	Run     string // its id
	Status  string // how the run ended; "" = it did not, or its process did first
	Session string // that records it; "" = not known
	Made    time.Time
}

// ClaimRun takes a key for a run that is about to start. When somebody has the key, what it
// stands for is returned, and taken is false.
func (s *Store) ClaimRun(ctx context.Context, k RunKey) (has RunKey, taken bool, err error) {
	err = s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := s.opts.Now()
		if _, err := tx.ExecContext(ctx, `DELETE FROM appliance_run_keys WHERE made_at < ? OR rowid <= (SELECT rowid FROM appliance_run_keys ORDER BY rowid DESC LIMIT 1 OFFSET ?)`,
			seconds(now.Add(-KeepRunKeys)), mostRunKeys-1); err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, "INSERT INTO appliance_run_keys (key, sum, run_id, made_at) VALUES (?, ?, ?, ?) ON CONFLICT(key) DO NOTHING", k.Key, k.Sum, k.Run, seconds(now))
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if taken = n > 0; err != nil {
			return err
		}
		has, err = scanRunKey(tx.QueryRowContext(ctx, runKeys+"key = ?", k.Key))
		return err
	})
	return has, taken, err
}

// FreeRun gives the key of a run back that did not start.
func (s *Store) FreeRun(ctx context.Context, run string) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM appliance_run_keys WHERE run_id = ?", run)
		return err
	})
}

// EndRun notes how a run that has a key ended, and which session records it.
func (s *Store) EndRun(ctx context.Context, run, status, session string) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE appliance_run_keys SET status = ?, session_id = ? WHERE run_id = ?", status, text(session), run)
		return err
	})
}

// Run finds a run that has a key, by its id. It fails with [ErrNotKept].
func (s *Store) Run(ctx context.Context, id string) (RunKey, error) {
	k, err := scanRunKey(s.r.QueryRowContext(ctx, runKeys+"run_id = ? AND made_at >= ?", id, seconds(s.opts.Now().Add(-KeepRunKeys))))
	return k, notKept(err, id)
}

const runKeys = "SELECT key, sum, run_id, status, session_id, made_at FROM appliance_run_keys WHERE "

func scanRunKey(row *sql.Row) (k RunKey, err error) {
	var made sql.NullFloat64
	err = row.Scan(&k.Key, &k.Sum, &k.Run, str(&k.Status), str(&k.Session), &made)
	k.Made = moment(made)
	return k, err
}

// notKept is the error of a query for one row. A file that may only be read may lack the table.
func notKept(err error, id string) error {
	const codeError = 1
	if code(err) == codeError {
		err = sql.ErrNoRows
	}
	return none(err, fmt.Errorf("%s: %w", id, ErrNotKept))
}
