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
	if d.root == nil {
		return d.insertTop(nest(path, v))
	}
	n, colon := d.root, -1
	for i, key := range path {
		if n.isNull() {
			return d.fill(n, colon, path[:i], nest(path[i:], v))
		}
		if err := d.editable(n, path[:i], true); err != nil {
			return nil, err
		}
		k, count := n.get(key)
		switch {
		case count > 1:
			return nil, &EditError{d.Line(n.Pairs[k].start), path[:i+1], "the key is given " + times(count) + "; keep one"}
		case k < 0:
			if f, ok := d.Find(path[:i+1]...); ok && f.Shared > 0 {
				return nil, &EditError{f.Shared, path[:i+1], "the value comes from an alias or a merge; write it out here first"}
			}
			return d.add(n, nest(path[i:], v))
		}
		colon, n = n.Pairs[k].colon, n.Pairs[k].Value
		if err := d.unsharedTop(n, path[:i+1]); err != nil {
			return nil, err
		}
	}
	return nil, &EditError{d.Line(n.Start), path, "the key is there already"}
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
	default:
		b.WriteString(" " + f.Value.Scalar + l.eol)
	}
}

// flow writes a field inside brackets; json asks for quoted keys.
func flow(b *strings.Builder, f Field, json bool) {
	key := Quote(f.Key)
	if json && key[0] != '"' {
		key = `"` + f.Key + `"`
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

// jsonScalar quotes plain text for a file that is JSON, where plain text is not allowed.
func jsonScalar(text string, json bool) string {
	if !json || text == "" || strings.IndexByte(`"[{`, text[0]) >= 0 {
		return text
	}
	if s, ok := resolvePlain(text).(string); ok {
		return `"` + strings.Trim(s, "'") + `"`
	}
	return text
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

// insertTop adds an entry to a file that has none, at its end.
func (d *Doc) insertTop(f Field) (*Doc, error) {
	at := len(d.src)
	l := layout{"", "  ", d.eol(0)}
	return d.apply(d.insertLines(at, l, f))
}

// insertLines is the splice that puts a field on lines of its own at a line start, or at
// the end of a file whose last line has no break; that end stays without one.
func (d *Doc) insertLines(at int, l layout, f Field) splice {
	var b strings.Builder
	l.block(&b, f)
	text := b.String()
	if at == len(d.src) && at > 0 && lastBreak(d.src) == 0 && string(d.src) != bom {
		text = l.eol + strings.TrimSuffix(text, l.eol)
	}
	return splice{at, at, text}
}

// add puts a field behind the last entry of a mapping.
func (d *Doc) add(n *Node, f Field) (*Doc, error) {
	if n.Style == Flow {
		return d.apply(d.addFlow(n, f)...)
	}
	l := layout{strings.Repeat(" ", n.column), d.step(), d.eol(n.End)}
	return d.apply(d.insertLines(d.after(n.End, n.column), l, f))
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
func (d *Doc) addFlow(n *Node, f Field) []splice {
	json := len(n.Pairs) == 0 && d.root.Style == Flow || len(n.Pairs) > 0 && n.Pairs[0].Key.Style == DoubleQuoted
	var b strings.Builder
	flow(&b, f, json)
	return d.addText(n, flowSpans(n), b.String())
}

// addText puts an entry before the closing bracket of a flow collection, on a line of its
// own where the others stand so.
func (d *Doc) addText(n *Node, spans []span, text string) []splice {
	if len(spans) == 0 {
		return []splice{{n.open + 1, n.open + 1, text}}
	}
	last := spans[len(spans)-1]
	at, lead := last.to, ", "
	ls := d.lineStart(last.from)
	if d.blankBetween(ls, last.from) && ls > n.open {
		lead = "," + d.eol(last.to) + string(d.src[ls:last.from])
	}
	if c := d.commaAfter(last.to, n.End-1); c >= 0 {
		at, lead = c+1, strings.TrimPrefix(lead, ",")
		text += ","
	}
	return []splice{{at, at, lead + text}}
}

// fill gives a key without a value, or with null, a section with one entry. colon is the
// offset of the key's colon.
func (d *Doc) fill(n *Node, colon int, path []string, f Field) (*Doc, error) {
	if colon < 0 {
		return nil, &EditError{d.Line(n.Start), path, "the file holds the single value null"}
	}
	if n.propEnd > 0 {
		return nil, &EditError{d.Line(n.Start), path, "an anchor without a value stands here; remove it first"}
	}
	column, ok := d.keyColumn(colon)
	if !ok {
		var b strings.Builder
		flow(&b, f, d.root.Style == Flow)
		return d.apply(splice{colon + 1, n.End, " {" + b.String() + "}"})
	}
	l := layout{strings.Repeat(" ", column) + d.step(), d.step(), d.eol(colon)}
	at := d.afterLine(max(n.End, colon+1))
	line := d.insertLines(at, l, f)
	if n.Empty() {
		return d.apply(line)
	}
	return d.apply(splice{colon + 1, n.End, ""}, line)
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

// AppendItem adds a scalar, as YAML writes it, behind the last item of the list at path.
func (d *Doc) AppendItem(path []string, text string) (*Doc, error) {
	t, err := d.locate(path)
	if err != nil {
		return nil, err
	}
	list := t.pair().Value
	if list.Kind != Sequence {
		return nil, &EditError{d.Line(list.Start), path, "is a " + list.Kind.String() + ", not a list"}
	}
	if list.Style == Flow {
		json := d.root.Style == Flow
		return d.apply(d.addText(list, flowSpans(list), jsonScalar(text, json))...)
	}
	dash := list.dashes[len(list.dashes)-1]
	if !d.blankBetween(d.lineStart(dash), dash) {
		return nil, &EditError{d.Line(dash), path, "the list shares its line with another one; write it on lines of its own"}
	}
	at := d.after(list.End, list.column)
	line := string(d.src[d.lineStart(dash):dash]) + "- " + text + d.eol(list.End)
	if at == len(d.src) && lastBreak(d.src) == 0 {
		eol := d.eol(list.End)
		line = eol + strings.TrimSuffix(line, eol)
	}
	return d.apply(splice{at, at, line})
}
