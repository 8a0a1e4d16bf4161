// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Message is a row of messages.
type Message struct {
	ID        int64           `json:"id"`
	SessionID string          `json:"session_id"`
	Role      string          `json:"role"`            // user, assistant, tool, system
	Content   string          `json:"content"`         // "" may be NULL
	Parts     json.RawMessage `json:"parts,omitempty"` // content that is not text: a JSON list or object; then Content is ignored
	CallID    string          `json:"tool_call_id,omitempty"`
	ToolCalls json.RawMessage `json:"tool_calls,omitempty"` // of an assistant: a JSON list
	ToolName  string          `json:"tool_name,omitempty"`
	// Effect is what a tool that did not finish may have done: "none", "unknown"; "" otherwise.
	Effect string    `json:"effect_disposition,omitempty"`
	Time   time.Time `json:"timestamp"` // zero = now
	Tokens int       `json:"token_count,omitempty"`
	Finish string    `json:"finish_reason,omitempty"`

	Reasoning        string          `json:"reasoning,omitempty"`
	ReasoningContent *string         `json:"reasoning_content,omitempty"` // nil = none; some models want "" back
	ReasoningDetails json.RawMessage `json:"reasoning_details,omitempty"`
	CodexReasoning   json.RawMessage `json:"codex_reasoning_items,omitempty"`
	CodexMessages    json.RawMessage `json:"codex_message_items,omitempty"`

	PlatformID string          `json:"platform_message_id,omitempty"`
	Observed   bool            `json:"observed,omitempty"`
	Summary    bool            `json:"summary,omitempty"` // the handoff of a compression
	Inactive   bool            `json:"inactive,omitempty"`
	Compacted  bool            `json:"compacted,omitempty"`
	APIContent string          `json:"-"` // what the model was sent where it differs from Content
	Display    string          `json:"display_kind,omitempty"`
	Metadata   json.RawMessage `json:"display_metadata,omitempty"`
}

// structured marks content that is JSON and not text; no text begins with a NUL.
const structured = "\x00json:"

const messageColumns = `m.id, m.session_id, m.role, m.content, m.tool_call_id, m.tool_calls, m.tool_name, m.effect_disposition,
	m.timestamp, m.token_count, m.finish_reason, m.reasoning, m.reasoning_content, m.reasoning_details, m.codex_reasoning_items,
	m.codex_message_items, m.platform_message_id, COALESCE(m.observed, 0), COALESCE(m._compressed_summary, 0),
	IFNULL(m.active, 1) = 0, COALESCE(m.compacted, 0), m.api_content, m.display_kind, m.display_metadata`

// raw is a destination for JSON that may be NULL; what is no JSON becomes a JSON text.
func raw(p *json.RawMessage) jsonScanner { return jsonScanner{p} }

type jsonScanner struct{ p *json.RawMessage }

func (r jsonScanner) Scan(v any) error {
	var s string
	if err := str(&s).Scan(v); err != nil || s == "" {
		return err
	}
	if !json.Valid([]byte(s)) {
		s = jsonText(s)
	}
	*r.p = json.RawMessage(s)
	return nil
}

func jsonText(s string) string {
	out, _ := json.Marshal(s) //nolint:errcheck // a text always has a JSON form
	return string(out)
}

func scanMessage(row scanner, more ...any) (Message, error) {
	var m Message
	var at sql.NullFloat64
	var tokens sql.NullInt64
	var rc sql.NullString
	dest := []any{
		&m.ID, &m.SessionID, str(&m.Role), str(&m.Content), str(&m.CallID), raw(&m.ToolCalls), str(&m.ToolName), str(&m.Effect),
		&at, &tokens, str(&m.Finish), str(&m.Reasoning), &rc, raw(&m.ReasoningDetails), raw(&m.CodexReasoning),
		raw(&m.CodexMessages), str(&m.PlatformID), &m.Observed, &m.Summary,
		&m.Inactive, &m.Compacted, str(&m.APIContent), str(&m.Display), raw(&m.Metadata),
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return Message{}, err
	}
	m.Time, m.Tokens = moment(at), int(tokens.Int64)
	if rc.Valid {
		m.ReasoningContent = &rc.String
	}
	if parts, ok := strings.CutPrefix(m.Content, structured); ok && json.Valid([]byte(parts)) {
		m.Content, m.Parts = plain([]byte(parts)), json.RawMessage(parts)
	}
	return m, nil
}

// plain is the text of structured content.
func plain(parts []byte) string {
	var list []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(parts, &list) != nil {
		return ""
	}
	var out []string
	for _, p := range list {
		if p.Text != "" && (p.Type == "text" || p.Type == "input_text") {
			out = append(out, p.Text)
		}
	}
	return strings.Join(out, " ")
}

// stored is the content as it stands in the row.
func (m Message) stored() (any, error) {
	switch {
	case len(m.Parts) > 0 && !json.Valid(m.Parts):
		return nil, errors.New("message: parts are no JSON")
	case len(m.Parts) > 0:
		return structured + string(m.Parts), nil
	case m.Content == "" && len(m.ToolCalls) > 0:
		return nil, nil //nolint:nilnil // NULL
	}
	return strings.TrimLeft(clean(m.Content), "\x00"), nil
}

// jsonColumn is a JSON column; empty is NULL.
func jsonColumn(name string, v json.RawMessage) (any, error) {
	if len(v) == 0 || string(v) == "null" {
		return nil, nil //nolint:nilnil // NULL
	}
	if !json.Valid(v) {
		return nil, fmt.Errorf("message: %s is no JSON", name)
	}
	return string(v), nil
}

// calls is how many tool calls a message asks for.
func (m Message) calls() int {
	var list []json.RawMessage
	if len(m.ToolCalls) == 0 || json.Unmarshal(m.ToolCalls, &list) != nil {
		return 0
	}
	return len(list)
}

// insert writes a message and moves the counters of its session.
func (s *Store) insert(ctx context.Context, tx *sql.Tx, session string, m Message) (int64, error) {
	if m.Role == "" {
		return 0, errors.New("message: no role")
	}
	content, err := m.stored()
	if err != nil {
		return 0, err
	}
	var cols [5]any
	for i, c := range []struct {
		name string
		v    json.RawMessage
	}{{"tool_calls", m.ToolCalls}, {"reasoning_details", m.ReasoningDetails}, {"codex_reasoning_items", m.CodexReasoning}, {"codex_message_items", m.CodexMessages}, {"display_metadata", m.Metadata}} {
		if cols[i], err = jsonColumn(c.name, c.v); err != nil {
			return 0, err
		}
	}
	if m.Time.IsZero() {
		m.Time = s.opts.Now()
	}
	var tokens, rc any
	if m.Tokens > 0 {
		tokens = m.Tokens
	}
	if m.ReasoningContent != nil {
		rc = clean(*m.ReasoningContent)
	}
	res, err := tx.ExecContext(ctx, `INSERT INTO messages (session_id, role, content, tool_call_id, tool_calls, tool_name, effect_disposition,
		timestamp, token_count, finish_reason, reasoning, reasoning_content, reasoning_details, codex_reasoning_items, codex_message_items,
		platform_message_id, observed, _compressed_summary, active, api_content, display_kind, display_metadata)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?)`,
		session, clean(m.Role), content, text(m.CallID), cols[0], text(m.ToolName), text(m.Effect),
		seconds(m.Time), tokens, text(m.Finish), text(m.Reasoning), rc, cols[1], cols[2], cols[3],
		text(m.PlatformID), m.Observed, m.Summary, text(m.APIContent), text(m.Display), cols[4])
	if code(err) == codeForeignKey {
		return 0, fmt.Errorf("%s: %w", session, ErrNoSession)
	}
	if err != nil {
		return 0, ofMessage(err)
	}
	id, err := res.LastInsertId()
	if err != nil {
		return 0, err
	}
	return id, changeIn(ctx, tx, session, "message_count = COALESCE(message_count, 0) + 1, tool_call_count = COALESCE(tool_call_count, 0) + ?, last_activity_at = MAX(COALESCE(last_activity_at, 0), ?)",
		m.calls(), seconds(m.Time))
}

// Append writes a message of a session in which no turn runs here: a notice, an import. What
// belongs to a turn is written by [Turn.Append]. It returns the message's id.
func (s *Store) Append(ctx context.Context, session string, m Message) (id int64, err error) {
	err = s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := open(ctx, tx, session); err != nil {
			return err
		}
		id, err = s.insert(ctx, tx, session, m)
		return err
	})
	return id, err
}

// History reads what the model is to be shown of a session: its active messages in order, each
// tool result right behind the call it answers. Nothing of it is kept. More than
// Options.MaxHistory messages are a [*TooLongError].
func (s *Store) History(ctx context.Context, session string) ([]Message, error) {
	limit := s.opts.MaxHistory
	if limit < 0 {
		limit = 1 << 30
	}
	rows, err := s.r.QueryContext(ctx, "SELECT "+messageColumns+" FROM messages AS m WHERE m.session_id = ? AND IFNULL(m.active, 1) = 1 ORDER BY m.id LIMIT ?", session, limit+1)
	if err != nil {
		return nil, fault(err)
	}
	out, err := readMessages(rows)
	if err != nil {
		return nil, fault(err)
	}
	if len(out) > limit {
		return nil, &TooLongError{session, limit}
	}
	if len(out) == 0 {
		if _, err := s.Get(ctx, session); err != nil {
			return nil, err
		}
	}
	return arrange(out), nil
}

// LastResult is what the last call of a tool returned in a session, by any of its names; "" =
// it was not called there.
func (s *Store) LastResult(ctx context.Context, session string, names ...string) (out string, err error) {
	list, err := json.Marshal(names)
	if err != nil {
		return "", err
	}
	err = s.r.QueryRowContext(ctx, `SELECT content FROM messages WHERE session_id = ? AND role = 'tool' AND IFNULL(active, 1) = 1
		AND tool_name IN (SELECT value FROM json_each(?)) ORDER BY id DESC LIMIT 1`, session, string(list)).Scan(str(&out))
	if err != nil {
		return "", none(err, nil)
	}
	return out, nil
}

func readMessages(rows *sql.Rows) ([]Message, error) {
	var out []Message
	err := each(rows, func() error {
		m, err := scanMessage(rows)
		out = append(out, m)
		return err
	})
	return out, err
}

// Page is a part of a session's messages, oldest first.
type Page struct {
	After, Before int64 // ids, exclusive; 0 = no bound
	Limit         int   // 0 = 100, at most 1000
	Newest        bool  // the last ones within the bounds instead of the first
	All           bool  // also what was taken back
}

// Messages reads a page of what people see of a session: also what was compacted away.
func (s *Store) Messages(ctx context.Context, session string, p Page) ([]Message, error) {
	if p.Limit <= 0 {
		p.Limit = 100
	}
	order := "ASC"
	if p.Newest {
		order = "DESC"
	}
	if p.Before == 0 {
		p.Before = 1<<63 - 1
	}
	rows, err := s.r.QueryContext(ctx, "SELECT * FROM (SELECT "+messageColumns+" FROM messages AS m WHERE m.session_id = ? AND m.id > ? AND m.id < ? AND (? OR IFNULL(m.active, 1) = 1 OR m.compacted = 1) ORDER BY m.id "+order+" LIMIT ?) ORDER BY 1",
		session, p.After, p.Before, p.All, min(p.Limit, 1000))
	if err != nil {
		return nil, fault(err)
	}
	out, err := readMessages(rows)
	return out, fault(err)
}

// Rewind takes back the messages of a session from one on: they stay in the file, but neither
// the model nor a list sees them. It returns how many. A running turn of another holder
// prevents it.
func (s *Store) Rewind(ctx context.Context, session string, from int64) (n int64, err error) {
	err = s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		key, err := conversation(ctx, tx, session)
		if err != nil {
			return err
		}
		if err := s.unheld(ctx, tx, key); err != nil {
			return err
		}
		if err := s.uncompressed(ctx, tx, session, ""); err != nil {
			return err
		}
		if err := owns(ctx, tx, session, from); err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, "UPDATE messages SET active = 0 WHERE session_id = ? AND id >= ? AND IFNULL(active, 1) = 1", session, from)
		if err != nil {
			return err
		}
		if n, err = res.RowsAffected(); err != nil {
			return err
		}
		if _, err := s.settle(ctx, tx, session); err != nil {
			return err
		}
		if err := changeIn(ctx, tx, session, "rewind_count = COALESCE(rewind_count, 0) + 1"); err != nil {
			return err
		}
		return recount(ctx, tx, session)
	})
	return n, err
}
