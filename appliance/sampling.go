// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hermes-appliance/hermes-appliance/appliance/mcp"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/profile"
)

// auxSampling is the task under which the usage of what servers ask the model is booked.
const auxSampling = "mcp_sampling"

// errNoCall keeps a server from using the model when no turn wants anything of it.
var errNoCall = errors.New("a server may ask the model only while a turn waits for one of its tools")

// calling notes that a turn waits for a tool of a server; what it returns takes that back.
func (s *servers) calling(server string, w *work) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.callers == nil {
		s.callers = map[string][]*work{}
	}
	s.callers[server] = append(s.callers[server], w)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := slices.Index(s.callers[server], w); i >= 0 {
			s.callers[server] = slices.Delete(s.callers[server], i, i+1)
		}
	}
}

// caller is the turn that waits for a server, the latest of several; nil = none.
func (s *servers) caller(server string) *work {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.callers[server]; len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// sample has the model of a turn continue what an MCP server brings, while that turn waits for
// the server; the turn's session is charged.
func (r *Runtime) sample(ctx context.Context, req mcp.SampleRequest) (mcp.Sample, error) {
	r.mu.Lock()
	t := r.tenants[profile.Key(req.Profile)]
	r.mu.Unlock()
	if t == nil {
		return mcp.Sample{}, errNoCall
	}
	w := t.mcp.caller(req.Server)
	if w == nil || len(w.routes) == 0 {
		return mcp.Sample{}, errNoCall
	}
	route := w.routes[0]
	if route.APIMode == model.RehearsalMode {
		return mcp.Sample{}, errNoModel
	}
	route.Model = first(req.Model, route.Model)
	if len(req.Allowed) > 0 && !slices.Contains(req.Allowed, route.Model) {
		return mcp.Sample{}, fmt.Errorf("the model %s is not among mcp_servers.%s.sampling.allowed_models; name one of them as sampling.model", route.Model, req.Server)
	}
	ask := model.Request{System: req.System, MaxTokens: req.MaxTokens}
	for _, m := range req.Messages {
		role := model.User
		if m.Role == string(model.Assistant) {
			role = model.Assistant
		}
		ask.Messages = append(ask.Messages, model.Text(role, m.Text))
	}
	got, err := models{r.models, w.b.redact}.Stream(ctx, route, ask, nil)
	if err != nil {
		return mcp.Sample{}, err
	}
	w.spent(context.WithoutCancel(ctx), auxiliary{task: auxSampling, route: route}, got.Usage)
	out := mcp.Sample{Text: got.Message.Text(), Model: route.Model}
	switch got.Finish {
	case model.FinishStop:
		out.StopReason = "endTurn"
	case model.FinishLength:
		out.StopReason = "maxTokens"
	default:
		return mcp.Sample{}, fmt.Errorf("the answer is not complete (%s)", got.Finish)
	}
	return out, nil
}
