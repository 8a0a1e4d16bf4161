// SPDX-License-Identifier: MIT

package yamlspan

import (
	"slices"
	"strings"
)

// list finds the list at path for editing.
func (d *Doc) list(path []string) (target, *Node, error) {
	t, err := d.locate(path)
	if err != nil {
		return t, nil, err
	}
	n := t.pair().Value
	if n.Kind != Sequence {
		return t, nil, &EditError{d.Line(n.Start), path, "is a " + n.Kind.String() + ", not a list"}
	}
	return t, n, nil
}

// AppendItem adds a scalar, as YAML writes it, behind the last item of the list at path.
func (d *Doc) AppendItem(path []string, text string) (*Doc, error) {
	_, list, err := d.list(path)
	if err != nil {
		return nil, err
	}
	m := func(before *Tree) (*Tree, error) {
		item, err := scalarText(text)
		l := before.At(path...)
		l.Values = append(l.Values, item)
		return before, err
	}
	if list.Style == Flow {
		return d.edit(list.Start, path, m, d.addText(list, flowSpans(list), jsonScalar(text, d.root.Style == Flow))...)
	}
	dash := list.dashes[len(list.dashes)-1]
	if !d.blankBetween(d.lineStart(dash), dash) {
		return nil, &EditError{d.Line(dash), path, "the list shares its line with another one; write it on lines of its own"}
	}
	at := d.after(list.End, list.column)
	line := d.ownLines(at, string(d.src[d.lineStart(dash):dash])+"- "+text+d.eol(list.End))
	return d.edit(list.Start, path, m, []splice{line})
}

// RemoveItems removes the scalar items of the list at path that match, and reports how many
// there were. A list that loses its last item becomes "[]".
func (d *Doc) RemoveItems(path []string, match func(text string) bool) (*Doc, int, error) {
	for removed := 0; ; removed++ {
		_, list, err := d.list(path)
		if err != nil {
			return nil, 0, err
		}
		i := slices.IndexFunc(list.Items, func(it *Node) bool { return it.Kind == Scalar && match(it.Value) })
		if i < 0 {
			return d, removed, nil
		}
		if d, err = d.removeItem(path, i); err != nil {
			return nil, 0, err
		}
	}
}

// removeItem removes item i of the list at path.
func (d *Doc) removeItem(path []string, i int) (*Doc, error) {
	t, list, err := d.list(path)
	if err != nil {
		return nil, err
	}
	m := func(before *Tree) (*Tree, error) {
		l := before.At(path...)
		l.Values = slices.Delete(l.Values, i, i+1)
		return before, nil
	}
	if list.Style == Flow {
		return d.edit(list.Items[i].Start, path, m, d.cutFlow(flowSpans(list), i, list)...)
	}
	dash := list.dashes[i]
	cuts := d.cutLines(dash, max(list.Items[i].End, dash+1))
	ownLine := d.blankBetween(d.lineStart(dash), dash)
	if len(list.Items) == 1 {
		return d.edit(dash, path, m, d.emptied(list, t.pair().colon, "[]", cuts, ownLine)...)
	}
	if !ownLine {
		return nil, &EditError{d.Line(dash), path, "the item shares its line with another list; write it on a line of its own"}
	}
	var tries [][]splice
	for _, cut := range cuts {
		tries = append(tries, []splice{cut})
	}
	return d.edit(dash, path, m, tries...)
}

// ownLines is the splice that puts lines, each with its break, at a line start, or at the
// end of a file whose last line has no break; that end stays without one.
func (d *Doc) ownLines(at int, text string) splice {
	if at == len(d.src) && at > 0 && lastBreak(d.src) == 0 && string(d.src) != bom {
		eol := d.eol(at)
		text = eol + strings.TrimSuffix(text, eol)
	}
	return splice{at, at, text}
}
