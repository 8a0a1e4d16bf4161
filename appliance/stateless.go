// SPDX-License-Identifier: MIT

package appliance

import (
	"context"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// stateless is a conversation whose past the client brings along: the model sees that, and the
// session only records what is new. Its prompt is made anew for each turn, since the client's
// own part of it may change.
type stateless struct {
	*record

	history []model.Message
	prompt  string
}

func (s *stateless) Prompt(context.Context) (string, error) { return s.prompt, nil }

func (s *stateless) SetPrompt(ctx context.Context, text string) error {
	s.prompt = text
	return s.record.SetPrompt(ctx, text)
}

func (s *stateless) History(context.Context) ([]model.Message, error) { return s.history, nil }

// Compress keeps to the record's child; what it begins with is what the model sees on.
func (s *stateless) Compress(ctx context.Context, history []model.Message) (agent.Session, error) {
	child, err := s.record.Compress(ctx, history)
	if err != nil {
		return nil, err
	}
	rec, ok := child.(*record)
	if !ok {
		return child, nil
	}
	return &stateless{record: rec, history: history, prompt: s.prompt}, nil
}
