// SPDX-License-Identifier: MIT

package webhook

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// rawKey stands for the whole payload.
	rawKey = "__raw__"
	// mostRaw and mostNested are how many characters of the whole payload and of a nested
	// value are shown (gateway spec 1.3).
	mostRaw    = 4000
	mostNested = 2000
)

// placeholder is a key in a template, as upstream writes it.
var placeholder = regexp.MustCompile(`\{[a-zA-Z0-9_.]+\}`)

// render makes the message of an event. Every placeholder is replaced once: what a payload
// says is never a template. A key that the payload does not have stays as it is written.
func render(template string, p payload, event, route string) string {
	if template == "" {
		return fmt.Sprintf("Webhook event '%s' on route '%s':\n\n```json\n%s\n```", event, route, indent(p.raw, mostRaw))
	}
	return placeholder.ReplaceAllStringFunc(template, func(found string) string {
		key := found[1 : len(found)-1]
		switch key {
		case rawKey:
			return indent(p.raw, mostRaw)
		case "event_type":
			return event
		}
		path := strings.Split(key, ".")
		v, ok := find(p.value, path)
		if !ok {
			return found
		}
		switch v.(type) {
		case map[string]any, []any:
			return indent(p.written(path), mostNested)
		}
		return text(v)
	})
}

// indent lays valid JSON out with two spaces a level, as the sender ordered it, and stops
// after most characters. It never holds more than that.
func indent(raw json.RawMessage, most int) string {
	w := layout{most: most}
	quoted, escaped, level := false, false, 0
	for i := 0; i < len(raw) && w.n < most; {
		r, size := utf8.DecodeRune(raw[i:])
		i += size
		switch {
		case escaped:
			escaped = false
			w.rune(r)
		case quoted:
			escaped, quoted = r == '\\', r != '"'
			w.rune(r)
		case r == '"':
			quoted = true
			w.rune(r)
		case r == '{', r == '[':
			w.rune(r)
			if next := following(raw[i:]); next == '}' || next == ']' {
				w.bare = true
			} else {
				level++
				w.line(level)
			}
		case r == '}', r == ']':
			if !w.bare {
				level--
				w.line(level)
			}
			w.bare = false
			w.rune(r)
		case r == ',':
			w.rune(r)
			w.line(level)
		case r == ':':
			w.rune(r)
			w.rune(' ')
		case r == ' ', r == '\t', r == '\n', r == '\r':
		default:
			w.rune(r)
		}
	}
	return w.b.String()
}

// layout is a text of bounded length.
type layout struct {
	b    strings.Builder
	n    int // characters
	most int
	bare bool // in a list or map that holds nothing
}

func (w *layout) rune(r rune) {
	if w.n < w.most {
		w.b.WriteRune(r)
		w.n++
	}
}

func (w *layout) line(level int) {
	w.rune('\n')
	for range min(2*level, w.most) {
		w.rune(' ')
	}
}

// following is the next character that is no space.
func following(raw []byte) byte {
	for _, c := range raw {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}
