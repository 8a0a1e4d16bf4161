// SPDX-License-Identifier: MIT

package yamlspan

// sequence reads a block sequence whose dashes stand at column c.
func (s *scanner) sequence(c int) (*Node, error) {
	n := &Node{Kind: Sequence, Style: Block, Start: s.pos, Body: s.pos, column: c}
	for {
		n.dashes = append(n.dashes, s.pos)
		s.pos++
		end := s.pos
		s.indent()
		inline := !s.lineEndsHere()
		if !inline {
			s.toToken()
		}
		item, err := s.entryValue(c, end, inline, true, false)
		if err != nil {
			return nil, err
		}
		n.Items = append(n.Items, item)
		n.End = max(item.End, end)
		s.toToken()
		if s.eof() || s.col() != c || !s.dash() || s.marker(s.pos) {
			break
		}
	}
	return n, s.endOfCollection(c)
}

// endOfCollection checks that the token after a block collection is not indented deeper
// than the collection's own entries.
func (s *scanner) endOfCollection(c int) error {
	if !s.eof() && s.col() > c && !s.marker(s.pos) {
		return s.errorf(s.pos, "this line is indented deeper than the entries before it")
	}
	return nil
}

// mapping reads a block mapping whose keys stand at column c.
func (s *scanner) mapping(c int) (*Node, error) {
	n := &Node{Kind: Mapping, Style: Block, Start: s.pos, Body: s.pos, column: c}
	for {
		p, err := s.entry(c)
		if err != nil {
			return nil, err
		}
		n.Pairs = append(n.Pairs, p)
		n.End = max(p.Value.End, p.Key.End, p.colon+1)
		s.toToken()
		if s.eof() || s.col() != c || s.marker(s.pos) {
			break
		}
		if s.dash() {
			break // the end of a mapping that is an item of a list at the same column
		}
	}
	return n, s.endOfCollection(c)
}

// entry reads one key and its value.
func (s *scanner) entry(c int) (Pair, error) {
	p := Pair{start: s.pos, colon: -1}
	var err error
	if s.at(s.pos) == '?' && s.blankz(s.pos+1) {
		s.pos++
		end := s.pos
		s.spaces()
		inline := !s.lineEndsHere()
		if !inline {
			s.toToken()
		}
		if p.Key, err = s.entryValue(c, end, inline, true, true); err != nil {
			return p, err
		}
		s.toToken()
		if s.eof() || s.col() != c || s.at(s.pos) != ':' || !s.blankz(s.pos+1) {
			p.Value = &Node{Kind: Scalar, Style: Plain, Start: p.Key.End, Body: p.Key.End, End: p.Key.End}
			return p, nil
		}
	} else if p.Key, err = s.key(); err != nil {
		return p, err
	}
	explicit := s.src[p.start] == '?' && s.blankz(p.start+1)
	p.colon = s.pos
	s.pos++
	end := s.pos
	s.spaces()
	inline := !s.lineEndsHere()
	if !inline {
		s.toToken()
	}
	p.Value, err = s.entryValue(c, end, inline, explicit, true)
	return p, err
}

// key reads a key on one line and the blanks before its colon.
func (s *scanner) key() (*Node, error) {
	at := s.pos
	pr, err := s.properties()
	if err != nil {
		return nil, err
	}
	var n *Node
	if s.at(s.pos) == ':' && s.blankz(s.pos+1) {
		n = &Node{Kind: Scalar, Style: Plain, Start: s.pos, Body: s.pos, End: s.pos}
	} else {
		ls := s.ls
		if n, err = s.flowNode(false, 0, true); err != nil {
			return nil, err
		}
		if n == nil || s.ls != ls {
			return nil, s.errorf(at, "expected a key")
		}
	}
	s.spaces()
	if s.at(s.pos) != ':' || !s.blankz(s.pos+1) {
		return nil, s.errorf(s.pos, "expected ':' after the key")
	}
	if s.tooLong(at) {
		return nil, s.errorf(at, "a key longer than readers allow; write it behind \"? \"")
	}
	return pr.apply(n), nil
}

// entryValue reads the value of a mapping entry or list item in a collection at column c.
// end is the offset behind the ':' or '-', where a value left empty is placed. compact
// allows a collection to start on the same line, as behind "- "; indentless allows a list
// at column c itself, as below a key.
func (s *scanner) entryValue(c, end int, inline, compact, indentless bool) (*Node, error) {
	empty := &Node{Kind: Scalar, Style: Plain, Start: end, Body: end, End: end}
	if inline {
		if compact {
			return s.block(c, false, indentless)
		}
		return s.inlineValue(c)
	}
	switch {
	case s.eof() || s.marker(s.pos) || s.col() < c:
		return empty, nil
	case s.col() > c:
		return s.block(c, false, indentless)
	case indentless && s.dash():
		return s.sequence(c)
	}
	return empty, nil
}

// inlineValue reads a value that starts on its key's line: a scalar, a flow collection, an
// alias, or properties whose content follows on the lines below.
func (s *scanner) inlineValue(c int) (*Node, error) {
	at, line := s.pos, s.ls
	p, err := s.properties()
	if err != nil {
		return nil, err
	}
	if p.any() && s.lineEndsHere() {
		return s.below(p, c, true)
	}
	n, err := s.leaf(c, c+1)
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, s.errorf(s.pos, "unexpected character at the start of a value; put the value in quotes")
	}
	end := s.ls
	s.spaces()
	switch {
	case n.Style == Literal || n.Style == Folded || s.at(s.pos) != ':' || !s.blankz(s.pos+1) || s.ls != end:
		return p.apply(n), nil
	case s.ls == line:
		return nil, s.errorf(at, "a second key on one line; put a value that holds ': ' in quotes")
	}
	return nil, s.errorf(s.pos, "a key inside the text that starts above; check the indentation")
}

// collection reads a flow collection.
func (s *scanner) collection() (*Node, error) {
	if s.depth++; s.depth > maxDepth {
		return nil, s.errorf(s.pos, "nested too deep")
	}
	s.flow++
	defer func() { s.depth--; s.flow-- }()
	n := &Node{Kind: Sequence, Style: Flow, Start: s.pos, Body: s.pos, open: s.pos}
	closing := byte(']')
	if s.src[s.pos] == '{' {
		n.Kind, closing = Mapping, '}'
	}
	s.pos++
	for {
		s.toToken()
		if s.eof() || s.marker(s.pos) {
			return nil, s.errorf(n.open, "this bracket is never closed")
		}
		if s.src[s.pos] == closing {
			s.pos++
			n.End = s.pos
			return n, nil
		}
		if err := s.flowEntry(n); err != nil {
			return nil, err
		}
		s.toToken()
		switch {
		case s.eof() || s.marker(s.pos):
			return nil, s.errorf(n.open, "this bracket is never closed")
		case s.src[s.pos] == ',':
			s.pos++
		case s.src[s.pos] != closing:
			return nil, s.errorf(s.pos, "expected ',' or a closing bracket")
		}
	}
}

// flowEntry reads one entry of a flow collection into n.
func (s *scanner) flowEntry(n *Node) error {
	p := Pair{start: s.pos, colon: -1}
	explicit := s.at(s.pos) == '?'
	if explicit {
		s.pos++
		s.toToken()
	}
	key, err := s.flowValue()
	if err != nil {
		return err
	}
	end := s.pos
	s.toToken()
	if s.at(s.pos) == ':' {
		if !explicit && (s.ls > p.start || s.tooLong(p.start)) {
			return s.errorf(p.start, "a key and its colon must stand on one line, within what readers allow")
		}
		p.colon = s.pos
		s.pos++
		s.toToken()
	} else if n.Kind == Sequence && !explicit {
		n.Items = append(n.Items, key)
		return nil
	} else {
		s.pos = end
	}
	p.Key = key
	p.Value = &Node{Kind: Scalar, Style: Plain, Start: key.End, Body: key.End, End: key.End}
	if p.colon >= 0 {
		p.Value = &Node{Kind: Scalar, Style: Plain, Start: p.colon + 1, Body: p.colon + 1, End: p.colon + 1}
		if c := s.at(s.pos); c != ',' && c != '}' && c != ']' {
			if p.Value, err = s.flowValue(); err != nil {
				return err
			}
		}
	}
	if n.Kind == Mapping {
		n.Pairs = append(n.Pairs, p)
		return nil
	}
	one := &Node{Kind: Mapping, Style: Flow, Start: p.start, Body: p.start, End: max(key.End, p.Value.End, p.colon+1), open: -1}
	one.Pairs = []Pair{p}
	n.Items = append(n.Items, one)
	return nil
}

// flowValue reads a node inside a flow collection, possibly left empty.
func (s *scanner) flowValue() (*Node, error) {
	p, err := s.properties()
	if err != nil {
		return nil, err
	}
	s.toToken()
	n, err := s.flowNode(true, 0, false)
	if err != nil {
		return nil, err
	}
	if n == nil {
		if c := s.at(s.pos); c != ',' && c != ']' && c != '}' && c != ':' {
			return nil, s.errorf(s.pos, "unexpected character in a bracketed value")
		}
		at := s.pos
		if p.any() {
			at = p.end
		}
		n = &Node{Kind: Scalar, Style: Plain, Start: at, Body: at, End: at}
	}
	return p.apply(n), nil
}
