// SPDX-License-Identifier: MIT

// Package model talks to language models: a vocabulary of our own for messages, tool calls
// and usage, one streaming call over the two wire formats that providers speak, and a
// rehearsal model that needs no provider. It gives typed errors that say whether trying again
// can help, keeps what a provider sends and we do not know (reasoning, signatures) and sends
// it back to the same provider, and makes every history it is given valid for the wire.
//
// It never retries (that is the agent's business), never reads the environment or a config,
// never follows a redirect with a key in hand, and never puts a key into an error or a log.
package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Role says who speaks.
type Role string

// The roles of messages. The system prompt is no message: see [Request.System].
const (
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// Image is a picture in a message: a URL, or bytes with their media type.
type Image struct {
	URL       string `json:"url,omitempty"` // http, https or data
	MediaType string `json:"media_type,omitempty"`
	Data      []byte `json:"data,omitempty"`
}

// Part is a piece of a message: a text, or an image.
type Part struct {
	Text  string `json:"text,omitempty"`
	Image *Image `json:"image,omitempty"`
}

// Call is a tool call that a model asks for.
type Call struct {
	ID   string `json:"id"` // never empty, unique in the history it was asked for in
	Name string `json:"name"`
	// Args is the text that the model sent, which may be no JSON at all: see [Call.Input].
	Args string `json:"args"`
	// Extra are fields of the call that we do not know, to be sent back.
	Extra map[string]json.RawMessage `json:"extra,omitempty"`
}

// ArgsError says that a model's arguments are no JSON object.
type ArgsError struct {
	Tool   string
	Detail string
}

func (e *ArgsError) Error() string {
	return fmt.Sprintf("%s: arguments are no JSON object: %s", e.Tool, e.Detail)
}

// Input returns the arguments as a JSON object, or an [*ArgsError]. No arguments at all are
// the empty object: many models send nothing for a tool without parameters.
func (c Call) Input() (json.RawMessage, error) {
	text := strings.TrimSpace(c.Args)
	if text == "" || text == "null" {
		return json.RawMessage("{}"), nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		detail := err.Error()
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			detail = fmt.Sprintf("%v (at byte %d of %d)", err, syntax.Offset, len(text))
		} else if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
			detail = "they are one JSON " + kind.Value
		}
		return nil, &ArgsError{Tool: c.Name, Detail: detail}
	}
	return json.RawMessage(text), nil
}

// wireInput is what of the arguments may be sent back: valid JSON in one line.
func (c Call) wireInput() json.RawMessage {
	in, err := c.Input()
	if err != nil {
		return json.RawMessage("{}")
	}
	var b bytes.Buffer
	if json.Compact(&b, in) != nil {
		return json.RawMessage("{}")
	}
	return b.Bytes()
}

// wireName is the name as it may be sent back: models make up names that no provider takes.
func (c Call) wireName() string {
	name := []byte(c.Name)
	for i, b := range name {
		if b != '_' && b != '-' && (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'z') {
			name[i] = '_'
		}
	}
	if len(name) == 0 {
		return "unnamed"
	}
	return string(name[:min(len(name), 64)])
}

// Origin is where a model's message came from, with what only that place understands.
type Origin struct {
	APIMode  APIMode `json:"api_mode"`
	Provider string  `json:"provider"`
	Model    string  `json:"model"`
	// Fields are unknown fields of a chat message, such as reasoning_content.
	Fields map[string]json.RawMessage `json:"fields,omitempty"`
	// Blocks are the content blocks of an Anthropic message in their order, if some of them
	// are more than text and tool calls (thinking with its signature).
	Blocks []json.RawMessage `json:"blocks,omitempty"`
}

// Message is one entry of a history. Messages are values: nobody changes one that was given
// to somebody else.
type Message struct {
	Role      Role    `json:"role"`
	Parts     []Part  `json:"parts,omitempty"`
	Calls     []Call  `json:"calls,omitempty"`     // of an assistant
	CallID    string  `json:"call_id,omitempty"`   // of a tool result: which call it answers
	Name      string  `json:"name,omitempty"`      // of a tool result: the tool
	Failed    bool    `json:"failed,omitempty"`    // of a tool result
	Reasoning string  `json:"reasoning,omitempty"` // of an assistant, for people to read
	Origin    *Origin `json:"origin,omitempty"`    // of an assistant
}

// Text makes a message of one text.
func Text(role Role, text string) Message {
	return Message{Role: role, Parts: []Part{{Text: text}}}
}

// Result makes the result of a tool call.
func Result(c Call, text string, failed bool) Message {
	return Message{Role: Tool, CallID: c.ID, Name: c.Name, Failed: failed, Parts: []Part{{Text: text}}}
}

// Text returns the text parts, joined by line breaks.
func (m Message) Text() string {
	if len(m.Parts) == 1 {
		return m.Parts[0].Text
	}
	var texts []string
	for _, p := range m.Parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// ToolSpec is a tool as a model sees it.
type ToolSpec struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON schema of an object; empty = no parameters
}

func (t ToolSpec) schema() json.RawMessage {
	if len(t.Schema) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return t.Schema
}

// Request is what a model is asked. The same request makes the same bytes.
type Request struct {
	System   string
	Messages []Message // any history: what the wire does not allow is repaired, see [Repair]
	Tools    []ToolSpec
	// NoCalls names the tools but forbids their use. A request without tools whose history
	// has calls is refused by some providers, and loses the prompt cache of others.
	NoCalls   bool
	Effort    string // reasoning effort: low, medium, high …; "" = the provider's default
	MaxTokens int64  // of the answer; 0 = the route's
}

// Finish says why a model stopped.
type Finish string

// The reasons to stop.
const (
	FinishStop    Finish = "stop"
	FinishCalls   Finish = "tool_calls"
	FinishLength  Finish = "length"  // cut off at the limit of the answer
	FinishRefusal Finish = "refusal" // withheld by the provider
)

// Answer is what a model said.
type Answer struct {
	Message Message
	Finish  Finish
	Usage   Usage
	Model   string // as the provider names it; may differ from what was asked for
}

// Delta is a piece of an answer on its way. One of the fields is set.
type Delta struct {
	Text      string
	Reasoning string
	Call      string // a call of this tool begins
}
