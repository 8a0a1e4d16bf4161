// SPDX-License-Identifier: MIT

package apiserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

// source is the surface, in sessions and turns.
const source = "api-server"

const (
	sessionIDHeader  = "X-Hermes-Session-Id"
	sessionKeyHeader = "X-Hermes-Session-Key"
	maxSessionHeader = 256
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// selection is what requests of all kinds may say about the model.
type selection struct {
	Model    string `json:"model"`
	Provider string `json:"provider"`
	Effort   string `json:"reasoning_effort"`
	Options  struct {
		Effort string `json:"reasoning_effort"`
	} `json:"model_options"`
	SessionID string `json:"session_id"`
	User      string `json:"user"`
}

// plain reports whether a value of a header or a body is short and printable.
func plain(s string) bool {
	return len(s) <= maxSessionHeader && strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0
}

// begin makes the ask that a request starts with: which session, which model, who. native
// requests name models of their own accord; OpenAI's clients send some name in any case.
func (c *call) begin(sel selection, native bool) (gateway.Ask, error) {
	a := gateway.Ask{Source: source, UserID: sel.User}
	if !plain(sel.User) {
		return a, bad("invalid_user", "user", "user must be at most %d printable characters", maxSessionHeader)
	}
	if a.Effort = sel.Effort; a.Effort == "" {
		a.Effort = sel.Options.Effort
	}
	if len(a.Effort) > 16 || !plain(a.Effort) {
		return a, bad("invalid_reasoning_effort", "reasoning_effort", "reasoning_effort must be a word such as low, medium or high")
	}
	key := c.r.Header.Get(sessionKeyHeader)
	if !plain(key) {
		return a, bad("invalid_session_key", sessionKeyHeader, "%s must be at most %d characters without control characters", sessionKeyHeader, maxSessionHeader)
	}
	if key != "" {
		// What a client calls a key never names a chat of another platform.
		a.Key = gateway.SessionKey(c.profile.Name(), source, "client", key, "")
		c.w.Header().Set(sessionKeyHeader, key)
	}
	var err error
	if a.Route, err = c.route(sel, native); err != nil {
		return a, err
	}
	id, err := c.sessionID(sel.SessionID)
	if err != nil || id == "" {
		return a, err
	}
	a.Session, err = c.session(id)
	c.w.Header().Set(sessionIDHeader, id)
	return a, err
}

// sessionID is the id that the header or the body names; both must agree (hermes-webui#4535).
func (c *call) sessionID(inBody string) (string, error) {
	id := c.r.Header.Get(sessionIDHeader)
	switch {
	case id != "" && inBody != "" && id != inBody:
		return "", bad("session_conflict", "session_id", "the header %s and session_id of the body name different sessions", sessionIDHeader)
	case id == "":
		id = inBody
	}
	if !plain(id) || strings.ContainsAny(id, "/\\") {
		return "", bad("invalid_session_id", "session_id", "a session id has at most %d characters, without control characters and slashes", maxSessionHeader)
	}
	return id, nil
}

// session finds where the conversation of an id goes on; an id that is new is made.
func (c *call) session(id string) (string, error) {
	ctx := c.r.Context()
	store, err := c.profile.Sessions(ctx)
	if err != nil {
		return "", err
	}
	_, err = store.Get(ctx, id)
	if errors.Is(err, session.ErrNoSession) {
		if _, err = store.Create(ctx, session.Session{ID: id, Source: source}); err != nil {
			// Two first messages at once: the other one made it.
			if _, again := store.Get(ctx, id); again != nil {
				return "", err
			}
		}
		return id, nil
	}
	if err != nil {
		return "", err
	}
	return store.Tip(ctx, id)
}

// route reads which model a request names.
func (c *call) route(sel selection, native bool) (gateway.RouteAsk, error) {
	if !plain(sel.Model) || !plain(sel.Provider) {
		return gateway.RouteAsk{}, bad("invalid_model", "model", "model and provider must be at most %d printable characters", maxSessionHeader)
	}
	if alias, ok := c.set.Aliases[sel.Model]; ok {
		if sel.Provider != "" && sel.Provider != alias.Provider {
			return gateway.RouteAsk{}, bad("provider_conflict", "provider", "the model %q is an alias for another provider", sel.Model)
		}
		return gateway.RouteAsk{Model: sel.Model}, nil
	}
	name := sel.Model
	if name == c.set.ModelName {
		name = ""
	}
	if sel.Provider == "" && !native && !c.set.DirectModels {
		name = ""
	}
	return gateway.RouteAsk{Model: name, Provider: sel.Provider}, nil
}

// named reports whether the client chose the model.
func named(r gateway.RouteAsk) bool { return r != gateway.RouteAsk{} }

// shownModel is the model's name in an answer.
func (c *call) shownModel(r gateway.RouteAsk) string {
	if r.Model != "" {
		return r.Model
	}
	return c.set.ModelName
}

// start starts the turn of an ask.
func (c *call) start(a gateway.Ask) (*gateway.Turn, error) {
	t, err := c.profile.Ask(c.r.Context(), a)
	if err != nil && c.r.Context().Err() != nil {
		return nil, errGone
	}
	return t, err
}

// echo names the session of a turn in the header, unless the client named it itself: then it
// goes on with its own name for it, also after a compression.
func (c *call) echo(t *gateway.Turn) {
	if h := c.w.Header(); h.Get(sessionIDHeader) == "" && t.Session() != "" {
		h.Set(sessionIDHeader, t.Session())
	}
}

// or returns the first text that is not empty.
func or(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// either is a text field that clients send under one of several names, as a text or as parts.
func either(raws ...content) content {
	for _, c := range raws {
		if c.visible() {
			return c
		}
	}
	return content{}
}

// query reads a number of the query, within bounds.
func query(r *http.Request, name string, def, least, most int) (int, error) {
	v := r.URL.Query().Get(name)
	if v == "" {
		return def, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least {
		return 0, bad("invalid_"+name, name, "%s must be a number of at least %d", name, least)
	}
	return min(n, most), nil
}

// raw makes JSON of what is known to be JSON.
func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}
