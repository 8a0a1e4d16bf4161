// SPDX-License-Identifier: MIT

package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Result is what a call gave.
type Result struct {
	// JSON is an object for the model: {"result": text} with "structuredContent" and "_meta"
	// if the server sent them, or {"error": text}.
	JSON  string
	Error bool    // the tool, or the way to it, failed
	Media []Media // in the order of their placeholders in the text
}

// Media is content that is no text.
type Media struct {
	Kind     string // image, audio or file
	MIMEType string // as the server says
	URI      string // of a file; else ""
	Data     []byte
}

// answer is the shape of Result.JSON.
type answer struct {
	Result     *string        `json:"result,omitempty"`
	Structured any            `json:"structuredContent,omitempty"`
	Meta       map[string]any `json:"_meta,omitempty"`
	Error      string         `json:"error,omitempty"`
}

func (a answer) String() string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(a); err != nil { // structuredContent was JSON before, so it cannot fail
		return `{"error":"the server's answer cannot be written as JSON"}`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func failed(err error) Result {
	return Result{JSON: answer{Error: err.Error()}.String(), Error: true}
}

func textResult(text string) Result {
	return Result{JSON: answer{Result: &text}.String()}
}

// unwrap turns the protocol's envelope into what the model reads.
func unwrap(r *sdk.CallToolResult) Result {
	var out Result
	text := out.join(r.Content)
	if r.IsError {
		if text == "" {
			text = "the tool failed without saying why"
		}
		out.Error = true
		out.JSON = answer{Error: text, Structured: r.StructuredContent, Meta: r.Meta}.String()
		return out
	}
	out.JSON = answer{Result: &text, Structured: r.StructuredContent, Meta: r.Meta}.String()
	return out
}

// join returns the text of contents, one block a line, and keeps the media.
func (r *Result) join(contents []sdk.Content) string {
	blocks := make([]string, 0, len(contents))
	for _, c := range contents {
		blocks = append(blocks, r.block(c))
	}
	return strings.Join(blocks, "\n")
}

func (r *Result) block(c sdk.Content) string {
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text
	case *sdk.ImageContent:
		return r.media("image", c.MIMEType, "", c.Data)
	case *sdk.AudioContent:
		return r.media("audio", c.MIMEType, "", c.Data)
	case *sdk.ResourceLink:
		return strings.TrimSpace(fmt.Sprintf("[resource %s] %s", c.URI, c.Name))
	case *sdk.EmbeddedResource:
		return r.resource(c.Resource)
	}
	return fmt.Sprintf("[content of a kind that is not supported: %T]", c)
}

func (r *Result) resource(c *sdk.ResourceContents) string {
	switch {
	case c == nil:
		return "[empty resource]"
	case c.Blob != nil:
		return r.media("file", c.MIMEType, c.URI, c.Blob)
	}
	return c.Text
}

func (r *Result) media(kind, mime, uri string, data []byte) string {
	r.Media = append(r.Media, Media{Kind: kind, MIMEType: mime, URI: uri, Data: data})
	return strings.TrimSpace(fmt.Sprintf("[%s %d: %s, %d bytes] %s", kind, len(r.Media), mime, len(data), uri))
}
