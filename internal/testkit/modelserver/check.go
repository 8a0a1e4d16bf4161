// SPDX-License-Identifier: MIT

package modelserver

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

type chatCall struct {
	ID, Type string
	Function struct{ Name, Arguments string }
}

func (c chatCall) check() error {
	var args map[string]any
	if err := json.Unmarshal([]byte(c.Function.Arguments), &args); err != nil || args == nil {
		return fmt.Errorf("arguments of %s are no object: %q", c.Function.Name, c.Function.Arguments)
	}
	if c.ID == "" || !idPattern.MatchString(c.Function.Name) || c.Type != "function" {
		return fmt.Errorf("call without id, name or type")
	}
	return nil
}

// CheckChat says what a strict provider of the chat completions format would refuse.
func CheckChat(body []byte) error {
	var r struct {
		Model string
		Tools []struct {
			Function struct{ Parameters map[string]any }
		}
		Messages []struct {
			Role      string
			Content   any
			ToolCalls []chatCall `json:"tool_calls"`
			CallID    string     `json:"tool_call_id"`
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	if r.Model == "" || len(r.Messages) == 0 {
		return fmt.Errorf("model and messages are required")
	}
	var open []string // calls without a result, in their order
	for i, m := range r.Messages {
		if len(open) > 0 && m.Role != "tool" {
			return fmt.Errorf("message %d is of %s, but the calls %v have no results yet", i, m.Role, open)
		}
		text, isText := m.Content.(string)
		switch m.Role {
		case "system":
			if i != 0 || text == "" {
				return fmt.Errorf("message %d: the system message is the first, and not empty", i)
			}
		case "user":
			parts, _ := m.Content.([]any)
			if text == "" && len(parts) == 0 {
				return fmt.Errorf("message %d is an empty user message", i)
			}
			if i > 0 && r.Messages[i-1].Role == "user" && isText {
				return fmt.Errorf("messages %d and %d are both of the user", i-1, i)
			}
		case "assistant":
			if text == "" && len(m.ToolCalls) == 0 {
				return fmt.Errorf("message %d of the assistant is empty", i)
			}
			for _, c := range m.ToolCalls {
				if err := c.check(); err != nil {
					return fmt.Errorf("message %d: %w", i, err)
				}
				open = append(open, c.ID)
			}
		case "tool":
			if len(open) == 0 || open[0] != m.CallID {
				return fmt.Errorf("message %d answers %q, open in order are %v", i, m.CallID, open)
			}
			if !isText {
				return fmt.Errorf("message %d: the result is no text", i)
			}
			open = open[1:]
		default:
			return fmt.Errorf("message %d has the role %q", i, m.Role)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("the calls %v have no results", open)
	}
	for _, t := range r.Tools {
		if t.Function.Parameters["type"] != "object" {
			return fmt.Errorf("a tool has no object of parameters")
		}
	}
	return nil
}

var idPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

type contentBlock struct {
	Type, Text, ID, Name, Thinking, Signature string
	Input                                     any
	ToolUseID                                 string `json:"tool_use_id"`
	Content                                   any
}

// CheckMessages says what a strict provider of the Anthropic format would refuse.
func CheckMessages(body []byte) error {
	var r struct {
		Model     string
		MaxTokens int64 `json:"max_tokens"`
		System    []struct{ Text string }
		Tools     []struct {
			Schema map[string]any `json:"input_schema"`
		}
		Messages []struct {
			Role    string
			Content []contentBlock
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	if r.Model == "" || r.MaxTokens <= 0 || len(r.Messages) == 0 {
		return fmt.Errorf("model, max_tokens and messages are required")
	}
	seen := map[string]bool{}
	var open []string
	for i, m := range r.Messages {
		if want := []string{"user", "assistant"}[i%2]; m.Role != want {
			return fmt.Errorf("message %d is of %q, want %s", i, m.Role, want)
		}
		if len(m.Content) == 0 {
			return fmt.Errorf("message %d is empty", i)
		}
		for j, b := range m.Content {
			if err := b.check(m.Role); err != nil {
				return fmt.Errorf("message %d, block %d: %w", i, j, err)
			}
			if b.Type == "tool_result" {
				if len(open) == 0 || open[0] != b.ToolUseID {
					return fmt.Errorf("message %d answers %q, open in order are %v", i, b.ToolUseID, open)
				}
				open = open[1:]
			} else if len(open) > 0 && m.Role == "user" {
				return fmt.Errorf("message %d: results come first, %v are open", i, open)
			}
			if b.Type == "tool_use" {
				if seen[b.ID] {
					return fmt.Errorf("message %d: the id %s is used twice", i, b.ID)
				}
				seen[b.ID] = true
				open = append(open, b.ID)
			}
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("the calls %v have no results", open)
	}
	if r.Messages[len(r.Messages)-1].Role != "user" {
		return fmt.Errorf("the last message is not of the user")
	}
	if len(seen) > 0 && len(r.Tools) == 0 {
		return fmt.Errorf("the history has calls, and the request has no tools")
	}
	return nil
}

func (b contentBlock) check(role string) error {
	switch {
	case b.Type == "text" && strings.TrimSpace(b.Text) == "":
		return fmt.Errorf("empty text")
	case b.Type == "tool_use" && (role != "assistant" || !idPattern.MatchString(b.ID) || !idPattern.MatchString(b.Name)):
		return fmt.Errorf("bad tool_use %+v", b)
	case b.Type == "tool_use":
		if _, ok := b.Input.(map[string]any); !ok {
			return fmt.Errorf("input is no object: %v", b.Input)
		}
	case b.Type == "tool_result" && (role != "user" || !idPattern.MatchString(b.ToolUseID)):
		return fmt.Errorf("bad tool_result %+v", b)
	case b.Type == "thinking" && (role != "assistant" || b.Signature == ""):
		return fmt.Errorf("thought without signature")
	case b.Type == "":
		return fmt.Errorf("block without a type")
	}
	return nil
}
