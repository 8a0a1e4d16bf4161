// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"fmt"
)

// doomed are a session and the subagents that worked for it, with theirs.
const doomed = `WITH RECURSIVE gone(id) AS (
	SELECT ?1
	UNION
	SELECT c.id FROM sessions AS c JOIN gone ON c.parent_session_id = gone.id
		OR json_extract(CASE WHEN json_valid(c.model_config) THEN c.model_config END, '$._delegate_from') = gone.id
	WHERE json_extract(CASE WHEN json_valid(c.model_config) THEN c.model_config END, '$._delegate_from') IS NOT NULL AND c.id <> ?1
) `

// Delete removes a session with its messages and the subagents that worked for it; other
// children stay and lose their parent. A session with a running turn is not deleted:
// [ErrTurnRunning].
func (s *Store) Delete(ctx context.Context, id string) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		key, err := conversation(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := s.unheld(ctx, tx, key); err != nil {
			return err
		}
		if err := s.uncompressed(ctx, tx, id, ""); err != nil {
			return err
		}
		for _, stmt := range []string{
			"DELETE FROM messages WHERE session_id IN gone",
			"DELETE FROM appliance_responses WHERE session_id IN gone",
			"DELETE FROM session_model_usage WHERE session_id IN gone",
			"DELETE FROM compression_locks WHERE session_id IN gone",
			"DELETE FROM session_turn_leases WHERE conversation_id IN gone",
			"DELETE FROM gateway_routing WHERE json_extract(CASE WHEN json_valid(entry_json) THEN entry_json END, '$.session_id') IN gone",
			"UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id IN gone AND id NOT IN gone",
		} {
			if _, err := tx.ExecContext(ctx, doomed+stmt, id); err != nil {
				return fmt.Errorf("delete %s: %w", id, err)
			}
		}
		// Rows of the same statement may refer to each other: the list first, then the rows.
		rows, err := tx.QueryContext(ctx, doomed+"SELECT id FROM gone", id)
		if err != nil {
			return err
		}
		var ids []string
		if err := each(rows, func() error {
			var one string
			err := rows.Scan(&one)
			ids = append(ids, one)
			return err
		}); err != nil {
			return err
		}
		for _, one := range ids {
			if _, err := tx.ExecContext(ctx, "UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id = ?", one); err != nil {
				return err
			}
		}
		for _, one := range ids {
			if _, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE id = ?", one); err != nil {
				return err
			}
		}
		return run(ctx, tx, dropPrompts)
	})
}

// unheld fails while another turn of the conversation runs, and clears the lease of one that
// is over.
func (s *Store) unheld(ctx context.Context, tx *sql.Tx, key string) error {
	var row string
	var expires float64
	err := tx.QueryRowContext(ctx, "SELECT holder, expires_at FROM session_turn_leases WHERE conversation_id = ?", key).Scan(&row, &expires)
	if err != nil {
		return none(err, nil)
	}
	if !s.over(row, expires) {
		return fmt.Errorf("%s: %w", key, ErrTurnRunning)
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM session_turn_leases WHERE conversation_id = ? AND holder = ?", key, row)
	return err
}

// over holds for a lease that may be taken: it has expired, or its process is gone.
func (s *Store) over(row string, expires float64) bool {
	return expires <= seconds(s.opts.Now()).(float64) || s.self.dead(row)
}
