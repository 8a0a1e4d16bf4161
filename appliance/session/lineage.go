// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// compression is the reason with which a session ends that goes on in a child.
const compression = "compression"

// mark is a key of model_config, of an alias; NULL if there is none.
func mark(alias, key string) string {
	return expand("json_extract(CASE WHEN json_valid({A}.model_config) THEN {A}.model_config END, '$.{K}')", "{A}", alias, "{K}", key)
}

// continues holds for a child, of the alias c, that continues its parent: not for branches,
// subagents, fresh starts and tools. A continuation inherits its parent's marks, so that only
// those count that name the parent itself.
func continues() string {
	parts := []string{"COALESCE(c.source, '') <> 'tool'"}
	for _, key := range []string{"_branched_from", "_delegate_from", "_reset_from"} {
		parts = append(parts, "COALESCE("+mark("c", key)+", '') <> c.parent_session_id")
	}
	return "(" + strings.Join(parts, " AND ") + ")"
}

// mostParts bounds the walk through the parts of one conversation.
const mostParts = 1000

// above lists a session and the earlier parts of its conversation, the session first.
func above() string {
	return `WITH RECURSIVE up(id, depth) AS (
	SELECT id, 0 FROM sessions WHERE id = ?1
	UNION
	SELECT p.id, up.depth + 1 FROM up JOIN sessions AS c ON c.id = up.id JOIN sessions AS p ON p.id = c.parent_session_id
	WHERE p.end_reason = 'compression' AND up.depth < 1000 AND ` + continues() + `) `
}

// conversation is the key of a turn lease: the first part of the conversation.
func conversation(ctx context.Context, q queryer, id string) (string, error) {
	var root string
	err := q.QueryRowContext(ctx, above()+"SELECT id FROM up ORDER BY depth DESC LIMIT 1", id).Scan(&root)
	if err != nil {
		return "", none(err, fmt.Errorf("%s: %w", id, ErrNoSession))
	}
	return root, nil
}

// isEarlier reports whether one session is an earlier part of the other's conversation.
func isEarlier(ctx context.Context, q queryer, one, of string) (bool, error) {
	var n int
	err := q.QueryRowContext(ctx, above()+"SELECT count(*) FROM up WHERE id = ?2 AND depth > 0", of, one).Scan(&n)
	return n > 0, err
}

// parts lists a session and the parts of its conversation that follow it.
func parts(ctx context.Context, q queryer, id string) ([]string, error) {
	out := []string{id}
	seen := map[string]bool{id: true}
	for len(out) < mostParts {
		var next string
		err := q.QueryRowContext(ctx, `SELECT c.id FROM sessions AS p JOIN sessions AS c ON c.parent_session_id = p.id
			WHERE p.id = ? AND p.end_reason = 'compression' AND `+continues()+`
			ORDER BY CASE WHEN c.end_reason = 'compression' THEN 0 WHEN c.ended_at IS NULL THEN 1 ELSE 2 END,
				COALESCE(c.last_activity_at, c.started_at) DESC, c.started_at DESC, c.id DESC LIMIT 1`, out[len(out)-1]).Scan(&next)
		if err != nil {
			return out, none(err, nil)
		}
		if seen[next] {
			return out, nil
		}
		seen[next] = true
		out = append(out, next)
	}
	return out, nil
}

func tipOf(ctx context.Context, q queryer, id string) (string, error) {
	all, err := parts(ctx, q, id)
	return all[len(all)-1], err
}

// Tip is the session in which a conversation goes on after it was compressed, however often;
// the session itself if it was not.
func (s *Store) Tip(ctx context.Context, id string) (string, error) {
	tip, err := tipOf(ctx, s.r, id)
	return tip, fault(err)
}

// Parts are the sessions of a conversation, from the first part to the tip.
func (s *Store) Parts(ctx context.Context, id string) ([]string, error) {
	root, err := conversation(ctx, s.r, id)
	if err != nil {
		return nil, err
	}
	all, err := parts(ctx, s.r, root)
	return all, fault(err)
}

// clonedColumns are what a copy of a message keeps.
const clonedColumns = `role, content, tool_call_id, tool_calls, tool_name, effect_disposition, timestamp, token_count,
	finish_reason, reasoning, reasoning_content, reasoning_details, codex_reasoning_items, codex_message_items,
	platform_message_id, observed, _compressed_summary, active, compacted, api_content, display_kind, display_metadata`

// clone copies the active messages of a session above one id and up to another, in order.
func clone(ctx context.Context, tx *sql.Tx, from, to string, above, through int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO messages (session_id, "+clonedColumns+") SELECT ?, "+clonedColumns+
		" FROM messages WHERE session_id = ? AND IFNULL(active, 1) = 1 AND id > ? AND id <= ? ORDER BY id", to, from, above, through)
	return err
}

// recount sets the counters of a session from its messages.
func recount(ctx context.Context, tx *sql.Tx, id string) error {
	return changeIn(ctx, tx, id, `message_count = (SELECT count(*) FROM messages AS m WHERE m.session_id = sessions.id AND IFNULL(m.active, 1) = 1),
		tool_call_count = (SELECT COALESCE(SUM(CASE WHEN json_valid(m.tool_calls) AND json_type(m.tool_calls) = 'array' THEN json_array_length(m.tool_calls) ELSE 1 END), 0)
			FROM messages AS m WHERE m.session_id = sessions.id AND IFNULL(m.active, 1) = 1 AND m.tool_calls IS NOT NULL)`)
}

// Branch says how a session is forked.
type Branch struct {
	Session       // ID, Source, Title, Model … of the new one; what is empty is inherited
	Through int64 // last message to take over; 0 = all
}

// Fork makes a session that begins with the messages of another, which stays as it is. The
// title is the next number of the old one's unless another is given.
func (s *Store) Fork(ctx context.Context, id string, b Branch) (Session, error) {
	err := s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		p, err := scanSession(tx.QueryRowContext(ctx, "SELECT "+sessionColumns+" FROM sessions AS s WHERE s.id = ?", id))
		if err != nil {
			return none(err, fmt.Errorf("%s: %w", id, ErrNoSession))
		}
		n, through := b.Session, b.Through
		if through == 0 {
			through = 1<<63 - 1
		} else if err := owns(ctx, tx, id, through); err != nil {
			return err
		}
		inherit(&n, p)
		marked, err := keepMarks(`{"_branched_from":`+jsonText(id)+`}`, n.ModelConfig)
		if err != nil {
			return err
		}
		n.Parent, n.ModelConfig = id, []byte(marked)
		if n.Title == "" && p.Title != "" {
			n.TitleSource = p.TitleSource
			if n.Title, err = nextTitle(ctx, tx, p.Title); err != nil {
				return err
			}
		}
		if b.ID, err = s.insertSession(ctx, tx, n); err != nil {
			return err
		}
		if err := inheritPrompt(ctx, tx, id, b.ID, n.SystemPrompt); err != nil {
			return err
		}
		if err := clone(ctx, tx, id, b.ID, 0, through); err != nil {
			return err
		}
		if _, err := s.settle(ctx, tx, b.ID); err != nil {
			return err
		}
		return recount(ctx, tx, b.ID)
	})
	if err != nil {
		return Session{}, err
	}
	return s.Get(ctx, b.ID)
}

// inherit fills what is empty in n from p, except for what names a place in a chat: replies to
// that belong to one session.
func inherit(n *Session, p Session) {
	for _, f := range [][2]*string{{&n.Source, &p.Source}, {&n.Model, &p.Model}, {&n.Cwd, &p.Cwd}, {&n.Profile, &p.Profile}, {&n.UserID, &p.UserID}, {&n.ToolNames, &p.ToolNames}} {
		if *f[0] == "" {
			*f[0] = *f[1]
		}
	}
	if len(n.ModelConfig) == 0 {
		n.ModelConfig = p.ModelConfig
	}
}

// inheritPrompt gives a child its parent's system prompt unless it has one of its own.
func inheritPrompt(ctx context.Context, tx *sql.Tx, parent, child, own string) error {
	if own != "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, "UPDATE sessions SET (system_prompt_hash, system_prompt) = (SELECT p.system_prompt_hash, p.system_prompt FROM sessions AS p WHERE p.id = ?) WHERE id = ?", parent, child)
	return err
}

// owns fails if the session has no message of that id.
func owns(ctx context.Context, q queryer, session string, message int64) error {
	var n int
	err := q.QueryRowContext(ctx, "SELECT 1 FROM messages WHERE id = ? AND session_id = ?", message, session).Scan(&n)
	return none(err, fmt.Errorf("%s: message %d: %w", session, message, ErrNoMessage))
}
