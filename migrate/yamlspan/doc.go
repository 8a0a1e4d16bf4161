// SPDX-License-Identifier: MIT

package yamlspan

import (
	"bytes"
	"strconv"
	"strings"
)

// Doc is one YAML document and the bytes it was read from. The zero value is not usable;
// make one with [Parse].
type Doc struct {
	src    []byte
	root   *Node
	pieces []piece // how src is made of the bytes that were first parsed
}

// piece is a run of bytes of a Doc: taken from offset off of the first source, or inserted
// (off < 0).
type piece struct{ off, n int }

// Parse reads a file with at most one document. src is not copied: the caller leaves it
// unchanged. The error is a [*SyntaxError].
func Parse(src []byte) (*Doc, error) {
	root, err := parse(src)
	if err != nil {
		return nil, err
	}
	return &Doc{src: src, root: root, pieces: []piece{{0, len(src)}}}, nil
}

// Bytes returns the document's text. The caller does not change it.
func (d *Doc) Bytes() []byte { return d.src }

// Root returns the top node, nil for a file without content.
func (d *Doc) Root() *Node { return d.root }

// Line returns the 1-based line of an offset.
func (d *Doc) Line(at int) int {
	line, _ := position(d.src, at)
	return line
}

// PathString shows a path for people: segments joined by dots, quoted where they hold
// characters that a dotted path cannot show.
func PathString(path []string) string {
	if len(path) == 0 {
		return "(top level)"
	}
	var b strings.Builder
	for i, p := range path {
		if i > 0 {
			b.WriteByte('.')
		}
		if p == "" || strings.ContainsAny(p, ". \"'[]{}:#\n\t") {
			b.WriteString(strconv.Quote(p))
		} else {
			b.WriteString(p)
		}
	}
	return b.String()
}

// get returns the index of the last pair with this key, and how many there are: readers of
// the file take the last one.
func (n *Node) get(key string) (index, count int) {
	index = -1
	for i, p := range n.Pairs {
		if p.Key.Kind == Scalar && p.Key.Value == key && p.Key.Tag == "" {
			index = i
			count++
		}
	}
	return index, count
}

// anchors maps each anchor to the node that carries it. With one name given twice an alias
// means the nearest before it; this package only needs to know that a node is shared, so
// the last one stands for all.
func (d *Doc) anchors() map[string]*Node {
	m := map[string]*Node{}
	walk(d.root, func(n *Node) {
		if n.Anchor != "" {
			m[n.Anchor] = n
		}
	})
	return m
}

// walk visits n and all below it in the order of the file.
func walk(n *Node, visit func(*Node)) {
	if n == nil {
		return
	}
	visit(n)
	for _, p := range n.Pairs {
		walk(p.Key, visit)
		walk(p.Value, visit)
	}
	for _, it := range n.Items {
		walk(it, visit)
	}
}

// Found is what a path leads to.
type Found struct {
	Node *Node // never an alias: the node it stands for
	Key  *Node // the key before it, nil for the root
	Line int   // 1-based line of the key
	// Shared is the line of the alias or merge the value was reached through, 0 if it stands
	// at the path itself. A shared value can be read, not edited.
	Shared int
}

// Find follows path the way a reader of the file would: aliases and merges are resolved,
// of two equal keys the last one counts.
func (d *Doc) Find(path ...string) (Found, bool) {
	if d.root == nil {
		return Found{}, false
	}
	f := Found{Node: d.root, Line: 1}
	var anchors map[string]*Node
	deref := func(n *Node) *Node {
		for range maxDepth {
			if n == nil || n.Kind != Alias {
				return n
			}
			if f.Shared == 0 {
				f.Shared = d.Line(n.Start)
			}
			if anchors == nil {
				anchors = d.anchors()
			}
			n = anchors[n.Value]
		}
		return nil
	}
	f.Node = deref(f.Node)
	for _, key := range path {
		p, merged, ok := lookup(f.Node, key, deref)
		if !ok {
			return Found{}, false
		}
		if merged && f.Shared == 0 {
			f.Shared = d.Line(p.Key.Start)
		}
		f.Key = p.Key
		if f.Node = deref(p.Value); f.Node == nil {
			return Found{}, false
		}
	}
	if f.Key != nil {
		f.Line = d.Line(f.Key.Start)
	}
	return f, true
}

// lookup finds a key in a mapping, at last through its merges.
func lookup(n *Node, key string, deref func(*Node) *Node) (p Pair, merged, ok bool) {
	if n == nil || n.Kind != Mapping {
		return Pair{}, false, false
	}
	if i, _ := n.get(key); i >= 0 {
		return n.Pairs[i], false, true
	}
	for _, m := range n.Pairs {
		if m.Key.Kind != Scalar || m.Key.Value != "<<" || m.Key.Style != Plain {
			continue
		}
		sources := []*Node{m.Value}
		if v := m.Value; v.Kind == Sequence {
			sources = v.Items
		}
		for _, src := range sources {
			if src.Kind != Alias && src.Kind != Mapping {
				continue
			}
			if p, _, ok := lookup(deref(src), key, deref); ok {
				return p, true, true
			}
		}
	}
	return Pair{}, false, false
}

// eol returns the line ending of the file at an offset: that of the line it stands on, or
// of the line before where the file ends there, "\n" in a file of one line.
func (d *Doc) eol(at int) string {
	for i := at; i < len(d.src); i++ {
		if n := breakLen(d.src, i); n > 0 {
			return string(d.src[i : i+n])
		}
	}
	if i := bytes.LastIndexByte(d.src[:min(at, len(d.src))], '\n'); i > 0 && d.src[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// lineStart returns the offset where the line of at begins (behind a byte order mark).
func (d *Doc) lineStart(at int) int {
	for i := at; i > 0; i-- {
		if c := d.src[i-1]; c == '\n' || c == '\r' && breakLen(d.src, i-1) == 1 {
			return i
		}
	}
	if bytes.HasPrefix(d.src, []byte(bom)) && at >= len(bom) {
		return len(bom)
	}
	return 0
}

// lineEnd returns the offset of the break that ends the line of at, or of the end.
func (d *Doc) lineEnd(at int) int {
	for at < len(d.src) && breakLen(d.src, at) == 0 {
		at++
	}
	return at
}

// afterLine returns the offset where the next line begins.
func (d *Doc) afterLine(at int) int {
	at = d.lineEnd(at)
	return at + breakLen(d.src, at)
}

// blankBetween reports whether only blanks stand in src[from:to].
func (d *Doc) blankBetween(from, to int) bool {
	return len(bytes.Trim(d.src[from:to], " \t")) == 0
}
