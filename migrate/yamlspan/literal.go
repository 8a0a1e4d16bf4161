// SPDX-License-Identifier: MIT

package yamlspan

import "strings"

// blockScalar reads a literal or folded scalar; parent is the column of the collection it
// stands in, -1 at the root.
func (s *scanner) blockScalar(parent int) (*Node, error) {
	n := &Node{Kind: Scalar, Style: Literal, Start: s.pos, Body: s.pos}
	if s.src[s.pos] == '>' {
		n.Style = Folded
	}
	s.pos++
	chomp, indent := byte(0), 0
	for range 2 {
		switch c := s.at(s.pos); {
		case (c == '+' || c == '-') && chomp == 0:
			chomp = c
			s.pos++
		case c >= '1' && c <= '9' && indent == 0:
			indent = max(parent, 0) + int(c-'0')
			s.pos++
		}
	}
	s.spaces()
	s.comment()
	if !s.lineEnd(s.pos) {
		return nil, s.errorf(s.pos, "only a comment may follow the header of a block scalar")
	}
	n.End = s.pos
	if s.eof() {
		return n, nil
	}
	s.newline()
	lines, err := s.blockLines(n, parent, indent)
	if err != nil {
		return nil, err
	}
	n.Value = joinBlock(lines, n.Style == Folded, chomp)
	if chomp == '+' {
		// Trailing empty lines are part of the value: they go where it goes.
		n.End = s.pos
		if n.End > n.Body && s.ls == s.pos {
			n.End -= lastBreak(s.src[:s.pos])
		}
	}
	return n, nil
}

// blockLine is one line of a block scalar without its indentation, and its line break as it
// counts in the text; "" at the end of the file.
type blockLine struct{ text, brk string }

// blockLines reads the lines of a block scalar and sets n.End behind the last one that has
// text. An indent of 0 is found as readers find it: the deepest of the first line with text
// and the blank ones before it.
func (s *scanner) blockLines(n *Node, parent, indent int) ([]blockLine, error) {
	var lines []blockLine
	deepest := 0
	for !s.eof() {
		start := s.pos
		for s.at(s.pos) == ' ' && (indent == 0 || s.col() < indent) {
			s.pos++
		}
		deepest = max(deepest, s.col())
		if s.at(s.pos) == '\t' && (indent == 0 || s.col() < indent) {
			return nil, s.errorf(s.pos, "a tab cannot indent a block scalar")
		}
		if breakLen(s.src, s.pos) > 0 {
			lines = append(lines, blockLine{brk: breakText(s.src, s.pos)})
			s.newline()
			continue
		}
		if s.eof() {
			break
		}
		if indent == 0 {
			indent = max(deepest, parent+1, 1)
		}
		if s.col() < indent {
			s.pos = start
			break
		}
		from := s.pos
		for !s.lineEnd(s.pos) {
			s.pos++
		}
		n.End = s.pos
		l := blockLine{text: string(s.src[from:s.pos])}
		if !s.eof() {
			l.brk = breakText(s.src, s.pos)
			s.newline()
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// joinBlock makes the value of a block scalar from its lines.
func joinBlock(lines []blockLine, folded bool, chomp byte) string {
	var b strings.Builder
	var brk, empty string // the break of the last line with text, and those of the empty lines behind it
	blankStart := false
	for _, l := range lines {
		if l.text == "" {
			empty += l.brk
			continue
		}
		switch fold := folded && brk == "\n" && !blankStart && !isBlank(l.text[0]); {
		case fold && empty == "":
			b.WriteByte(' ')
		case !fold:
			b.WriteString(brk)
		}
		b.WriteString(empty)
		b.WriteString(l.text)
		empty, brk, blankStart = "", l.brk, isBlank(l.text[0])
	}
	if chomp != '-' {
		b.WriteString(brk)
	}
	if chomp == '+' {
		b.WriteString(empty)
	}
	return b.String()
}
