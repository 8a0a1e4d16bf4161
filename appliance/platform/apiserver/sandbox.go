// SPDX-License-Identifier: MIT

package apiserver

import (
	"net/http"
)

// Sandbox is what there is to say about a profile's Docker sandbox.
type Sandbox struct {
	Backend string // of terminal.backend
	Image   string // that a new sandbox is made from; "" where the backend is not docker
	Pin     string // who chose it; "" = nobody
	Choice  *SandboxChoice
}

// SandboxChoice is an open question to the profile's owner: the sandbox was made from one image,
// and the default is another one now (migrations spec §5).
type SandboxChoice struct {
	Current    string             `json:"current"`
	Target     string             `json:"target"`
	Containers []SandboxContainer `json:"containers"`
}

// SandboxContainer is a container of a profile.
type SandboxContainer struct {
	Name  string `json:"name"`
	Task  string `json:"task"`
	Image string `json:"image"`
	State string `json:"state"`
}

// SandboxAnswer is what an answer did.
type SandboxAnswer struct {
	Image string   // in terminal.docker_image now
	Notes []string // what follows from it
}

// SandboxError says why a sandbox cannot be looked at, or an answer was not written. The client
// sees its message.
type SandboxError struct {
	Code     string // for programs
	Message  string
	Conflict bool // the profile is not in a state for it; otherwise the engine is not
}

func (e *SandboxError) Error() string { return e.Message }

func (e *SandboxError) failure() *failure {
	f := &failure{status: http.StatusServiceUnavailable, code: e.Code, message: e.Message}
	if e.Conflict {
		f.status = http.StatusConflict
	}
	return f
}

// getSandbox is GET /api/sandbox.
func getSandbox(c *call) error {
	s, err := c.profile.Sandbox(c.r.Context())
	if err != nil {
		return err
	}
	out := map[string]any{"object": "hermes.sandbox", "backend": s.Backend, "image": nil, "pin": nil, "choice": s.Choice}
	if s.Image != "" {
		out["image"] = s.Image
	}
	if s.Pin != "" {
		out["pin"] = s.Pin
	}
	c.json(http.StatusOK, out)
	return nil
}

// answerSandbox is POST /api/sandbox: the answer that hermes-appliance sandbox switch or keep
// gives.
func answerSandbox(c *call) error {
	var req struct {
		Answer string `json:"answer"`
	}
	if _, err := c.body(&req); err != nil {
		return err
	}
	if req.Answer != "switch" && req.Answer != "keep" {
		return bad("invalid_answer", "answer", "answer must be switch or keep")
	}
	did, err := c.profile.AnswerSandbox(c.r.Context(), req.Answer == "switch")
	if err != nil {
		return err
	}
	notes := did.Notes
	if notes == nil {
		notes = []string{}
	}
	c.json(http.StatusOK, map[string]any{"object": "hermes.sandbox.answer", "answer": req.Answer, "image": did.Image, "notes": notes})
	return nil
}
