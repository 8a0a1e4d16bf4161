// SPDX-License-Identifier: MIT

package migrate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// shaper writes a config in a random notation: the same content can stand in lines or in
// brackets, in any indentation, quoted or not, with comments, anchors and line endings.
type shaper struct {
	r       *rand.Rand
	indent  string
	listPad string
	oneLine float64 // how often a section stands in brackets
	json    bool
	count   int // of comments, so that each is unlike the others
}

func (s *shaper) maybe(p float64) bool { return s.r.Float64() < p }

func (s *shaper) pick(of ...string) string { return of[s.r.IntN(len(of))] }

// scalar writes a text, sometimes in quotes.
func (s *shaper) scalar(text string) string {
	word := strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@- ") == ""
	switch {
	case s.json:
		if json.Valid([]byte(text)) {
			return text
		}
		return fmt.Sprintf("%q", text)
	case strings.HasPrefix(text, `"`) || strings.HasPrefix(text, "'") || !word:
		return text
	case s.maybe(0.1):
		return `"` + text + `"`
	case s.maybe(0.1):
		return "'" + text + "'"
	}
	return text
}

func (s *shaper) key(k string) string {
	if s.json || s.maybe(0.05) {
		return `"` + k + `"`
	}
	return k
}

// node is content: a text, a list or a mapping in the order of its keys.
type node struct {
	text string
	list []string
	keys []string
	vals []node
}

func (n *node) put(key string, v node) {
	n.keys = append(n.keys, key)
	n.vals = append(n.vals, v)
}

func text(s string) node { return node{text: s} }

// flow writes a node in brackets.
func (s *shaper) flow(n node) string {
	var parts []string
	switch {
	case n.list != nil:
		for _, it := range n.list {
			parts = append(parts, s.scalar(it))
		}
		return "[" + strings.Join(parts, s.pick(",", ", ")) + "]"
	case n.keys != nil:
		for i, k := range n.keys {
			parts = append(parts, s.key(k)+": "+s.flow(n.vals[i]))
		}
		return "{" + strings.Join(parts, s.pick(", ", " , ", ", ")) + "}"
	case !s.json && strings.ContainsAny(n.text, "{[,?") && !strings.HasPrefix(n.text, `"`):
		return `"` + n.text + `"`
	}
	return s.scalar(n.text)
}

func (s *shaper) comment() string {
	switch {
	case s.maybe(0.15):
		s.count++
		return " # c" + fmt.Sprint(s.count) + "." + s.pick("", " 'q", " {", ": x")
	case s.maybe(0.05):
		return "   "
	}
	return ""
}

// block writes a mapping on lines.
func (s *shaper) block(b *strings.Builder, n node, indent string) {
	inText := false
	for i, k := range n.keys {
		if s.maybe(0.1) {
			s.count++
			place := s.pick(indent, "", indent+"  ")
			if inText {
				place = "" // deeper it would be part of the text
			}
			b.WriteString(place + "# own " + fmt.Sprint(s.count) + ".\n")
		}
		if s.maybe(0.05) {
			b.WriteString("\n")
		}
		inText = false
		v := n.vals[i]
		head := indent + s.key(k) + ":"
		switch {
		case len(v.keys) > 0 && !s.maybe(s.oneLine):
			b.WriteString(head + s.comment() + "\n")
			s.block(b, v, indent+s.indent)
		case len(v.list) > 0 && !s.maybe(s.oneLine):
			b.WriteString(head + s.comment() + "\n")
			for _, it := range v.list {
				b.WriteString(indent + s.listPad + "- " + s.scalar(it) + s.comment() + "\n")
			}
		case v.list == nil && v.keys == nil && !strings.ContainsAny(v.text, "\"'\n{[#") && v.text != "" && s.maybe(0.04):
			b.WriteString(head + " " + s.pick(">-", "|-") + "\n" + indent + "  " + v.text + "\n")
			inText = true
		case v.keys != nil || v.list != nil:
			b.WriteString(head + " " + s.flow(v) + s.comment() + "\n")
		default:
			b.WriteString(head + " " + s.scalar(v.text) + s.comment() + "\n")
		}
	}
}

// pickKeys makes a mapping of some of the given keys, in random order, each with one of the
// values that follow it.
func (s *shaper) pickKeys(p float64, fields ...[]string) node {
	n := node{keys: []string{}}
	for _, i := range s.r.Perm(len(fields)) {
		if s.maybe(p) {
			n.put(fields[i][0], text(fields[i][1+s.r.IntN(len(fields[i])-1)]))
		}
	}
	return n
}

func (s *shaper) names(of ...string) node {
	n := node{list: []string{}}
	for range s.r.IntN(5) {
		n.list = append(n.list, of[s.r.IntN(len(of))])
	}
	return n
}
