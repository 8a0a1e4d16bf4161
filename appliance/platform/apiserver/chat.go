// SPDX-License-Identifier: MIT

package apiserver

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// wireMessage is a message of chat completions.
type wireMessage struct {
	Role      string     `json:"role"`
	Content   content    `json:"content"`
	Name      string     `json:"name"`
	CallID    string     `json:"tool_call_id"`
	ToolCalls []wireCall `json:"tool_calls"`
}

// wireCall is a call of a tool in an earlier message.
type wireCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// chatRequest is the body of chat completions.
type chatRequest struct {
	selection

	Messages []wireMessage `json:"messages"`
	Stream   bool          `json:"stream"`
	Choices  *int          `json:"n"`
	Options  struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// message makes one entry of a history.
func (m wireMessage) message() model.Message {
	out := model.Message{Role: model.Role(m.Role), Parts: m.Content.parts}
	switch out.Role {
	case model.Assistant:
		for _, call := range m.ToolCalls {
			out.Calls = append(out.Calls, model.Call{ID: call.ID, Name: call.Function.Name, Args: call.Function.Arguments})
		}
	case model.Tool:
		out.CallID, out.Name = m.CallID, m.Name
	case model.User:
	}
	return out
}

// conversation splits messages into the client's system prompt, the history, and the message
// that is to be answered.
func conversation(messages []wireMessage, param string) (system string, history []model.Message, input model.Message, err error) {
	var overlay []string
	for i, m := range messages {
		switch m.Role {
		case "system", "developer":
			if text := m.Content.text(); strings.TrimSpace(text) != "" {
				overlay = append(overlay, text)
			}
			continue
		case "user", "assistant", "tool":
		default:
			return "", nil, input, bad("invalid_role", param, "%s[%d].role must be system, developer, user, assistant or tool", param, i)
		}
		history = append(history, m.message())
	}
	last := len(history) - 1
	if last < 0 || history[last].Role != model.User || !(content{history[last].Parts}).visible() {
		return "", nil, input, bad("missing_user_message", param, "the last of %s must be a message of the user that is not empty", param)
	}
	return strings.Join(overlay, "\n\n"), history[:last], history[last], nil
}

// chatCompletions is POST /v1/chat/completions.
func chatCompletions(c *call) error {
	var req chatRequest
	if _, err := c.body(&req); err != nil {
		return err
	}
	if req.Choices != nil && *req.Choices != 1 {
		return bad("unsupported_value", "n", "n must be 1")
	}
	system, history, input, err := conversation(req.Messages, "messages")
	if err != nil {
		return err
	}
	a, err := c.begin(req.selection, false)
	if err != nil {
		return err
	}
	a.Input, a.History, a.Overlay, a.Stateless = input, history, system, true
	a.Nameless = true
	t, err := c.start(a)
	if err != nil {
		return err
	}
	head := chatHead{ID: newID("chatcmpl-"), Created: c.s.o.Now().Unix(), Model: c.shownModel(a.Route)}
	if req.Stream {
		return c.chatStream(t, head, req.Options.Usage)
	}
	if err := c.attend(t, nil, func(gateway.Event) {}); err != nil {
		return err
	}
	res, err := t.Result(c.r.Context())
	if f := turnFailure(res, err, named(a.Route)); f != nil {
		return f
	}
	c.echo(t)
	head.Object = "chat.completion"
	c.json(200, struct {
		chatHead

		Choices []any     `json:"choices"`
		Usage   chatUsage `json:"usage"`
	}{head, []any{map[string]any{
		"index": 0, "logprobs": nil, "finish_reason": "stop",
		"message": map[string]any{"role": "assistant", "content": res.Text, "refusal": nil},
	}}, usageOfChat(res.Usage)})
	return nil
}

func newID(prefix string) string {
	var b [12]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

// chatHead is what every chunk begins with.
type chatHead struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

type chatUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
	In         struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Out struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func usageOfChat(u model.Usage) chatUsage {
	out := chatUsage{Prompt: u.Input, Completion: u.Output, Total: u.Input + u.Output}
	out.In.Cached, out.Out.Reasoning = u.CacheRead, u.Reasoning
	return out
}

// delta is what a chunk adds.
type delta struct {
	Role      string  `json:"role,omitempty"`
	Content   *string `json:"content,omitempty"`
	Reasoning string  `json:"reasoning_content,omitempty"`
}

type choice struct {
	Index  int     `json:"index"`
	Delta  delta   `json:"delta"`
	Finish *string `json:"finish_reason"`
}

type chunk struct {
	chatHead

	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage,omitempty"`
}

// chatStream answers with chunks. A turn that fails before the first of them is answered with
// a status, one that fails later with an error in the stream (H#25723: of this stream only).
func (c *call) chatStream(t *gateway.Turn, head chatHead, usage bool) error {
	head.Object = "chat.completion.chunk"
	out := c.stream()
	f := flow{sep: "\n\n"}
	begun := false
	send := func(d delta, finish *string) {
		if !begun {
			begun = true
			c.echo(t)
			empty := ""
			out.send("", "", chunk{head, []choice{{Delta: delta{Role: "assistant", Content: &empty}}}, null(usage)})
		}
		out.send("", "", chunk{head, []choice{{Delta: d, Finish: finish}}, null(usage)})
	}
	err := c.attend(t, out, func(e gateway.Event) {
		if text := f.next(e); text != "" {
			send(delta{Content: &text}, nil)
		}
		switch e.Kind { //nolint:exhaustive // the rest is no news for this client
		case agent.ReasoningDelta:
			if c.set.Reasoning && e.Text != "" {
				send(delta{Reasoning: e.Text}, nil)
			}
		case agent.ToolStarted, agent.ToolFinished:
			c.echo(t)
			out.send("hermes.tool.progress", "", progress(e))
		}
	})
	if err != nil {
		return err
	}
	res, err := t.Result(c.r.Context())
	if fail := turnFailure(res, err, named(t.Ask.Route)); fail != nil {
		if !out.begun() {
			return fail
		}
		out.send("", "", fail.wire())
		return out.flush()
	}
	stop := "stop"
	send(delta{}, &stop)
	if usage {
		out.send("", "", chunk{head, []choice{}, raw(usageOfChat(res.Usage))})
	}
	out.raw("", "", []byte("[DONE]"))
	return out.flush()
}

// null is the usage of a chunk before the last, where the client asked for usage.
func null(usage bool) json.RawMessage {
	if usage {
		return json.RawMessage("null")
	}
	return nil
}

// progress tells of a tool, in upstream's words.
func progress(e gateway.Event) any {
	p := map[string]any{"tool": e.Call.Name, "toolCallId": e.Call.ID, "label": preview(e.Call), "status": "running"}
	if e.Kind == agent.ToolFinished {
		p["status"], p["error"], p["duration"] = "completed", e.Failed, seconds(e.Took)
	}
	return p
}
