// SPDX-License-Identifier: MIT

package apiserver

import (
	"net/http"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// sessionTurn starts the turn of a chat in a session. attended = the client is shown the
// approvals and can answer them.
func (c *call) sessionTurn(attended bool) (*gateway.Turn, error) {
	var req struct {
		selection

		Message, Input content
		System         string `json:"system_message"`
		Instructions   string `json:"instructions"`
	}
	if _, err := c.body(&req); err != nil {
		return nil, err
	}
	ctx, id := c.r.Context(), c.r.PathValue("id")
	if h := c.r.Header.Get(sessionIDHeader); h != "" && h != id || req.SessionID != "" && req.SessionID != id {
		return nil, bad("session_conflict", "session_id", "the path and the request name different sessions")
	}
	said := either(req.Message, req.Input)
	if !said.visible() {
		return nil, bad("missing_message", "message", "message is missing or empty")
	}
	store, err := c.profile.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := store.Get(ctx, id); err != nil {
		return nil, err
	}
	req.SessionID = id
	a, err := c.begin(req.selection, true)
	if err != nil {
		return nil, err
	}
	c.w.Header().Del(sessionIDHeader) // here it is the one where the conversation goes on
	a.Input, a.Overlay, a.Attended = model.Message{Role: model.User, Parts: said.parts}, or(req.System, req.Instructions), attended
	return c.start(a)
}

// sessionChat is POST /api/sessions/{id}/chat.
func sessionChat(c *call) error {
	t, err := c.sessionTurn(false)
	if err != nil {
		return err
	}
	if err := c.attend(t, nil, func(gateway.Event) {}); err != nil {
		return err
	}
	res, err := t.Result(c.r.Context())
	if f := turnFailure(res, err, named(t.Ask.Route)); f != nil {
		return f
	}
	c.echo(t)
	c.json(http.StatusOK, map[string]any{
		"object": "hermes.session.chat.completion", "session_id": or(t.Session(), t.Ask.Session), "run_id": t.ID,
		"message": map[string]any{"role": "assistant", "content": res.Text}, "usage": usageOfResponse(res.Usage),
		"runtime": map[string]any{"model": c.shownModel(t.Ask.Route)},
	})
	return nil
}

// sessionChatStream is POST /api/sessions/{id}/chat/stream.
func sessionChatStream(c *call) error {
	t, err := c.sessionTurn(true)
	if err != nil {
		return err
	}
	out := c.stream()
	send := func(name string, fields map[string]any) {
		if !out.begun() {
			c.echo(t)
		}
		if name == "message.delta" {
			name = "assistant.delta"
		}
		fields["session_id"], fields["run_id"], fields["timestamp"] = or(t.Session(), t.Ask.Session), t.ID, epoch(c.s.o.Now())
		out.send(name, "", fields)
	}
	f := flow{sep: "\n\n"}
	started := false
	err = c.attend(t, out, func(e gateway.Event) {
		if e.Kind == gateway.SessionNamed {
			return // told with the first thing that happens: a turn that fails at once gets a status
		}
		c.runEvent(t, &f, e, func(name string, fields map[string]any) {
			if !started {
				started = true
				send("run.started", map[string]any{"model": c.shownModel(t.Ask.Route)})
				send("message.started", map[string]any{"message": map[string]any{"role": "assistant"}})
			}
			send(name, fields)
		})
	})
	if err != nil {
		return err
	}
	res, err := t.Result(c.r.Context())
	fail := turnFailure(res, err, named(t.Ask.Route))
	switch {
	case fail != nil && !out.begun():
		return fail
	case fail != nil:
		send("error", map[string]any{"message": fail.message, "code": fail.code})
	default:
		send("assistant.completed", map[string]any{"content": res.Text, "completed": true})
	}
	send("run."+c.ended(t), c.outcome(t))
	send("done", map[string]any{})
	return out.flush()
}
