// SPDX-License-Identifier: MIT

package yamlspan

import "bytes"

// Delete removes the entry at path: its lines, or its text in a bracketed collection. A
// comment on the entry's own lines goes with it; comments on lines of their own above and
// below stay. A section that loses its last key becomes "{}", so that it stays a section.
func (d *Doc) Delete(path []string) (*Doc, error) {
	t, err := d.locate(path)
	if err != nil {
		return nil, err
	}
	var splices []splice
	if t.parent.Style == Flow {
		splices = d.cutFlow(flowSpans(t.parent), t.index, t.parent)
	} else if splices, err = d.cutPair(t, path); err != nil {
		return nil, err
	}
	return d.apply(splices...)
}

// end returns the offset after the entry's content.
func (p Pair) end() int { return max(p.Key.End, p.colon+1, p.Value.End) }

// cutPair removes an entry of a block mapping.
func (d *Doc) cutPair(t target, path []string) ([]splice, error) {
	p := t.pair()
	sole := len(t.parent.Pairs) == 1
	ownLine := d.blankBetween(d.lineStart(p.start), p.start)
	switch {
	case sole && t.parent != d.root:
		return d.emptied(t, "{}", d.cutLines(p.start, p.end()), ownLine), nil
	case ownLine:
		return []splice{d.cutLines(p.start, p.end())}, nil
	case sole:
		return []splice{{p.start, p.end(), ""}}, nil
	}
	// The first key behind a "- ": the next one takes its place.
	next := t.parent.Pairs[t.index+1].start
	if bytes.IndexByte(d.src[p.end():next], '#') >= 0 {
		return nil, &EditError{d.Line(p.start), path, "a comment stands between this key and the next; move it first"}
	}
	return []splice{{p.start, next, ""}}, nil
}

// emptied makes the collection that t's parent is an empty one. lines removes its last
// entry; ownLine tells whether that entry starts its line.
func (d *Doc) emptied(t target, brackets string, lines splice, ownLine bool) []splice {
	n := t.parent
	if !ownLine {
		return []splice{{n.Body, n.End, brackets}}
	}
	at := t.colon + 1
	if n.propEnd > 0 {
		at = n.propEnd
	}
	return []splice{{at, at, " " + brackets}, lines}
}

// cutLines removes the whole lines from the one of from to the one of to. At the end of a
// file without a final line break, the break before them goes instead of the one behind.
func (d *Doc) cutLines(from, to int) splice {
	a, b := d.lineStart(from), d.afterLine(to)
	if b == len(d.src) && lastBreak(d.src) == 0 && a > 0 {
		a -= lastBreak(d.src[:a])
	}
	return splice{a, b, ""}
}

// span is where one entry of a flow collection stands.
type span struct{ from, to int }

func flowSpans(n *Node) []span {
	var out []span
	for _, p := range n.Pairs {
		out = append(out, span{p.start, p.end()})
	}
	for _, it := range n.Items {
		out = append(out, span{it.Start, it.End})
	}
	return out
}

// cutFlow removes entry i of the flow collection n and one comma. Entries that stand on
// lines of their own go with their line.
func (d *Doc) cutFlow(spans []span, i int, n *Node) []splice {
	e := spans[i]
	if len(spans) == 1 {
		inner := d.src[n.open+1 : n.End-1]
		if bytes.IndexByte(inner, '#') < 0 {
			return []splice{{n.open + 1, n.End - 1, ""}}
		}
	}
	ownLine := d.blankBetween(d.lineStart(e.from), e.from)
	comma := d.commaAfter(e.to, n.End-1)
	if ownLine {
		tail := e.to
		if comma >= 0 {
			tail = comma + 1
		}
		if d.onlyComment(tail) && d.lineStart(e.from) > n.open {
			cut := splice{d.lineStart(e.from), d.afterLine(tail), ""}
			if comma < 0 && i > 0 {
				prev := d.commaAfter(spans[i-1].to, e.from)
				return []splice{{prev, prev + 1, ""}, cut}
			}
			return []splice{cut}
		}
	}
	switch {
	case i+1 < len(spans) && bytes.IndexByte(d.src[e.to:spans[i+1].from], '#') < 0:
		return []splice{{e.from, spans[i+1].from, ""}}
	case i > 0 && comma < 0:
		return []splice{{spans[i-1].to, e.to, ""}}
	case comma >= 0:
		return []splice{{e.from, comma + 1, ""}}
	}
	return []splice{{e.from, e.to, ""}}
}

// commaAfter finds the comma that follows an entry, with only white space and comments
// between; -1 if there is none before end.
func (d *Doc) commaAfter(at, end int) int {
	s := &scanner{src: d.src, pos: at, ls: d.lineStart(at)}
	s.toToken()
	if s.pos < end && s.at(s.pos) == ',' {
		return s.pos
	}
	return -1
}

// onlyComment reports whether nothing but blanks and a comment follows on the line.
func (d *Doc) onlyComment(at int) bool {
	s := &scanner{src: d.src, pos: at, ls: d.lineStart(at)}
	return s.lineEndsHere()
}

// RemoveItems removes the scalar items of the list at path that match, and reports how many
// there were. A list that loses its last item becomes "[]".
func (d *Doc) RemoveItems(path []string, match func(text string) bool) (*Doc, int, error) {
	t, err := d.locate(path)
	if err != nil {
		return nil, 0, err
	}
	list := t.pair().Value
	if list.Kind != Sequence {
		return nil, 0, &EditError{d.Line(list.Start), path, "is a " + list.Kind.String() + ", not a list"}
	}
	removed := 0
	for {
		i := -1
		for k, it := range list.Items {
			if it.Kind == Scalar && match(it.Value) {
				i = k
				break
			}
		}
		if i < 0 {
			return d, removed, nil
		}
		if d, err = d.removeItem(path, i); err != nil {
			return nil, 0, err
		}
		removed++
		t, err = d.locate(path)
		if err != nil {
			return nil, 0, err
		}
		list = t.pair().Value
	}
}

// removeItem removes item i of the list at path.
func (d *Doc) removeItem(path []string, i int) (*Doc, error) {
	t, err := d.locate(path)
	if err != nil {
		return nil, err
	}
	p := t.pair()
	list := p.Value
	if list.Style == Flow {
		return d.apply(d.cutFlow(flowSpans(list), i, list)...)
	}
	dash := list.dashes[i]
	end := max(list.Items[i].End, dash+1)
	ownLine := d.blankBetween(d.lineStart(dash), dash)
	if len(list.Items) == 1 {
		inner := target{parent: list, colon: p.colon}
		return d.apply(d.emptied(inner, "[]", d.cutLines(dash, end), ownLine)...)
	}
	if !ownLine {
		return nil, &EditError{d.Line(dash), path, "the item shares its line with another list; write it on a line of its own"}
	}
	return d.apply(d.cutLines(dash, end))
}
