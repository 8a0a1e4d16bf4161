// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Orders of search results. By relevance, a query that more than 2,000 messages match is
// answered from the newest of them.
const (
	ByRelevance = ""
	Newest      = "newest"
	Oldest      = "oldest"
)

// Query is what to look for. Text may have words (all of them must be there), "phrases",
// prefix*, AND, OR and NOT; nothing in it is an error.
type Query struct {
	Text    string
	Sources []string // of the session; empty = any
	Except  []string
	Roles   []string // empty = any; with "tool" whole results are read, not only their beginning
	Order   string   // ByRelevance, Newest, Oldest
	Limit   int      // 0 = 20, at most 500
	Offset  int
	All     bool // also what was taken back
}

// Hit is a message that was found.
type Hit struct {
	MessageID int64     `json:"id"`
	SessionID string    `json:"session_id"`
	Role      string    `json:"role"`
	Snippet   string    `json:"snippet"` // what was found is between >>> and <<<
	Time      time.Time `json:"timestamp"`
	ToolName  string    `json:"tool_name,omitempty"`
	Source    string    `json:"source"`
	Model     string    `json:"model,omitempty"`
	Title     string    `json:"title,omitempty"`
	Started   time.Time `json:"session_started"`
}

// filter is the condition on the rows m and s, with its values.
func (q Query) filter() (string, []any) {
	cond, args := "COALESCE(m.display_kind, '') <> 'hidden'", []any(nil)
	if !q.All {
		cond += " AND (IFNULL(m.active, 1) = 1 OR m.compacted = 1)"
	}
	if len(q.Sources) > 0 {
		cond += " AND " + in("s.source", q.Sources, &args)
	}
	if len(q.Except) > 0 {
		cond += " AND NOT " + in("s.source", q.Except, &args)
	}
	if len(q.Roles) > 0 {
		cond += " AND " + in("m.role", q.Roles, &args)
	}
	return cond, args
}

// Search finds messages. It uses the word index; the trigram index for scripts without spaces
// and where no word fits; and reads the messages themselves where no index has them.
func (s *Store) Search(ctx context.Context, q Query) ([]Hit, error) {
	if q.Limit <= 0 {
		q.Limit = 20
	}
	q.Limit, q.Offset = min(q.Limit, 500), max(q.Offset, 0)
	p := parseQuery(q.Text)
	if len(p) == 0 {
		return nil, nil
	}
	ix, stale, err := indexState(ctx, s.r)
	if err != nil {
		return nil, fault(err)
	}
	unindexed := slices.ContainsFunc(q.Sources, func(v string) bool { return v == "cron" || v == "subagent" })
	trigram := p.all(term.long) && !unindexed
	dense := !p.all(func(t term) bool { return !t.dense() })
	switch {
	case slices.Contains(q.Roles, "tool"), stale, dense && !trigram:
		return s.scan(ctx, q, p, 0, 1<<63-1)
	case dense:
		return s.search(ctx, q, p, ix, trigramIndex)
	}
	hits, err := s.search(ctx, q, p, ix, wordIndex)
	if err == nil && len(hits) == 0 && trigram && q.Offset == 0 {
		return s.search(ctx, q, p, ix, trigramIndex)
	}
	return hits, err
}

// search asks an index, and the messages for the rows that it does not have yet.
func (s *Store) search(ctx context.Context, q Query, p query, ix Index, name string) ([]Hit, error) {
	hits, err := s.match(ctx, q, p, name)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if corrupt(err) {
			s.contain(ctx, err)
		}
		return s.scan(ctx, q, p, 0, 1<<63-1)
	}
	if ix.Total > 0 && len(hits) < q.Limit && q.Offset == 0 {
		more := q
		more.Limit -= len(hits)
		rest, err := s.scan(ctx, more, p, ix.Indexed, ix.Total)
		if err != nil {
			return nil, err
		}
		hits = append(hits, rest...)
	}
	return hits, nil
}

const hitColumns = "m.timestamp, m.tool_name, s.source, s.model, s.title, s.started_at"

// ranked is how many matches are held against each other. To rank a word that is in every
// message takes a second for 100,000 of them; of so many the newest are meant.
const ranked = 2000

// match asks an index.
func (s *Store) match(ctx context.Context, q Query, p query, name string) ([]Hit, error) {
	ask := p.match()
	if q.Order != ByRelevance {
		return s.matchAbove(ctx, q, ask, name, 0)
	}
	var from int64
	err := s.r.QueryRowContext(ctx, fmt.Sprintf("SELECT rowid FROM %[1]s WHERE %[1]s MATCH ? ORDER BY rowid DESC LIMIT 1 OFFSET ?", name), ask, ranked+q.Offset).Scan(&from)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	hits, err := s.matchAbove(ctx, q, ask, name, from)
	if err == nil && from > 0 && len(hits) < q.Limit { // the filter took most of them
		return s.matchAbove(ctx, q, ask, name, 0)
	}
	return hits, err
}

// matchAbove asks an index for rows above one.
func (s *Store) matchAbove(ctx context.Context, q Query, ask, name string, from int64) ([]Hit, error) {
	cond, args := q.filter()
	order := "rank"
	switch q.Order {
	case Newest:
		order = name + ".rowid DESC" // an index gives its rows in this order without sorting
	case Oldest:
		order = name + ".rowid"
	}
	stmt := fmt.Sprintf(`SELECT m.id, m.session_id, m.role, snippet(%[1]s, -1, '>>>', '<<<', '...', 40), %[2]s
		FROM %[1]s JOIN messages AS m ON m.id = %[1]s.rowid JOIN sessions AS s ON s.id = m.session_id
		WHERE %[1]s MATCH ? AND %[1]s.rowid > ? AND %[3]s ORDER BY %[4]s LIMIT ? OFFSET ?`, name, hitColumns, cond, order)
	args = append([]any{ask, from}, args...)
	return s.hits(ctx, stmt, append(args, q.Limit, q.Offset)...)
}

// scan reads the messages with an id above one and up to another.
func (s *Store) scan(ctx context.Context, q Query, p query, above, through int64) ([]Hit, error) {
	cond, args := q.filter()
	has, terms := p.scan()
	args = append(append([]any{p.first(), p.first(), above, through}, args...), terms...)
	text, order := "("+readable+")", " DESC"
	if q.Order == Oldest {
		order = ""
	}
	stmt := `SELECT m.id, m.session_id, m.role, CASE WHEN instr(lower(` + text + `), lower(?)) > 0
			THEN substr(` + text + `, max(1, instr(lower(` + text + `), lower(?)) - 40), 120) ELSE substr(COALESCE(NULLIF(` + text + `, ''), m.tool_calls, ''), 1, 120) END, ` + hitColumns + `
		FROM messages AS m JOIN sessions AS s ON s.id = m.session_id
		WHERE m.id > ? AND m.id <= ? AND ` + cond + " AND " + has + " ORDER BY m.id" + order + " LIMIT ? OFFSET ?"
	hits, err := s.hits(ctx, stmt, append(args, q.Limit, q.Offset)...)
	return hits, fault(err)
}

func (s *Store) hits(ctx context.Context, stmt string, args ...any) ([]Hit, error) {
	rows, err := s.r.QueryContext(ctx, stmt, args...)
	if err != nil {
		return nil, err
	}
	var out []Hit
	err = each(rows, func() error {
		var h Hit
		var at, started nullTime
		err := rows.Scan(&h.MessageID, &h.SessionID, str(&h.Role), str(&h.Snippet), &at, str(&h.ToolName), str(&h.Source), str(&h.Model), str(&h.Title), &started)
		h.Time, h.Started = at.time(), started.time()
		out = append(out, h)
		return err
	})
	return out, err
}
