// SPDX-License-Identifier: MIT

package yamlspan

import (
	"bytes"
	"strings"
)

// masked stands for a value that is not shown.
const masked = "***"

// Masked returns the document's lines, without line breaks, with every value and comment
// replaced by "***" except values for which shown returns true. Keys, dashes, brackets and
// indentation stay. It is for showing where something stands without showing secrets.
func (d *Doc) Masked(shown func(path []string) bool) []string {
	hide := make([]bool, len(d.src))
	covered := make([]bool, len(d.src))
	mark := func(set []bool, n *Node) {
		for i := n.Start; i < n.End; i++ {
			set[i] = true
		}
	}
	var visit func(n *Node, path []string)
	visit = func(n *Node, path []string) {
		switch n.Kind {
		case Mapping:
			for _, p := range n.Pairs {
				mark(covered, p.Key)
				visit(p.Value, append(path[:len(path):len(path)], p.Key.Value))
			}
		case Sequence:
			for _, it := range n.Items {
				visit(it, path)
			}
		default:
			mark(covered, n)
			if !shown(path) {
				mark(hide, n)
			}
		}
	}
	if d.root != nil {
		visit(d.root, nil)
	}
	var out []string
	for at := 0; at < len(d.src); {
		end := d.lineEnd(at)
		out = append(out, d.maskLine(at, end, hide, covered))
		at = end + breakLen(d.src, end)
	}
	return out
}

// maskLine shows one line: hidden runs as "***", a comment as "# ***".
func (d *Doc) maskLine(from, to int, hide, covered []bool) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		c := d.src[i]
		switch {
		case c == '#' && !covered[i] && (i == from || isBlank(d.src[i-1])):
			if rest := bytes.TrimSpace(d.src[i+1 : to]); len(rest) > 0 {
				b.WriteString("# " + masked)
			} else {
				b.WriteByte('#')
			}
			return b.String()
		case !hide[i]:
			b.WriteByte(c)
		case isBlank(c) && strings.TrimSpace(b.String()) == "":
			b.WriteByte(c) // the indentation of a further line of text
		default:
			for i+1 < to && hide[i+1] {
				i++
			}
			b.WriteString(masked)
		}
	}
	return b.String()
}
