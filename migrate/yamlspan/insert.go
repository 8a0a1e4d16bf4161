// SPDX-License-Identifier: MIT

package yamlspan

import (
	"bytes"
	"strings"
)

// Value is something to insert: exactly one of its fields is set.
type Value struct {
	Scalar string   // one scalar, or a bracketed collection, as YAML writes it
	List   []string // items, each a scalar as YAML writes it
	Map    []Field
}

// Field is one entry of a mapping to insert.
type Field struct {
	Key   string // as text; it is quoted where needed
	Value Value
}

// Text makes a Value of a string.
func Text(s string) Value { return Value{Scalar: Quote(s)} }

// Insert adds an entry at path, which must not exist, and the sections on the way to it. In
// a section with keys on lines of their own it comes after the last entry and the comments
// indented deeper than it; in brackets it comes last.
func (d *Doc) Insert(path []string, v Value) (*Doc, error) {
	if len(path) == 0 {
		return nil, &EditError{1, path, "no path"}
	}
	tries, at, err := d.insertTries(path, v)
	if err != nil {
		return nil, err
	}
	return d.edit(at, path, func(before *Tree) (*Tree, error) {
		t, err := v.Tree()
		if before == nil {
			before = &Tree{Kind: Mapping}
		}
		if err == nil {
			before.Put(t, path...)
		}
		return before, err
	}, tries...)
}

// insertTries lists the ways to add an entry, and says where the section is that gets it.
func (d *Doc) insertTries(path []string, v Value) (tries [][]splice, at int, err error) {
	if d.root == nil {
		return d.insertTop(nest(path, v)), 0, nil
	}
	n, colon := d.root, -1
	for i, key := range path {
		if n.isNull() {
			tries, err := d.fill(n, colon, path[:i], nest(path[i:], v))
			return tries, n.Start, err
		}
		if err := d.editable(n, path[:i], true); err != nil {
			return nil, 0, err
		}
		k, count := n.get(key)
		switch {
		case count > 1:
			return nil, 0, &EditError{d.Line(n.Pairs[k].start), path[:i+1], "the key is given " + times(count) + "; keep one"}
		case k < 0:
			if f, ok := d.Find(path[:i+1]...); ok && f.Shared > 0 {
				return nil, 0, &EditError{f.Shared, path[:i+1], "the value comes from an alias or a merge; write it out here first"}
			}
			return d.add(n, nest(path[i:], v)), n.Start, nil
		}
		colon, n = n.Pairs[k].colon, n.Pairs[k].Value
		if err := d.unsharedTop(n, path[:i+1]); err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, &EditError{d.Line(n.Start), path, "the key is there already"}
}

// unsharedTop checks that n itself is not used again elsewhere.
func (d *Doc) unsharedTop(n *Node, path []string) error {
	if line := d.aliasOf(n.Anchor); line > 0 {
		return &EditError{d.Line(n.Start), path, "the section is anchored as &" + n.Anchor + " and used again"}
	}
	return nil
}

// isNull reports whether a plain scalar says that there is no value.
func (n *Node) isNull() bool {
	return n.Kind == Scalar && n.Tag == "" && Resolve(n) == nil
}

// nest wraps v in the mappings that path names.
func nest(path []string, v Value) Field {
	for i := len(path) - 1; i > 0; i-- {
		v = Value{Map: []Field{{path[i], v}}}
	}
	return Field{path[0], v}
}

// layout is how inserted lines are written.
type layout struct {
	indent string // before the first key
	step   string // one more level
	eol    string
}

func (l layout) deeper() layout { return layout{l.indent + l.step, l.step, l.eol} }

// block writes a field as lines, each with its line break.
func (l layout) block(b *strings.Builder, f Field) {
	b.WriteString(l.indent + Quote(f.Key) + ":")
	switch {
	case f.Value.Map != nil && len(f.Value.Map) == 0:
		b.WriteString(" {}" + l.eol)
	case f.Value.List != nil && len(f.Value.List) == 0:
		b.WriteString(" []" + l.eol)
	case f.Value.Map != nil:
		b.WriteString(l.eol)
		for _, g := range f.Value.Map {
			l.deeper().block(b, g)
		}
	case f.Value.List != nil:
		b.WriteString(l.eol)
		for _, it := range f.Value.List {
			b.WriteString(l.indent + l.step + "- " + it + l.eol)
		}
	case f.Value.Scalar == "":
		b.WriteString(l.eol)
	default:
		b.WriteString(" " + f.Value.Scalar + l.eol)
	}
}

// flow writes a field inside brackets; json asks for quoted keys.
func flow(b *strings.Builder, f Field, json bool) {
	key := Quote(f.Key)
	if json {
		key = doubleQuote(f.Key)
	}
	b.WriteString(key + ": ")
	switch {
	case f.Value.Map != nil:
		b.WriteByte('{')
		for i, g := range f.Value.Map {
			if i > 0 {
				b.WriteString(", ")
			}
			flow(b, g, json)
		}
		b.WriteByte('}')
	case f.Value.List != nil:
		b.WriteString("[" + strings.Join(jsonItems(f.Value.List, json), ", ") + "]")
	default:
		b.WriteString(jsonScalar(f.Value.Scalar, json))
	}
}

func jsonItems(items []string, json bool) []string {
	out := make([]string, len(items))
	for i, it := range items {
		out[i] = jsonScalar(it, json)
	}
	return out
}

// step returns the indentation of one level in this file: that of the first section with
// keys below it, two spaces if there is none.
func (d *Doc) step() string {
	if d.root != nil && d.root.Kind == Mapping && d.root.Style == Block {
		for _, p := range d.root.Pairs {
			if v := p.Value; v.Kind == Mapping && v.Style == Block && v.column > d.root.column {
				return strings.Repeat(" ", v.column-d.root.column)
			}
		}
	}
	return "  "
}

// insertTop adds an entry to a file that has none: at its end, or before the marker that
// ends the document.
func (d *Doc) insertTop(f Field) [][]splice {
	var b strings.Builder
	layout{"", "  ", d.eol(0)}.block(&b, f)
	s := &scanner{src: d.src}
	if bytes.HasPrefix(d.src, []byte(bom)) {
		s.pos, s.ls = len(bom), len(bom)
	}
	if _, _, err := s.prologue(); err == nil && !s.eof() {
		return [][]splice{{{s.ls, s.ls, b.String()}}}
	}
	return [][]splice{{d.ownLines(len(d.src), b.String())}}
}

// add puts a field behind the last entry of a mapping.
func (d *Doc) add(n *Node, f Field) [][]splice {
	if n.Style == Flow {
		return d.addFlow(n, f)
	}
	var b strings.Builder
	layout{strings.Repeat(" ", n.column), d.step(), d.eol(n.End)}.block(&b, f)
	at := d.after(n.End, n.column)
	return [][]splice{{d.ownLines(at, b.String())}, {d.ownLines(d.afterBlank(at), b.String())}}
}

// after returns the line start behind a block that ends at end, and behind the comment
// lines that follow it and are indented deeper than column: those belong to its last entry.
func (d *Doc) after(end, column int) int {
	at := d.afterLine(end)
	for i := at; i < len(d.src); {
		next := d.afterLine(i)
		line := bytes.TrimRight(d.src[i:next], "\r\n")
		text := bytes.TrimLeft(line, " \t")
		switch {
		case len(text) == 0:
		case text[0] == '#' && len(line)-len(text) > column:
			at = next
		default:
			return at
		}
		i = next
	}
	return at
}

// addFlow puts a field before the closing bracket.
func (d *Doc) addFlow(n *Node, f Field) [][]splice {
	json := len(n.Pairs) == 0 && d.root.Style == Flow || len(n.Pairs) > 0 && n.Pairs[0].Key.Style == DoubleQuoted
	var b strings.Builder
	flow(&b, f, json)
	return d.addText(n, flowSpans(n), b.String())
}

// addText lists the ways to put an entry before the closing bracket of a flow collection:
// on a line of its own where the others stand so, below the comment of the last one.
func (d *Doc) addText(n *Node, spans []span, text string) (tries [][]splice) {
	if len(spans) == 0 {
		at := n.open + 1
		return [][]splice{{{at, at, text}}, {{at, at, text + " "}}}
	}
	last := spans[len(spans)-1]
	comma := d.commaAfter(last.to, n.End-1)
	tail := max(last.to, comma+1)
	ls := d.lineStart(last.from)
	if ls > n.open && d.blankBetween(ls, last.from) && d.onlyComment(tail) {
		end := d.lineEnd(tail)
		line := d.eol(end) + string(d.src[ls:last.from]) + text
		if comma >= 0 {
			return [][]splice{{{end, end, line + ","}}}
		}
		tries = append(tries, []splice{{last.to, last.to, ","}, {end, end, line}})
	}
	if comma >= 0 {
		return append(tries, []splice{{comma + 1, comma + 1, " " + text + ","}})
	}
	for _, lead := range []string{", ", " , "} { // a value left empty needs the blank
		tries = append(tries, []splice{{last.to, last.to, lead + text}}, []splice{{last.to, last.to, lead + text + " "}})
	}
	return tries
}

// fill gives a key without a value, or with null, a section with one entry. colon is the
// offset of the key's colon.
func (d *Doc) fill(n *Node, colon int, path []string, f Field) ([][]splice, error) {
	switch {
	case n == d.root:
		return nil, &EditError{d.Line(n.Start), path, "the file holds the single value null"}
	case n.propEnd > 0:
		return nil, &EditError{d.Line(n.Start), path, "an anchor without a value stands here; remove it first"}
	case colon < 0:
		return nil, &EditError{d.Line(n.Start), path, "the key has no colon; write one behind it"}
	}
	column, ok := d.keyColumn(colon)
	if !ok {
		var b strings.Builder
		flow(&b, f, d.root.Style == Flow)
		if n.Empty() {
			return [][]splice{{{n.End, n.End, " {" + b.String() + "}"}}}, nil
		}
		return [][]splice{{{n.Start, n.End, "{" + b.String() + "}"}}}, nil
	}
	var b strings.Builder
	layout{strings.Repeat(" ", column) + d.step(), d.step(), d.eol(colon)}.block(&b, f)
	line := d.ownLines(d.afterLine(max(n.End, colon+1)), b.String())
	return [][]splice{append(d.dropNull(n, colon), line)}, nil
}

// dropNull is the splice that removes a null behind a colon: with the blanks before it, or
// with its line where it has one.
func (d *Doc) dropNull(n *Node, colon int) []splice {
	switch start := d.lineStart(n.Start); {
	case n.Empty():
		return nil
	case start <= colon:
		return []splice{{colon + 1, n.End, ""}}
	case d.blankBetween(start, n.Start) && d.blankBetween(n.End, d.lineEnd(n.End)) && d.afterLine(n.End) > d.lineEnd(n.End):
		return []splice{{start, d.afterLine(n.End), ""}}
	default: // its comment stays; a tab before it may not start the line
		end := n.End
		for end < len(d.src) && isBlank(d.src[end]) {
			end++
		}
		return []splice{{n.Start, end, ""}}
	}
}

// keyColumn returns the column of the block key whose colon is given; ok is false in a
// flow collection.
func (d *Doc) keyColumn(colon int) (column int, ok bool) {
	walk(d.root, func(n *Node) {
		if n.Kind != Mapping || n.Style != Block {
			return
		}
		for _, p := range n.Pairs {
			if p.colon == colon {
				column, ok = n.column, true
			}
		}
	})
	return column, ok
}
