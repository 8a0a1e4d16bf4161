// SPDX-License-Identifier: MIT

package model

import (
	"encoding/base64"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
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

// literalPath makes a path of sjson that names one key, whatever is in it.
func literalPath(key string) string {
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; c < 0x80 && c != '_' && c != '-' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			b.WriteByte('\\')
		}
		b.WriteByte(key[i])
	}
	return b.String()
}

func chatParams(r Route, req Request) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{Model: r.Model, Messages: chatMessages(r, req)}
	for _, t := range req.Tools {
		fn := shared.FunctionDefinitionParam{Name: t.Name, Description: openai.String(t.Description)}
		fn.SetExtraFields(map[string]any{"parameters": t.schema()})
		p.Tools = append(p.Tools, openai.ChatCompletionToolUnionParam{OfFunction: &openai.ChatCompletionFunctionToolParam{Function: fn}})
	}
	if req.NoCalls && len(req.Tools) > 0 {
		p.ToolChoice.OfAuto = openai.String("none")
	}
	if req.Effort != "" {
		p.ReasoningEffort = shared.ReasoningEffort(req.Effort)
	}
	// OpenAI renamed the limit and refuses the old name; nearly all others know only that.
	if n := positive(req.MaxTokens, r.MaxTokens); n > 0 && strings.HasPrefix(r.base(openaiBase), openaiBase) {
		p.MaxCompletionTokens = openai.Int(n)
	} else if n > 0 {
		p.MaxTokens = openai.Int(n)
	}
	p.SetExtraFields(map[string]any{"stream": !r.NoStream})
	if !r.NoStream {
		p.StreamOptions.IncludeUsage = openai.Bool(true)
	}
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

func chatMessages(r Route, req Request) []openai.ChatCompletionMessageParamUnion {
	out := make([]openai.ChatCompletionMessageParamUnion, 0, len(req.Messages)+1)
	if req.System != "" {
		out = append(out, openai.SystemMessage(req.System))
	}
	var images []Part // of the tool results before this message: the format has no place for them
	flush := func() {
		if len(images) > 0 {
			out = append(out, openai.UserMessage(chatParts(append([]Part{{Text: "(images of the tool results above)"}}, images...))))
			images = nil
		}
	}
	for _, m := range req.Messages {
		switch m.Role {
		case Tool:
			out = append(out, openai.ToolMessage(m.Text(), m.CallID))
			for _, p := range m.Parts {
				if p.Image != nil {
					images = append(images, p)
				}
			}
		case Assistant:
			flush()
			out = append(out, chatAssistant(r, m))
		case User:
			flush()
			if hasImages(m) {
				out = append(out, openai.UserMessage(chatParts(m.Parts)))
			} else {
				out = append(out, openai.UserMessage(m.Text()))
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

func chatParts(parts []Part) []openai.ChatCompletionContentPartUnionParam {
	var out []openai.ChatCompletionContentPartUnionParam
	for _, p := range parts {
		if p.Image != nil {
			out = append(out, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: p.Image.DataURL()}))
		} else if p.Text != "" {
			out = append(out, openai.TextContentPart(p.Text))
		}
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

func chatAssistant(r Route, m Message) openai.ChatCompletionMessageParamUnion {
	same := r.same(m.Origin)
	a := openai.ChatCompletionAssistantMessageParam{}
	if text := m.Text(); text != "" {
		a.Content.OfString = openai.String(text)
	}
	for _, c := range m.Calls {
		call := &openai.ChatCompletionMessageFunctionToolCallParam{ID: c.ID}
		call.Function.Name, call.Function.Arguments = c.wireName(), string(c.wireInput())
		if same && len(c.Extra) > 0 {
			extra := make(map[string]any, len(c.Extra))
			for name, v := range c.Extra {
				extra[name] = v
			}
			call.SetExtraFields(extra)
		}
		a.ToolCalls = append(a.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{OfFunction: call})
	}
	if same && len(m.Origin.Fields) > 0 {
		extra := make(map[string]any, len(m.Origin.Fields))
		for name, v := range m.Origin.Fields {
			extra[name] = v
		}
		a.SetExtraFields(extra)
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: &a}
}
