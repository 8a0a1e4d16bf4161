// SPDX-License-Identifier: MIT

package webhook

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// Source is what sessions and turns of this surface say they come from.
const Source = "webhook"

// The ends of a session of a delivery. A session that is not ended was interrupted: when the
// event is sent again, it goes on.
const (
	Complete = "webhook_complete"
	Failed   = "webhook_failed"
)

// mostLogged is how much of an answer the log gets.
const mostLogged = 2000

// take starts the turn of an event that is wanted, or delivers it directly: once, however
// often and however much at a time it is sent.
func (c *call) take(id, event, prompt string) error {
	named := id != ""
	if !named {
		var b [8]byte
		rand.Read(b[:])
		id = "unnamed-" + hex.EncodeToString(b[:])
	}
	d := c.lane.delivery(id, c.s.o.Now())
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx := c.r.Context()
	key := c.profile.ChatKey(Source + ":" + c.route.Name + ":" + id)
	if named && !d.done && !c.route.Direct {
		handled, err := c.profile.Handled(ctx, key)
		if err != nil {
			return unavailable(err)
		}
		d.done = handled
	}
	said := map[string]any{"route": c.route.Name, "event": event, "delivery_id": id}
	if d.done {
		said["status"] = "duplicate"
		if d.run != "" {
			said["run_id"] = d.run
		}
		c.answer(http.StatusOK, said)
		return nil
	}
	log := c.s.o.Log.With("profile", c.profile.Key(), "route", c.route.Name, "delivery", id)
	if c.route.Direct {
		log.InfoContext(ctx, "webhook delivery", "text", clip(c.profile.Redact(ctx, prompt)))
		d.done = true
		said["status"], said["target"] = "delivered", "log"
		c.answer(http.StatusOK, said)
		return nil
	}
	turn, err := c.profile.Ask(ctx, gateway.Ask{
		Source: Source, Key: key, UserID: Source + ":" + c.route.Name, Title: "",
		Input: model.Text(model.User, prompt), Overlay: c.route.Overlay, Toolsets: c.route.Toolsets,
		Attended: false, // nobody waits who could approve anything (gateway spec 1.9)
	})
	if err != nil {
		return unavailable(err)
	}
	d.done, d.run = true, turn.ID
	log.InfoContext(ctx, "webhook accepted", "event", event, "run", turn.ID)
	f := &follower{s: c.s, profile: c.profile, lane: c.lane, delivery: d, id: id, route: c.route.Name, turn: turn}
	c.s.After(func() { f.follow(context.WithoutCancel(ctx)) })
	said["status"], said["run_id"] = "accepted", turn.ID
	c.answer(http.StatusAccepted, said)
	return nil
}

// follower waits for the end of a turn and delivers its answer.
type follower struct {
	s        *Server
	profile  Profile
	lane     *lane
	delivery *delivery
	id       string
	route    string
	turn     *gateway.Turn
}

func (f *follower) follow(ctx context.Context) {
	log := f.s.o.Log.With("profile", f.profile.Key(), "route", f.route, "delivery", f.id, "run", f.turn.ID)
	defer func() {
		if p := recover(); p != nil {
			log.ErrorContext(ctx, "panic after a webhook's turn", "stack", string(debug.Stack()))
		}
	}()
	result, err := f.turn.Result(ctx)
	reason := ""
	switch {
	case result.Stop == agent.Interrupted, errors.Is(err, context.Canceled):
		log.WarnContext(ctx, "a webhook's turn was interrupted; when the event is sent again, it goes on")
		f.lane.forget(f.id, f.delivery)
	case err != nil, result.Stop == agent.Errored:
		text := "no reason given"
		if err != nil {
			text = err.Error()
		}
		log.ErrorContext(ctx, "a webhook's turn failed; the event can be sent again", "error", clip(f.profile.Redact(ctx, text)))
		f.lane.forget(f.id, f.delivery)
		reason = Failed
	case silent(result.Text):
		log.InfoContext(ctx, "webhook answer", "silent", true)
		reason = Complete
	default:
		log.InfoContext(ctx, "webhook answer", "stop", string(result.Stop), "text", clip(f.profile.Redact(ctx, result.Text)))
		reason = Complete
	}
	if session := f.turn.Session(); session != "" && reason != "" {
		if err := f.profile.End(ctx, session, reason); err != nil {
			log.WarnContext(ctx, "the session of a webhook was not closed", "session", session, "error", err)
		}
	}
}

// silent reports whether an answer says that there is nothing to say.
func silent(answer string) bool {
	switch strings.TrimSpace(answer) {
	case "", "[SILENT]", "NO_REPLY":
		return true
	}
	return false
}

// clip shortens what is logged.
func clip(s string) string {
	if r := []rune(s); len(r) > mostLogged {
		return string(r[:mostLogged]) + "…"
	}
	return s
}
