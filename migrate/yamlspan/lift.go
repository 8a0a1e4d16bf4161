// SPDX-License-Identifier: MIT

package yamlspan

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// Lift is one list item that becomes an entry of a mapping.
type Lift struct {
	Index  int
	Key    string
	Rename map[string]string // keys of the item that get another name
	Drop   []string          // keys of the item that are left out
}

// ListToMap moves items of the list at from, each a mapping, into the mapping at to, with
// the text, quotes and comments they have; the list goes when no item is left. A top-level
// to that does not exist takes the place before the list, or, where the first item is in
// brackets, comes last. Both paths have one key.
func (d *Doc) ListToMap(from, to string, lifts []Lift) (*Doc, error) {
	t, list, err := d.list([]string{from})
	if err != nil {
		return nil, err
	}
	_, count := d.root.get(to)
	want := d.tree().Clone()
	if err := d.liftable(list, from, lifts); err != nil {
		return nil, err
	}
	before := list.Style == Block && len(lifts) > 0 && list.Items[lifts[0].Index].Style == Block
	if err := liftTree(want, from, to, lifts, count == 0 && before); err != nil {
		return nil, &EditError{d.Line(list.Start), []string{from}, err.Error()}
	}
	e := d
	for _, l := range lifts {
		if e, err = e.liftOne(from, to, l); err != nil {
			return nil, err
		}
	}
	if e, err = e.removeLifted(from, lifts); err != nil {
		return nil, err
	}
	if equal, where := want.Equal(e.tree()); !equal {
		return nil, &EditError{d.Line(t.pair().start), []string{from}, "the move would change how " + PathString(where) + " is read; move the entries by hand"}
	}
	return e, nil
}

// liftError puts what went wrong with an item into the terms of the document.
func (d *Doc) liftError(err error, item *Node, from string) error {
	if ee, ok := errors.AsType[*EditError](err); ok {
		return &EditError{d.Line(item.Start), ee.Path, ee.Msg}
	}
	return &EditError{d.Line(item.Start), []string{from}, err.Error()}
}

// liftable checks the items that are to move.
func (d *Doc) liftable(list *Node, from string, lifts []Lift) error {
	for _, l := range lifts {
		if l.Index < 0 || l.Index >= len(list.Items) {
			return &EditError{d.Line(list.Start), []string{from}, "no such item"}
		}
		item := list.Items[l.Index]
		if err := d.unshared(item, []string{from}); err != nil {
			return err
		}
		if item.Kind != Mapping {
			return &EditError{d.Line(item.Start), []string{from}, "the item is a " + item.Kind.String() + ", not a mapping"}
		}
	}
	return nil
}

// liftTree makes the same move in the tree of the document.
func liftTree(t *Tree, from, to string, lifts []Lift, before bool) error {
	list := t.At(from)
	gone := map[int]bool{}
	entries := &Tree{Kind: Mapping}
	for _, l := range lifts {
		gone[l.Index] = true
		item := list.Values[l.Index].Clone()
		for _, key := range l.Drop {
			if err := item.Remove(key); err != nil {
				return err
			}
		}
		for _, old := range slices.Sorted(maps.Keys(l.Rename)) {
			if err := item.Rename(l.Rename[old], old); err != nil {
				return err
			}
		}
		entries.Put(item, l.Key)
	}
	if before {
		t.PutBefore(from, entries, to)
	} else {
		for i, k := range entries.Keys {
			t.Put(entries.Values[i], to, k.text)
		}
	}
	var kept []*Tree
	for i, v := range list.Values {
		if !gone[i] {
			kept = append(kept, v)
		}
	}
	list.Values = kept
	if len(kept) == 0 {
		return t.Remove(from)
	}
	return nil
}

// liftOne inserts one item under to; the list stays as it is.
func (d *Doc) liftOne(from, to string, l Lift) (*Doc, error) {
	_, list, err := d.list([]string{from})
	if err != nil {
		return nil, err
	}
	item := list.Items[l.Index]
	if item.Style == Flow {
		text, err := itemText(d.src[item.Start:item.End], l)
		if err != nil {
			return nil, d.liftError(err, item, from)
		}
		return d.Insert([]string{to, l.Key}, Value{Scalar: text})
	}
	eol := d.eol(item.Start)
	place, err := d.liftPlace(from, to, eol)
	if err != nil {
		return nil, err
	}
	body, err := d.itemLines(list, l, place.column, eol)
	if err != nil {
		return nil, d.liftError(err, item, from)
	}
	return d.apply(append(place.cut, d.ownLines(place.at, place.head+body))...)
}

// liftPlace is where the lines of a lifted item go.
type liftPlace struct {
	at     int
	head   string // a line before them
	column string // their indentation
	cut    []splice
}

func (d *Doc) liftPlace(from, to, eol string) (liftPlace, error) {
	base := strings.Repeat(" ", d.root.column)
	i, count := d.root.get(to)
	switch {
	case count > 1:
		return liftPlace{}, &EditError{d.Line(d.root.Pairs[i].start), []string{to}, "the key is given " + times(count) + "; keep one"}
	case count == 0:
		t, err := d.locate([]string{from})
		return liftPlace{at: d.lineStart(t.pair().start), head: base + Quote(to) + ":" + eol, column: base + d.step()}, err
	}
	p := d.root.Pairs[i]
	v := p.Value
	switch {
	case v.Kind == Mapping && v.Style == Block:
		return liftPlace{at: d.after(v.End, v.column), column: strings.Repeat(" ", v.column)}, d.editable(v, []string{to}, true)
	case v.isNull() && v.propEnd == 0:
		return liftPlace{at: d.afterLine(p.end()), column: base + d.step(), cut: d.dropNull(v, p.colon)}, nil
	case v.Kind == Mapping && len(v.Pairs) == 0 && v.propEnd == 0 && d.blankBetween(p.colon+1, v.Start):
		return liftPlace{at: d.afterLine(p.end()), column: base + d.step(), cut: []splice{{p.colon + 1, v.End, ""}}}, nil
	}
	return liftPlace{}, &EditError{d.Line(v.Start), []string{to}, "is not written as keys on lines of their own; write its entries so"}
}

var errNothingLeft = errors.New("no key of this item would be left")

// itemText is the text of an item with its keys renamed and dropped.
func itemText(src []byte, l Lift) (string, error) {
	sub, err := Parse(src)
	if err != nil {
		return "", err
	}
	for _, key := range l.Drop {
		if sub, err = sub.Delete([]string{key}); err != nil {
			return "", err
		}
	}
	var renames []splice
	if sub.root == nil {
		return "", errNothingLeft
	}
	for _, p := range sub.root.Pairs {
		if name, ok := l.Rename[p.Key.Value]; ok && p.Key.Kind == Scalar {
			renames = append(renames, renamed(p.Key, name))
		}
	}
	if sub, err = sub.apply(renames...); err != nil {
		return "", err
	}
	return string(sub.src), nil
}

// itemLines writes a block item as an entry: the comment lines above it, its new key, then
// its own lines, all moved to the new indentation.
func (d *Doc) itemLines(list *Node, l Lift, column, eol string) (string, error) {
	item := list.Items[l.Index]
	// The first key gets its own column back, so that the part reads as a mapping.
	lead := strings.Repeat(" ", item.column)
	text, err := itemText(slices.Concat([]byte(lead), d.src[item.Body:d.lineEnd(item.End)]), l)
	if err != nil {
		return "", err
	}
	inner := column + d.step()
	var b strings.Builder
	for _, c := range d.commentsAbove(list, l.Index) {
		b.WriteString(column + c + eol)
	}
	b.WriteString(column + Quote(l.Key) + ":")
	if item.propEnd > 0 {
		b.WriteString(" " + string(d.src[item.Start:item.propEnd]))
	}
	b.WriteString(eol)
	for line := range strings.SplitAfterSeq(text, "\n") {
		b.WriteString(reindent(line, item.column, inner))
	}
	if !strings.HasSuffix(b.String(), "\n") {
		b.WriteString(eol)
	}
	return b.String(), nil
}

// reindent moves a line from column to the indentation in; a line indented less keeps what
// it lacks, and a blank one no deeper than column stays.
func reindent(line string, column int, in string) string {
	n := len(line) - len(strings.TrimLeft(line, " "))
	if n <= column && strings.TrimSpace(line) == "" {
		return line
	}
	return in + line[min(n, column):]
}

// commentsAbove returns the comments on lines of their own between item i and what stands
// before it.
func (d *Doc) commentsAbove(list *Node, i int) []string {
	var out []string
	from, to := d.gapAbove(list, i)
	for line := range strings.SplitSeq(string(d.src[from:to]), "\n") {
		if c := strings.TrimSpace(line); c != "" {
			out = append(out, c)
		}
	}
	return out
}

// gapAbove is the range of lines between item i and the item, or the key, before it.
func (d *Doc) gapAbove(list *Node, i int) (from, to int) {
	to = d.lineStart(list.dashes[i])
	if i > 0 {
		return min(d.afterLine(max(list.Items[i-1].End, list.dashes[i-1]+1)), to), to
	}
	from = to
	for from > 0 {
		above := d.lineStart(from - 1)
		if above == from {
			break
		}
		text := strings.TrimSpace(string(d.src[above:from]))
		if text != "" && text[0] != '#' {
			break
		}
		from = above
	}
	return from, to
}

// removeLifted removes the items that moved, and the list when none is left. The comments
// above an item on lines of its own moved with it; those of an item in brackets stay.
func (d *Doc) removeLifted(from string, lifts []Lift) (*Doc, error) {
	t, list, err := d.list([]string{from})
	if err != nil {
		return nil, err
	}
	if list.Style == Flow {
		if len(lifts) == len(list.Items) {
			return d.Delete([]string{from})
		}
		return d.removeAll(from, lifts)
	}
	var gaps []splice
	stay := false
	for _, l := range lifts {
		a, b := d.gapAbove(list, l.Index)
		switch moved := list.Items[l.Index].Style == Block; {
		case moved && a < b:
			gaps = append(gaps, splice{a, b, ""})
		case !moved && len(d.commentsAbove(list, l.Index)) > 0:
			stay = true
		}
	}
	if len(lifts) == len(list.Items) && !stay {
		return d.Delete([]string{from})
	}
	if len(lifts) < len(list.Items) {
		e, err := d.apply(gaps...)
		if err != nil {
			return nil, err
		}
		return e.removeAll(from, lifts)
	}
	cuts := append(gaps, splice{d.lineStart(t.pair().start), d.afterLine(t.pair().colon), ""})
	for i, it := range list.Items {
		cuts = append(cuts, splice{d.lineStart(list.dashes[i]), d.afterLine(max(it.End, list.dashes[i]+1)), ""})
	}
	return d.apply(cuts...)
}

// removeAll removes the items that moved, the last one first.
func (d *Doc) removeAll(from string, lifts []Lift) (*Doc, error) {
	drop := make([]int, len(lifts))
	for i, l := range lifts {
		drop[i] = l.Index
	}
	slices.Sort(drop)
	for _, i := range slices.Backward(drop) {
		var err error
		if d, err = d.removeItem([]string{from}, i); err != nil {
			return nil, err
		}
	}
	return d, nil
}
