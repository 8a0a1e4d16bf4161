// SPDX-License-Identifier: MIT

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Schemas of our own tools.
const (
	schemaNone   = `{"type":"object","properties":{}}`
	schemaURI    = `{"type":"object","properties":{"uri":{"type":"string","description":"URI of the resource"}},"required":["uri"]}`
	schemaPrompt = `{"type":"object","properties":{"name":{"type":"string","description":"Name of the prompt"},"arguments":{"type":"object","description":"Arguments of the prompt","additionalProperties":{"type":"string"}}},"required":["name"]}`
)

// maxListed is how many resources or prompts are listed to the model.
const maxListed = 1000

// own returns the tools that give the model the server's resources and prompts. Name is the
// last part of their names.
func (s *server) own() []tool {
	mk := func(name, about, schema string, run func(context.Context, *conn, json.RawMessage) (Result, error)) tool {
		return tool{Tool: Tool{
			Name: name, Description: fmt.Sprintf(about, s.cfg.Name), Schema: json.RawMessage(schema),
			Server: s.cfg.Name, ReadOnly: true, Untrusted: s.cfg.Untrusted, Parallel: s.cfg.Parallel,
		}, run: run}
	}
	var out []tool
	if s.listed.resources {
		out = append(out,
			mk("list_resources", "List the resources of MCP server %s", schemaNone, listResources),
			mk("read_resource", "Read a resource of MCP server %s by its URI", schemaURI, readResource))
	}
	if s.listed.prompts {
		out = append(out,
			mk("list_prompts", "List the prompts of MCP server %s", schemaNone, listPrompts),
			mk("get_prompt", "Get a prompt of MCP server %s by its name", schemaPrompt, getPrompt))
	}
	return out
}

func listResources(ctx context.Context, c *conn, _ json.RawMessage) (Result, error) {
	type entry struct {
		URI         string `json:"uri,omitempty"`
		Template    string `json:"uriTemplate,omitempty"`
		Name        string `json:"name,omitempty"`
		Description string `json:"description,omitempty"`
		MIMEType    string `json:"mimeType,omitempty"`
	}
	var out []entry
	for r, err := range c.session.Resources(ctx, nil) {
		if err != nil {
			return Result{}, err
		}
		if out = append(out, entry{URI: r.URI, Name: r.Name, Description: r.Description, MIMEType: r.MIMEType}); len(out) >= maxListed {
			return jsonResult(out)
		}
	}
	for r, err := range c.session.ResourceTemplates(ctx, nil) {
		if err != nil { // servers need not have any, and some do not know the question
			break
		}
		if out = append(out, entry{Template: r.URITemplate, Name: r.Name, Description: r.Description, MIMEType: r.MIMEType}); len(out) >= maxListed {
			break
		}
	}
	return jsonResult(out)
}

func readResource(ctx context.Context, c *conn, args json.RawMessage) (Result, error) {
	var in struct {
		URI string `json:"uri"`
	}
	if !arguments(args, &in) || in.URI == "" {
		return failed(errors.New(`read_resource wants {"uri": "…"}`)), nil
	}
	r, err := c.session.ReadResource(ctx, &sdk.ReadResourceParams{URI: in.URI})
	if err != nil {
		return Result{}, err
	}
	var out Result
	blocks := make([]string, 0, len(r.Contents))
	for _, part := range r.Contents {
		blocks = append(blocks, out.resource(part))
	}
	out.JSON = textResult(strings.Join(blocks, "\n")).JSON
	return out, nil
}

func listPrompts(ctx context.Context, c *conn, _ json.RawMessage) (Result, error) {
	type argument struct {
		Name        string `json:"name"`
		Description string `json:"description,omitempty"`
		Required    bool   `json:"required,omitempty"`
	}
	type entry struct {
		Name        string     `json:"name"`
		Description string     `json:"description,omitempty"`
		Arguments   []argument `json:"arguments,omitempty"`
	}
	var out []entry
	for p, err := range c.session.Prompts(ctx, nil) {
		if err != nil {
			return Result{}, err
		}
		e := entry{Name: p.Name, Description: p.Description}
		for _, a := range p.Arguments {
			if a != nil {
				e.Arguments = append(e.Arguments, argument{a.Name, a.Description, a.Required})
			}
		}
		if out = append(out, e); len(out) >= maxListed {
			break
		}
	}
	return jsonResult(out)
}

func getPrompt(ctx context.Context, c *conn, args json.RawMessage) (Result, error) {
	var in struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	if !arguments(args, &in) || in.Name == "" {
		return failed(errors.New(`get_prompt wants {"name": "…", "arguments": {"…": "…"}}`)), nil
	}
	r, err := c.session.GetPrompt(ctx, &sdk.GetPromptParams{Name: in.Name, Arguments: in.Arguments})
	if err != nil {
		return Result{}, err
	}
	var out Result
	var blocks []string
	for _, m := range r.Messages {
		if m != nil {
			blocks = append(blocks, fmt.Sprintf("%s: %s", m.Role, out.block(m.Content)))
		}
	}
	out.JSON = textResult(strings.Join(blocks, "\n")).JSON
	return out, nil
}

// arguments reads one JSON object and reports whether it was one of the right shape.
func arguments(args json.RawMessage, into any) bool {
	return bytes.HasPrefix(bytes.TrimSpace(args), []byte("{")) && json.Unmarshal(args, into) == nil
}

// jsonResult is a list as text.
func jsonResult[T any](list []T) (Result, error) {
	if list == nil {
		list = []T{}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(list); err != nil {
		return Result{}, err
	}
	return textResult(strings.TrimSuffix(b.String(), "\n")), nil
}
