// SPDX-License-Identifier: MIT

package apiserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/approval"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// The states of a run.
const (
	running   = "running"
	asking    = "waiting_for_approval"
	stopping  = "stopping"
	completed = "completed"
	failed    = "failed"
	cancelled = "cancelled"
	// interrupted is the end of a run whose gateway ended first.
	interrupted = "interrupted"
)

// runRequest is the body of POST /v1/runs.
type runRequest struct {
	selection

	Input        json.RawMessage `json:"input"`
	Instructions string          `json:"instructions"`
	History      []wireMessage   `json:"conversation_history"`
	Previous     string          `json:"previous_response_id"`
}

// createRun is POST /v1/runs: the turn goes on when the client is gone.
func createRun(c *call) error {
	var req runRequest
	data, err := c.body(&req)
	if err != nil {
		return err
	}
	key, keyed, err := c.idempotencyKey()
	if err != nil {
		return err
	}
	start := func(id string) (*gateway.Turn, error) {
		t, err := c.startRun(req, id)
		if err == nil {
			c.echo(t)
		}
		return t, err
	}
	if keyed {
		return c.once(key, data, start)
	}
	t, err := start("")
	if err == nil {
		c.accepted(t.ID, "started", false)
	}
	return err
}

func (c *call) accepted(id, status string, replayed bool) {
	c.json(http.StatusAccepted, map[string]any{"object": "hermes.run", "run_id": id, "status": status, "replayed": replayed})
}

// fingerprint is the same for requests that mean the same: the order of fields and spaces do
// not count, the session of the headers does.
func (c *call) fingerprint(data []byte) [sha256.Size]byte {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) == nil {
		data = raw(v)
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(c.r.Header.Get(sessionIDHeader)), []byte(c.r.Header.Get(sessionKeyHeader)), data} {
		h.Write(part)
		h.Write([]byte{0})
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func (c *call) startRun(req runRequest, id string) (*gateway.Turn, error) {
	overlay, history, input, err := inputOf(req.Input)
	if err != nil {
		return nil, err
	}
	if len(req.History) > 0 {
		_, before, last, err := conversation(append(req.History, wireMessage{Role: "user", Content: content{input.Parts}}), "conversation_history")
		if err != nil {
			return nil, err
		}
		history, input = before, last
	}
	a, err := c.begin(req.selection, true)
	if err != nil {
		return nil, err
	}
	if req.Previous != "" && a.Session == "" && len(history) == 0 {
		if _, err := c.chain(&a, req.Previous); err != nil {
			return nil, err
		}
	}
	a.ID, a.Input, a.History, a.Attended = id, input, history, true
	a.Stateless = len(history) > 0 && (a.Session != "" || a.Key != "") // what the client says counts
	a.Overlay = join(overlay, req.Instructions)
	return c.start(a)
}

func join(texts ...string) string {
	var out []string
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			out = append(out, t)
		}
	}
	return strings.Join(out, "\n\n")
}

// run finds the turn that a path names, of this profile only.
func (c *call) run() (*gateway.Turn, error) {
	t, ok := c.profile.Turn(c.r.PathValue("id"))
	if !ok {
		return nil, &failure{
			status: http.StatusNotFound, code: "run_not_found", message: "no such run: " + printable(c.r.PathValue("id")),
			hint: "a run can be found until five minutes after its end, one with an Idempotency-Key for a day",
		}
	}
	return t, nil
}

func over(t *gateway.Turn) bool {
	select {
	case <-t.Done():
		return true
	default:
		return false
	}
}

// state is where a turn is. A stopped turn is stopping until it has really ended.
func (c *call) state(t *gateway.Turn) string {
	switch {
	case !over(t) && t.Stopping():
		return stopping
	case !over(t) && len(t.Approvals()) > 0:
		return asking
	case !over(t):
		return running
	}
	return c.ended(t)
}

// result is that of a turn that is over, also for a client that is gone.
func (c *call) result(t *gateway.Turn) (agent.Result, error) {
	return t.Result(context.WithoutCancel(c.r.Context()))
}

// ended is how a turn that is over ended.
func (c *call) ended(t *gateway.Turn) string {
	res, err := c.result(t)
	switch f := turnFailure(res, err, false); {
	case f == nil:
		return completed
	case f.code == "interrupted":
		return cancelled
	}
	return failed
}

// getRun is GET /v1/runs/{id}.
func getRun(c *call) error {
	t, err := c.run()
	if err != nil {
		return c.keyedRun(err)
	}
	status := c.state(t)
	out := map[string]any{
		"object": "hermes.run", "run_id": t.ID, "status": status, "session_id": t.Session(), "model": c.shownModel(t.Ask.Route),
		"source": t.Ask.Source, "created_at": epoch(t.Started),
	}
	if waiting := t.Approvals(); len(waiting) > 0 {
		list := make([]any, len(waiting))
		for i, a := range waiting {
			list[i] = question(a)
		}
		out["approvals"], out["approval"] = list, list[0]
	}
	if over(t) {
		maps.Copy(out, c.outcome(t))
	}
	c.json(http.StatusOK, out)
	return nil
}

// outcome is what the end of a run says.
func (c *call) outcome(t *gateway.Turn) map[string]any {
	res, err := c.result(t)
	out := map[string]any{}
	if f := turnFailure(res, err, named(t.Ask.Route)); f != nil {
		if f.code != "interrupted" {
			out["error"], out["error_code"] = f.message, f.code
		}
	}
	if res.Text != "" || err == nil {
		out["output"] = res.Text
	}
	out["usage"] = usageOfResponse(res.Usage)
	if len(res.Unsteered) > 0 {
		out["pending_steer"] = strings.Join(res.Unsteered, "\n\n")
	}
	return out
}

// question is an approval that waits, as clients see it.
func question(a gateway.Approval) map[string]any {
	choices := []string{"once", "deny"}
	if a.Grants {
		choices = []string{"once", "session", "always", "deny"}
	}
	out := map[string]any{
		"request_id": a.ID, "command": a.Command, "description": a.Reason, "choices": choices,
		"allow_session": a.Grants, "allow_permanent": a.Grants, "asked_at": epoch(a.Asked), "expires_at": epoch(a.Until),
	}
	if a.Subagent != "" {
		out["subagent_session_id"] = a.Subagent
	}
	return out
}

// stopRun is POST /v1/runs/{id}/stop.
func stopRun(c *call) error {
	t, err := c.run()
	if err != nil {
		return c.keyedRun(err)
	}
	if !over(t) {
		t.Stop("stopped through the API")
		c.json(http.StatusOK, map[string]any{"object": "hermes.run", "run_id": t.ID, "status": stopping})
		return nil
	}
	return getRun(c)
}

// answerOf reads a choice; what is none is not taken for a yes.
func answerOf(choice string) (approval.Answer, string, bool) {
	switch choice = strings.ToLower(strings.TrimSpace(choice)); choice {
	case "once", "approve", "approved", "allow":
		return approval.Once, "once", true
	case "session":
		return approval.ForSession, choice, true
	case "always":
		return approval.Always, choice, true
	case "deny", "denied", "reject":
		return approval.Deny, "deny", true
	}
	return approval.Deny, "", false
}

// approveRun is POST /v1/runs/{id}/approval: any turn of the profile, whichever surface it
// came from (H#71571).
func approveRun(c *call) error {
	t, err := c.run()
	if err != nil {
		return err
	}
	var req struct {
		Choice   string `json:"choice"`
		Request  string `json:"request_id"`
		Approval string `json:"approval_id"`
		All      bool   `json:"all"`
		Resolve  bool   `json:"resolve_all"`
	}
	if _, err := c.body(&req); err != nil {
		return err
	}
	answer, choice, ok := answerOf(req.Choice)
	if !ok {
		return bad("invalid_approval_choice", "choice", "choice must be once, session, always or deny")
	}
	ids := []string{or(req.Request, req.Approval)}
	if req.All || req.Resolve {
		ids = nil
		for _, a := range t.Approvals() {
			ids = append(ids, a.ID)
		}
	}
	resolved := 0
	for _, id := range ids {
		if t.Answer(id, answer) == nil {
			resolved++
		}
	}
	if resolved == 0 {
		return &failure{
			status: http.StatusConflict, code: "approval_not_pending", message: gateway.ErrNoApproval.Error(), final: true,
			hint: "GET /v1/runs/" + t.ID + " lists the approvals that wait",
		}
	}
	out := map[string]any{"object": "hermes.run.approval_response", "run_id": t.ID, "choice": choice, "resolved": resolved}
	if len(ids) == 1 && ids[0] != "" {
		out["request_id"] = ids[0]
	}
	c.json(http.StatusOK, out)
	return nil
}

// steerRun is POST /v1/runs/{id}/steer.
func steerRun(c *call) error {
	t, err := c.run()
	if err != nil {
		return err
	}
	var req struct{ Input, Message, Text content }
	if _, err := c.body(&req); err != nil {
		return err
	}
	text := strings.TrimSpace(either(req.Input, req.Message, req.Text).text())
	if text == "" {
		return bad("invalid_steer_input", "input", "input must be a text that is not empty")
	}
	if t.Stopping() || over(t) || !t.Steer(text) {
		return &failure{status: http.StatusConflict, code: "run_not_accepting_steer", message: "the run takes no more steering: " + c.state(t), final: true}
	}
	c.json(http.StatusOK, map[string]any{"object": "hermes.run.steer", "run_id": t.ID, "accepted": true})
	return nil
}

// inputOf reads the input of runs and responses: a text, or a list of messages and items.
func inputOf(input json.RawMessage) (system string, history []model.Message, last model.Message, err error) {
	if len(input) == 0 || string(input) == "null" {
		return "", nil, last, bad("missing_input", "input", "input is missing")
	}
	if input[0] == '"' {
		var text content
		if err := json.Unmarshal(input, &text); err != nil {
			return "", nil, last, err
		}
		return conversation([]wireMessage{{Role: "user", Content: text}}, "input")
	}
	var items []inputItem
	if err := json.Unmarshal(input, &items); err != nil {
		if f := (*failure)(nil); asFailure(err, &f) {
			return "", nil, last, f
		}
		return "", nil, last, bad("invalid_input", "input", "input must be a text or a list of messages")
	}
	messages := make([]wireMessage, 0, len(items))
	for i, it := range items {
		m, err := it.message(i)
		if err != nil {
			return "", nil, last, err
		}
		messages = append(messages, m)
	}
	return conversation(messages, "input")
}
