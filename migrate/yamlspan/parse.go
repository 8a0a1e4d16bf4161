// SPDX-License-Identifier: MIT

package yamlspan

import (
	"bytes"
	"unicode/utf8"
)

// bom is the byte order mark of UTF-8; it may stand before a document and is left there.
const bom = "\xef\xbb\xbf"

// parse reads the single document of src. The root is nil when there is no content.
func parse(src []byte) (*Node, error) {
	s := &scanner{src: src}
	if i := invalidUTF8(src); i >= 0 {
		return nil, s.errorf(i, "not UTF-8 text")
	}
	if bytes.HasPrefix(src, []byte(bom)) {
		s.pos, s.ls = len(bom), len(bom)
	}
	inline, err := s.prologue()
	if err != nil {
		return nil, err
	}
	root, err := s.block(-1, inline)
	if err != nil {
		return nil, err
	}
	s.toToken()
	if s.marker(s.pos) && s.at(s.pos) == '.' {
		s.pos += 3
		s.toToken()
	}
	switch {
	case s.eof():
	case s.marker(s.pos):
		return nil, s.errorf(s.pos, "a second document starts here; a config file holds one")
	default:
		return nil, s.errorf(s.pos, "unexpected text; check the indentation and the quotes before it")
	}
	if root.Empty() && root.Anchor == "" && root.Tag == "" {
		return nil, nil
	}
	return root, nil
}

func invalidUTF8(src []byte) int {
	if utf8.Valid(src) {
		return -1
	}
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// prologue skips directives and the marker that starts a document. inline reports that
// content may follow on the marker's line, where no mapping can start.
func (s *scanner) prologue() (inline bool, err error) {
	s.toToken()
	for s.at(s.pos) == '%' && s.pos == s.ls {
		for !s.lineEnd(s.pos) {
			s.pos++
		}
		s.toToken()
		if s.eof() {
			return false, s.errorf(s.pos, "a directive without a document")
		}
	}
	if s.marker(s.pos) && s.at(s.pos) == '-' {
		s.pos += 3
		return !s.toToken(), nil
	}
	return false, nil
}

// block reads a node in block context whose content stands right of column parent. inline
// says that text on this line precedes it, so that no block collection may start.
func (s *scanner) block(parent int, inline bool) (*Node, error) {
	if s.depth++; s.depth > maxDepth {
		return nil, s.errorf(s.pos, "nested too deep")
	}
	defer func() { s.depth-- }()
	empty := &Node{Kind: Scalar, Style: Plain, Start: s.pos, Body: s.pos, End: s.pos}
	if s.eof() || s.marker(s.pos) || s.col() <= parent {
		return empty, nil
	}
	if !inline {
		if s.tabIndent() {
			return nil, s.errorf(s.ls, "a tab cannot indent")
		}
		switch c := s.at(s.pos); {
		case c == '-' && s.blankz(s.pos+1):
			return s.sequence(s.col())
		case (c == '?' || c == ':') && s.blankz(s.pos+1), s.simpleKey():
			return s.mapping(s.col())
		}
	}
	p, err := s.properties()
	if err != nil {
		return nil, err
	}
	if p.any() && s.lineEndsHere() {
		return s.below(p, parent)
	}
	n, err := s.leaf(parent, parent+1)
	if err != nil {
		return nil, err
	}
	if n == nil {
		if !p.any() {
			return nil, s.errorf(s.pos, "unexpected character")
		}
		n = &Node{Kind: Scalar, Style: Plain, Body: s.pos, End: s.pos}
	}
	return p.apply(n), nil
}

// below reads the content of properties that end their line: "key: &anchor" with the
// collection on the lines below.
func (s *scanner) below(p props, parent int) (*Node, error) {
	end := s.pos
	ls := s.ls
	s.toToken()
	if !s.eof() && !s.marker(s.pos) && s.col() > parent {
		n, err := s.block(parent, false)
		if err != nil {
			return nil, err
		}
		if n.Kind == Alias || (p.anchor != "" && n.Anchor != "") || (p.tag != "" && n.Tag != "") {
			return nil, s.errorf(n.Start, "two anchors or tags for one value")
		}
		return p.apply(n), nil
	}
	s.pos, s.ls = end, ls
	return p.apply(&Node{Kind: Scalar, Style: Plain, Body: p.end, End: p.end}), nil
}

// lineEndsHere reports whether only blanks and a comment stand between pos and the end of
// the line, without moving.
func (s *scanner) lineEndsHere() bool {
	i := s.pos
	for isBlank(s.at(i)) && i < len(s.src) {
		i++
	}
	return s.lineEnd(i) || (s.src[i] == '#' && i > s.ls && isBlank(s.src[i-1]))
}

// props are the tag and anchor before a node.
type props struct {
	tag, anchor string
	start, end  int
}

func (p props) any() bool { return p.tag != "" || p.anchor != "" }

func (p props) apply(n *Node) *Node {
	if !p.any() {
		return n
	}
	n.Start, n.propEnd = p.start, p.end
	if p.tag != "" {
		n.Tag = p.tag
	}
	if p.anchor != "" {
		n.Anchor = p.anchor
	}
	return n
}

// properties reads a tag and an anchor in either order, and the blanks behind them.
func (s *scanner) properties() (props, error) {
	p := props{start: s.pos, end: s.pos}
	for {
		from := s.pos
		switch c := s.at(s.pos); {
		case c == '&' && p.anchor == "":
			p.anchor = s.name()
			if p.anchor == "" {
				return p, s.errorf(from, "an anchor without a name")
			}
		case c == '!' && p.tag == "":
			for !s.blankz(s.pos) && bytes.IndexByte([]byte(",[]{}"), s.src[s.pos]) < 0 {
				s.pos++
			}
			p.tag = string(s.src[from:s.pos])
		default:
			return p, nil
		}
		p.end = s.pos
		if !s.blankz(s.pos) && bytes.IndexByte([]byte(",]}:"), s.at(s.pos)) < 0 {
			return p, s.errorf(s.pos, "unexpected character after an anchor or a tag")
		}
		s.spaces()
	}
}

// name reads the name behind '&' or '*'.
func (s *scanner) name() string {
	s.pos++
	from := s.pos
	for c := s.at(s.pos); c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '-'; c = s.at(s.pos) {
		s.pos++
	}
	return string(s.src[from:s.pos])
}

// leaf reads an alias, a scalar or a flow collection; nil if none starts at pos. parent is
// the column of the enclosing collection, indent the smallest column of a plain scalar's
// further lines.
func (s *scanner) leaf(parent, indent int) (*Node, error) {
	switch c := s.at(s.pos); {
	case c == '|' || c == '>':
		return s.blockScalar(parent)
	default:
		return s.flowNode(false, indent, false)
	}
}

// flowNode reads what may stand in flow context as well as on a line of block context.
func (s *scanner) flowNode(flow bool, indent int, single bool) (*Node, error) {
	from := s.pos
	switch c := s.at(s.pos); {
	case c == '*':
		n := &Node{Kind: Alias, Start: from, Body: from}
		n.Value = s.name()
		n.End = s.pos
		if n.Value == "" {
			return nil, s.errorf(from, "an alias without a name")
		}
		return n, nil
	case c == '\'':
		return s.single()
	case c == '"':
		return s.double()
	case c == '[' || c == '{':
		return s.collection()
	case s.plainStart(flow):
		return s.plain(flow, indent, single)
	}
	return nil, nil
}

// simpleKey looks whether a key with its colon stands on this line at pos; it does not move.
func (s *scanner) simpleKey() bool {
	pos, ls := s.pos, s.ls
	defer func() { s.pos, s.ls = pos, ls }()
	if _, err := s.properties(); err != nil {
		return false
	}
	if s.blankz(s.pos) && s.pos != pos {
		return false
	}
	n, err := s.flowNode(false, 0, true)
	if err != nil || n == nil || s.ls != ls {
		return false
	}
	s.spaces()
	return s.at(s.pos) == ':' && s.blankz(s.pos+1)
}
