// SPDX-License-Identifier: MIT

package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deeply a payload may nest: each level makes its indented form longer.
const maxDepth = 100

// errBody says that a body is neither JSON nor a form. It holds nothing of the body.
var errBody = errors.New("the body is neither JSON (nested at most 100 deep) nor a form")

// payload is an event as it was posted: as values for templates and filters, and as it was
// written, because the order of its keys is the sender's.
type payload struct {
	value any // nil, bool, json.Number, string, []any or map[string]any
	raw   json.RawMessage
}

// parse reads the body of an authenticated request.
func parse(contentType string, body []byte) (payload, error) {
	if kind, _, err := mime.ParseMediaType(contentType); err == nil && kind == "application/x-www-form-urlencoded" {
		return parseForm(body)
	}
	return parseJSON(body)
}

func parseJSON(body []byte) (payload, error) {
	if !json.Valid(body) || depth(body) > maxDepth {
		return payload{}, errBody
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // ids are longer than a float is exact
	p := payload{raw: body}
	if err := d.Decode(&p.value); err != nil {
		return payload{}, errBody
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return payload{}, errBody
	}
	return p, nil
}

// parseForm reads a form: GitHub puts its JSON into a field "payload" of one; everything else
// is a map of texts.
func parseForm(body []byte) (payload, error) {
	if !utf8.Valid(body) || len(body) == 0 {
		return payload{}, errBody
	}
	fields, err := url.ParseQuery(string(body))
	if err != nil {
		return payload{}, errBody
	}
	if inner := fields.Get("payload"); len(fields) == 1 && strings.HasPrefix(strings.TrimSpace(inner), "{") {
		if p, err := parseJSON([]byte(inner)); err == nil {
			return p, nil
		}
	}
	value := map[string]any{}
	for name, v := range fields {
		value[name] = v[len(v)-1]
	}
	raw, err := json.Marshal(value)
	return payload{value, raw}, err
}

// depth is how deeply a valid JSON text nests.
func depth(text []byte) (deepest int) {
	now, quoted, escaped := 0, false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{', c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}', c == ']':
			now--
		}
	}
	return deepest
}

// step goes one key down: a key of a map, or the position in a list.
func step(v any, key string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		x, ok := v[key]
		return x, ok
	case []any:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(v) {
			return v[i], true
		}
	}
	return nil, false
}

// find follows a path of keys.
func find(v any, path []string) (any, bool) {
	for _, key := range path {
		var ok bool
		if v, ok = step(v, key); !ok {
			return nil, false
		}
	}
	return v, true
}

// written returns the part of the payload at a path as the sender wrote it; the path is there.
func (p payload) written(path []string) json.RawMessage {
	raw := p.raw
	for _, key := range path {
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) == nil && m != nil {
			raw = m[key]
			continue
		}
		var list []json.RawMessage
		i, err := strconv.Atoi(key)
		if err != nil || json.Unmarshal(raw, &list) != nil || i < 0 || i >= len(list) {
			return nil
		}
		raw = list[i]
	}
	return raw
}

// text is a value as a text: what filters search in and templates show of single values.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}
