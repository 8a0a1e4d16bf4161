// SPDX-License-Identifier: MIT

package yamlspan

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds nesting, so that hostile input ends in an error and not in a full stack.
const maxDepth = 200

// maxKey is how many characters a key without "?" may have before its colon. Readers stop
// looking there, so a longer one is refused by all of them.
const maxKey = 1024

// scanner reads tokens of one document. ls is the offset where the current line starts; it
// is maintained by every function that crosses a line break.
type scanner struct {
	checked bool // src is known to have no forbidden characters
	src     []byte
	pos     int
	ls      int
	depth   int
	flow    int // open brackets
	past    int // white space before this offset is part of plain text, where tabs may stand
	tab     int // 1 + the offset of the first tab where a line or an item may start; 0 = none
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

// breakLen returns the length of the line break at i, 0 if there is none. YAML 1.1, which
// upstream's reader and the library both follow, also ends a line at U+0085, U+2028, U+2029.
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
	case 0xc2:
		if i+1 < len(src) && src[i+1] == 0x85 {
			return 2
		}
	case 0xe2:
		if i+2 < len(src) && src[i+1] == 0x80 && (src[i+2] == 0xa8 || src[i+2] == 0xa9) {
			return 3
		}
	}
	return 0
}

// restOfLine returns where the line of i ends: at its break, or at the end of src.
func restOfLine(src []byte, i int) int {
	for ; i < len(src); i++ {
		// Most bytes can be told at a glance.
		if c := src[i]; c > '\r' && c != 0xc2 && c != 0xe2 || c < '\n' {
			continue
		}
		if breakLen(src, i) > 0 {
			return i
		}
	}
	return len(src)
}

// lastBreak returns the length of the line break that src ends in.
func lastBreak(src []byte) int {
	for n := min(3, len(src)); n > 0; n-- {
		if breakLen(src, len(src)-n) == n {
			return n
		}
	}
	return 0
}

// breakText is what the break at i counts as inside text: the two Unicode separators are
// kept, all others are "\n".
func breakText(src []byte, i int) string {
	if n := breakLen(src, i); n == 3 {
		return string(src[i : i+n])
	}
	return "\n"
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
	return i >= len(s.src) || isBlank(s.src[i]) || breakLen(s.src, i) > 0
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

// dash reports whether a list item's dash stands at pos.
func (s *scanner) dash() bool { return s.at(s.pos) == '-' && s.blankz(s.pos+1) }

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

// indent skips the blanks where a line or a list item starts, and remembers a tab: outside
// brackets readers refuse it there, even on an empty line.
func (s *scanner) indent() {
	from := s.pos
	s.spaces()
	if i := bytes.IndexByte(s.src[from:s.pos], '\t'); i >= 0 && s.flow == 0 && s.tab == 0 && from+i >= s.past {
		s.tab = from + i + 1
	}
}

// comment skips a comment that starts at pos, if there is one. Where a token may start a
// '#' needs no blank before it: readers take "x"#y as text with a comment. In plain text it
// does, and that is decided before this is called.
func (s *scanner) comment() {
	if s.at(s.pos) != '#' {
		return
	}
	s.pos = restOfLine(s.src, s.pos)
}

// toToken skips white space, comments and line breaks up to the next token, and reports
// whether it crossed a line.
func (s *scanner) toToken() (crossed bool) {
	for {
		if s.pos == s.ls {
			s.indent()
		}
		s.spaces()
		s.comment()
		if s.eof() || breakLen(s.src, s.pos) == 0 {
			return crossed
		}
		s.newline()
		crossed = true
	}
}

// lineEndsHere reports whether only blanks and a comment stand between pos and the end of
// the line, without moving.
func (s *scanner) lineEndsHere() bool {
	i := s.pos
	for i < len(s.src) && isBlank(s.src[i]) {
		i++
	}
	return s.lineEnd(i) || s.src[i] == '#'
}

// tooLong reports whether a key that starts at from is too long for its colon, at pos, to
// be found.
func (s *scanner) tooLong(from int) bool {
	return s.pos-from > maxKey && utf8.RuneCount(s.src[from:s.pos]) > maxKey
}

// folder joins the lines of a flow scalar as YAML folds them: one break is a space, more
// are one fewer than written.
type folder struct {
	out    strings.Builder
	blanks []byte
	first  string // the first of a run of breaks; "" = none
	rest   string
}

func (f *folder) breakLine(text string) {
	if f.first == "" {
		f.first = text
		return
	}
	f.rest += text
}

func (f *folder) flush() {
	switch {
	case f.first == "":
		f.out.Write(f.blanks)
	case f.first != "\n":
		f.out.WriteString(f.first + f.rest)
	case f.rest == "":
		f.out.WriteByte(' ')
	default:
		f.out.WriteString(f.rest)
	}
	f.blanks, f.first, f.rest = f.blanks[:0], "", ""
}
