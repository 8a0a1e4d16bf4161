// SPDX-License-Identifier: MIT

package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

// oneTool is a terminal that repeats its command.
type oneTool struct{ secret string }

func (oneTool) Specs() []model.ToolSpec {
	return []model.ToolSpec{{Name: "terminal", Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)}}
}

func (oneTool) Traits(model.Call) agent.Traits { return agent.Traits{} }

func (o oneTool) Call(_ context.Context, _ model.Call, args json.RawMessage) agent.Output {
	var in struct{ Command string }
	if err := json.Unmarshal(args, &in); err != nil {
		return agent.Output{Text: `{"error":"bad"}`, Failed: true}
	}
	out, err := json.Marshal(map[string]any{"output": "ran " + in.Command + " " + o.secret, "exit_code": 0})
	if err != nil {
		panic(err)
	}
	return agent.Output{Text: string(out)}
}

// rehearse runs a turn with the rehearsal model, and records it as the gateway does.
func (p *prof) rehearse(ctx context.Context, t *gateway.Turn, emit func(agent.Event)) (agent.Result, error) {
	a, err := agent.New(agent.Options{
		Model: model.Rehearsal{}, Routes: []model.Route{{Provider: "rehearsal", Model: "rehearsal"}},
		Tools:  oneTool{"canary-of-" + p.name},
		Prompt: func(context.Context) (string, error) { return "You are " + p.name, nil },
	})
	if err != nil {
		return agent.Result{}, err
	}
	if t.Ask.Stateless && t.Ask.Session == "" && t.Ask.Key == "" {
		return a.Run(ctx, &memory{rows: t.Ask.History}, t.Ask.Input, t.Control, emit)
	}
	id, err := p.sessionOf(ctx, t.Ask)
	if err != nil {
		return agent.Result{}, err
	}
	t.Named(id)
	turn, err := p.store.Begin(ctx, id, "test")
	if err != nil {
		return agent.Result{}, err
	}
	s := &recorded{store: p.store, turn: turn}
	if t.Ask.Stateless {
		s.shown = t.Ask.History
	} else {
		for _, m := range t.Ask.History {
			if err := s.Append(ctx, m); err != nil {
				return agent.Result{}, err
			}
		}
	}
	res, err := a.Run(ctx, s, t.Ask.Input, t.Control, emit)
	return res, errors.Join(err, turn.Close(ctx))
}

// sessionOf finds or makes the session of an ask.
func (p *prof) sessionOf(ctx context.Context, a gateway.Ask) (string, error) {
	if a.Session != "" {
		return a.Session, nil
	}
	if a.Key != "" {
		if s, err := p.store.Resume(ctx, a.Source, a.Key); err == nil {
			return s.ID, nil
		}
	}
	s, err := p.store.Create(ctx, session.Session{Source: a.Source, SessionKey: a.Key, UserID: a.UserID})
	return s.ID, err
}

// recorded is a session in the store.
type recorded struct {
	store *session.Store
	turn  *session.Turn
	shown []model.Message // nil = what is in the store
}

func (s *recorded) ID() string { return s.turn.Session() }

func (s *recorded) Prompt(ctx context.Context) (string, error) {
	got, err := s.store.Get(ctx, s.ID())
	return got.SystemPrompt, err
}

func (s *recorded) SetPrompt(ctx context.Context, text string) error {
	return s.store.SetSystemPrompt(ctx, s.ID(), text)
}

func (s *recorded) History(ctx context.Context) ([]model.Message, error) {
	if s.shown != nil {
		return s.shown, nil
	}
	rows, err := s.store.History(ctx, s.ID())
	var out []model.Message
	for _, r := range rows {
		m := model.Text(model.Role(r.Role), r.Content)
		m.CallID, m.Name = r.CallID, r.ToolName
		if len(r.ToolCalls) > 0 {
			if err := json.Unmarshal(r.ToolCalls, &m.Calls); err != nil {
				return nil, err
			}
		}
		out = append(out, m)
	}
	return out, err
}

func (s *recorded) Append(ctx context.Context, m model.Message) error {
	row := session.Message{Role: string(m.Role), Content: m.Text(), CallID: m.CallID, ToolName: m.Name}
	if len(m.Calls) > 0 {
		row.ToolCalls = raw(m.Calls)
	}
	_, err := s.turn.Append(ctx, row)
	return err
}

func (s *recorded) Spend(context.Context, agent.Spending) error { return nil }

func (s *recorded) Compress(context.Context, []model.Message) (agent.Session, error) {
	return nil, errors.New("no compression here")
}

// memory is a session that nobody records.
type memory struct {
	prompt string
	rows   []model.Message
}

func (m *memory) ID() string { return "" }

func (m *memory) Prompt(context.Context) (string, error) { return m.prompt, nil }

func (m *memory) SetPrompt(_ context.Context, text string) error {
	m.prompt = text
	return nil
}

func (m *memory) History(context.Context) ([]model.Message, error) {
	return m.rows, nil
}

func (m *memory) Append(_ context.Context, row model.Message) error {
	m.rows = append(m.rows, row)
	return nil
}

func (m *memory) Spend(context.Context, agent.Spending) error { return nil }

func (m *memory) Compress(context.Context, []model.Message) (agent.Session, error) {
	return nil, errors.New("no compression here")
}

// said reports whether the rehearsal model's answer tells of a command that ran.
func said(answer, command string) bool {
	return strings.Contains(answer, "ran "+command) && strings.Contains(answer, model.RehearsalName)
}
