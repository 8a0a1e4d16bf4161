// SPDX-License-Identifier: MIT

package yamlspan

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
)

// Doc is one YAML document and the bytes it was read from. The zero value is not usable;
// make one with [Parse].
type Doc struct {
	src    []byte
	root   *Node
	pieces []piece // how src is made of the bytes that were first parsed
	tree   func() *Tree
}

// newDoc makes a Doc; its tree is made when somebody asks, once. It is not to be changed.
func newDoc(src []byte, root *Node, pieces []piece) *Doc {
	return &Doc{src, root, pieces, sync.OnceValue(func() *Tree { return ownTree(root) })}
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
	return newDoc(src, root, []piece{{0, len(src)}}), nil
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
		if p.Key.Kind == Scalar && p.Key.Value == key {
			index = i
			count++
		}
	}
	return index, count
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
	w := finder{doc: d}
	f := Found{Node: w.deref(d.root), Line: 1}
	for _, key := range path {
		p, merge, ok := w.lookup(f.Node, key, map[*Node]bool{})
		if !ok {
			return Found{}, false
		}
		if merge != nil {
			w.share(merge)
		}
		f.Key = p.Key
		if f.Node = w.deref(p.Value); f.Node == nil {
			return Found{}, false
		}
	}
	if f.Key != nil {
		f.Line = d.Line(f.Key.Start)
	}
	if w.shared != nil {
		f.Shared = d.Line(w.shared.Start)
	}
	return f, true
}

// finder follows the aliases and merges of one document.
type finder struct {
	doc     *Doc
	anchors map[string][]*Node // the nodes with this anchor, in the order of the file
	shared  *Node              // the first alias or merge key on the way
}

func (w *finder) share(n *Node) {
	if w.shared == nil {
		w.shared = n
	}
}

// deref returns what an alias stands for: the nearest node before it with that anchor.
func (w *finder) deref(n *Node) *Node {
	for range maxDepth {
		if n == nil || n.Kind != Alias {
			return n
		}
		w.share(n)
		n = w.anchored(n)
	}
	return nil
}

func (w *finder) anchored(alias *Node) *Node {
	if w.anchors == nil {
		w.anchors = map[string][]*Node{}
		walk(w.doc.root, func(n *Node) {
			if n.Anchor != "" {
				w.anchors[n.Anchor] = append(w.anchors[n.Anchor], n)
			}
		})
	}
	var last *Node
	for _, n := range w.anchors[alias.Value] {
		if n.Start < alias.Start {
			last = n
		}
	}
	return last
}

// lookup finds a key in a mapping, at last through its merges, and then the merge key it
// came through. A mapping is looked into once, so that merges that lead to themselves, or
// fan out, end.
func (w *finder) lookup(n *Node, key string, seen map[*Node]bool) (p Pair, merge *Node, ok bool) {
	if n == nil || n.Kind != Mapping || seen[n] {
		return Pair{}, nil, false
	}
	seen[n] = true
	if i, _ := n.get(key); i >= 0 {
		return n.Pairs[i], nil, true
	}
	for _, m := range n.Pairs {
		if m.Key.Kind != Scalar || m.Key.Value != "<<" || m.Key.Style != Plain {
			continue
		}
		for _, src := range w.sources(m.Value) {
			if p, _, ok := w.lookup(src, key, seen); ok {
				return p, m.Key, true
			}
		}
	}
	return Pair{}, nil, false
}

// sources returns the mappings that the value of a merge key names.
func (w *finder) sources(v *Node) []*Node {
	shared := w.shared
	defer func() { w.shared = shared }() // looking is not reaching
	if v = w.deref(v); v == nil {
		return nil
	}
	if v.Kind != Sequence {
		return []*Node{v}
	}
	var out []*Node
	for _, it := range v.Items {
		out = append(out, w.deref(it))
	}
	return out
}

// eol returns the line ending of the file at an offset: that of the line it stands on, or
// of the line before where the file ends there, "\n" in a file of one line.
func (d *Doc) eol(at int) string {
	for i := at; i < len(d.src); i++ {
		if c := d.src[i]; c == '\n' || c == '\r' {
			return string(d.src[i : i+breakLen(d.src, i)])
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
		if n := lastBreak(d.src[:i]); n > 0 && breakLen(d.src, i-n) == n {
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
	return restOfLine(d.src, at)
}

// afterLine returns the offset where the next line begins.
func (d *Doc) afterLine(at int) int {
	at = d.lineEnd(at)
	return at + breakLen(d.src, at)
}

// afterBlank returns the offset behind the empty lines that start at a line start.
func (d *Doc) afterBlank(at int) int {
	for at < len(d.src) && d.blankBetween(at, d.lineEnd(at)) {
		at = d.afterLine(at)
	}
	return at
}

// blankBetween reports whether only blanks stand in src[from:to].
func (d *Doc) blankBetween(from, to int) bool {
	return len(bytes.Trim(d.src[from:to], " \t")) == 0
}
