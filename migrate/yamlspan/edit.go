// SPDX-License-Identifier: MIT

package yamlspan

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// splice replaces src[from:to] by text.
type splice struct {
	from, to int
	text     string
}

// Edit is one difference between the bytes first parsed and those of a later Doc: the bytes
// [From, To) of the first were replaced by Text.
type Edit struct {
	From, To int
	Text     string
}

// apply makes a new Doc of d with splices that do not overlap, in any order.
func (d *Doc) apply(splices ...splice) (*Doc, error) {
	slices.SortStableFunc(splices, func(a, b splice) int { return a.from - b.from })
	var out []byte
	var pieces []piece
	at := 0
	for _, sp := range splices {
		if sp.from < at || sp.to < sp.from || sp.to > len(d.src) {
			return nil, fmt.Errorf("edit [%d,%d) overlaps another or the end", sp.from, sp.to)
		}
		out = append(out, d.src[at:sp.from]...)
		pieces = append(pieces, d.cut(at, sp.from)...)
		out = append(out, sp.text...)
		pieces = appendPiece(pieces, piece{-1, len(sp.text)})
		at = sp.to
	}
	out = append(out, d.src[at:]...)
	pieces = append(pieces, d.cut(at, len(d.src))...)
	// What was read before has no forbidden characters; what comes in is looked at.
	checked := true
	for _, sp := range splices {
		i, _ := forbidden([]byte(sp.text))
		checked = checked && i < 0
	}
	root, err := (&scanner{src: out, checked: checked}).run()
	if err != nil {
		return nil, fmt.Errorf("the edit would leave a broken file: %w", err)
	}
	return newDoc(out, root, mergePieces(pieces)), nil
}

// cut returns the pieces of src[from:to].
func (d *Doc) cut(from, to int) []piece {
	var out []piece
	at := 0
	for _, p := range d.pieces {
		lo, hi := max(from, at), min(to, at+p.n)
		if lo < hi {
			q := piece{-1, hi - lo}
			if p.off >= 0 {
				q.off = p.off + lo - at
			}
			out = append(out, q)
		}
		at += p.n
	}
	return out
}

func appendPiece(ps []piece, p piece) []piece {
	if p.n == 0 {
		return ps
	}
	return append(ps, p)
}

// mergePieces joins neighbours that continue each other.
func mergePieces(ps []piece) []piece {
	var out []piece
	for _, p := range ps {
		if p.n == 0 {
			continue
		}
		if k := len(out) - 1; k >= 0 {
			last := &out[k]
			if last.off < 0 && p.off < 0 || last.off >= 0 && p.off == last.off+last.n {
				last.n += p.n
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

// Edits returns how d differs from the bytes that were first parsed, which were size long,
// in ascending order.
func (d *Doc) Edits(size int) []Edit {
	var out []Edit
	at := 0 // in d.src
	text := ""
	from := 0
	flush := func(to int) {
		if text != "" || from != to {
			out = append(out, Edit{from, to, text})
		}
		text = ""
	}
	for _, p := range d.pieces {
		if p.off < 0 {
			text += string(d.src[at : at+p.n])
		} else {
			flush(p.off)
			from = p.off + p.n
		}
		at += p.n
	}
	flush(size)
	return out
}

// target is a pair to edit and the mapping it stands in.
type target struct {
	parent *Node
	index  int
	colon  int // of the pair whose value parent is; -1 for the root
}

func (t target) pair() Pair { return t.parent.Pairs[t.index] }

// locate finds the pair at path for editing, and refuses every node whose edit would change
// something else, or that a reader may see differently.
func (d *Doc) locate(path []string) (target, error) {
	t := target{parent: d.root, colon: -1}
	for depth, key := range path {
		if err := d.editable(t.parent, path[:depth], depth == len(path)-1); err != nil {
			return t, err
		}
		i, count := t.parent.get(key)
		here := path[:depth+1]
		switch {
		case count > 1:
			return t, &EditError{d.Line(t.parent.Pairs[i].start), here, "the key is given " + times(count) + "; keep one"}
		case i < 0:
			if f, ok := d.Find(here...); ok && f.Shared > 0 {
				return t, &EditError{f.Shared, here, "the value comes from an alias or a merge; write it out here first"}
			}
			return t, &EditError{d.lineOf(t.parent), here, "no such key"}
		}
		t.index = i
		if depth == len(path)-1 {
			if err := d.unshared(t.pair().Key, here); err != nil {
				return t, err
			}
			return t, d.unshared(t.pair().Value, here)
		}
		t.colon = t.pair().colon
		t.parent = t.pair().Value
	}
	return t, &EditError{1, path, "no path"}
}

func times(n int) string {
	if n == 2 {
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

func (d *Doc) lineOf(n *Node) int {
	if n == nil {
		return 1
	}
	return d.Line(n.Start)
}

// editable reports why entries of n cannot be changed: it is no mapping, it is shared, or,
// for the section that holds the edited key (last), one of its keys is given twice. At the
// top level a double key elsewhere is no obstacle: nothing near it is touched.
func (d *Doc) editable(n *Node, path []string, last bool) error {
	switch {
	case n == nil:
		return &EditError{1, path, "the file is empty"}
	case n.Kind == Alias:
		return &EditError{d.Line(n.Start), path, "the section is the alias *" + n.Value + "; write it out here first"}
	case n.Kind != Mapping:
		return &EditError{d.Line(n.Start), path, "is a " + n.Kind.String() + ", not a section of keys"}
	}
	if line := d.aliasOf(n.Anchor); line > 0 {
		return &EditError{d.Line(n.Start), path, fmt.Sprintf("the section is anchored as &%s and used again on line %d", n.Anchor, line)}
	}
	if !last || len(path) == 0 {
		return nil
	}
	seen := map[string]bool{}
	for _, p := range n.Pairs {
		if p.Key.Kind != Scalar || p.Key.Value == "<<" {
			continue
		}
		if seen[p.Key.Value] {
			return &EditError{d.Line(p.start), append(slices.Clone(path), p.Key.Value), "the key is given twice; keep one"}
		}
		seen[p.Key.Value] = true
	}
	return nil
}

// aliasOf returns the line of the first alias of an anchor, 0 if there is none.
func (d *Doc) aliasOf(anchor string) (line int) {
	if anchor == "" {
		return 0
	}
	walk(d.root, func(n *Node) {
		if line == 0 && n.Kind == Alias && n.Value == anchor {
			line = d.Line(n.Start)
		}
	})
	return line
}

// unshared checks that no anchor in n is used anywhere, and that n itself is no alias.
func (d *Doc) unshared(n *Node, path []string) error {
	if n.Kind == Alias {
		return &EditError{d.Line(n.Start), path, "the value is the alias *" + n.Value + "; write it out here first"}
	}
	var err error
	walk(n, func(m *Node) {
		if line := d.aliasOf(m.Anchor); line > 0 && err == nil {
			err = &EditError{d.Line(m.Start), path, fmt.Sprintf("is anchored as &%s and used again on line %d", m.Anchor, line)}
		}
	})
	return err
}

// errNotScalar says that text meant as a single value is none.
var errNotScalar = errors.New("the new value is not a single value")

// SetScalar replaces the scalar at path by text, which must be one scalar as YAML writes it
// (see [Quote]). Quotes of the old value are not kept: text brings its own, and gets them
// where the file is JSON.
func (d *Doc) SetScalar(path []string, text string) (*Doc, error) {
	t, err := d.locate(path)
	if err != nil {
		return nil, err
	}
	p := t.pair()
	n := p.Value
	switch {
	case n.Kind != Scalar:
		return nil, &EditError{d.Line(n.Start), path, "is a " + n.Kind.String() + ", not a single value"}
	case n.Tag != "":
		return nil, &EditError{d.Line(n.Start), path, "the value has the tag " + n.Tag + "; remove the tag first"}
	}
	text = jsonScalar(text, d.root.Style == Flow && p.Key.Style == DoubleQuoted)
	m := func(before *Tree) (*Tree, error) {
		v, err := scalarText(text)
		if err == nil {
			before.Put(v, path...)
		}
		return before, err
	}
	return d.edit(p.start, path, m, d.setTries(t, text)...)
}

// setTries lists the ways to put text where the scalar of a pair stands.
func (d *Doc) setTries(t target, text string) [][]splice {
	p := t.pair()
	n := p.Value
	end := d.lineEnd(n.Body)
	switch hash := bytes.IndexByte(d.src[n.Body:end], '#'); {
	case p.colon < 0 && t.parent.Style == Flow:
		return [][]splice{{{p.end(), p.end(), ": " + text}}}
	case p.colon < 0: // an explicit key alone
		at := d.lineEnd(p.end())
		return [][]splice{{{at, at, d.eol(at) + strings.Repeat(" ", t.parent.column) + ": " + text}}}
	case n.Empty():
		return [][]splice{{{n.End, n.End, " " + text}}, {{n.End, n.End, " " + text + " "}}}
	case hash >= 0 && (n.Style == Literal || n.Style == Folded):
		// The comment behind "|" belongs to the line and stays.
		head := len(bytes.TrimRight(d.src[n.Body:n.Body+hash], " \t"))
		return [][]splice{{{n.Body, n.Body + head, text}, {end, max(n.End, end), ""}}}
	}
	return [][]splice{{{n.Body, n.End, text}}, {{n.Body, n.End, text + " "}}}
}

// RenameKey gives the key at path another name and keeps its quotes.
func (d *Doc) RenameKey(path []string, name string) (*Doc, error) {
	t, err := d.locate(path)
	if err != nil {
		return nil, err
	}
	start := t.pair().start
	if _, n := t.parent.get(name); n > 0 {
		return nil, &EditError{d.Line(start), path, "a key " + name + " stands beside it"}
	}
	renamedPath := append(slices.Clone(path[:len(path)-1]), name)
	if f, ok := d.Find(renamedPath...); ok {
		return nil, &EditError{d.Line(start), path, "a merge gives " + name + " a value, from line " + strconv.Itoa(f.Line) + ", that it would hide"}
	}
	e, err := d.edit(start, path, func(before *Tree) (*Tree, error) {
		return before, before.Rename(name, path...)
	}, []splice{renamed(t.pair().Key, name)})
	if err == nil {
		err = e.inherited(d.Line(start), path)
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// renamed is the splice that gives a key another name in the quotes it has.
func renamed(k *Node, name string) splice {
	text := Quote(name)
	switch {
	case k.Style == DoubleQuoted:
		text = doubleQuote(name)
	case k.Style == SingleQuoted && singleQuotable(name):
		text = "'" + name + "'"
	case k.Empty():
		text += " " // "? " and ": " have nothing to stand on without a blank
	}
	return splice{k.Body, k.End, text}
}
