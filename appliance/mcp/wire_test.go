// SPDX-License-Identifier: MIT

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func readAll(text string) (methods []string, junk string, err error) {
	var b bytes.Buffer
	w := newWire(io.NopCloser(strings.NewReader(text)), nopCloser{io.Discard}, &b)
	defer w.shut()
	for {
		m, err := w.Read(context.Background())
		if err != nil {
			return methods, b.String(), err
		}
		switch m := m.(type) {
		case *jsonrpc.Request:
			methods = append(methods, m.Method)
		case *jsonrpc.Response:
			methods = append(methods, "response")
		}
	}
}

func TestWireRead(t *testing.T) {
	t.Parallel()
	const note = `{"jsonrpc":"2.0","method":"n"}`
	for _, tc := range []struct {
		in   string
		want []string
		junk int
	}{
		{"", nil, 0},
		{note + "\n", []string{"n"}, 0},
		{note + "\r\n\r\n \t\n" + note + "\n", []string{"n", "n"}, 0},
		{"[" + note + "," + note + "]\n", []string{"n", "n"}, 0},
		{"[1," + note + "]\n", []string{"n"}, 0},
		{"hello\n" + note + "\n{}\n[]\n3\nnull\n{\"jsonrpc\":\n" + note + "\n", []string{"n", "n"}, 6},
		{note + note + "\n" + note + "\n", []string{"n"}, 1},
		{strings.Repeat("y", 200<<10) + "\n" + note + "\n", []string{"n"}, 1},
		{"\xff\xfe\x00\n" + note + "\n", []string{"n"}, 1},
	} {
		got, junk, err := readAll(tc.in)
		if !errors.Is(err, io.EOF) {
			t.Errorf("%.40q: got %v", tc.in, err)
		}
		equal(t, tc.in[:min(len(tc.in), 40)], got, tc.want)
		if n := strings.Count(junk, "standard output: "); n != tc.junk {
			t.Errorf("%.40q: %d lines of junk, want %d: %.300q", tc.in, n, tc.junk, junk)
		}
	}
	if _, _, err := readAll(strings.Repeat("junk\n", maxJunk+1)); err == nil || !strings.Contains(err.Error(), "no MCP messages") {
		t.Errorf("got %v", err)
	}
	if _, _, err := readAll(strings.Repeat("x", maxFrame+1)); err == nil || !strings.Contains(err.Error(), "16 MiB") {
		t.Errorf("got %v", err)
	}
}

func FuzzWireRead(f *testing.F) {
	f.Add("{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n")
	f.Add("[{}]\n[[]]\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\nx")
	f.Fuzz(func(t *testing.T, text string) {
		got, _, err := readAll(text)
		if err == nil {
			t.Fatal("no end")
		}
		again, _, _ := readAll("garbage\n" + text)
		equal(t, "after garbage", again, got)
	})
}

// A peer that does not read holds up nobody beyond their context, and nothing is torn.
func TestWireWriteBlocked(t *testing.T) {
	t.Parallel()
	r, in := io.Pipe()
	w := newWire(io.NopCloser(strings.NewReader("")), in, io.Discard)
	defer w.shut()
	msg := func(method string) jsonrpc.Message { return &jsonrpc.Request{Method: method} }
	if err := w.Write(soon(t), msg("first")); err != nil { // is taken over and waits for the peer
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(soon(t), 10*time.Millisecond)
	defer cancel()
	if err := w.Write(ctx, msg("never")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	lines := json.NewDecoder(r)
	go w.Write(soon(t), msg("second")) // it is read below
	for _, want := range []string{"first", "second"} {
		var m struct{ Method string }
		if err := lines.Decode(&m); err != nil || m.Method != want {
			t.Errorf("got %v, %v, want %s", m, err, want)
		}
	}
	w.shut()
	if err := w.Write(soon(t), msg("late")); err == nil {
		t.Error("written to a closed connection")
	}
}

func TestWireWriteFails(t *testing.T) {
	t.Parallel()
	r, in := io.Pipe()
	gone := errors.New("peer is gone")
	r.CloseWithError(gone)
	w := newWire(io.NopCloser(strings.NewReader("")), in, io.Discard)
	defer w.shut()
	for ctx := soon(t); ; {
		err := w.Write(ctx, &jsonrpc.Request{Method: "m"})
		if errors.Is(err, gone) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnwrap(t *testing.T) {
	t.Parallel()
	size := int64(3)
	for _, tc := range []struct {
		name  string
		in    *sdk.CallToolResult
		want  string
		media int
	}{
		{"empty", &sdk.CallToolResult{}, `{"result":""}`, 0},
		{"text", &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "a<b>"}, &sdk.TextContent{Text: "\"c\""}}}, `{"result":"a<b>\n\"c\""}`, 0},
		{"error", &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "no"}}}, `{"error":"no"}`, 0},
		{"silent error", &sdk.CallToolResult{IsError: true}, `{"error":"the tool failed without saying why"}`, 0},
		{"structured", &sdk.CallToolResult{StructuredContent: map[string]any{"n": 1.5}, Meta: sdk.Meta{"k": "v"}}, `{"result":"","structuredContent":{"n":1.5},"_meta":{"k":"v"}}`, 0},
		{
			"media", &sdk.CallToolResult{Content: []sdk.Content{
				&sdk.TextContent{Text: "see"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte("png")}, &sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("wave")},
				&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "f:///x", MIMEType: "application/pdf", Blob: []byte("pdf")}},
				&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "f:///t", Text: "inner"}}, &sdk.EmbeddedResource{},
				&sdk.ResourceLink{URI: "f:///l", Name: "linked", Size: &size},
			}},
			`{"result":"see\n[image 1: image/png, 3 bytes]\n[audio 2: audio/wav, 4 bytes]\n[file 3: application/pdf, 3 bytes] f:///x\ninner\n[empty resource]\n[resource f:///l] linked"}`, 3,
		},
	} {
		got := unwrap(tc.in)
		if got.JSON != tc.want || len(got.Media) != tc.media || got.Error != tc.in.IsError {
			t.Errorf("%s: got %s (%d media, error %v), want %s", tc.name, got.JSON, len(got.Media), got.Error, tc.want)
		}
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	const empty = `{"type":"object","properties":{}}`
	for _, tc := range []struct{ in, want string }{
		{`null`, empty},
		{`"x"`, empty},
		{`{"type":"array"}`, empty},
		{`{"type":3}`, empty},
		{`{}`, `{"properties":{},"type":"object"}`},
		{`{"type":"object","properties":[]}`, `{"properties":{},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"type":"string","const":"<"}},"required":["a"],"$defs":{"x":true}}`, `{"$defs":{"x":true},"properties":{"a":{"const":"<","type":"string"}},"required":["a"],"type":"object"}`},
	} {
		var v any
		if err := json.Unmarshal([]byte(tc.in), &v); err != nil {
			t.Fatal(err)
		}
		if got := string(schema(&sdk.Tool{InputSchema: v})); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.in, got, tc.want)
		}
	}
}
