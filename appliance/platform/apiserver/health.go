// SPDX-License-Identifier: MIT

package apiserver

import (
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

// health is GET /health: cheap, and it knows nothing.
func health(c *call) error {
	c.json(http.StatusOK, map[string]any{"status": "ok"})
	return nil
}

// healthDetailed is GET /health/detailed. Bad news is in the body: the status is that of the
// answer.
func healthDetailed(c *call) error {
	h := c.profile.Health(c.r.Context())
	status, checks := OK, map[string]any{}
	for _, ch := range h.Checks {
		if ch.Status != OK {
			status = Degraded
		}
		check := map[string]any{"status": ch.Status}
		if ch.Detail != "" {
			check["detail"] = ch.Detail
		}
		if ch.Counts != nil {
			check["counts"] = ch.Counts
		}
		checks[ch.Name] = check
	}
	c.json(http.StatusOK, map[string]any{
		"status": status, "platform": "hermes-appliance", "version": c.s.o.Version, "gateway_state": h.State,
		"readiness": map[string]any{"ready": status == OK, "checks": checks},
	})
	return nil
}

func (c *call) model() any {
	return map[string]any{"id": c.set.ModelName, "object": "model", "created": 0, "owned_by": "hermes", "root": c.set.ModelName, "parent": nil, "permission": []any{}}
}

func models(c *call) error {
	c.json(http.StatusOK, map[string]any{"object": "list", "data": []any{c.model()}})
	return nil
}

func oneModel(c *call) error {
	if id := c.r.PathValue("model"); id != c.set.ModelName {
		return &failure{
			status: http.StatusNotFound, code: "model_not_found", param: "model", message: "there is no model " + printable(id),
			hint: "GET /v1/models has the one there is",
		}
	}
	c.json(http.StatusOK, c.model())
	return nil
}

func skills(c *call) error {
	list, err := c.profile.Skills(c.r.Context())
	if err != nil {
		return err
	}
	if list == nil {
		list = []Skill{}
	}
	c.json(http.StatusOK, map[string]any{"object": "list", "data": list})
	return nil
}

func toolsets(c *call) error {
	list, err := c.profile.Toolsets(c.r.Context())
	if err != nil {
		return err
	}
	if list == nil {
		list = []Toolset{}
	}
	c.json(http.StatusOK, map[string]any{"object": "list", "platform": source, "data": list})
	return nil
}

// capabilities is GET /v1/capabilities. A test asks for each endpoint that it names.
func capabilities(c *call) error {
	at := func(method, path string) any { return map[string]any{"method": method, "path": path} }
	c.json(http.StatusOK, map[string]any{
		"object": "hermes.api_server.capabilities", "platform": "hermes-appliance", "version": c.s.o.Version, "model": c.set.ModelName,
		"auth":    map[string]any{"type": "bearer", "required": true},
		"runtime": map[string]any{"tool_execution": "server", "multiplex_profiles": c.s.o.Multiplex()},
		"features": map[string]any{
			"chat_completions": true, "chat_completions_streaming": true, "responses_api": true, "responses_streaming": true,
			"reasoning_streaming": c.set.Reasoning, "tool_progress_events": true, "image_input": true,
			"run_submission": true, "run_status": true, "run_events_sse": true, "run_stop": true, "run_approval": true,
			"approval_events": true, "run_steer": true,
			"session_resources": true, "session_chat": true, "session_chat_streaming": true, "session_fork": true,
			"session_continuity_header": sessionIDHeader, "session_key_header": sessionKeyHeader,
			"run_idempotency":       map[string]any{"supported": true, "durable": true, "retention_seconds": int(session.KeepRunKeys / time.Second)},
			"direct_model_requests": c.set.DirectModels, "skills_api": true, "toolsets_api": true, "sandbox_choice": true, "subagent_events": true,
		},
		"endpoints": map[string]any{
			"health": at("GET", "/health"), "health_detailed": at("GET", "/health/detailed"), "models": at("GET", "/v1/models"),
			"chat_completions": at("POST", "/v1/chat/completions"),
			"responses":        at("POST", "/v1/responses"), "response": at("GET", "/v1/responses/{id}"), "response_delete": at("DELETE", "/v1/responses/{id}"),
			"runs": at("POST", "/v1/runs"), "run_status": at("GET", "/v1/runs/{run_id}"), "run_events": at("GET", "/v1/runs/{run_id}/events"),
			"run_stop": at("POST", "/v1/runs/{run_id}/stop"), "run_approval": at("POST", "/v1/runs/{run_id}/approval"), "run_steer": at("POST", "/v1/runs/{run_id}/steer"),
			"sessions": at("GET", "/api/sessions"), "session_create": at("POST", "/api/sessions"), "session": at("GET", "/api/sessions/{session_id}"),
			"session_update": at("PATCH", "/api/sessions/{session_id}"), "session_delete": at("DELETE", "/api/sessions/{session_id}"),
			"session_messages": at("GET", "/api/sessions/{session_id}/messages"), "session_fork": at("POST", "/api/sessions/{session_id}/fork"),
			"session_chat": at("POST", "/api/sessions/{session_id}/chat"), "session_chat_stream": at("POST", "/api/sessions/{session_id}/chat/stream"),
			"skills": at("GET", "/v1/skills"), "toolsets": at("GET", "/v1/toolsets"),
			"sandbox": at("GET", "/api/sandbox"), "sandbox_answer": at("POST", "/api/sandbox"),
		},
	})
	return nil
}

// preview is the beginning of a call's arguments.
func preview(call model.Call) string {
	const most = 120
	args := printableLine(call.Args)
	if args == "" || args == "{}" {
		return call.Name
	}
	if len(args) > most {
		cut := most
		for !utf8.RuneStart(args[cut]) {
			cut--
		}
		args = args[:cut] + "…"
	}
	return call.Name + " " + args
}

// printableLine is a text on one line, its end cut off before it gets expensive.
func printableLine(s string) string {
	if len(s) > 512 {
		s = s[:512]
	}
	out := make([]rune, 0, len(s))
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			r = ' '
		}
		out = append(out, r)
	}
	return string(out)
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// epoch is a time as upstream writes it: seconds with a fraction; null = none.
func epoch(t time.Time) *float64 {
	if t.IsZero() {
		return nil
	}
	s := float64(t.UnixMilli()) / 1000
	return &s
}
