// SPDX-License-Identifier: MIT

package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

var (
	errEncode = errors.New("the request cannot be written")
	errCut    = errors.New("the stream ended before the answer did")
)

// stream collects one answer.
type stream struct {
	route Route
	emit  func(Delta)
	ctx   context.Context //nolint:containedctx // a stream is one call
	watch *watch

	started   bool // something of the answer has come
	text      strings.Builder
	reasoning strings.Builder
	calls     []*callBuilder
	fields    map[string]*field
	blocks    []json.RawMessage
	finish    Finish
	usage     Usage
	model     string
}

// callBuilder is a tool call on its way.
type callBuilder struct {
	id, name string
	index    int
	args     strings.Builder
	extra    map[string]*field
}

func (s *stream) say(text string) {
	if text != "" {
		s.text.WriteString(text)
		s.emit(Delta{Text: text})
	}
}

func (s *stream) think(text string) {
	if text != "" {
		s.reasoning.WriteString(text)
		s.emit(Delta{Reasoning: text})
	}
}

func (s *stream) answer() Answer {
	m := Message{Role: Assistant, Reasoning: s.reasoning.String(), Origin: s.route.origin()}
	if s.text.Len() > 0 {
		m.Parts = []Part{{Text: s.text.String()}}
	}
	for _, b := range s.calls {
		m.Calls = append(m.Calls, Call{ID: b.id, Name: b.name, Args: b.args.String(), Extra: joined(b.extra)})
	}
	m.Origin.Fields, m.Origin.Blocks = joined(s.fields), s.blocks
	a := Answer{Message: m, Finish: s.finish, Usage: s.usage, Model: s.model}
	if len(m.Calls) > 0 && a.Finish == FinishStop {
		a.Finish = FinishCalls // some servers say stop whatever they did
	}
	return a
}

// body returns the whole answer of a server that does not stream, or nil for one that does.
func (s *stream) body(resp *http.Response) ([]byte, error) {
	if !strings.Contains(resp.Header.Get("Content-Type"), "json") {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	_ = resp.Body.Close() //nolint:errcheck // the answer has been read
	s.watch.touch()
	if err == nil && len(bytes.TrimSpace(data)) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return data, err
}

// maxAnswer bounds an answer in one piece.
const maxAnswer = 64 << 20

// field is a value that we do not know and that comes in pieces.
type field struct {
	text  strings.Builder
	isStr bool
	list  []json.RawMessage
	raw   json.RawMessage
}

// add joins pieces as their senders mean it: strings and lists grow, anything else is
// replaced. null says nothing.
func (f *field) add(raw json.RawMessage) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	switch raw[0] {
	case '"':
		if text, ok := str(raw); ok {
			f.isStr = true
			f.text.WriteString(text)
		}
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			f.list = append(f.list, list...)
		}
	default:
		f.raw = bytes.Clone(raw)
	}
}

func (f *field) value() json.RawMessage {
	switch {
	case f.isStr:
		return quote(f.text.String())
	case f.list != nil:
		return mustJSON(f.list)
	}
	return f.raw
}

func joined(fields map[string]*field) map[string]json.RawMessage {
	if len(fields) == 0 {
		return nil
	}
	out := make(map[string]json.RawMessage, len(fields))
	for name, f := range fields {
		if v := f.value(); v != nil {
			out[name] = v
		}
	}
	return out
}

// collect keeps a piece of a field that we do not know. Names that are no plain words are
// dropped: the libraries take them for paths.
func collect(into *map[string]*field, name string, raw json.RawMessage) {
	if !plainName(name) {
		return
	}
	if *into == nil {
		*into = map[string]*field{}
	}
	f := (*into)[name]
	if f == nil {
		f = &field{}
		(*into)[name] = f
	}
	f.add(raw)
}

func plainName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != ""
}

// quote writes a JSON string as it is: no escaping for HTML, so that text keeps its bytes.
func quote(s string) json.RawMessage { return mustJSON(s) }

// mustJSON encodes what cannot fail: strings, and values that were JSON before.
func mustJSON(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// encodeError says why a request cannot be written.
func encodeError(err error) error { return fmt.Errorf("%w: %w", errEncode, err) }
