// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

// nullTime is a stored time.
type nullTime struct{ sql.NullFloat64 }

func (t nullTime) time() time.Time { return moment(t.NullFloat64) }

// View is a part of a session around a message.
type View struct {
	Session  Session   `json:"session"`
	Messages []Message `json:"messages"`
	Before   int       `json:"messages_before"` // how many of them stand before the anchor; fewer than asked for: the session begins here
	After    int       `json:"messages_after"`
}

// Around reads the messages around one, at most window (1 to 20) on each side. A message of
// another part of the same conversation is found too; View.Session says where it is.
func (s *Store) Around(ctx context.Context, session string, message int64, window int) (View, error) {
	window = min(max(window, 1), 20)
	var home string
	err := s.r.QueryRowContext(ctx, "SELECT session_id FROM messages WHERE id = ?", message).Scan(&home)
	if err != nil {
		return View{}, none(err, fmt.Errorf("%s: message %d: %w", session, message, ErrNoMessage))
	}
	if home != session {
		a, err := s.root(ctx, home)
		if err != nil {
			return View{}, err
		}
		b, err := s.root(ctx, session)
		if err != nil {
			return View{}, err
		}
		if a != b {
			return View{}, fmt.Errorf("%s: message %d: %w", session, message, ErrNoMessage)
		}
	}
	var v View
	if v.Session, err = s.Get(ctx, home); err != nil {
		return View{}, err
	}
	before, err := s.Messages(ctx, home, Page{Before: message, Limit: window, Newest: true})
	if err != nil {
		return View{}, err
	}
	rest, err := s.Messages(ctx, home, Page{After: message - 1, Limit: window + 1, All: false})
	if err != nil {
		return View{}, err
	}
	if len(rest) == 0 || rest[0].ID != message {
		return View{}, fmt.Errorf("%s: message %d was taken back: %w", session, message, ErrNoMessage)
	}
	v.Messages, v.Before, v.After = append(before, rest...), len(before), len(rest)-1
	return v, nil
}

// root is the session in which everything began that led to this one, by whatever kind of
// child.
func (s *Store) root(ctx context.Context, id string) (string, error) {
	var root string
	err := s.r.QueryRowContext(ctx, `WITH RECURSIVE up(id, depth) AS (SELECT id, 0 FROM sessions WHERE id = ?
		UNION SELECT s.parent_session_id, up.depth + 1 FROM up JOIN sessions AS s ON s.id = up.id WHERE s.parent_session_id IS NOT NULL AND up.depth < 1000)
		SELECT id FROM up ORDER BY depth DESC LIMIT 1`, id).Scan(&root)
	return root, none(err, fmt.Errorf("%s: %w", id, ErrNoSession))
}

// Recall asks what past sessions say about something, for the session_search tool.
type Recall struct {
	Query
	Current string // the session that asks: what it still has before its eyes is not told again
	Most    int    // sessions, 0 = 3, at most 10
	Full    bool   // the surroundings of every hit, not only of the best one
}

// Find is a session in which something was found.
type Find struct {
	Hit
	View
	Start []Message `json:"bookend_start"` // the first three messages of people and model before the view
	End   []Message `json:"bookend_end"`   // the last three after it
}

// scanned is how many hits are looked at to find different conversations.
const scanned = 300

// Recall finds past conversations, one hit for each. Conversations of people come before those
// of cron jobs. The best hit comes with its surroundings and with how its session began and
// ended.
func (s *Store) Recall(ctx context.Context, r Recall) ([]Find, error) {
	if r.Most <= 0 {
		r.Most = 3
	}
	if len(r.Roles) == 0 {
		r.Roles = []string{"user", "assistant"}
	}
	if len(r.Sources) == 0 {
		r.Except = append(slices.Clone(r.Except), "kanban", "subagent", "tool")
	}
	r.Limit, r.Offset = scanned, 0
	hits, err := s.Search(ctx, r.Query)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return rankSource(a.Source) - rankSource(b.Source) })
	roots := map[string]string{}
	root := func(id string) (string, error) {
		if got, ok := roots[id]; ok {
			return got, nil
		}
		got, err := s.root(ctx, id)
		roots[id] = got
		return got, err
	}
	mine := ""
	if r.Current != "" {
		if mine, err = root(r.Current); err != nil {
			return nil, err
		}
	}
	var out []Find
	seen := map[string]bool{}
	for _, h := range hits {
		of, err := root(h.SessionID)
		if err != nil {
			return nil, err
		}
		if of == mine {
			if visible, err := s.visible(ctx, h); err != nil || visible {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		if seen[of] {
			continue
		}
		seen[of] = true
		f, err := s.find(ctx, h, r.Full || len(out) == 0)
		if err != nil {
			return nil, err
		}
		if out = append(out, f); len(out) == min(r.Most, 10) {
			break
		}
	}
	return out, nil
}

func rankSource(source string) int {
	if source == "cron" {
		return 1
	}
	return 0
}

// visible reports whether a hit of the asking conversation is still before its eyes: not what
// was compacted away, nor a part that was compressed or left by a fresh start.
func (s *Store) visible(ctx context.Context, h Hit) (bool, error) {
	var gone bool
	err := s.r.QueryRowContext(ctx, `SELECT (IFNULL(m.active, 1) = 0 AND m.compacted = 1) OR IFNULL(s.end_reason, '') IN ('compression', 'new_session') OR IFNULL(s.end_reason, '') IN `+resets+`
		FROM messages AS m JOIN sessions AS s ON s.id = m.session_id WHERE m.id = ?`, h.MessageID).Scan(&gone)
	return !gone, fault(err)
}

// find reads what surrounds a hit.
func (s *Store) find(ctx context.Context, h Hit, full bool) (Find, error) {
	f := Find{Hit: h}
	window := 1
	if full {
		window = 5
	}
	var err error
	if f.View, err = s.Around(ctx, h.SessionID, h.MessageID, window); err != nil {
		return f, err
	}
	if !full {
		f.Messages = slices.DeleteFunc(f.Messages, func(m Message) bool { return m.ID != h.MessageID })
		return f, nil
	}
	first, last := f.Messages[0].ID, f.Messages[len(f.Messages)-1].ID
	f.Messages = slices.DeleteFunc(f.Messages, func(m Message) bool {
		return m.ID != h.MessageID && m.Role != "user" && m.Role != "assistant"
	})
	if f.Start, err = s.bookend(ctx, h.SessionID, "m.id < ?", first, "ASC"); err != nil {
		return f, err
	}
	f.End, err = s.bookend(ctx, h.SessionID, "m.id > ?", last, "DESC")
	return f, err
}

func (s *Store) bookend(ctx context.Context, session, cond string, id int64, order string) ([]Message, error) {
	rows, err := s.r.QueryContext(ctx, "SELECT * FROM (SELECT "+messageColumns+" FROM messages AS m WHERE m.session_id = ? AND "+cond+
		" AND m.role IN ('user', 'assistant') AND m.content > '' AND (IFNULL(m.active, 1) = 1 OR m.compacted = 1) AND COALESCE(m._compressed_summary, 0) = 0 ORDER BY m.id "+order+" LIMIT 3) ORDER BY 1", session, id)
	if err != nil {
		return nil, fault(err)
	}
	out, err := readMessages(rows)
	return out, fault(err)
}

// Read reads a whole session for the session_search tool: its first 20 and last 10 messages,
// and how many there are.
func (s *Store) Read(ctx context.Context, session string) (head, tail []Message, total int, err error) {
	const first, last = 20, 10
	if _, err := s.Get(ctx, session); err != nil {
		return nil, nil, 0, err
	}
	err = s.r.QueryRowContext(ctx, "SELECT count(*) FROM messages WHERE session_id = ? AND (IFNULL(active, 1) = 1 OR compacted = 1)", session).Scan(&total)
	if err != nil {
		return nil, nil, 0, fault(err)
	}
	if total <= first+last {
		head, err = s.Messages(ctx, session, Page{Limit: first + last})
		return head, nil, total, err
	}
	if head, err = s.Messages(ctx, session, Page{Limit: first}); err != nil {
		return nil, nil, 0, err
	}
	tail, err = s.Messages(ctx, session, Page{Limit: last, Newest: true})
	return head, tail, total, err
}
