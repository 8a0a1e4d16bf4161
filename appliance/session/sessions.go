// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Session is a row of sessions. Empty texts are NULL.
type Session struct {
	ID            string `json:"id"`
	Source        string `json:"source"` // telegram, cli, cron …
	CreatedSource string `json:"created_source,omitempty"`
	UserID        string `json:"user_id,omitempty"`
	SessionKey    string `json:"session_key,omitempty"` // agent:main:telegram:dm:1
	ChatID        string `json:"chat_id,omitempty"`
	ChatType      string `json:"chat_type,omitempty"`
	ThreadID      string `json:"thread_id,omitempty"`
	DisplayName   string `json:"display_name,omitempty"`
	OriginJSON    string `json:"origin_json,omitempty"`

	Model        string          `json:"model,omitempty"`
	ModelConfig  json.RawMessage `json:"model_config,omitempty"` // a JSON object
	SystemPrompt string          `json:"-"`                      // filled by [Store.Get] only
	ToolNames    string          `json:"-"`                      // hash of the session's tools, as upstream keeps it

	Parent    string    `json:"parent_session_id,omitempty"`
	Started   time.Time `json:"started_at"`
	Ended     time.Time `json:"ended_at,omitzero"`
	EndReason string    `json:"end_reason,omitempty"`
	Active    time.Time `json:"last_activity_at,omitzero"`

	Title       string `json:"title,omitempty"`
	TitleSource string `json:"title_source,omitempty"` // derived, llm, user
	Cwd         string `json:"cwd,omitempty"`
	Profile     string `json:"profile_name,omitempty"`
	Transport   string `json:"transport_profile,omitempty"`

	Archived bool `json:"archived"`
	Pinned   bool `json:"pinned"`
	Hidden   bool `json:"hidden"`

	Messages  int   `json:"message_count"`
	ToolCalls int   `json:"tool_call_count"`
	Usage     Usage `json:"usage"`
}

// sessionColumns are the columns that scanSession reads, of the alias s.
const sessionColumns = `s.id, s.source, s.created_source, s.user_id, s.session_key, s.chat_id, s.chat_type, s.thread_id,
	s.display_name, s.origin_json, s.model, s.model_config, s.tool_names, s.parent_session_id, s.started_at, s.ended_at,
	s.end_reason, s.last_activity_at, s.title, s.title_source, s.cwd, s.profile_name, s.transport_profile,
	COALESCE(s.archived, 0), COALESCE(s.pinned, 0), COALESCE(s.hidden, 0), COALESCE(s.message_count, 0), COALESCE(s.tool_call_count, 0),
	COALESCE(s.api_call_count, 0), COALESCE(s.input_tokens, 0), COALESCE(s.output_tokens, 0), COALESCE(s.cache_read_tokens, 0),
	COALESCE(s.cache_write_tokens, 0), COALESCE(s.reasoning_tokens, 0), s.estimated_cost_usd, s.actual_cost_usd,
	s.cost_status, s.cost_source, s.billing_provider, s.billing_base_url, s.billing_mode`

// scanner is a row.
type scanner interface{ Scan(dest ...any) error }

// str is a destination for a text that may be NULL.
func str(p *string) textScanner { return textScanner{p} }

type textScanner struct{ p *string }

func (s textScanner) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s.p = ""
	case string:
		*s.p = v
	case []byte:
		*s.p = string(v)
	default:
		*s.p = fmt.Sprint(v)
	}
	return nil
}

func scanSession(row scanner, more ...any) (Session, error) {
	var s Session
	var started, ended, active, estimated, actual sql.NullFloat64
	var config string
	u := &s.Usage
	dest := []any{
		&s.ID, str(&s.Source), str(&s.CreatedSource), str(&s.UserID), str(&s.SessionKey), str(&s.ChatID), str(&s.ChatType), str(&s.ThreadID),
		str(&s.DisplayName), str(&s.OriginJSON), str(&s.Model), str(&config), str(&s.ToolNames), str(&s.Parent), &started, &ended,
		str(&s.EndReason), &active, str(&s.Title), str(&s.TitleSource), str(&s.Cwd), str(&s.Profile), str(&s.Transport),
		&s.Archived, &s.Pinned, &s.Hidden, &s.Messages, &s.ToolCalls,
		&u.Calls, &u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.Reasoning, &estimated, &actual,
		str(&u.CostStatus), str(&u.CostSource), str(&u.Provider), str(&u.BaseURL), str(&u.BillingMode),
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return Session{}, err
	}
	if config != "" && json.Valid([]byte(config)) {
		s.ModelConfig = json.RawMessage(config)
	}
	s.Started, s.Ended, s.Active = moment(started), moment(ended), moment(active)
	u.EstimatedCost, u.ActualCost = estimated.Float64, actual.Float64
	return s, nil
}

// NewID makes the id of a session that starts at t: YYYYMMDD_HHMMSS_ and 8 hex digits.
func NewID(t time.Time) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return t.Format("20060102_150405_") + hex.EncodeToString(b[:])
}

// Create makes a session. ID, Started and Profile are filled in if they are empty; counters,
// end and usage are ignored. The title is kept unique: see [Store.SetTitle]. An id that exists
// is an error.
func (s *Store) Create(ctx context.Context, n Session) (Session, error) {
	err := s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		id, err := s.insertSession(ctx, tx, n)
		n.ID = id
		return err
	})
	if err != nil {
		return Session{}, err
	}
	return s.Get(ctx, n.ID)
}

func (s *Store) insertSession(ctx context.Context, tx *sql.Tx, n Session) (id string, err error) {
	if n.Started.IsZero() {
		n.Started = s.opts.Now()
	}
	if n.ID == "" {
		n.ID = NewID(n.Started)
	}
	if n.Source == "" {
		return "", errors.New("session: no source")
	}
	if n.Profile == "" {
		n.Profile = s.opts.Profile
	}
	hash, err := keepPrompt(ctx, tx, n.SystemPrompt)
	if err != nil {
		return "", err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO sessions (id, source, created_source, user_id, session_key, chat_id, chat_type, thread_id,
		display_name, origin_json, model, model_config, system_prompt_hash, tool_names, parent_session_id, started_at, last_activity_at, cwd,
		profile_name, transport_profile, archived, pinned, hidden)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		clean(n.ID), clean(n.Source), clean(n.Source), text(n.UserID), text(n.SessionKey), text(n.ChatID), text(n.ChatType), text(n.ThreadID),
		text(n.DisplayName), text(n.OriginJSON), text(n.Model), text(string(n.ModelConfig)), hash, text(n.ToolNames), text(n.Parent), seconds(n.Started), seconds(n.Started), text(n.Cwd),
		text(n.Profile), text(n.Transport), n.Archived, n.Pinned, n.Hidden)
	switch {
	case code(err) == codeForeignKey:
		return "", fmt.Errorf("%s: %w", n.Parent, ErrNoSession)
	case err != nil:
		return "", err
	case n.Title != "":
		err = setTitle(ctx, tx, n.ID, n.Title, n.TitleSource)
	}
	return n.ID, err
}

// keepPrompt stores a system prompt once, whatever number of sessions has it, and returns its
// hash, NULL for none.
func keepPrompt(ctx context.Context, tx *sql.Tx, prompt string) (any, error) {
	if prompt == "" {
		return nil, nil //nolint:nilnil // NULL
	}
	prompt = clean(prompt)
	sum := sha256.Sum256([]byte(prompt))
	hash := hex.EncodeToString(sum[:])
	_, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO system_prompts (hash, prompt) VALUES (?, ?)", hash, prompt)
	return hash, err
}

// dropPrompts removes the prompts that no session has.
const dropPrompts = `DELETE FROM system_prompts WHERE NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.system_prompt_hash = system_prompts.hash)
	AND NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.tool_names = system_prompts.hash)`

// Get reads a session, with its system prompt, or fails with [ErrNoSession].
func (s *Store) Get(ctx context.Context, id string) (Session, error) {
	var prompt string
	n, err := scanSession(s.r.QueryRowContext(ctx, "SELECT "+sessionColumns+", COALESCE(p.prompt, s.system_prompt) FROM sessions AS s LEFT JOIN system_prompts AS p ON p.hash = s.system_prompt_hash WHERE s.id = ?", id), str(&prompt))
	if err != nil {
		return Session{}, none(err, fmt.Errorf("%s: %w", id, ErrNoSession))
	}
	n.SystemPrompt = prompt
	return n, nil
}

// change runs a statement that changes the row of one session.
func (s *Store) change(ctx context.Context, id, set string, args ...any) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error { return changeIn(ctx, tx, id, set, args...) })
}

func changeIn(ctx context.Context, tx *sql.Tx, id, set string, args ...any) error {
	res, err := tx.ExecContext(ctx, "UPDATE sessions SET "+set+" WHERE id = ?", append(args, id)...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, fmt.Errorf("%s: %w", id, ErrNoSession))
	}
	return nil
}

// SetSystemPrompt stores the prompt that the session's turns were built with.
func (s *Store) SetSystemPrompt(ctx context.Context, id, prompt string) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		hash, err := keepPrompt(ctx, tx, prompt)
		if err != nil {
			return err
		}
		var old string
		if err := tx.QueryRowContext(ctx, "SELECT system_prompt_hash FROM sessions WHERE id = ?", id).Scan(str(&old)); err != nil {
			return none(err, fmt.Errorf("%s: %w", id, ErrNoSession))
		}
		if err := changeIn(ctx, tx, id, "system_prompt_hash = ?, system_prompt = NULL", hash); err != nil || old == "" {
			return err
		}
		_, err = tx.ExecContext(ctx, dropPrompts+" AND hash = ?", old)
		return err
	})
}

// SetModel changes the model and its config, a JSON object; keys that start with "_", by which
// upstream marks branches, are kept.
func (s *Store) SetModel(ctx context.Context, id, model string, config json.RawMessage) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var old string
		err := tx.QueryRowContext(ctx, "SELECT model_config FROM sessions WHERE id = ?", id).Scan(str(&old))
		if err != nil {
			return none(err, fmt.Errorf("%s: %w", id, ErrNoSession))
		}
		merged, err := keepMarks(old, config)
		if err != nil {
			return err
		}
		return changeIn(ctx, tx, id, "model = ?, model_config = ?", text(model), text(merged))
	})
}

func keepMarks(old string, config json.RawMessage) (string, error) {
	was, is := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if len(config) > 0 {
		if err := json.Unmarshal(config, &is); err != nil {
			return "", fmt.Errorf("model config: %w", err)
		}
	}
	if old != "" && json.Unmarshal([]byte(old), &was) != nil {
		was = nil
	}
	for k, v := range was {
		if _, ok := is[k]; !ok && k != "" && k[0] == '_' {
			is[k] = v
		}
	}
	if len(is) == 0 {
		return "", nil
	}
	out, err := json.Marshal(is)
	return string(out), err
}

// SetArchived puts a session away or gets it back.
func (s *Store) SetArchived(ctx context.Context, id string, on bool) error {
	return s.change(ctx, id, "archived = ?", on)
}

// SetPinned pins a session.
func (s *Store) SetPinned(ctx context.Context, id string, on bool) error {
	return s.change(ctx, id, "pinned = ?", on)
}

// SetCwd stores the working directory.
func (s *Store) SetCwd(ctx context.Context, id, dir string) error {
	return s.change(ctx, id, "cwd = ?", text(dir))
}

// Touch says what the session is doing, for lists.
func (s *Store) Touch(ctx context.Context, id, doing string) error {
	return s.change(ctx, id, "last_activity_at = MAX(COALESCE(last_activity_at, 0), ?), last_activity_description = ?", seconds(s.opts.Now()), text(cut(clean(doing), 200)))
}

// reset holds for ends after which the same chat starts over: they begin a new generation of
// the conversation. The words are upstream's.
func reset(reason string) bool {
	switch reason {
	case "session_reset", "session_switch", "idle", "daily", "suspended", "resume_pending_expired":
		return true
	}
	return false
}

// End ends a session. The first reason stays; ending it again changes nothing.
func (s *Store) End(ctx context.Context, id, reason string) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var key, source string
		var ended sql.NullFloat64
		err := tx.QueryRowContext(ctx, "SELECT session_key, source, ended_at FROM sessions WHERE id = ?", id).Scan(str(&key), str(&source), &ended)
		if err != nil {
			return none(err, fmt.Errorf("%s: %w", id, ErrNoSession))
		}
		if ended.Valid {
			return nil
		}
		if err := changeIn(ctx, tx, id, "ended_at = ?, end_reason = ?", seconds(s.opts.Now()), reason); err != nil || !reset(reason) || key == "" {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO conversation_generations (source, session_key, generation) VALUES (?, ?, 1) ON CONFLICT(source, session_key) DO UPDATE SET generation = generation + 1", source, key)
		return err
	})
}

// Reopen takes the end from a session, so that it goes on. A session that was compressed goes
// on in another one: [ContinuedError].
func (s *Store) Reopen(ctx context.Context, id string) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := open(ctx, tx, id); err != nil {
			return err
		}
		return changeIn(ctx, tx, id, "ended_at = NULL, end_reason = NULL")
	})
}

// open fails if the session does not exist or was closed by compression.
func open(ctx context.Context, tx *sql.Tx, id string) error {
	var reason string
	var ended sql.NullFloat64
	err := tx.QueryRowContext(ctx, "SELECT end_reason, ended_at FROM sessions WHERE id = ?", id).Scan(str(&reason), &ended)
	if err != nil {
		return none(err, fmt.Errorf("%s: %w", id, ErrNoSession))
	}
	if ended.Valid && reason == compression {
		tip, err := tipOf(ctx, tx, id)
		if err != nil {
			return err
		}
		return &ContinuedError{id, tip}
	}
	return nil
}
