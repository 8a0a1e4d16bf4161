// SPDX-License-Identifier: MIT

package yamlspan

import (
	"bytes"
	"slices"
	"strings"
)

// masked stands for a value that is not shown.
const masked = "***"

// Masked returns the document's lines, as "\n" ends them and without line breaks, with
// every value and comment replaced by "***" except values for which shown returns true.
// Keys, dashes, brackets and indentation stay. It is for showing where something stands
// without showing secrets.
func (d *Doc) Masked(shown func(path []string) bool) []string {
	m := masker{src: d.src, hide: make([]bool, len(d.src)), covered: make([]bool, len(d.src)), shown: shown}
	if d.root != nil {
		m.visit(d.root, nil)
	}
	var out []string
	var line strings.Builder
	for at := 0; at < len(d.src); {
		end := d.lineEnd(at)
		m.line(&line, at, end)
		at = end + breakLen(d.src, end)
		if at == len(d.src) || d.src[at-1] == '\n' {
			out = append(out, line.String())
			line.Reset()
			continue
		}
		line.WriteByte(' ') // a break that other programs do not count as one
	}
	return out
}

// masker knows what each byte is: part of a key or a value (covered), and of a value that
// is not shown (hide).
type masker struct {
	src           []byte
	hide, covered []bool
	shown         func(path []string) bool
}

func mark(set []bool, from, to int) {
	for i := from; i < to; i++ {
		set[i] = true
	}
}

func (m *masker) visit(n *Node, path []string) {
	switch n.Kind {
	case Mapping:
		for _, p := range n.Pairs {
			m.key(p.Key)
			m.visit(p.Value, append(slices.Clip(path), p.Key.Value))
		}
	case Sequence:
		for _, it := range n.Items {
			m.visit(it, path)
		}
	default:
		mark(m.covered, n.Start, n.End)
		if !m.shown(path) {
			mark(m.hide, n.Start, n.End)
		} else {
			m.header(n)
		}
	}
}

// key shows a key; one that is a list or a mapping is treated as a value.
func (m *masker) key(n *Node) {
	if n.Kind == Mapping || n.Kind == Sequence {
		shown := m.shown
		m.shown = func([]string) bool { return false }
		m.visit(n, nil)
		m.shown = shown
		return
	}
	mark(m.covered, n.Start, n.End)
	m.header(n)
}

// header leaves the comment behind "|" or ">" out of text that is shown.
func (m *masker) header(n *Node) {
	if n.Style != Literal && n.Style != Folded {
		return
	}
	for i := n.Body; i < n.End && breakLen(m.src, i) == 0; i++ {
		if m.src[i] == '#' {
			m.covered[i] = false
		}
	}
}

// line shows one line: hidden runs as "***", a comment as "# ***".
func (m *masker) line(b *strings.Builder, from, to int) {
	lead := true
	for i := from; i < to; i++ {
		c := m.src[i]
		switch {
		case c == '#' && !m.covered[i]:
			b.WriteByte('#')
			if rest := bytes.TrimSpace(m.src[i+1 : to]); len(rest) > 0 {
				b.WriteString(" " + masked)
			}
			return
		case !m.hide[i]:
			b.WriteByte(c)
		case isBlank(c) && lead:
			b.WriteByte(c) // the indentation of a further line of text
		default:
			for i+1 < to && m.hide[i+1] {
				i++
			}
			b.WriteString(masked)
		}
		lead = lead && isBlank(c)
	}
}
