// SPDX-License-Identifier: MIT

package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"
)

// chat makes a call in the chat completions format. The request is written and carried here,
// and the answer read here: servers that speak "the same" format add fields, leave out others
// and put null where the types of a library expect an object. How a stream is split into
// events is the same in both formats, and a library's.
func (c *Client) chat(s *stream, req Request) error {
	body, err := chatParams(s.route, req).MarshalJSON()
	if err != nil {
		return encodeError(err)
	}
	resp, err := c.chatPost(s.ctx, s.route, body)
	if err != nil {
		return err
	}
	whole, err := s.body(resp)
	if err != nil {
		return err
	}
	if whole != nil {
		return s.chatWhole(whole)
	}
	return s.chatEvents(ssestream.NewDecoder(resp))
}

// chatPost sends a request. The caller closes the body of the answer.
func (c *Client) chatPost(ctx context.Context, r Route, body []byte) (*http.Response, error) {
	u, err := url.Parse(r.base(openaiBase))
	if err != nil {
		return nil, errors.New("base_url is no URL: " + plain(err))
	}
	// Not JoinPath: the address of a gateway may hold another with its two slashes.
	u = u.ResolveReference(&url.URL{Path: strings.TrimSuffix(u.Path, "/") + "/chat/completions"})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept(r))
	req.Header.Set("User-Agent", userAgent)
	if !r.Key.Empty() {
		req.Header.Set("Authorization", "Bearer "+r.Key.Reveal())
	}
	for name, value := range r.Headers {
		req.Header.Set(name, value)
	}
	return c.http.Do(req)
}

func (s *stream) chatEvents(events ssestream.Decoder) error {
	defer func() { _ = events.Close() }() //nolint:errcheck // the answer has been read
	done := false
	for !done && events.Next() {
		data := bytes.TrimSpace(events.Event().Data)
		s.watch.touch()
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			done = true
			continue
		}
		if err := s.chatChunk(data); err != nil {
			return err
		}
	}
	if err := events.Err(); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	// Servers exist that send no [DONE], and others that send no finish_reason. One of the
	// two must have come.
	if s.finish == "" && (!done || !s.started) {
		return errCut
	}
	if s.finish == "" {
		s.finish = FinishStop
	}
	return nil
}

// chatFrame is a chunk, or a whole answer.
type chatFrame struct {
	Model   string          `json:"model"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Delta   map[string]json.RawMessage `json:"delta"`
		Message map[string]json.RawMessage `json:"message"`
		Finish  *string                    `json:"finish_reason"`
		Usage   json.RawMessage            `json:"usage"`
	} `json:"choices"`
}

func (s *stream) chatWhole(data []byte) error {
	if err := s.chatChunk(data); err != nil {
		return err
	}
	if !s.started {
		return errCut
	}
	if s.finish == "" {
		s.finish = FinishStop
	}
	return nil
}

func (s *stream) chatChunk(data []byte) error {
	var f chatFrame
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("an event is no JSON: %w", err)
	}
	if e := bytes.TrimSpace(f.Error); len(e) > 0 && string(e) != "null" {
		return &reportError{parseReport(0, data)}
	}
	if f.Model != "" {
		s.model = f.Model
	}
	readChat(&s.usage, f.Usage)
	if len(f.Choices) == 0 {
		return nil
	}
	choice := f.Choices[0]
	s.started = true
	readChat(&s.usage, choice.Usage)
	for _, fields := range []map[string]json.RawMessage{choice.Delta, choice.Message} {
		// What is shown is read in a fixed order: thoughts come before what they lead to.
		for _, name := range []string{"reasoning_content", "reasoning", "content", "refusal"} {
			s.chatField(name, fields[name])
		}
		for name, raw := range fields {
			s.chatExtra(name, raw)
		}
		if raw, ok := fields["tool_calls"]; ok {
			s.chatCalls(raw)
		}
	}
	if choice.Finish != nil && *choice.Finish != "" {
		s.finish = chatFinish(*choice.Finish)
	}
	return nil
}

func chatFinish(reason string) Finish {
	switch reason {
	case "tool_calls", "function_call":
		return FinishCalls
	case "length", "max_tokens":
		return FinishLength
	case "content_filter", "refusal":
		return FinishRefusal
	}
	return FinishStop
}

func (s *stream) chatField(name string, raw json.RawMessage) {
	text, isText := str(raw)
	switch {
	case name == "content":
		s.chatContent(raw)
	case !isText || text == "":
	case name == "refusal":
		s.say(text)
		s.finish = FinishRefusal
	case name == "reasoning_content" || s.fields["reasoning_content"] == nil:
		// Some servers send the same thought under both names.
		s.think(text)
		collect(&s.fields, name, raw)
	}
}

// chatExtra keeps a field that we do not know.
func (s *stream) chatExtra(name string, raw json.RawMessage) {
	switch name {
	case "role", "name", "content", "refusal", "tool_calls", "function_call", "reasoning_content", "reasoning":
	default:
		if string(bytes.TrimSpace(raw)) != "null" {
			collect(&s.fields, name, raw)
		}
	}
}

// chatContent reads a text, or a list of parts as Mistral sends them.
func (s *stream) chatContent(raw json.RawMessage) {
	if text, ok := str(raw); ok {
		s.say(text)
		return
	}
	var parts []struct {
		Text     string `json:"text"`
		Thinking []struct {
			Text string `json:"text"`
		} `json:"thinking"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return
	}
	for _, p := range parts {
		s.say(p.Text)
		for _, t := range p.Thinking {
			s.think(t.Text)
		}
	}
}

func (s *stream) chatCalls(raw json.RawMessage) {
	var pieces []map[string]json.RawMessage
	if json.Unmarshal(raw, &pieces) != nil {
		return
	}
	for i, p := range pieces {
		var index *int
		_ = json.Unmarshal(p["index"], &index) //nolint:errcheck // a missing index is handled below
		id, _ := str(p["id"])
		var fn struct {
			Name string          `json:"name"`
			Args json.RawMessage `json:"arguments"`
		}
		_ = json.Unmarshal(p["function"], &fn) //nolint:errcheck // an empty function is an unknown tool
		b := s.callFor(index, id, fn.Name, i)
		if b.name == "" && fn.Name != "" {
			b.name = fn.Name
			s.emit(Delta{Call: fn.Name})
		}
		if text, ok := str(fn.Args); ok {
			b.args.WriteString(text)
		} else if len(fn.Args) > 0 && string(fn.Args) != "null" {
			b.args.Write(fn.Args) // arguments as an object instead of a text
		}
		for name, v := range p {
			if name != "index" && name != "id" && name != "type" && name != "function" {
				collect(&b.extra, name, v)
			}
		}
	}
}

// callFor finds the call that a piece continues, or begins one. The index decides; where it
// is missing or always the same, a new id begins a new call.
func (s *stream) callFor(index *int, id, name string, position int) *callBuilder {
	at := position
	if index != nil {
		at = *index
	} else if id == "" && name == "" && len(s.calls) > 0 {
		return s.calls[len(s.calls)-1]
	}
	for _, b := range slices.Backward(s.calls) {
		switch {
		case id != "" && b.id == id && (index == nil || b.index == at):
			return b
		case b.index == at && (id == "" || b.id == "") && (index != nil || name == ""):
			if b.id == "" {
				b.id = id
			}
			return b
		}
	}
	b := &callBuilder{id: id, index: at}
	s.calls = append(s.calls, b)
	return b
}
