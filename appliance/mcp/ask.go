// SPDX-License-Identifier: MIT

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Question is what a server wants to know from the user (elicitation, as a form).
type Question struct {
	Profile, Server string
	Message         string
	Schema          json.RawMessage // of the answer: a flat object; null = no fields
}

// Answer is the user's. Fields that it leaves out get the schema's defaults.
type Answer struct {
	Action  string // accept, decline or cancel
	Content map[string]any
}

// options are the client's side of a connection.
func (s *server) options(changed func()) *sdk.ClientOptions {
	o := &sdk.ClientOptions{
		Capabilities:           &sdk.ClientCapabilities{}, // no roots
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed() },
	}
	if s.host.cfg.Elicit != nil && !s.cfg.NoQuestions {
		o.ElicitationHandler = s.elicit
	}
	if s.host.cfg.Sample != nil && !s.cfg.Sampling.Off {
		o.CreateMessageHandler = s.sample //nolint:staticcheck // deprecated by a protocol that few servers speak yet
	}
	return o
}

func (s *server) elicit(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	if r.Params.Mode == "url" { // not offered; nobody is sent to an address that a server chose
		return &sdk.ElicitResult{Action: "decline"}, nil
	}
	schema, err := json.Marshal(r.Params.RequestedSchema)
	if err != nil {
		return nil, errors.New("requestedSchema is no JSON")
	}
	q := Question{Profile: s.ledger.current().Key, Server: s.cfg.Name, Message: r.Params.Message, Schema: schema}
	a, err := ask(ctx, s, s.cfg.AskTimeout, func(ctx context.Context) (Answer, error) { return s.host.cfg.Elicit(ctx, q) })
	if err != nil {
		return nil, err
	}
	if a.Action == "accept" && a.Content == nil {
		a.Content = map[string]any{} // so that defaults have a place
	}
	return &sdk.ElicitResult{Action: a.Action, Content: a.Content}, nil
}

// ask calls a handler of the host's user. A handler that does not end with its context does
// not hold up the connection.
func ask[T any](ctx context.Context, s *server, limit time.Duration, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type outcome struct {
		val T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		v, err := f(ctx)
		done <- outcome{v, err}
	}()
	var none T
	select {
	case o := <-done:
		if o.err == nil {
			return o.val, nil
		}
		if ctx.Err() == nil {
			return none, errors.New(s.clean(o.err.Error()))
		} // else the handler only says that its time is over
	case <-ctx.Done():
	}
	return none, fmt.Errorf("no answer within %s", limit)
}
