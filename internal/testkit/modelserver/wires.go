// SPDX-License-Identifier: MIT

package modelserver

import "encoding/json"

// chat is the chat completions format.
type chat struct{}

func (chat) finish(r Reply) string {
	switch {
	case r.Finish != "":
		return r.Finish
	case len(r.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

func (chat) usage(r Reply, prompt int) any {
	switch r.Usage {
	case "":
		return object("prompt_tokens", prompt/4, "completion_tokens", r.tokens(), "total_tokens", prompt/4+r.tokens(),
			"prompt_tokens_details", object("cached_tokens", prompt/8))
	case "none":
		return nil
	}
	return json.RawMessage(r.Usage)
}

func (c chat) events(r Reply, prompt int) []string {
	chunk := func(delta map[string]any, finish any) string {
		return encode(object("id", "chatcmpl-1", "object", "chat.completion.chunk", "created", 1, "model", "scripted-1",
			"choices", []any{object("index", 0, "delta", delta, "finish_reason", finish)}))
	}
	out := []string{chunk(object("role", "assistant", "content", ""), nil)}
	for _, w := range words(r.Reasoning) {
		out = append(out, chunk(object("reasoning_content", w), nil))
	}
	for _, w := range words(r.Text) {
		out = append(out, chunk(object("content", w), nil))
	}
	for i, call := range r.Calls {
		out = append(out, chunk(object("tool_calls", []any{object("index", i, "id", call.ID, "type", "function", "function", object("name", call.Name, "arguments", ""))}), nil))
		for _, part := range halves(call.Args) {
			out = append(out, chunk(object("tool_calls", []any{object("index", i, "function", object("arguments", part))}), nil))
		}
	}
	out = append(out, chunk(object(), c.finish(r)))
	if u := c.usage(r, prompt); u != nil {
		out = append(out, encode(object("id", "chatcmpl-1", "object", "chat.completion.chunk", "model", "scripted-1", "choices", []any{}, "usage", u)))
	}
	return append(out, "[DONE]")
}

func (c chat) whole(r Reply, prompt int) string {
	m := object("role", "assistant", "content", r.Text)
	if r.Reasoning != "" {
		m["reasoning_content"] = r.Reasoning
	}
	var calls []any
	for _, call := range r.Calls {
		calls = append(calls, object("id", call.ID, "type", "function", "function", object("name", call.Name, "arguments", call.Args)))
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	out := object("id", "chatcmpl-1", "object", "chat.completion", "model", "scripted-1", "choices", []any{object("index", 0, "message", m, "finish_reason", c.finish(r))})
	if u := c.usage(r, prompt); u != nil {
		out["usage"] = u
	}
	return encode(out)
}

// messages is the Anthropic messages format.
type messages struct{}

func (messages) stop(r Reply) string {
	switch {
	case r.Finish != "":
		return r.Finish
	case len(r.Calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func event(name string, pairs ...any) string {
	return "event: " + name + "\ndata: " + encode(object(append([]any{"type", name}, pairs...)...))
}

func (m messages) events(r Reply, prompt int) []string {
	start := object("id", "msg_1", "type", "message", "role", "assistant", "model", "scripted-1", "content", []any{})
	end := []any{"delta", object("stop_reason", m.stop(r), "stop_sequence", nil)}
	switch r.Usage {
	case "":
		start["usage"] = object("input_tokens", prompt/8, "cache_read_input_tokens", prompt/8, "cache_creation_input_tokens", 0, "output_tokens", 1)
		end = append(end, "usage", object("output_tokens", r.tokens()))
	case "none":
	default:
		start["usage"], end = json.RawMessage(r.Usage), append(end, "usage", json.RawMessage(r.Usage))
	}
	out := []string{event("message_start", "message", start), event("ping")}
	n := 0
	block := func(content map[string]any, deltas ...map[string]any) {
		out = append(out, event("content_block_start", "index", n, "content_block", content))
		for _, d := range deltas {
			out = append(out, event("content_block_delta", "index", n, "delta", d))
		}
		out = append(out, event("content_block_stop", "index", n))
		n++
	}
	if r.Reasoning != "" {
		var ds []map[string]any
		for _, w := range words(r.Reasoning) {
			ds = append(ds, object("type", "thinking_delta", "thinking", w))
		}
		block(object("type", "thinking", "thinking", "", "signature", ""), append(ds, object("type", "signature_delta", "signature", "sig-of-"+r.Reasoning))...)
	}
	if r.Text != "" {
		var ds []map[string]any
		for _, w := range words(r.Text) {
			ds = append(ds, object("type", "text_delta", "text", w))
		}
		block(object("type", "text", "text", ""), ds...)
	}
	for _, call := range r.Calls {
		var ds []map[string]any
		for _, part := range halves(call.Args) {
			ds = append(ds, object("type", "input_json_delta", "partial_json", part))
		}
		block(object("type", "tool_use", "id", call.ID, "name", call.Name, "input", object()), ds...)
	}
	return append(out, event("message_delta", end...), event("message_stop"))
}

func (m messages) whole(r Reply, prompt int) string {
	var content []any
	if r.Reasoning != "" {
		content = append(content, object("type", "thinking", "thinking", r.Reasoning, "signature", "sig-of-"+r.Reasoning))
	}
	if r.Text != "" {
		content = append(content, object("type", "text", "text", r.Text))
	}
	for _, call := range r.Calls {
		content = append(content, object("type", "tool_use", "id", call.ID, "name", call.Name, "input", json.RawMessage(call.Args)))
	}
	return encode(object("id", "msg_1", "type", "message", "role", "assistant", "model", "scripted-1", "content", content,
		"stop_reason", m.stop(r), "usage", object("input_tokens", prompt/4, "output_tokens", r.tokens())))
}
