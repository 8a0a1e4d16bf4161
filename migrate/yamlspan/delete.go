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
	var tries [][]splice
	if t.parent.Style == Flow {
		tries = d.cutFlow(flowSpans(t.parent), t.index, t.parent)
	} else if tries, err = d.cutPair(t, path); err != nil {
		return nil, err
	}
	start := t.pair().start
	e, err := d.edit(start, path, func(before *Tree) (*Tree, error) {
		return before, before.Remove(path...)
	}, tries...)
	if err == nil {
		err = e.inherited(d.Line(start), path)
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// end returns the offset after the entry's content.
func (p Pair) end() int { return max(p.Key.End, p.colon+1, p.Value.End) }

// cutPair lists the ways to remove an entry of a block mapping.
func (d *Doc) cutPair(t target, path []string) (tries [][]splice, err error) {
	p := t.pair()
	sole := len(t.parent.Pairs) == 1
	ownLine := d.blankBetween(d.lineStart(p.start), p.start)
	switch {
	case sole && t.parent != d.root:
		return d.emptied(t.parent, t.colon, "{}", d.cutLines(p.start, p.end()), ownLine), nil
	case ownLine:
		for _, cut := range d.cutLines(p.start, p.end()) {
			tries = append(tries, []splice{cut})
		}
		if sole {
			tries = append(tries, []splice{{p.start, p.end(), "{}"}})
		}
		return tries, nil
	}
	// The first key behind a ": ", as all others have a line: the next one takes its place.
	next := t.parent.Pairs[t.index+1].start
	if bytes.IndexByte(d.src[p.end():next], '#') >= 0 {
		return nil, &EditError{d.Line(p.start), path, "a comment stands between this key and the next; move it first"}
	}
	return [][]splice{{{p.start, next, ""}}}, nil
}

// emptied lists the ways to make the collection n behind the given colon an empty one. cuts
// remove the lines of its last entry; ownLine tells whether that entry starts its line.
func (d *Doc) emptied(n *Node, colon int, brackets string, cuts []splice, ownLine bool) (tries [][]splice) {
	if !ownLine {
		return [][]splice{{{n.Body, n.End, brackets}}}
	}
	at := colon + 1
	if n.propEnd > 0 {
		at = n.propEnd
	}
	for _, cut := range cuts {
		tries = append(tries, []splice{{at, at, " " + brackets}, cut})
	}
	return tries
}

// cutLines lists the ways to remove the whole lines from the one of from to the one of to:
// so that a file without a final line break still has none; with that break left to the
// text above, which may need it; with the empty lines below, which a text above would take.
func (d *Doc) cutLines(from, to int) []splice {
	a, b := d.lineStart(from), d.afterLine(to)
	var cuts []splice
	if b == len(d.src) && lastBreak(d.src) == 0 && a > 0 {
		cuts = append(cuts, splice{a - lastBreak(d.src[:a]), b, ""})
	}
	return append(cuts, splice{a, b, ""}, splice{a, d.afterBlank(b), ""})
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

// cutFlow lists the ways to remove entry i of the flow collection n and one comma, without
// a comment that is not on the entry's own lines.
func (d *Doc) cutFlow(spans []span, i int, n *Node) (tries [][]splice) {
	e := spans[i]
	try := func(ok bool, s ...splice) {
		if ok {
			tries = append(tries, s)
		}
	}
	bare := func(from, to int) bool { return bytes.IndexByte(d.src[from:to], '#') < 0 }
	try(len(spans) == 1 && bare(n.open+1, e.from) && bare(e.to, n.End-1), splice{n.open + 1, n.End - 1, ""})
	comma, before := d.commaAfter(e.to, n.End-1), -1
	if i > 0 {
		before = d.commaAfter(spans[i-1].to, e.from)
	}
	tail := max(e.to, comma+1)
	if start := d.lineStart(e.from); start > n.open && d.blankBetween(start, e.from) && d.onlyComment(tail) {
		cut := splice{start, d.afterLine(tail), ""}
		try(comma < 0 && before >= 0, splice{before, before + 1, ""}, cut)
		try(true, cut)
	}
	try(i+1 < len(spans) && bare(e.to, spans[min(i+1, len(spans)-1)].from), splice{e.from, spans[min(i+1, len(spans)-1)].from, ""})
	try(before >= 0 && comma < 0 && bare(spans[max(i-1, 0)].to, e.from), splice{spans[max(i-1, 0)].to, e.to, ""})
	try(comma >= 0 && bare(e.to, max(comma, e.to)), splice{e.from, comma + 1, ""})
	try(comma >= 0, splice{e.from, e.to, ""}, splice{comma, comma + 1, ""})
	try(before >= 0, splice{before, before + 1, ""}, splice{e.from, e.to, ""})
	try(true, splice{e.from, e.to, ""})
	return tries
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
