// SPDX-License-Identifier: MIT

package yamlspan

import (
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
// to that does not exist takes the list's place. Both paths have one key.
func (d *Doc) ListToMap(from, to string, lifts []Lift) (*Doc, error) {
	t, err := d.locate([]string{from})
	if err != nil {
		return nil, err
	}
	list := t.pair().Value
	if list.Kind != Sequence || t.parent != d.root {
		return nil, &EditError{d.Line(list.Start), []string{from}, "is a " + list.Kind.String() + ", not a list"}
	}
	for _, l := range lifts {
		if d, err = d.liftOne(from, to, l); err != nil {
			return nil, err
		}
	}
	drop := make([]int, len(lifts))
	for i, l := range lifts {
		drop[i] = l.Index
	}
	if len(drop) == len(list.Items) {
		return d.Delete([]string{from})
	}
	slices.SortFunc(drop, func(a, b int) int { return b - a })
	for _, i := range drop {
		if d, err = d.removeWithComments(from, i); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// liftOne inserts one item under to; the list stays as it is.
func (d *Doc) liftOne(from, to string, l Lift) (*Doc, error) {
	t, err := d.locate([]string{from})
	if err != nil {
		return nil, err
	}
	list := t.pair().Value
	item := list.Items[l.Index]
	if err := d.unshared(item, []string{from}); err != nil {
		return nil, err
	}
	if item.Kind != Mapping {
		return nil, &EditError{d.Line(item.Start), []string{from}, "the item is a " + item.Kind.String() + ", not a mapping"}
	}
	if item.Style == Flow {
		text, err := d.itemText(item, l)
		if err != nil {
			return nil, err
		}
		return d.Insert([]string{to, l.Key}, Value{Scalar: text})
	}
	ti, count := d.root.get(to)
	at := d.lineStart(t.pair().start)
	column := d.step()
	head := ""
	eol := d.eol(item.Start)
	var cut []splice
	switch {
	case count > 1:
		return nil, &EditError{d.Line(d.root.Pairs[ti].start), []string{to}, "the key is given " + times(count) + "; keep one"}
	case count == 0:
		head = to + ":" + eol
	default:
		p := d.root.Pairs[ti]
		switch v := p.Value; {
		case v.Kind == Mapping && v.Style == Block:
			if err := d.editable(v, []string{to}, true); err != nil {
				return nil, err
			}
			at, column = d.after(v.End, v.column), strings.Repeat(" ", v.column)
		case (v.isNull() || v.Kind == Mapping && len(v.Pairs) == 0) && v.propEnd == 0:
			at = d.afterLine(p.end())
			if !v.Empty() {
				cut = append(cut, splice{p.colon + 1, v.End, ""})
			}
		default:
			return nil, &EditError{d.Line(v.Start), []string{to}, "is written in brackets on one line; write its entries on lines of their own"}
		}
	}
	body, err := d.itemLines(list, l, column, eol)
	if err != nil {
		return nil, err
	}
	text := head + body
	if at == len(d.src) && lastBreak(d.src) == 0 {
		text = eol + strings.TrimSuffix(text, eol)
	}
	return d.apply(append(cut, splice{at, at, text})...)
}

// itemText is the text of an item with its keys renamed and dropped.
func (d *Doc) itemText(item *Node, l Lift) (string, error) {
	sub, err := Parse(d.src[item.Start:item.End])
	if err != nil {
		return "", err
	}
	for _, key := range l.Drop {
		if sub, err = sub.Delete([]string{key}); err != nil {
			return "", err
		}
	}
	var renames []splice
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
	part := &Doc{src: slices.Concat([]byte(lead), d.src[item.Body:d.lineEnd(item.End)])}
	root, err := parse(part.src)
	if err != nil {
		return "", err
	}
	part.root, part.pieces = root, []piece{{-1, len(part.src)}}
	text, err := part.itemText(&Node{Start: 0, End: len(part.src)}, l)
	if err != nil {
		return "", err
	}
	inner := column + d.step()
	var b strings.Builder
	for _, c := range d.commentsAbove(list, l.Index) {
		b.WriteString(column + c + eol)
	}
	b.WriteString(column + Quote(l.Key) + ":" + eol)
	for line := range strings.SplitAfterSeq(text, "\n") {
		if strings.TrimSpace(line) == "" {
			b.WriteString(line)
			continue
		}
		b.WriteString(reindent(line, item.column, inner))
	}
	if !strings.HasSuffix(b.String(), "\n") {
		b.WriteString(eol)
	}
	return b.String(), nil
}

// reindent moves a line from column to the indentation in; a line indented less keeps what
// it lacks.
func reindent(line string, column int, in string) string {
	n := 0
	for n < column && n < len(line) && line[n] == ' ' {
		n++
	}
	return in + line[n:]
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

// removeWithComments removes item i of a list and the comments above it, which went with it.
func (d *Doc) removeWithComments(from string, i int) (*Doc, error) {
	t, err := d.locate([]string{from})
	if err != nil {
		return nil, err
	}
	list := t.pair().Value
	if list.Style == Block {
		if a, b := d.gapAbove(list, i); a < b {
			if d, err = d.apply(splice{a, b, ""}); err != nil {
				return nil, err
			}
		}
	}
	return d.removeItem([]string{from}, i)
}
