// SPDX-License-Identifier: MIT

package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"
)

// anthropic makes a call in the Anthropic messages format. The library writes the request,
// carries it and splits the events; they are read here, see [Client.chat] for the reason.
func (c *Client) anthropic(s *stream, req Request) error {
	r := s.route
	params := anthropicParams(r, req)
	client := r.anthropicClient(c.http)
	body, err := params.MarshalJSON()
	if err != nil {
		return encodeError(err)
	}
	var resp *http.Response
	if err := client.Post(s.ctx, "v1/messages", json.RawMessage(body), &resp); err != nil {
		return err
	}
	whole, err := s.body(resp)
	if err != nil {
		return err
	}
	if whole != nil {
		return s.anthropicWhole(whole)
	}
	return s.anthropicEvents(ssestream.NewDecoder(resp))
}

func (r Route) anthropicClient(doer *http.Client) anthropic.Client {
	base := strings.TrimSuffix(strings.TrimRight(r.base("https://api.anthropic.com"), "/"), "/v1")
	client := anthropic.Client{Options: []option.RequestOption{
		option.WithBaseURL(base),
		option.WithHTTPClient(doer),
		option.WithMaxRetries(0),
		option.WithHeader("Accept", accept(r)),
		option.WithHeader("User-Agent", userAgent),
		option.WithJSONSet("stream", !r.NoStream),
	}}
	if !r.Key.Empty() {
		client.Options = append(client.Options, option.WithAPIKey(r.Key.Reveal()))
	}
	for name, value := range r.Headers {
		client.Options = append(client.Options, option.WithHeader(name, value))
	}
	for name, value := range r.Extra {
		if string(bytes.TrimSpace(value)) == "null" {
			client.Options = append(client.Options, option.WithJSONDel(literalPath(name)))
			continue
		}
		client.Options = append(client.Options, option.WithJSONSet(literalPath(name), value))
	}
	return client
}

// anthropicFrame is an event, or a whole message.
type anthropicFrame struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message *struct {
		Model string          `json:"model"`
		Usage json.RawMessage `json:"usage"`
	} `json:"message"`
	Block map[string]json.RawMessage `json:"content_block"`
	Delta map[string]json.RawMessage `json:"delta"`
	Usage json.RawMessage            `json:"usage"`

	Model  string                       `json:"model"`
	Blocks []map[string]json.RawMessage `json:"content"`
	Stop   *string                      `json:"stop_reason"`
}

// block is a content block on its way.
type block struct {
	index    int
	fields   map[string]json.RawMessage
	kind     string
	text     strings.Builder // text or thinking
	input    strings.Builder // of a tool call
	extra    map[string]*field
	signed   strings.Builder
	complete bool
}

// anthropicState is what of a message has come.
type anthropicState struct {
	*stream
	usage  anthropicUsage
	blocks []*block
	done   bool
}

func (s *stream) anthropicEvents(events ssestream.Decoder) error {
	defer func() { _ = events.Close() }() //nolint:errcheck // the answer has been read
	a := &anthropicState{stream: s}
	for !a.done && events.Next() {
		data := bytes.TrimSpace(events.Event().Data)
		if len(data) == 0 {
			continue
		}
		var f anthropicFrame
		if err := json.Unmarshal(data, &f); err != nil {
			return fmt.Errorf("an event is no JSON: %w", err)
		}
		if f.Type == "ping" {
			continue
		}
		s.watch.touch()
		if f.Type == "error" {
			return &reportError{parseReport(0, data)}
		}
		a.event(f)
	}
	a.settle()
	if err := events.Err(); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	if s.finish == "" {
		return errCut
	}
	return nil
}

func (s *stream) anthropicWhole(data []byte) error {
	var f anthropicFrame
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("the answer is no JSON: %w", err)
	}
	if f.Type == "error" {
		return &reportError{parseReport(0, data)}
	}
	a := &anthropicState{stream: s}
	s.started, s.model = true, f.Model
	a.usage.add(f.Usage)
	for i, fields := range f.Blocks {
		a.start(i, fields)
	}
	if f.Stop != nil {
		s.finish = anthropicFinish(*f.Stop)
	}
	a.settle()
	if s.finish == "" {
		return errCut
	}
	return nil
}

func (a *anthropicState) event(f anthropicFrame) {
	switch f.Type {
	case "message_start":
		a.started = true
		if f.Message != nil {
			a.model = f.Message.Model
			a.usage.add(f.Message.Usage)
		}
	case "content_block_start":
		a.start(f.Index, f.Block)
	case "content_block_delta":
		if b := a.block(f.Index); b != nil {
			a.delta(b, f.Delta)
		}
	case "content_block_stop":
		if b := a.block(f.Index); b != nil {
			b.complete = true
		}
	case "message_delta":
		a.usage.add(f.Usage)
		if reason, ok := str(f.Delta["stop_reason"]); ok {
			a.finish = anthropicFinish(reason)
		}
	case "message_stop":
		a.done = true
	}
}

func anthropicFinish(reason string) Finish {
	switch reason {
	case "tool_use":
		return FinishCalls
	case "max_tokens", "model_context_window_exceeded":
		return FinishLength
	case "refusal":
		return FinishRefusal
	}
	return FinishStop
}

func (a *anthropicState) block(index int) *block {
	for _, b := range a.blocks {
		if b.index == index {
			return b
		}
	}
	return nil
}

func (a *anthropicState) start(index int, fields map[string]json.RawMessage) {
	a.started = true
	b := &block{index: index, fields: fields}
	b.kind, _ = str(fields["type"])
	a.blocks = append(a.blocks, b)
	switch b.kind {
	case "text":
		text, _ := str(fields["text"])
		b.text.WriteString(text)
		a.say(text)
	case "thinking":
		text, _ := str(fields["thinking"])
		b.text.WriteString(text)
		a.think(text)
		signature, _ := str(fields["signature"])
		b.signed.WriteString(signature)
	case "tool_use":
		name, _ := str(fields["name"])
		a.emit(Delta{Call: name})
	}
}

func (a *anthropicState) delta(b *block, d map[string]json.RawMessage) {
	for name, raw := range d {
		text, isText := str(raw)
		switch {
		case name == "type":
		case name == "text" && isText && b.kind == "text":
			b.text.WriteString(text)
			a.say(text)
		case name == "thinking" && isText && b.kind == "thinking":
			b.text.WriteString(text)
			a.think(text)
		case name == "partial_json" && isText:
			b.input.WriteString(text)
		case name == "signature" && isText:
			b.signed.WriteString(text)
		case name == "citation":
			collect(&b.extra, "citations", json.RawMessage("["+string(raw)+"]"))
		default:
			collect(&b.extra, name, raw)
		}
	}
}

// settle makes the message of the blocks.
func (a *anthropicState) settle() {
	a.stream.usage = a.usage.usage()
	opaque := false
	var blocks []json.RawMessage
	for _, b := range a.blocks {
		switch b.kind {
		case "text":
			opaque = opaque || len(b.extra) > 0
		case "tool_use":
			a.calls = append(a.calls, b.call())
			opaque = opaque || len(b.fields) > 4
		default:
			opaque = true
		}
		if raw := b.raw(); raw != nil {
			blocks = append(blocks, raw)
		}
	}
	if opaque {
		a.stream.blocks = blocks
	}
}

func (b *block) call() *callBuilder {
	c := &callBuilder{index: b.index}
	c.id, _ = str(b.fields["id"])
	c.name, _ = str(b.fields["name"])
	text := b.input.String()
	if text == "" {
		text = string(b.fields["input"])
	}
	c.args.WriteString(text)
	return c
}

// raw is the block as it may be sent back; nil for an empty one, which would be refused.
func (b *block) raw() json.RawMessage {
	out := make(map[string]json.RawMessage, len(b.fields)+1)
	maps.Copy(out, b.fields)
	maps.Copy(out, joined(b.extra))
	switch b.kind {
	case "text":
		if b.text.Len() == 0 {
			return nil
		}
		out["text"] = quote(b.text.String())
	case "thinking":
		if b.signed.Len() == 0 {
			return nil
		}
		out["thinking"], out["signature"] = quote(b.text.String()), quote(b.signed.String())
	case "tool_use", "server_tool_use":
		c := b.call()
		call := Call{Name: c.name, Args: c.args.String()}
		out["name"], out["input"] = quote(call.wireName()), call.wireInput()
	}
	return mustJSON(out)
}

// callIDs returns the ids of the tool calls in blocks.
func callIDs(blocks []json.RawMessage) []string {
	var ids []string
	for _, raw := range blocks {
		var b struct{ Type, ID string }
		if json.Unmarshal(raw, &b) == nil && b.Type == "tool_use" {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

// replayable reports whether the blocks of m may be sent instead of its parts: they must be
// this model's own, and ask for the calls that the results will answer.
func (r Route) replayable(m Message) bool {
	if !r.same(m.Origin) || len(m.Origin.Blocks) == 0 {
		return false
	}
	ids := callIDs(m.Origin.Blocks)
	return slices.EqualFunc(ids, m.Calls, func(id string, c Call) bool { return id == c.ID && anthropicID(id) == id })
}
