// SPDX-License-Identifier: MIT

package apiserver

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

// sessionView is a session as upstream's clients read it.
type sessionView struct {
	ID           string   `json:"id"`
	Source       string   `json:"source"`
	UserID       string   `json:"user_id,omitempty"`
	Model        string   `json:"model,omitempty"`
	Title        *string  `json:"title"`
	Parent       string   `json:"parent_session_id,omitempty"`
	Started      *float64 `json:"started_at"`
	Ended        *float64 `json:"ended_at"`
	EndReason    *string  `json:"end_reason"`
	Active       *float64 `json:"last_active"`
	Messages     int      `json:"message_count"`
	ToolCalls    int      `json:"tool_call_count"`
	InputTokens  int64    `json:"input_tokens"`
	OutputTokens int64    `json:"output_tokens"`
	Archived     bool     `json:"archived"`
	Pinned       bool     `json:"pinned"`
	Preview      string   `json:"preview,omitempty"`
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func viewSession(s session.Session) sessionView {
	active := s.Active
	if active.IsZero() {
		active = s.Started
	}
	return sessionView{
		ID: s.ID, Source: s.Source, UserID: s.UserID, Model: s.Model, Title: text(s.Title), Parent: s.Parent,
		Started: epoch(s.Started), Ended: epoch(s.Ended), EndReason: text(s.EndReason), Active: epoch(active),
		Messages: s.Messages, ToolCalls: s.ToolCalls, InputTokens: s.Usage.Input, OutputTokens: s.Usage.Output,
		Archived: s.Archived, Pinned: s.Pinned,
	}
}

// messageView is a message as upstream's clients read it.
type messageView struct {
	ID        int64           `json:"id"`
	SessionID string          `json:"session_id"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"tool_call_id,omitempty"`
	ToolCalls json.RawMessage `json:"tool_calls,omitempty"`
	ToolName  string          `json:"tool_name,omitempty"`
	Time      *float64        `json:"timestamp"`
	Tokens    int             `json:"token_count,omitempty"`
	Finish    string          `json:"finish_reason,omitempty"`
	Reasoning string          `json:"reasoning,omitempty"`
}

func (c *call) viewMessage(m session.Message) messageView {
	v := messageView{
		ID: m.ID, SessionID: m.SessionID, Role: m.Role, Content: m.Parts, CallID: m.CallID, ToolCalls: m.ToolCalls,
		ToolName: m.ToolName, Time: epoch(m.Time), Tokens: m.Tokens, Finish: m.Finish,
	}
	if len(v.Content) == 0 {
		v.Content = raw(m.Content)
	}
	if c.set.Reasoning {
		v.Reasoning = m.Reasoning
	}
	return v
}

// answerSession answers with a session as it is now.
func (c *call) answerSession(store *session.Store, id string, status int) error {
	s, err := store.Get(c.r.Context(), id)
	if err != nil {
		return err
	}
	c.json(status, map[string]any{"object": "hermes.session", "session": viewSession(s)})
	return nil
}

// listSessions is GET /api/sessions.
func listSessions(c *call) error {
	ctx := c.r.Context()
	store, err := c.profile.Sessions(ctx)
	if err != nil {
		return err
	}
	limit, err := query(c.r, "limit", 50, 1, 200)
	if err != nil {
		return err
	}
	offset, err := query(c.r, "offset", 0, 0, 1<<30)
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	f := session.Filter{Limit: limit + 1, Offset: offset, Text: q.Get("search"), Children: flag(q.Get("include_children"))}
	if from := q.Get("source"); from != "" {
		f.Sources = []string{from}
	}
	if flag(q.Get("archived")) {
		f.Archived = session.Archived
	}
	list, err := store.List(ctx, f)
	if err != nil {
		return err
	}
	more := len(list) > limit
	data := make([]sessionView, 0, limit)
	for _, s := range list[:min(limit, len(list))] {
		v := viewSession(s.Session)
		v.Preview = s.Preview
		data = append(data, v)
	}
	c.json(http.StatusOK, map[string]any{"object": "list", "data": data, "limit": limit, "offset": offset, "has_more": more})
	return nil
}

func flag(s string) bool {
	on, err := strconv.ParseBool(s)
	return err == nil && on
}

// sessionRequest is the body of what makes and changes sessions. A field that is not there
// changes nothing.
type sessionRequest struct {
	ID           string  `json:"id"`
	SessionID    string  `json:"session_id"`
	Title        *string `json:"title"`
	Model        string  `json:"model"`
	SystemPrompt string  `json:"system_prompt"`
	EndReason    string  `json:"end_reason"`
	Archived     *bool   `json:"archived"`
	Pinned       *bool   `json:"pinned"`
	Through      int64   `json:"message_id"` // the last message of a fork; 0 = all
}

// newSession reads the id and the title for a session that is to be made.
func (c *call) newSession(req sessionRequest) (session.Session, error) {
	id, err := c.sessionID(or(req.ID, req.SessionID))
	s := session.Session{ID: id, Source: source, Model: req.Model, SystemPrompt: req.SystemPrompt}
	if req.Title != nil && *req.Title != "" {
		if s.Title, s.TitleSource = *req.Title, session.TitleUser; len([]rune(s.Title)) > session.MaxTitle {
			return s, bad("invalid_title", "title", "a title has at most %d characters", session.MaxTitle)
		}
	}
	return s, err
}

// exists refuses to make a session over one that is there.
func (c *call) exists(store *session.Store, id string) error {
	if id == "" {
		return nil
	}
	if _, err := store.Get(c.r.Context(), id); err == nil {
		return &failure{status: http.StatusConflict, code: "session_exists", param: "id", message: "the session already exists: " + printable(id), final: true}
	}
	return nil
}

// createSession is POST /api/sessions.
func createSession(c *call) error {
	var req sessionRequest
	if _, err := c.body(&req); err != nil {
		return err
	}
	store, err := c.profile.Sessions(c.r.Context())
	if err != nil {
		return err
	}
	s, err := c.newSession(req)
	if err != nil {
		return err
	}
	if err := c.exists(store, s.ID); err != nil {
		return err
	}
	made, err := store.Create(c.r.Context(), s)
	if err != nil {
		return err
	}
	return c.answerSession(store, made.ID, http.StatusCreated)
}

// getSession is GET /api/sessions/{id}.
func getSession(c *call) error {
	store, err := c.profile.Sessions(c.r.Context())
	if err != nil {
		return err
	}
	return c.answerSession(store, c.r.PathValue("id"), http.StatusOK)
}

// patchSession is PATCH /api/sessions/{id}.
func patchSession(c *call) error {
	ctx, id := c.r.Context(), c.r.PathValue("id")
	var req sessionRequest
	if _, err := c.body(&req); err != nil {
		return err
	}
	store, err := c.profile.Sessions(ctx)
	if err != nil {
		return err
	}
	if _, err := store.Get(ctx, id); err != nil {
		return err
	}
	if req.Title != nil {
		title := strings.TrimSpace(*req.Title)
		if len([]rune(title)) > session.MaxTitle {
			return bad("invalid_title", "title", "a title has at most %d characters", session.MaxTitle)
		}
		if err := store.SetTitle(ctx, id, title, session.TitleUser); err != nil {
			return err
		}
	}
	if req.Archived != nil {
		if err := store.SetArchived(ctx, id, *req.Archived); err != nil {
			return err
		}
	}
	if req.Pinned != nil {
		if err := store.SetPinned(ctx, id, *req.Pinned); err != nil {
			return err
		}
	}
	if req.EndReason != "" {
		if !plain(req.EndReason) {
			return bad("invalid_end_reason", "end_reason", "end_reason must be a short printable text")
		}
		if err := store.End(ctx, id, req.EndReason); err != nil {
			return err
		}
	}
	return c.answerSession(store, id, http.StatusOK)
}

// deleteSession is DELETE /api/sessions/{id}.
func deleteSession(c *call) error {
	store, err := c.profile.Sessions(c.r.Context())
	if err != nil {
		return err
	}
	id := c.r.PathValue("id")
	if err := store.Delete(c.r.Context(), id); err != nil {
		return err
	}
	c.profile.Forget(context.WithoutCancel(c.r.Context()), id)
	c.json(http.StatusOK, map[string]any{"object": "hermes.session.deleted", "id": id, "deleted": true})
	return nil
}

// sessionMessages is GET /api/sessions/{id}/messages. The rest comes with after=<last id>.
func sessionMessages(c *call) error {
	ctx, id := c.r.Context(), c.r.PathValue("id")
	store, err := c.profile.Sessions(ctx)
	if err != nil {
		return err
	}
	if _, err := store.Get(ctx, id); err != nil {
		return err
	}
	limit, err := query(c.r, "limit", 1000, 1, 1000)
	if err != nil {
		return err
	}
	after, err := query(c.r, "after", 0, 0, 1<<53)
	if err != nil {
		return err
	}
	list, err := store.Messages(ctx, id, session.Page{After: int64(after), Limit: limit})
	if err != nil {
		return err
	}
	data := make([]messageView, len(list))
	for i, m := range list {
		data[i] = c.viewMessage(m)
	}
	more := false
	if len(list) == limit {
		rest, err := store.Messages(ctx, id, session.Page{After: list[limit-1].ID, Limit: 1})
		if err != nil {
			return err
		}
		more = len(rest) > 0
	}
	c.json(http.StatusOK, map[string]any{"object": "list", "session_id": id, "data": data, "limit": limit, "has_more": more})
	return nil
}

// forkSession is POST /api/sessions/{id}/fork.
func forkSession(c *call) error {
	var req sessionRequest
	if _, err := c.body(&req); err != nil {
		return err
	}
	store, err := c.profile.Sessions(c.r.Context())
	if err != nil {
		return err
	}
	s, err := c.newSession(req)
	if err != nil {
		return err
	}
	if err := c.exists(store, s.ID); err != nil {
		return err
	}
	made, err := store.Fork(c.r.Context(), c.r.PathValue("id"), session.Branch{Session: s, Through: req.Through})
	if err != nil {
		return err
	}
	return c.answerSession(store, made.ID, http.StatusCreated)
}
