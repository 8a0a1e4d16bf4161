// SPDX-License-Identifier: MIT

package model

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

const (
	userAgent  = "hermes-appliance"
	openaiBase = "https://api.openai.com/v1"
)

func accept(r Route) string {
	if r.NoStream {
		return "application/json"
	}
	return "text/event-stream"
}

func (r Route) base(official string) string {
	if r.BaseURL == "" {
		return official
	}
	return r.BaseURL
}

// chatParams makes the body of a request. Its fields are few, and each server has more of its
// own: what of them came with an answer, or is in extra_body, goes along as it is.
func chatParams(r Route, req Request) *object {
	p := &object{}
	p.set("model", r.Model)
	p.list("messages", chatMessages(r, req))
	if len(req.Tools) > 0 {
		tools := make([]*object, len(req.Tools))
		for i, t := range req.Tools {
			fn, tool := &object{}, &object{}
			fn.set("name", t.Name)
			fn.set("description", t.Description)
			fn.set("parameters", t.schema())
			tool.set("type", "function")
			tool.nest("function", fn)
			tools[i] = tool
		}
		p.list("tools", tools)
		if req.NoCalls {
			p.set("tool_choice", "none")
		}
	}
	if req.Effort != "" {
		p.set("reasoning_effort", req.Effort)
	}
	// OpenAI renamed the limit and refuses the old name; nearly all others know only that.
	if n := positive(req.MaxTokens, r.MaxTokens); n > 0 && strings.HasPrefix(r.base(openaiBase), openaiBase) {
		p.set("max_completion_tokens", n)
	} else if n > 0 {
		p.set("max_tokens", n)
	}
	p.set("stream", !r.NoStream)
	if !r.NoStream {
		p.put("stream_options", json.RawMessage(`{"include_usage":true}`))
	}
	p.extend(r.Extra, true)
	return p
}

func positive(values ...int64) int64 {
	for _, v := range values {
		if v > 0 {
			return v
		}
	}
	return 0
}

func chatMessages(r Route, req Request) []*object {
	out := make([]*object, 0, len(req.Messages)+1)
	add := func(role string) *object {
		m := &object{}
		m.set("role", role)
		out = append(out, m)
		return m
	}
	if req.System != "" {
		add("system").set("content", req.System)
	}
	var images []Part // of the tool results before this message: the format has no place for them
	flush := func() {
		if len(images) > 0 {
			add("user").list("content", chatParts(append([]Part{{Text: "(images of the tool results above)"}}, images...)))
			images = nil
		}
	}
	for _, m := range req.Messages {
		switch m.Role {
		case Tool:
			result := add("tool")
			result.set("content", m.Text())
			result.set("tool_call_id", m.CallID)
			for _, p := range m.Parts {
				if p.Image != nil {
					images = append(images, p)
				}
			}
		case Assistant:
			flush()
			chatAssistant(add("assistant"), r, m)
		case User:
			flush()
			if hasImages(m) {
				add("user").list("content", chatParts(m.Parts))
			} else {
				add("user").set("content", m.Text())
			}
		}
	}
	flush()
	return out
}

func hasImages(m Message) bool {
	for _, p := range m.Parts {
		if p.Image != nil {
			return true
		}
	}
	return false
}

func chatParts(parts []Part) []*object {
	var out []*object
	for _, p := range parts {
		part := &object{}
		switch {
		case p.Image != nil:
			url := &object{}
			url.set("url", p.Image.DataURL())
			part.set("type", "image_url")
			part.nest("image_url", url)
		case p.Text != "":
			part.set("type", "text")
			part.set("text", p.Text)
		default:
			continue
		}
		out = append(out, part)
	}
	return out
}

// DataURL returns the picture as a URL: its own, or one that holds its bytes.
func (i *Image) DataURL() string {
	if len(i.Data) == 0 {
		return i.URL
	}
	return "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
}

func chatAssistant(a *object, r Route, m Message) {
	same := r.same(m.Origin)
	if text := m.Text(); text != "" {
		a.set("content", text)
	}
	calls := make([]*object, len(m.Calls))
	for i, c := range m.Calls {
		call, fn := &object{}, &object{}
		fn.set("name", c.wireName())
		fn.set("arguments", string(c.wireInput()))
		call.set("id", c.ID)
		call.set("type", "function")
		call.nest("function", fn)
		if same {
			call.extend(c.Extra, false)
		}
		calls[i] = call
	}
	if len(calls) > 0 {
		a.list("tool_calls", calls)
	}
	if same {
		a.extend(m.Origin.Fields, false)
	}
}
