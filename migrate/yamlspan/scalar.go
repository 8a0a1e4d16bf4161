// SPDX-License-Identifier: MIT

package yamlspan

import (
	"strings"
	"unicode/utf8"
)

// plainStart reports whether a plain scalar may start at pos.
func (s *scanner) plainStart(flow bool) bool {
	if s.blankz(s.pos) {
		return false
	}
	switch s.at(s.pos) {
	case '-':
		return !s.blankz(s.pos + 1)
	case '?', ':':
		return !flow && !s.blankz(s.pos+1)
	case ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`':
		return false
	}
	return true
}

// plainEnd reports whether the character at pos ends a plain scalar.
func (s *scanner) plainEnd(flow bool) (bool, error) {
	c := s.src[s.pos]
	switch {
	case c == ':' && s.blankz(s.pos+1):
		return true, nil
	case !flow:
		return false, nil
	case c == ':' && strings.IndexByte(",[]{}", s.at(s.pos+1)) >= 0:
		// Upstream's reader ends the text before this colon, the library does not.
		return false, s.errorf(s.pos, "a colon before a bracket or comma; put the text in quotes or a blank behind the colon")
	}
	return strings.IndexByte(",?[]{}", c) >= 0, nil
}

// plain reads a plain scalar. indent is the smallest column a continuation line may have
// outside flow context. single stops at the end of the line.
func (s *scanner) plain(flow bool, indent int, single bool) (*Node, error) {
	n := &Node{Kind: Scalar, Style: Plain, Start: s.pos, Body: s.pos, End: s.pos}
	var f folder
	broken := false // over more than one line; until then the value is the text itself
	for {
		from := s.pos
		for !s.blankz(s.pos) {
			done, err := s.plainEnd(flow)
			if err != nil {
				return nil, err
			}
			if done {
				break
			}
			s.pos++
		}
		if s.pos > from {
			n.End = s.pos
			if broken {
				f.flush()
				f.out.Write(s.src[from:s.pos])
			}
		}
		if s.eof() || !s.blankz(s.pos) {
			break
		}
		more, err := s.plainGap(&f, flow, indent, single)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if f.first != "" && !broken {
			broken = true
			f.out.Write(s.src[n.Start:n.End])
		}
		if !broken {
			f.blanks = f.blanks[:0]
		}
	}
	if broken {
		n.Value = f.out.String()
	} else {
		n.Value = string(s.src[n.Start:n.End])
	}
	return n, nil
}

// plainGap skips the white space inside a plain scalar; it reports false, and stays, where
// the scalar ends before it.
func (s *scanner) plainGap(f *folder, flow bool, indent int, single bool) (more bool, err error) {
	end, ls := s.pos, s.ls
	for s.blankz(s.pos) && !s.eof() {
		switch c := s.src[s.pos]; {
		case !isBlank(c) && single:
			s.pos, s.ls = end, ls
			return false, nil
		case !isBlank(c):
			f.breakLine(breakText(s.src, s.pos))
			s.newline()
			continue
		case f.first == "":
			f.blanks = append(f.blanks, c)
		case c == '\t' && !flow && s.col() < indent:
			return false, s.errorf(s.pos, "a tab cannot indent here")
		}
		s.pos++
	}
	s.past = s.pos
	if f.first != "" && (s.eof() || (!flow && s.col() < indent) || s.marker(s.pos)) || s.at(s.pos) == '#' {
		s.pos, s.ls = end, ls
		return false, nil
	}
	return true, nil
}

// single reads a single-quoted scalar.
func (s *scanner) single() (*Node, error) {
	return s.quoted(SingleQuoted, func(f *folder) (bool, error) {
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
	return s.quoted(DoubleQuoted, func(f *folder) (bool, error) {
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
func (s *scanner) quoted(style Style, special func(*folder) (bool, error)) (*Node, error) {
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
			f.breakLine(breakText(s.src, s.pos))
			s.newline()
		case isBlank(c) && f.first != "":
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

// escaped returns what a one-letter escape of a double-quoted scalar stands for.
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
	if breakLen(s.src, s.pos+1) > 0 {
		s.pos++
		s.newline()
		s.spaces()
		// Further empty lines are kept as breaks, without the space a fold would give.
		for breakLen(s.src, s.pos) > 0 {
			f.out.WriteString(breakText(s.src, s.pos))
			s.newline()
			s.spaces()
		}
		return nil
	}
	c := s.at(s.pos + 1)
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
