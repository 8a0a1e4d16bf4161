// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"strings"
)

// Which sessions a list has, by whether they were put away.
const (
	Live     = "" // not archived
	Archived = "archived"
	Any      = "any"
)

// Filter says which sessions a list has. The zero value lists the conversations of people,
// the last active first.
type Filter struct {
	Sources  []string // only these
	Except   []string // not these
	Key      string   // session key; "" = any
	Text     string   // found in the title, the id or the name of the chat
	Archived string   // Live, Archived or Any
	Children bool     // also subagents, tools and parts that were compressed away
	Hidden   bool     // also hidden ones
	Least    int      // messages
	Limit    int      // 0 = 20, at most 500
	Offset   int
}

// Summary is a session in a list.
type Summary struct {
	Session
	Preview string `json:"preview"` // the beginning of the first message of a person, at most 60 characters
}

// shown holds, of the alias s, for sessions that a person would look for: the last part of each
// conversation, branches and fresh starts, no subagents.
func shown() string {
	return "(" + mark("s", "_delegate_from") + " IS NULL AND (s.parent_session_id IS NULL OR " + mark("s", "_branched_from") + " IS NOT NULL OR " +
		mark("s", "_reset_from") + " IS NOT NULL OR EXISTS (SELECT 1 FROM sessions AS p WHERE p.id = s.parent_session_id AND (p.end_reason IN ('compression', 'branched') OR p.end_reason IN " + resets + ")))" +
		" AND NOT (IFNULL(s.end_reason, '') = 'compression' AND EXISTS (SELECT 1 FROM sessions AS c WHERE c.parent_session_id = s.id AND " + continues() + ")))"
}

// preview is the first message of a person that is neither a summary nor a note to the model.
const preview = `(SELECT substr(CAST(m.content AS BLOB), 1, 1000) FROM messages AS m WHERE m.session_id = s.id AND m.role = 'user' AND m.content IS NOT NULL
	AND COALESCE(m.display_kind, '') <> 'hidden' AND COALESCE(m._compressed_summary, 0) = 0 ORDER BY m.id LIMIT 1)`

// in is a condition on a list of values.
func in(column string, values []string, args *[]any) string {
	for _, v := range values {
		*args = append(*args, v)
	}
	return column + " IN (?" + strings.Repeat(", ?", len(values)-1) + ")"
}

// where is the condition of a filter and its values.
func (f Filter) where() (string, []any) {
	var conds []string
	var args []any
	if !f.Children {
		conds = append(conds, shown())
	}
	if !f.Hidden {
		conds = append(conds, "COALESCE(s.hidden, 0) = 0")
	}
	if len(f.Sources) > 0 {
		conds = append(conds, in("s.source", f.Sources, &args))
	}
	if len(f.Except) > 0 {
		conds = append(conds, "NOT "+in("s.source", f.Except, &args))
	}
	if f.Key != "" {
		conds, args = append(conds, "s.session_key = ?"), append(args, f.Key)
	}
	if f.Text != "" {
		conds = append(conds, `(s.title LIKE ? ESCAPE '\' OR s.id LIKE ? ESCAPE '\' OR s.display_name LIKE ? ESCAPE '\')`)
		p := like(clean(f.Text))
		args = append(args, p, p, p)
	}
	switch f.Archived {
	case Live:
		conds = append(conds, "COALESCE(s.archived, 0) = 0")
	case Archived:
		conds = append(conds, "s.archived = 1")
	}
	if f.Least > 0 {
		conds, args = append(conds, "COALESCE(s.message_count, 0) >= ?"), append(args, f.Least)
	}
	if len(conds) == 0 {
		return "1", args
	}
	return strings.Join(conds, " AND "), args
}

// List lists sessions, the last active first.
func (s *Store) List(ctx context.Context, f Filter) ([]Summary, error) {
	if f.Limit <= 0 {
		f.Limit = 20
	}
	cond, args := f.where()
	rows, err := s.r.QueryContext(ctx, "SELECT "+sessionColumns+", "+preview+" FROM sessions AS s WHERE "+cond+
		" ORDER BY COALESCE(s.last_activity_at, s.started_at) DESC, s.started_at DESC LIMIT ? OFFSET ?", append(args, min(f.Limit, 500), max(f.Offset, 0))...)
	if err != nil {
		return nil, fault(err)
	}
	var out []Summary
	err = each(rows, func() error {
		var head string
		n, err := scanSession(rows, str(&head))
		head = strings.ToValidUTF8(head, "") // a character may be cut
		if parts, ok := strings.CutPrefix(head, structured); ok {
			head = previewParts(parts)
		}
		out = append(out, Summary{n, oneLine(head, 60)})
		return err
	})
	return out, fault(err)
}

// previewParts finds some text in the beginning of structured content, which is cut and so no
// JSON any more.
func previewParts(parts string) string {
	_, rest, ok := strings.Cut(parts, `"text":`)
	if !ok {
		return "[attachment]"
	}
	rest = strings.TrimLeft(rest, ` "`)
	if end := strings.Index(rest, `"`); end >= 0 {
		rest = rest[:end]
	}
	return strings.ReplaceAll(rest, `\n`, " ")
}

// Count is how many sessions a filter lets through, whatever its limit.
func (s *Store) Count(ctx context.Context, f Filter) (n int, err error) {
	cond, args := f.where()
	err = s.r.QueryRowContext(ctx, "SELECT count(*) FROM sessions AS s WHERE "+cond, args...).Scan(&n)
	return n, fault(err)
}
