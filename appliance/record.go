// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

// record is a conversation as the agent writes it: a session of state.db whose turn this
// process has.
type record struct {
	store *session.Store
	turn  *session.Turn
	id    string
}

// originKey is where a message's origin stands in display_metadata, which upstream hands
// through and does not read.
const originKey = "appliance_origin"

func (r *record) ID() string { return r.id }

func (r *record) Prompt(ctx context.Context) (string, error) {
	s, err := r.store.Get(ctx, r.id)
	return s.SystemPrompt, err
}

func (r *record) SetPrompt(ctx context.Context, text string) error {
	return r.store.SetSystemPrompt(ctx, r.id, text)
}

func (r *record) History(ctx context.Context) ([]model.Message, error) {
	rows, err := r.store.History(ctx, r.id)
	if err != nil {
		return nil, err
	}
	out := make([]model.Message, 0, len(rows))
	for _, row := range rows {
		if m, ok := fromRow(row); ok {
			out = append(out, m)
		}
	}
	return out, nil
}

func (r *record) Append(ctx context.Context, m model.Message) error {
	row, err := toRow(m)
	if err == nil {
		_, err = r.turn.Append(ctx, row)
	}
	return err
}

// begin records what was before the first turn of a session.
func (r *record) begin(ctx context.Context, history []model.Message) error {
	rows := make([]session.Message, len(history))
	for i, m := range history {
		var err error
		if rows[i], err = toRow(m); err != nil {
			return err
		}
	}
	return r.turn.AppendAll(ctx, rows)
}

func (r *record) Spend(ctx context.Context, s agent.Spending) error {
	task := ""
	if s.Purpose != "turn" {
		task = s.Purpose
	}
	u := session.Usage{
		Calls: 1, Input: s.Usage.Input, Output: s.Usage.Output, CacheRead: s.Usage.CacheRead,
		CacheWrite: s.Usage.CacheWrite, Reasoning: s.Usage.Reasoning, Provider: s.Provider,
	}
	return r.store.AddUsage(ctx, r.id, s.Model, task, u)
}

// Compress ends the session and returns the child in which the conversation goes on.
func (r *record) Compress(ctx context.Context, history []model.Message) (agent.Session, error) {
	lock, err := r.store.LockCompression(ctx, r.id)
	if err != nil {
		return nil, err
	}
	var handoff []session.Message
	for i, m := range history {
		row, err := toRow(m)
		if err != nil {
			return nil, errors.Join(err, lock.Release(ctx))
		}
		row.Summary = i == 0
		handoff = append(handoff, row)
	}
	child, err := lock.Publish(ctx, session.Compression{Handoff: handoff})
	if err != nil {
		return nil, errors.Join(err, lock.Release(ctx))
	}
	r.turn.Continue(child.ID)
	return &record{r.store, r.turn, child.ID}, nil
}

// wirePart is a piece of a message as upstream keeps it.
type wirePart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL *struct {
		URL string `json:"url"`
	} `json:"image_url,omitempty"`
}

// toRow writes a message in upstream's form.
func toRow(m model.Message) (session.Message, error) {
	row := session.Message{Role: string(m.Role), Content: m.Text(), CallID: m.CallID, ToolName: m.Name, Reasoning: m.Reasoning}
	var parts []wirePart
	images := false
	for _, p := range m.Parts {
		if p.Image == nil {
			parts = append(parts, wirePart{Type: "text", Text: p.Text})
			continue
		}
		images = true
		part := wirePart{Type: "image_url"}
		part.ImageURL = &struct {
			URL string `json:"url"`
		}{p.Image.DataURL()}
		parts = append(parts, part)
	}
	var err error
	if images {
		if row.Parts, err = json.Marshal(parts); err != nil {
			return row, err
		}
	}
	if len(m.Calls) > 0 {
		calls := make([]map[string]any, len(m.Calls))
		for i, c := range m.Calls {
			calls[i] = map[string]any{}
			for name, v := range c.Extra {
				calls[i][name] = v
			}
			calls[i]["id"], calls[i]["type"] = c.ID, "function"
			calls[i]["function"] = map[string]string{"name": c.Name, "arguments": c.Args}
		}
		if row.ToolCalls, err = json.Marshal(calls); err != nil {
			return row, err
		}
		row.Finish = "tool_calls"
	}
	if m.Origin == nil {
		return row, nil
	}
	if raw, ok := m.Origin.Fields["reasoning_content"]; ok {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			row.ReasoningContent = &text
		}
	}
	if len(m.Origin.Fields) > 0 || len(m.Origin.Blocks) > 0 {
		row.Metadata, err = json.Marshal(map[string]any{originKey: m.Origin})
	}
	return row, err
}

// fromRow reads a message; ok is false for one that is no part of what a model is shown. What
// cannot be understood of one is left out: a conversation goes on whatever another version
// wrote into it.
func fromRow(row session.Message) (m model.Message, ok bool) {
	switch row.Role {
	case "user", "assistant", "tool":
	default:
		return m, false // e.g. a system message that an old version kept here
	}
	m = model.Message{Role: model.Role(row.Role), CallID: row.CallID, Name: row.ToolName, Reasoning: row.Reasoning}
	switch {
	case len(row.Parts) > 0:
		m.Parts = fromParts(row.Parts)
	case row.APIContent != "":
		m.Parts = []model.Part{{Text: row.APIContent}}
	case row.Content != "":
		m.Parts = []model.Part{{Text: row.Content}}
	}
	if len(row.ToolCalls) > 0 {
		m.Calls = fromCalls(row.ToolCalls)
	}
	var meta map[string]json.RawMessage
	if json.Unmarshal(row.Metadata, &meta) == nil && meta[originKey] != nil {
		var o model.Origin
		if json.Unmarshal(meta[originKey], &o) == nil {
			m.Origin = &o
		}
	}
	return m, true
}

// fromParts reads content that is not one text.
func fromParts(raw json.RawMessage) []model.Part {
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return nil // an object of a later version
	}
	var out []model.Part
	for _, raw := range parts {
		var p wirePart
		switch {
		case json.Unmarshal(raw, &p) != nil:
		case p.ImageURL != nil:
			out = append(out, model.Part{Image: &model.Image{URL: p.ImageURL.URL}})
		case p.Text != "":
			out = append(out, model.Part{Text: p.Text})
		}
	}
	return out
}

// fromCalls reads tool calls. Arguments that are no text are the JSON they are.
func fromCalls(raw json.RawMessage) []model.Call {
	var calls []map[string]json.RawMessage
	if json.Unmarshal(raw, &calls) != nil {
		return nil // the results have no call then, and the model is not shown them
	}
	var out []model.Call
	for _, fields := range calls {
		var c model.Call
		var f struct {
			Name      string
			Arguments json.RawMessage
		}
		if json.Unmarshal(fields["id"], &c.ID) != nil || json.Unmarshal(fields["function"], &f) != nil || c.ID == "" || f.Name == "" {
			continue
		}
		c.Name = f.Name
		if json.Unmarshal(f.Arguments, &c.Args) != nil {
			c.Args = string(f.Arguments)
		}
		for _, known := range []string{"id", "type", "function"} {
			delete(fields, known)
		}
		if len(fields) > 0 {
			c.Extra = fields
		}
		out = append(out, c)
	}
	return out
}
