// SPDX-License-Identifier: MIT

package smoke

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// mcp is a client of an MCP server on stdio, as much of one as a proof needs.
type mcp struct {
	w  io.Writer
	r  *bufio.Reader
	id int
}

// call asks one thing and waits for its answer; what the server says unasked is passed over.
func (m *mcp) call(method string, params, result any) error {
	m.id++
	if err := m.send(map[string]any{"jsonrpc": "2.0", "id": m.id, "method": method, "params": params}); err != nil {
		return err
	}
	for range 1000 {
		line, err := m.r.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("%s: no answer: %w", method, err)
		}
		var reply struct {
			ID     *int            `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  *struct {
				Code    int    `json:"code"`
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := json.Unmarshal(line, &reply); err != nil {
			return fmt.Errorf("%s: the server says %.200q: %w", method, line, err)
		}
		if reply.ID == nil || *reply.ID != m.id {
			continue
		}
		if reply.Error != nil {
			return fmt.Errorf("%s: error %d: %s", method, reply.Error.Code, reply.Error.Message)
		}
		return json.Unmarshal(reply.Result, result)
	}
	return errors.New(method + ": a thousand messages and no answer")
}

func (m *mcp) send(message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = m.w.Write(append(data, '\n'))
	return err
}

// server is what an MCP server says of itself.
type server struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// hello opens the conversation.
func (m *mcp) hello() (server, error) {
	var r struct {
		ServerInfo server `json:"serverInfo"`
	}
	err := m.call("initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "hermes-appliance", "version": "1"},
	}, &r)
	if err == nil {
		err = m.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	}
	return r.ServerInfo, err
}

// tool calls a tool and returns its text.
func (m *mcp) tool(name string) (string, error) {
	var r struct {
		Content []struct{ Text string } `json:"content"`
		IsError bool                    `json:"isError"`
	}
	if err := m.call("tools/call", map[string]any{"name": name, "arguments": map[string]any{}}, &r); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, c := range r.Content {
		text.WriteString(c.Text)
	}
	if r.IsError {
		return "", fmt.Errorf("%s: %s", name, text.String())
	}
	return text.String(), nil
}
