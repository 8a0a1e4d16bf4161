// SPDX-License-Identifier: MIT

package yamlspan

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds nesting, so that hostile input ends in an error and not in a full stack.
const maxDepth = 200

// scanner reads tokens of one document. ls is the offset where the current line starts; it
// is maintained by every function that crosses a line break.
type scanner struct {
	src   []byte
	pos   int
	ls    int
	depth int
}

func (s *scanner) errorf(at int, msg string) error {
	line, col := position(s.src, at)
	return &SyntaxError{Line: line, Column: col, Msg: msg}
}

// position turns an offset into a 1-based line and column.
func position(src []byte, at int) (line, col int) {
	at = min(at, len(src))
	line, start := 1, 0
	for i := 0; i < at; {
		if n := breakLen(src, i); n > 0 {
			line, start = line+1, i+n
			i += n
			continue
		}
		i++
	}
	return line, at - start + 1
}

// breakLen returns the length of the line break at i, 0 if there is none.
func breakLen(src []byte, i int) int {
	if i >= len(src) {
		return 0
	}
	switch src[i] {
	case '\n':
		return 1
	case '\r':
		if i+1 < len(src) && src[i+1] == '\n' {
			return 2
		}
		return 1
	}
	return 0
}

func (s *scanner) at(i int) byte {
	if i < len(s.src) {
		return s.src[i]
	}
	return 0
}

func (s *scanner) eof() bool { return s.pos >= len(s.src) }

func (s *scanner) col() int { return s.pos - s.ls }

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// blankz reports whether i is at white space, a line break or the end.
func (s *scanner) blankz(i int) bool {
	if i >= len(s.src) {
		return true
	}
	c := s.src[i]
	return isBlank(c) || c == '\n' || c == '\r'
}

// lineEnd reports whether i is at a line break or the end.
func (s *scanner) lineEnd(i int) bool { return i >= len(s.src) || breakLen(s.src, i) > 0 }

// marker reports whether a document marker ("---" or "...") stands at i.
func (s *scanner) marker(i int) bool {
	if i != s.ls || i+3 > len(s.src) {
		return false
	}
	m := string(s.src[i : i+3])
	return (m == "---" || m == "...") && s.blankz(i+3)
}

// newline steps over the break at pos.
func (s *scanner) newline() {
	s.pos += breakLen(s.src, s.pos)
	s.ls = s.pos
}

// spaces skips blanks on the current line.
func (s *scanner) spaces() {
	for s.pos < len(s.src) && isBlank(s.src[s.pos]) {
		s.pos++
	}
}

// comment skips a comment that starts at pos, if there is one. A '#' only starts a comment
// at the start of a line or after white space.
func (s *scanner) comment() {
	if s.at(s.pos) != '#' || (s.pos > s.ls && !isBlank(s.src[s.pos-1])) {
		return
	}
	for !s.lineEnd(s.pos) {
		s.pos++
	}
}

// toToken skips white space, comments and line breaks up to the next token, and reports
// whether it crossed a line.
func (s *scanner) toToken() (crossed bool) {
	for {
		s.spaces()
		s.comment()
		if s.eof() || breakLen(s.src, s.pos) == 0 {
			return crossed
		}
		s.newline()
		crossed = true
	}
}

// tabIndent reports whether the indentation of the current line, up to pos, holds a tab.
func (s *scanner) tabIndent() bool { return bytes.IndexByte(s.src[s.ls:s.pos], '\t') >= 0 }

// plainStart reports whether a plain scalar may start at pos.
func (s *scanner) plainStart(flow bool) bool {
	c := s.at(s.pos)
	if s.blankz(s.pos) {
		return false
	}
	switch c {
	case '-':
		return !s.blankz(s.pos + 1)
	case '?', ':':
		return !flow && !s.blankz(s.pos+1)
	case ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`':
		return false
	}
	return true
}

// folder joins the lines of a flow scalar as YAML folds them: one break is a space, more
// are one fewer than written.
type folder struct {
	out    strings.Builder
	blanks []byte
	breaks int
}

func (f *folder) flush() {
	switch {
	case f.breaks == 1:
		f.out.WriteByte(' ')
	case f.breaks > 1:
		f.out.WriteString(strings.Repeat("\n", f.breaks-1))
	default:
		f.out.Write(f.blanks)
	}
	f.blanks, f.breaks = f.blanks[:0], 0
}

// plain reads a plain scalar. indent is the smallest column a continuation line may have
// outside flow context. single stops at the end of the line.
func (s *scanner) plain(flow bool, indent int, single bool) (*Node, error) {
	n := &Node{Kind: Scalar, Style: Plain, Start: s.pos, Body: s.pos, End: s.pos}
	var f folder
	for {
		for !s.blankz(s.pos) {
			c := s.src[s.pos]
			if c == ':' && s.blankz(s.pos+1) {
				break
			}
			if flow && (c == ',' || c == '?' || c == '[' || c == ']' || c == '{' || c == '}') {
				break
			}
			f.flush()
			f.out.WriteByte(c)
			s.pos++
			n.End = s.pos
		}
		if s.eof() || !s.blankz(s.pos) {
			break
		}
		end, ls := s.pos, s.ls
		for s.blankz(s.pos) && !s.eof() {
			if !isBlank(s.src[s.pos]) {
				if single {
					s.pos, s.ls = end, ls
					n.Value = f.out.String()
					return n, nil
				}
				f.breaks++
				s.newline()
				continue
			}
			if f.breaks == 0 {
				f.blanks = append(f.blanks, s.src[s.pos])
			} else if s.src[s.pos] == '\t' && !flow && s.col() < indent {
				return nil, s.errorf(s.pos, "a tab cannot indent here")
			}
			s.pos++
		}
		if f.breaks > 0 && (s.eof() || (!flow && s.col() < indent) || s.marker(s.pos)) || s.at(s.pos) == '#' {
			s.pos, s.ls = end, ls
			break
		}
	}
	n.Value = f.out.String()
	return n, nil
}

// single reads a single-quoted scalar.
func (s *scanner) single() (*Node, error) {
	return s.quoted('\'', SingleQuoted, func(f *folder) (bool, error) {
		if s.src[s.pos] != '\'' {
			return false, nil
		}
		if s.at(s.pos+1) == '\'' {
			f.flush()
			f.out.WriteByte('\'')
			s.pos += 2
			return false, nil
		}
		return true, nil
	})
}

// double reads a double-quoted scalar.
func (s *scanner) double() (*Node, error) {
	return s.quoted('"', DoubleQuoted, func(f *folder) (bool, error) {
		switch s.src[s.pos] {
		case '"':
			return true, nil
		case '\\':
			return false, s.escape(f)
		}
		return false, nil
	})
}

// quoted reads a quoted scalar; special handles the characters that are not plain text: it
// reports true at the closing quote.
func (s *scanner) quoted(q byte, style Style, special func(*folder) (bool, error)) (*Node, error) {
	n := &Node{Kind: Scalar, Style: style, Start: s.pos, Body: s.pos}
	s.pos++
	var f folder
	for {
		if s.eof() {
			return nil, s.errorf(n.Start, "this quoted text has no end")
		}
		if s.marker(s.pos) {
			return nil, s.errorf(s.pos, "a document marker inside quoted text")
		}
		before := s.pos
		closed, err := special(&f)
		switch {
		case err != nil:
			return nil, err
		case closed:
			f.flush()
			s.pos++
			n.End, n.Value = s.pos, f.out.String()
			return n, nil
		case s.pos != before:
			continue
		}
		switch c := s.src[s.pos]; {
		case breakLen(s.src, s.pos) > 0:
			f.breaks++
			s.newline()
		case isBlank(c) && f.breaks > 0:
			s.pos++
		case isBlank(c):
			f.blanks = append(f.blanks, c)
			s.pos++
		default:
			f.flush()
			f.out.WriteByte(c)
			s.pos++
		}
	}
}

// escapes are the one-letter escapes of a double-quoted scalar.
func escaped(c byte) (string, bool) {
	const names = "0abt\tnvfre \"'/\\N_LP"
	values := [...]string{
		"\x00", "\a", "\b", "\t", "\t", "\n", "\v", "\f", "\r", "\x1b", " ", `"`, "'", "/", `\`,
		"\u0085", "\u00a0", "\u2028", "\u2029",
	}
	i := strings.IndexByte(names, c)
	if i < 0 {
		return "", false
	}
	return values[i], true
}

// escape reads one backslash escape.
func (s *scanner) escape(f *folder) error {
	at := s.pos
	f.flush()
	c := s.at(s.pos + 1)
	if n := breakLen(s.src, s.pos+1); n > 0 {
		s.pos++
		s.newline()
		for s.pos < len(s.src) && isBlank(s.src[s.pos]) {
			s.pos++
		}
		// Further empty lines are kept as breaks, without the space a fold would give.
		for breakLen(s.src, s.pos) > 0 {
			f.out.WriteByte('\n')
			s.newline()
			s.spaces()
		}
		return nil
	}
	if text, ok := escaped(c); ok {
		f.out.WriteString(text)
		s.pos += 2
		return nil
	}
	size := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	if size == 0 || s.pos+2+size > len(s.src) {
		return s.errorf(at, "unknown escape in double-quoted text")
	}
	var r rune
	for _, h := range s.src[s.pos+2 : s.pos+2+size] {
		d := strings.IndexByte("0123456789abcdef", h|0x20)
		if d < 0 || (h < '0') {
			return s.errorf(at, "bad hexadecimal escape in double-quoted text")
		}
		r = r<<4 | rune(d)
	}
	if !utf8.ValidRune(r) {
		return s.errorf(at, "an escape that is no character")
	}
	f.out.WriteRune(r)
	s.pos += 2 + size
	return nil
}

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

// lastBreak returns the length of the line break that src ends in.
func lastBreak(src []byte) int {
	switch {
	case bytes.HasSuffix(src, []byte("\r\n")):
		return 2
	case bytes.HasSuffix(src, []byte("\n")), bytes.HasSuffix(src, []byte("\r")):
		return 1
	}
	return 0
}

// blockLine is one line of a block scalar without its indentation.
type blockLine struct {
	text   string
	broken bool // the line ends in a break, not at the end of the file
}

// blockLines reads the lines of a block scalar and sets n.End behind the last one that has
// text. An indent of 0 is found from the first line with text.
func (s *scanner) blockLines(n *Node, parent, indent int) ([]blockLine, error) {
	var lines []blockLine
	for !s.eof() {
		start := s.pos
		for s.at(s.pos) == ' ' && (indent == 0 || s.col() < indent) {
			s.pos++
		}
		if breakLen(s.src, s.pos) > 0 {
			lines = append(lines, blockLine{broken: true})
			s.newline()
			continue
		}
		if s.eof() {
			break
		}
		if indent == 0 {
			if s.at(s.pos) == '\t' && s.col() <= parent {
				return nil, s.errorf(s.pos, "a tab cannot indent a block scalar")
			}
			indent = max(s.col(), parent+1, 1)
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
		lines = append(lines, blockLine{string(s.src[from:s.pos]), !s.eof()})
		if !s.eof() {
			s.newline()
		}
	}
	return lines, nil
}

// joinBlock makes the value of a block scalar from its lines.
func joinBlock(lines []blockLine, folded bool, chomp byte) string {
	var b strings.Builder
	var broken, blankStart bool // of the last line with text
	empty := 0
	for _, l := range lines {
		if l.text == "" {
			empty++
			continue
		}
		fold := folded && broken && !blankStart && !isBlank(l.text[0])
		switch {
		case fold && empty == 0:
			b.WriteByte(' ')
		case broken && !fold:
			b.WriteByte('\n')
		}
		b.WriteString(strings.Repeat("\n", empty))
		b.WriteString(l.text)
		empty, broken, blankStart = 0, l.broken, isBlank(l.text[0])
	}
	if broken && chomp != '-' {
		b.WriteByte('\n')
	}
	if chomp == '+' {
		b.WriteString(strings.Repeat("\n", empty))
	}
	return b.String()
}
