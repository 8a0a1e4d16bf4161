// SPDX-License-Identifier: MIT

package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

// responseRequest is the body of POST /v1/responses.
type responseRequest struct {
	selection

	Input        json.RawMessage   `json:"input"`
	Instructions string            `json:"instructions"`
	Store        *bool             `json:"store"`
	Stream       bool              `json:"stream"`
	Previous     string            `json:"previous_response_id"`
	Conversation conversationName  `json:"conversation"`
	Metadata     map[string]string `json:"metadata"`
	Background   bool              `json:"background"`
	Reasoning    struct {
		Effort string `json:"effort"`
	} `json:"reasoning"`
}

// conversationName is a name, or an object with an id.
type conversationName string

// UnmarshalJSON reads either.
func (n *conversationName) UnmarshalJSON(data []byte) error {
	var name string
	var object struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(data, &name) != nil {
		if json.Unmarshal(data, &object) != nil {
			return bad("invalid_conversation", "conversation", "conversation must be a name or {\"id\": …}")
		}
		name = object.ID
	}
	*n = conversationName(name)
	return nil
}

// inputItem is an entry of a list of input: a message, or a call of a tool and its result that
// an earlier response brought.
type inputItem struct {
	Type    string  `json:"type"`
	Role    string  `json:"role"`
	Content content `json:"content"`
	CallID  string  `json:"call_id"`
	Name    string  `json:"name"`
	Args    string  `json:"arguments"`
	Output  content `json:"output"`
}

func (it inputItem) message(i int) (wireMessage, error) {
	switch it.Type {
	case "", "message":
		return wireMessage{Role: it.Role, Content: it.Content}, nil
	case "function_call":
		m := wireMessage{Role: "assistant", ToolCalls: []wireCall{{ID: it.CallID}}}
		m.ToolCalls[0].Function.Name, m.ToolCalls[0].Function.Arguments = it.Name, it.Args
		return m, nil
	case "function_call_output":
		return wireMessage{Role: "tool", CallID: it.CallID, Name: it.Name, Content: it.Output}, nil
	case "reasoning":
		return wireMessage{Role: "system"}, nil // nothing of it is for the model
	case "input_file", "input_audio":
		return wireMessage{}, bad("unsupported_content_type", "input", "input of type %s is not supported", it.Type)
	}
	return wireMessage{}, bad("unsupported_input_item", "input", "input[%d] has the type %q, which is not supported", i, printable(it.Type))
}

// createResponse is POST /v1/responses.
func createResponse(c *call) error {
	var req responseRequest
	if _, err := c.body(&req); err != nil {
		return err
	}
	a, err := c.responseAsk(&req)
	if err != nil {
		return err
	}
	t, err := c.start(a)
	if err != nil {
		return err
	}
	b := c.newResponse(t, req)
	if !req.Stream {
		if err := c.attend(t, nil, b.take); err != nil {
			return err
		}
		fail := b.end()
		if fail != nil {
			return fail
		}
		c.echo(t)
		c.json(http.StatusOK, b.finish())
		return nil
	}
	b.out = c.stream()
	if err := c.attend(t, b.out, b.take); err != nil {
		return err
	}
	if fail := b.end(); fail != nil && !b.out.begun() {
		return fail
	}
	b.finish()
	return b.out.flush()
}

// responseAsk reads what a response is to be made of.
func (c *call) responseAsk(req *responseRequest) (gateway.Ask, error) {
	if req.Background {
		return gateway.Ask{}, bad("unsupported_value", "background", "background is not supported; POST /v1/runs is")
	}
	if req.Previous != "" && req.Conversation != "" {
		return gateway.Ask{}, bad("mutually_exclusive", "conversation", "conversation and previous_response_id exclude each other")
	}
	system, history, input, err := inputOf(req.Input)
	if err != nil {
		return gateway.Ask{}, err
	}
	req.Effort = or(req.Effort, req.Reasoning.Effort)
	a, err := c.begin(req.selection, false)
	if err != nil {
		return a, err
	}
	switch {
	case req.Previous != "":
		k, err := c.chain(&a, req.Previous)
		if err != nil {
			return a, err
		}
		req.Instructions = or(req.Instructions, k.Instructions)
	case req.Conversation != "":
		if !plain(string(req.Conversation)) {
			return a, bad("invalid_conversation", "conversation", "conversation must be at most %d printable characters", maxSessionHeader)
		}
		a.Key = gateway.SessionKey(c.profile.Name(), source, "conversation", string(req.Conversation), "")
	}
	// A conversation that the server has is gone on with; what the client sends beside it was
	// said elsewhere, and only it is shown to the model.
	goesOn := a.Session != "" || a.Key != ""
	a.Stateless = len(history) > 0 && goesOn || !goesOn && !req.stored()
	a.Nameless = true
	a.Input, a.History, a.Overlay = input, history, join(system, req.Instructions)
	return a, nil
}

func (r responseRequest) stored() bool { return r.Store == nil || *r.Store }

// chain lets a go on where a response ended: in its session, or, when others have gone on
// there since, in a fork.
func (c *call) chain(a *gateway.Ask, id string) (session.Response, error) {
	ctx := c.r.Context()
	store, k, err := c.kept(id)
	if errors.Is(err, session.ErrNotKept) {
		f := noResponse(id)
		f.code, f.param = "previous_response_not_found", "previous_response_id"
		return k, f
	}
	if err != nil {
		return k, err
	}
	last, err := lastMessage(ctx, store, k.Session)
	if err != nil {
		return k, err
	}
	busy, err := store.Running(ctx, k.Session)
	if err != nil {
		return k, err
	}
	if a.Session = k.Session; last != k.Through || busy {
		made, err := store.Fork(ctx, k.Session, session.Branch{Through: k.Through})
		if err != nil {
			return k, err
		}
		a.Session = made.ID
	}
	return k, nil
}

// kept finds a response of the profile.
func (c *call) kept(id string) (*session.Store, session.Response, error) {
	store, err := c.profile.Sessions(c.r.Context())
	if err != nil {
		return nil, session.Response{}, err
	}
	k, err := store.Response(c.r.Context(), id)
	return store, k, err
}

// lastMessage is the id of a session's last message, 0 = there is none.
func lastMessage(ctx context.Context, store *session.Store, id string) (int64, error) {
	list, err := store.Messages(ctx, id, session.Page{Newest: true, Limit: 1})
	if err != nil || len(list) == 0 {
		return 0, err
	}
	return list[0].ID, nil
}

// getResponse is GET /v1/responses/{id}.
func getResponse(c *call) error {
	id := c.r.PathValue("id")
	_, k, err := c.kept(id)
	if errors.Is(err, session.ErrNotKept) {
		return noResponse(id)
	}
	if err != nil {
		return err
	}
	c.json(http.StatusOK, json.RawMessage(k.Body))
	return nil
}

// deleteResponse is DELETE /v1/responses/{id}. The session stays.
func deleteResponse(c *call) error {
	id := c.r.PathValue("id")
	store, err := c.profile.Sessions(c.r.Context())
	if err == nil {
		err = store.DropResponse(c.r.Context(), id)
	}
	if errors.Is(err, session.ErrNotKept) {
		return noResponse(id)
	}
	if err != nil {
		return err
	}
	c.json(http.StatusOK, map[string]any{"id": id, "object": "response", "deleted": true})
	return nil
}

func noResponse(id string) *failure {
	return &failure{
		status: http.StatusNotFound, code: "response_not_found", message: "no such response: " + printable(id),
		hint: "the newest responses are kept, for 30 days; their sessions stay, and a named conversation goes on",
	}
}

type responseUsage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Total  int64 `json:"total_tokens"`
	In     struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Out struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

func usageOfResponse(u model.Usage) responseUsage {
	out := responseUsage{Input: u.Input, Output: u.Output, Total: u.Input + u.Output}
	out.In.Cached, out.Out.Reasoning = u.CacheRead, u.Reasoning
	return out
}
