// SPDX-License-Identifier: MIT

package model

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
)

// anthropicTokens is what an answer may have when nobody says.
const anthropicTokens = 16_384

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

func anthropicParams(r Route, req Request) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{
		Model:     r.Model,
		MaxTokens: positive(req.MaxTokens, r.MaxTokens, anthropicLimit(r.Model)),
		Messages:  anthropicMessages(r, req.Messages),
	}
	if req.System != "" {
		p.System = []anthropic.TextBlockParam{{Text: req.System, CacheControl: anthropic.NewCacheControlEphemeralParam()}}
	}
	for _, t := range req.Tools {
		tool := &anthropic.ToolParam{Name: t.Name, InputSchema: param.Override[anthropic.ToolInputSchemaParam](t.schema())}
		if t.Description != "" {
			tool.Description = anthropic.String(t.Description)
		}
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: tool})
	}
	if req.NoCalls && len(req.Tools) > 0 {
		p.ToolChoice = anthropic.ToolChoiceUnionParam{OfNone: &anthropic.ToolChoiceNoneParam{}}
	}
	if budget := thinkingBudget(req.Effort); budget > 0 && r.mayThink(req.Messages) {
		p.Thinking = anthropic.ThinkingConfigParamOfEnabled(budget)
		p.MaxTokens = max(p.MaxTokens, budget+4096)
	}
	return p
}

// anthropicLimit knows the old models that refuse to be asked for more than they can give.
func anthropicLimit(name string) int64 {
	switch {
	case strings.Contains(name, "claude-3-5"), strings.Contains(name, "claude-3.5"):
		return 8192
	case strings.Contains(name, "claude-3-7"), strings.Contains(name, "claude-3.7"):
		return anthropicTokens
	case strings.Contains(name, "claude-3-"), strings.Contains(name, "claude-2"):
		return 4096
	}
	return anthropicTokens
}

func thinkingBudget(effort string) int64 {
	switch effort {
	case "minimal", "low":
		return 4_000
	case "medium":
		return 8_000
	case "high":
		return 16_000
	case "xhigh", "max":
		return 32_000
	}
	return 0
}

// mayThink reports whether thinking can be switched on: while calls are being answered, the
// message that made them must begin with a thought, and one of another model has none.
func (r Route) mayThink(history []Message) bool {
	for _, m := range slices.Backward(history) {
		switch m.Role {
		case User:
			return true
		case Assistant:
			return len(m.Calls) == 0 || r.replayable(m)
		case Tool:
		}
	}
	return true
}

func anthropicMessages(r Route, history []Message) []anthropic.MessageParam {
	var out []anthropic.MessageParam
	add := func(role anthropic.MessageParamRole, blocks ...anthropic.ContentBlockParamUnion) {
		if n := len(out) - 1; n >= 0 && out[n].Role == role {
			out[n].Content = append(out[n].Content, blocks...)
			return
		}
		if len(out) == 0 && role == anthropic.MessageParamRoleAssistant {
			out = append(out, anthropic.NewUserMessage(anthropic.NewTextBlock("(the conversation begins with a message of yours)")))
		}
		out = append(out, anthropic.MessageParam{Role: role, Content: blocks})
	}
	for _, m := range history {
		switch m.Role {
		case Assistant:
			add(anthropic.MessageParamRoleAssistant, anthropicAssistant(r, m)...)
		case Tool:
			add(anthropic.MessageParamRoleUser, anthropicResult(m))
		case User:
			add(anthropic.MessageParamRoleUser, anthropicParts(m.Parts)...)
		}
	}
	if n := len(out); n == 0 || out[n-1].Role == anthropic.MessageParamRoleAssistant {
		add(anthropic.MessageParamRoleUser, anthropic.NewTextBlock("(go on)"))
	}
	cacheLast(out[len(out)-1].Content)
	return out
}

// cacheLast marks the end of what the next request of the turn will begin with.
func cacheLast(blocks []anthropic.ContentBlockParamUnion) {
	if c := blocks[len(blocks)-1].GetCacheControl(); c != nil {
		*c = anthropic.NewCacheControlEphemeralParam()
	}
}

func anthropicAssistant(r Route, m Message) []anthropic.ContentBlockParamUnion {
	var out []anthropic.ContentBlockParamUnion
	if r.replayable(m) {
		for _, raw := range m.Origin.Blocks {
			out = append(out, param.Override[anthropic.ContentBlockParamUnion](raw))
		}
		return out
	}
	// Text that is only space is refused, and so is space at the end of the last message.
	if text := strings.TrimRight(m.Text(), " \t\r\n"); text != "" {
		out = append(out, anthropic.NewTextBlock(text))
	}
	for _, c := range m.Calls {
		out = append(out, anthropic.NewToolUseBlock(anthropicID(c.ID), c.wireInput(), c.wireName()))
	}
	if len(out) == 0 {
		out = append(out, anthropic.NewTextBlock("(no text)"))
	}
	return out
}

func anthropicResult(m Message) anthropic.ContentBlockParamUnion {
	b := &anthropic.ToolResultBlockParam{ToolUseID: anthropicID(m.CallID)}
	if m.Failed {
		b.IsError = anthropic.Bool(true)
	}
	for _, p := range m.Parts {
		if p.Image != nil {
			if img := anthropicImage(p.Image); img != nil {
				b.Content = append(b.Content, anthropic.ToolResultBlockParamContentUnion{OfImage: img})
			}
		} else if strings.TrimSpace(p.Text) != "" {
			b.Content = append(b.Content, anthropic.ToolResultBlockParamContentUnion{OfText: &anthropic.TextBlockParam{Text: p.Text}})
		}
	}
	return anthropic.ContentBlockParamUnion{OfToolResult: b}
}

func anthropicParts(parts []Part) []anthropic.ContentBlockParamUnion {
	var out []anthropic.ContentBlockParamUnion
	for _, p := range parts {
		if p.Image != nil {
			if img := anthropicImage(p.Image); img != nil {
				out = append(out, anthropic.ContentBlockParamUnion{OfImage: img})
			}
		} else if strings.TrimSpace(p.Text) != "" {
			out = append(out, anthropic.NewTextBlock(p.Text))
		}
	}
	if len(out) == 0 {
		out = append(out, anthropic.NewTextBlock("(empty message)"))
	}
	return out
}

// anthropicImage returns nil for a data URL that is none.
func anthropicImage(i *Image) *anthropic.ImageBlockParam {
	kind, data := i.MediaType, base64.StdEncoding.EncodeToString(i.Data)
	if rest, ok := strings.CutPrefix(i.URL, "data:"); ok && len(i.Data) == 0 {
		head, payload, found := strings.Cut(rest, ",")
		if kind, ok = strings.CutSuffix(head, ";base64"); !ok || !found {
			return nil
		}
		data = payload
	} else if len(i.Data) == 0 {
		return &anthropic.ImageBlockParam{Source: anthropic.ImageBlockParamSourceUnion{OfURL: &anthropic.URLImageSourceParam{URL: i.URL}}}
	}
	return &anthropic.ImageBlockParam{Source: anthropic.ImageBlockParamSourceUnion{
		OfBase64: &anthropic.Base64ImageSourceParam{Data: data, MediaType: anthropic.Base64ImageSourceMediaType(kind)},
	}}
}

// anthropicID makes an id of another provider fit for this wire, always in the same way.
func anthropicID(id string) string {
	ok := id != "" && len(id) <= 64
	for i := 0; ok && i < len(id); i++ {
		c := id[i]
		ok = c == '_' || c == '-' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
	}
	if ok {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "toolu_" + hex.EncodeToString(sum[:12])
}
