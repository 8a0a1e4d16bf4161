// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
)

// Interrupted is the content of the result that a tool call gets when its run was stopped
// before the tool had answered.
const Interrupted = `{"error":"interrupted","message":"The run was stopped before this tool answered. It may have had its effect."}`

// call is a tool call of an assistant's message.
type call struct{ id, name string }

// callsOf reads the calls of a message; those without an id cannot be answered.
func callsOf(toolCalls []byte) []call {
	var list []struct {
		ID       string `json:"id"`
		CallID   string `json:"call_id"` // of the responses API
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if len(toolCalls) == 0 || json.Unmarshal(toolCalls, &list) != nil {
		return nil
	}
	var out []call
	for _, c := range list {
		if c.ID == "" {
			c.ID = c.CallID
		}
		if c.Name == "" {
			c.Name = c.Function.Name
		}
		if c.ID != "" {
			out = append(out, call{c.ID, c.Name})
		}
	}
	return out
}

// pairing finds the result of each call. Some models use an id again and again: a result
// belongs to the last call of its id before it that has none yet.
type pairing struct {
	waiting map[string][]slot // by call id, oldest first
	order   []slot            // every call
}

// slot is a call's place, and its result's once there is one.
type slot = *place

type place struct {
	call
	at     int // index of the assistant's message
	result int // index of the result, -1 = none
}

func newPairing() *pairing { return &pairing{waiting: map[string][]slot{}} }

// asks takes the calls of the message at an index.
func (p *pairing) asks(at int, calls []call) {
	for _, c := range calls {
		s := &place{c, at, -1}
		p.waiting[c.id] = append(p.waiting[c.id], s)
		p.order = append(p.order, s)
	}
}

// answers takes the result at an index; one that no call waits for is left where it is.
func (p *pairing) answers(at int, id string) {
	if w := p.waiting[id]; len(w) > 0 {
		w[len(w)-1].result = at
		p.waiting[id] = w[:len(w)-1]
	}
}

// arrange puts each result behind the message that asked for it, in the order of the calls. A
// result that was written late, by a settlement, would else stand where no model accepts it.
func arrange(in []Message) []Message {
	p := newPairing()
	for i, m := range in {
		if m.Role == "assistant" {
			p.asks(i, callsOf(m.ToolCalls))
		} else if m.Role == "tool" && m.CallID != "" {
			p.answers(i, m.CallID)
		}
	}
	behind := map[int][]int{} // assistant's message → results
	moved := map[int]bool{}
	for _, s := range p.order {
		if s.result >= 0 {
			behind[s.at] = append(behind[s.at], s.result)
			moved[s.result] = true
		}
	}
	if len(moved) == 0 {
		return in
	}
	out := make([]Message, 0, len(in))
	for i, m := range in {
		if moved[i] {
			continue
		}
		out = append(out, m)
		for _, r := range behind[i] {
			out = append(out, in[r])
		}
	}
	return out
}

// settle gives every call of a session that has no result an "interrupted" one, and returns how
// many it were.
func (s *Store) settle(ctx context.Context, tx *sql.Tx, session string) (int, error) {
	rows, err := tx.QueryContext(ctx, `SELECT role, tool_calls, tool_call_id FROM messages
		WHERE session_id = ? AND IFNULL(active, 1) = 1 AND (role = 'tool' OR role = 'assistant' AND tool_calls IS NOT NULL) ORDER BY id`, session)
	if err != nil {
		return 0, err
	}
	p, i := newPairing(), 0
	if err := each(rows, func() error {
		var role, calls, id string
		err := rows.Scan(str(&role), str(&calls), str(&id))
		if i++; role == "tool" {
			p.answers(i, id)
		} else {
			p.asks(i, callsOf([]byte(calls)))
		}
		return err
	}); err != nil {
		return 0, err
	}
	open := slices.DeleteFunc(p.order, func(s slot) bool { return s.result >= 0 })
	for _, c := range open {
		if _, err := s.insert(ctx, tx, session, Message{Role: "tool", Content: Interrupted, CallID: c.id, ToolName: c.name, Effect: "unknown"}); err != nil {
			return 0, err
		}
	}
	return len(open), nil
}

// settleDead ends the turns whose process is gone: their calls get results, their leases go.
func (s *Store) settleDead(ctx context.Context) error {
	type lease struct {
		key, row string
		expires  float64
	}
	var left []lease
	rows, err := s.w.QueryContext(ctx, "SELECT conversation_id, holder, expires_at FROM session_turn_leases")
	if err != nil {
		return err
	}
	if err := each(rows, func() error {
		var l lease
		err := rows.Scan(&l.key, str(&l.row), &l.expires)
		o := parseHolder(l.row)
		foreign := o.pid == 0 || o.ns != s.self.ns
		// An expired lease of a living process may be of one that was suspended.
		if s.self.dead(l.row) || foreign && l.expires <= seconds(s.opts.Now()).(float64) {
			left = append(left, l)
		}
		return err
	}); err != nil {
		return err
	}
	for _, l := range left {
		n := 0
		err := s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
			n = 0
			res, err := tx.ExecContext(ctx, "DELETE FROM session_turn_leases WHERE conversation_id = ? AND holder = ?", l.key, l.row)
			if err != nil {
				return err
			}
			if gone, err := res.RowsAffected(); err != nil || gone == 0 {
				return err // somebody else was faster
			}
			all, err := parts(ctx, tx, l.key)
			if err != nil {
				return err
			}
			for _, id := range all {
				more, err := s.settle(ctx, tx, id)
				if err != nil {
					return err
				}
				n += more
			}
			return nil
		})
		if err != nil {
			return err
		}
		s.know(func(h *Health) { h.Settled += n })
	}
	return nil
}
