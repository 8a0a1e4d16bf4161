// SPDX-License-Identifier: MIT

package yamlspan

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// bom is the byte order mark of UTF-8; it may stand before a document and is left there.
const bom = "\xef\xbb\xbf"

// parse reads the single document of src. The root is nil when there is no content.
func parse(src []byte) (*Node, error) { return (&scanner{src: src}).run() }

func (s *scanner) run() (*Node, error) {
	root, err := s.document()
	if s.tab > 0 {
		return nil, s.errorf(s.tab-1, "a tab cannot indent")
	}
	return root, err
}

func (s *scanner) document() (*Node, error) {
	src := s.src
	if !s.checked {
		if i, why := forbidden(src); i >= 0 {
			return nil, s.errorf(i, why)
		}
	}
	if bytes.HasPrefix(src, []byte(bom)) {
		s.pos, s.ls = len(bom), len(bom)
	}
	begun, inline, err := s.prologue()
	if err != nil {
		return nil, err
	}
	root, err := s.block(-1, inline, false)
	if err != nil {
		return nil, err
	}
	s.toToken()
	empty := root.Empty() && root.Anchor == "" && root.Tag == ""
	if empty && !begun && s.marker(s.pos) {
		return nil, s.errorf(s.pos, "an end marker without a document before it")
	}
	for s.marker(s.pos) && s.at(s.pos) == '.' {
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
	if empty {
		return nil, nil
	}
	return root, nil
}

// forbidden finds the first character that no YAML file may hold, and says what it is; -1
// if there is none.
func forbidden(src []byte) (at int, why string) {
	if bytes.HasPrefix(src, []byte(bom+bom)) {
		return len(bom), "a second byte order mark; remove it"
	}
	for i := 0; i < len(src); {
		if c := src[i]; c >= 0x20 && c < 0x7f || c == '\t' || c == '\n' || c == '\r' {
			i++
			continue
		}
		r, n := utf8.DecodeRune(src[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return i, "not UTF-8 text"
		case r < 0xa0 && r != 0x85, r == 0xfffe, r == 0xffff:
			return i, "a control character; write it as an escape in double quotes"
		}
		i += n
	}
	return -1, ""
}

// prologue skips directives and the marker that starts a document. begun reports that there
// is one; inline that content may follow on its line, where no mapping can start.
func (s *scanner) prologue() (begun, inline bool, err error) {
	s.toToken()
	for s.at(s.pos) == '%' && s.pos == s.ls {
		if !bytes.HasPrefix(s.src[s.pos:], []byte("%YAML")) {
			return false, false, s.errorf(s.pos, "a directive other than %YAML; write the tags out")
		}
		for !s.lineEnd(s.pos) {
			s.pos++
		}
		s.toToken()
		if s.eof() {
			return false, false, s.errorf(s.pos, "a directive without a document")
		}
	}
	if s.marker(s.pos) && s.at(s.pos) == '-' {
		s.pos += 3
		return true, !s.toToken(), nil
	}
	return false, false, nil
}

// block reads a node in block context whose content stands right of column parent. inline
// says that text on this line precedes it, so that no block collection may start. With
// indentless, a list below a tag or an anchor may stand at column parent itself.
func (s *scanner) block(parent int, inline, indentless bool) (*Node, error) {
	if s.depth++; s.depth > maxDepth {
		return nil, s.errorf(s.pos, "nested too deep")
	}
	defer func() { s.depth-- }()
	empty := &Node{Kind: Scalar, Style: Plain, Start: s.pos, Body: s.pos, End: s.pos}
	if s.eof() || s.marker(s.pos) || s.col() <= parent {
		return empty, nil
	}
	if !inline {
		switch c := s.at(s.pos); {
		case s.dash():
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
		return s.below(p, parent, indentless)
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
func (s *scanner) below(p props, parent int, indentless bool) (*Node, error) {
	end, ls := s.pos, s.ls
	s.toToken()
	var n *Node
	var err error
	switch {
	case s.eof() || s.marker(s.pos):
	case s.col() > parent:
		n, err = s.block(parent, false, indentless)
	case indentless && s.col() == parent && s.dash():
		n, err = s.sequence(parent)
	}
	if err != nil {
		return nil, err
	}
	if n == nil {
		s.pos, s.ls = end, ls
		return p.apply(&Node{Kind: Scalar, Style: Plain, Body: p.end, End: p.end}), nil
	}
	if n.Kind == Alias || (p.anchor != "" && n.Anchor != "") || (p.tag != "" && n.Tag != "") {
		return nil, s.errorf(n.Start, "two anchors or tags for one value")
	}
	return p.apply(n), nil
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
			for !s.blankz(s.pos) {
				s.pos++
			}
			p.tag = string(s.src[from:s.pos])
			if strings.ContainsAny(p.tag, "<%,[]{}") {
				return p, s.errorf(from, "a tag that is not a plain word with a blank behind it")
			}
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
	switch c := s.at(s.pos); c {
	case '|', '>':
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
	colon := func() bool { return s.at(s.pos) == ':' && s.blankz(s.pos+1) && !s.tooLong(pos) }
	if s.pos != pos && colon() {
		return true // an empty key with an anchor or a tag
	}
	n, err := s.flowNode(false, 0, true)
	if err != nil || n == nil || s.ls != ls {
		return false
	}
	s.spaces()
	return colon()
}
