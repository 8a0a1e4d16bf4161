// SPDX-License-Identifier: MIT

package config

import (
	"strings"
	"unicode/utf8"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// layer is one file: its document, and what its aliases stand for.
type layer struct {
	file    string // path, for messages
	doc     *yamlspan.Doc
	from    Origin
	anchors map[string][]*yamlspan.Node // the nodes with this anchor, in the order of the file
}

// Limits on what a file may grow to when its aliases are written out.
const (
	maxDepth  = 200
	maxValues = 1 << 16
)

// leaf is a value as one file has it: a scalar, a list, or something with a tag that nobody
// here understands. Sections are no leaves, so that files overlay key by key.
type leaf struct {
	layer *layer
	key   *yamlspan.Node // the key before it
	node  *yamlspan.Node // never an alias
}

func (l leaf) line() int { return l.layer.doc.Line(l.key.Start) }

// value returns nil, bool, int64, float64 or string for a scalar, else a *yamlspan.Node.
func (l leaf) value() any { return yamlspan.Resolve(l.node) }

// newLayer parses a file. Its top must be a section of keys, or empty.
func newLayer(file string, data []byte, from Origin) (*layer, error) {
	doc, err := yamlspan.Parse(data)
	if err != nil {
		return nil, unparsable(file, err)
	}
	l := &layer{file: file, doc: doc, from: from, anchors: map[string][]*yamlspan.Node{}}
	l.collect(doc.Root())
	root, err := l.deref(doc.Root())
	if err != nil {
		return nil, err
	}
	if root != nil && !isNull(root) && !isSection(root) {
		return nil, l.errorf(root, "the file holds "+kindOf(root)+"; expected a section of keys")
	}
	return l, nil
}

func (l *layer) errorf(n *yamlspan.Node, msg string) *Error {
	return &Error{Kind: ErrUnreadable, File: l.file, Line: l.doc.Line(n.Start), Msg: msg, Fix: "mend the line"}
}

// tree is what a file says, ready to be put over other files.
type tree struct {
	leaves   []leaf
	ids      []string // the path of each leaf, joined
	sections []string // the paths of all sections, joined
}

// tree reads the file.
func (l *layer) tree() (tree, error) {
	root, err := l.deref(l.doc.Root())
	if err != nil || root == nil || isNull(root) {
		return tree{}, err
	}
	b := builder{walker: walker{layer: l, left: maxValues}}
	err = b.section(root, "", 0)
	return b.tree, err
}

// walker reads a layer with its aliases written out, as long as they do not grow too much.
type walker struct {
	*layer
	left int // values it may still make
}

func (w *walker) count(n *yamlspan.Node, values int) error {
	if w.left -= values; w.left < 0 {
		return w.errorf(n, "the aliases of this file repeat too much")
	}
	return nil
}

type builder struct {
	walker
	tree
}

// section reads a mapping as every reader of the file does: of two equal keys the last one
// counts, own keys before merged ones, of the merged ones the first.
func (b *builder) section(n *yamlspan.Node, id string, depth int) error {
	b.sections = append(b.sections, id)
	pairs, err := b.pairs(n, depth)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		v, err := b.deref(p.Value)
		if err == nil {
			err = b.count(p.Key, 1)
		}
		if err != nil {
			return err
		}
		here := id + delim + p.Key.Value
		if isSection(v) {
			if err := b.section(v, here, depth+1); err != nil {
				return err
			}
			continue
		}
		b.leaves = append(b.leaves, leaf{b.layer, p.Key, v})
		b.ids = append(b.ids, here)
	}
	return nil
}

// pairs returns the entries of a section, merged ones included, each key once, with keys
// that are no aliases.
func (w *walker) pairs(n *yamlspan.Node, depth int) ([]yamlspan.Pair, error) {
	if depth > maxDepth {
		return nil, w.errorf(n, "nested too deep, or an alias that contains itself")
	}
	out := make([]yamlspan.Pair, 0, len(n.Pairs))
	var at index
	var merges []*yamlspan.Node
	for _, p := range n.Pairs {
		key, err := w.deref(p.Key)
		switch {
		case err != nil:
			return nil, err
		case key.Kind != yamlspan.Scalar:
			return nil, w.errorf(key, "a key that is "+kindOf(key)+"; expected a single value")
		case isMerge(p.Key):
			merges = append(merges, p.Value)
			continue
		}
		p.Key = key
		if i := at.find(out, key.Value); i >= 0 {
			out[i] = p
			continue
		}
		out = append(out, p)
	}
	for _, m := range merges {
		sub, err := w.merged(m, depth)
		if err != nil {
			return nil, err
		}
		for _, p := range sub {
			if at.find(out, p.Key.Value) < 0 {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// index finds keys among pairs; for the few keys that most sections have it just looks.
type index map[string]int

func (x *index) find(pairs []yamlspan.Pair, key string) int {
	const few = 16
	if len(pairs) <= few {
		for i, p := range pairs {
			if p.Key.Value == key {
				return i
			}
		}
		return -1
	}
	if *x == nil {
		*x = make(index, 2*len(pairs))
	}
	for i := len(*x); i < len(pairs); i++ { // keys are only ever added
		(*x)[pairs[i].Key.Value] = i
	}
	if i, ok := (*x)[key]; ok {
		return i
	}
	return -1
}

// merged returns the entries of the sections that the value of a merge key names.
func (w *walker) merged(n *yamlspan.Node, depth int) ([]yamlspan.Pair, error) {
	v, err := w.deref(n)
	if err != nil {
		return nil, err
	}
	sources := []*yamlspan.Node{v}
	if v.Kind == yamlspan.Sequence {
		sources = v.Items
	}
	var out []yamlspan.Pair
	for _, s := range sources {
		if s, err = w.deref(s); err != nil {
			return nil, err
		}
		if !isSection(s) {
			return nil, w.errorf(n, "a merge (<<) of "+kindOf(s)+"; expected a section or a list of sections")
		}
		sub, err := w.pairs(s, depth+1)
		if err != nil {
			return nil, err
		}
		if err := w.count(n, len(sub)); err != nil {
			return nil, err
		}
		out = append(out, sub...)
	}
	return out, nil
}

// deref returns what an alias stands for: the nearest node before it with that anchor.
func (l *layer) deref(n *yamlspan.Node) (*yamlspan.Node, error) {
	for range maxDepth {
		if n == nil || n.Kind != yamlspan.Alias {
			return n, nil
		}
		var last *yamlspan.Node
		for _, a := range l.anchors[n.Value] {
			if a.Start < n.Start {
				last = a
			}
		}
		if last == nil {
			return nil, l.errorf(n, "an alias has no anchor before it; a text that begins with * needs quotes")
		}
		n = last
	}
	return nil, l.errorf(n, "an alias that stands for itself")
}

func (l *layer) collect(n *yamlspan.Node) {
	if n == nil {
		return
	}
	if n.Anchor != "" {
		l.anchors[n.Anchor] = append(l.anchors[n.Anchor], n)
	}
	for _, p := range n.Pairs {
		l.collect(p.Key)
		l.collect(p.Value)
	}
	for _, it := range n.Items {
		l.collect(it)
	}
}

// decode turns a node into plain values: nil, bool, int64, float64, string, []any and
// map[string]any. Text goes through expand.
func (w *walker) decode(n *yamlspan.Node, expand func(string) string, depth int) (any, error) {
	n, err := w.deref(n)
	if err == nil {
		err = w.count(n, 1)
	}
	switch {
	case err != nil:
		return nil, err
	case depth > maxDepth:
		return nil, w.errorf(n, "nested too deep, or an alias that contains itself")
	case n.Kind == yamlspan.Scalar:
		switch v := yamlspan.Resolve(n).(type) {
		case string:
			return expand(v), nil
		case *yamlspan.Node:
		default:
			return v, nil
		}
	case isSection(n):
		pairs, err := w.pairs(n, depth)
		if err != nil {
			return nil, err
		}
		m := make(map[string]any, len(pairs))
		for _, p := range pairs {
			if m[p.Key.Value], err = w.decode(p.Value, expand, depth+1); err != nil {
				return nil, err
			}
		}
		return m, nil
	case isList(n):
		list := make([]any, len(n.Items))
		for i, it := range n.Items {
			if list[i], err = w.decode(it, expand, depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, w.errorf(n, tagged(n)+" has no meaning here")
}

// A lone "!" says nothing; the other two tags say what is there already.
func isSection(n *yamlspan.Node) bool {
	return n.Kind == yamlspan.Mapping && (n.Tag == "" || n.Tag == "!" || n.Tag == "!!map")
}

func isList(n *yamlspan.Node) bool {
	return n.Kind == yamlspan.Sequence && (n.Tag == "" || n.Tag == "!" || n.Tag == "!!seq")
}

func isNull(n *yamlspan.Node) bool {
	return n.Kind == yamlspan.Scalar && yamlspan.Resolve(n) == nil
}

func isMerge(key *yamlspan.Node) bool {
	return key.Kind == yamlspan.Scalar && key.Style == yamlspan.Plain && key.Value == "<<"
}

// kindOf says what a node is, without saying its value.
func kindOf(n *yamlspan.Node) string {
	switch {
	case isSection(n):
		return "a section of keys"
	case isList(n):
		return "a list"
	case n.Kind != yamlspan.Scalar:
		return tagged(n)
	}
	switch yamlspan.Resolve(n).(type) {
	case nil:
		return "nothing"
	case bool:
		return "true or false"
	case int64, float64:
		return "a number"
	case string:
		return "text"
	}
	return tagged(n)
}

// tagged says that a node has a tag. One that is not YAML's own is not named: it may be a password
// that begins with "!" and has no quotes.
func tagged(n *yamlspan.Node) string {
	if strings.HasPrefix(n.Tag, "!!") {
		return "something tagged " + n.Tag
	}
	return "something with a tag (a text that begins with ! needs quotes)"
}

// delim joins the segments of a path. This byte occurs in no UTF-8 text, and so in no key;
// not even NUL can be said that of.
const delim = "\xff"

// join makes the id of a path: "" for the whole, else each segment behind a delimiter. ok is
// false for a path that no file can hold.
func join(path []string) (id string, ok bool) {
	n := 0
	for _, p := range path {
		if strings.IndexByte(p, delim[0]) >= 0 || !utf8.ValidString(p) {
			return "", false
		}
		n += 1 + len(p)
	}
	var b strings.Builder
	b.Grow(n)
	for _, p := range path {
		b.WriteString(delim)
		b.WriteString(p)
	}
	return b.String(), true
}

// split undoes join.
func split(id string) []string { return strings.Split(id, delim)[1:] }
