// SPDX-License-Identifier: MIT

// Package dotenv reads a home's .env file and removes or empties exact assignments in it.
// Every byte outside the touched assignments stays: comments, order, quotes, line endings,
// text in any encoding. It never expands variables, never writes a file and never prints a
// value. The format is upstream's (isolation spec S5): one assignment a line, an optional
// "export ", quotes, a comment behind white space and '#'.
package dotenv

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"unicode"
)

// ErrNotText says that the file is UTF-16, UTF-32 or padded with NUL bytes, so that lines
// cannot be told apart. The caller must not write it.
var ErrNotText = errors.New("not UTF-8 text (UTF-16, UTF-32 or NUL bytes); save it as UTF-8")

// Assignment is one "KEY=value" line.
type Assignment struct {
	Key   string
	Value string // unquoted, comment removed; bytes that are not UTF-8 stay as they are
	Line  int    // 1-based

	from, to           int // the line with its break
	valueFrom, valueTo int // what stands behind '=', without surrounding blanks
}

// File is a parsed .env file. It is immutable and safe for concurrent use.
type File struct {
	src         []byte
	assignments []Assignment
}

// Parse reads a file. src is not copied: the caller leaves it unchanged. Lines that are no
// assignment are kept and ignored, as upstream does. The only error is [ErrNotText].
func Parse(src []byte) (*File, error) {
	if bytes.IndexByte(src, 0) >= 0 || bytes.HasPrefix(src, []byte{0xff, 0xfe}) || bytes.HasPrefix(src, []byte{0xfe, 0xff}) {
		return nil, ErrNotText
	}
	f := &File{src: src}
	at := 0
	if bytes.HasPrefix(src, []byte("\xef\xbb\xbf")) {
		at = 3
	}
	for line := 1; at < len(src); line++ {
		end, next := lineEnd(src, at)
		if a, ok := parseLine(src, at, end); ok {
			a.Line, a.from, a.to = line, at, next
			f.assignments = append(f.assignments, a)
		}
		at = next
	}
	return f, nil
}

// lineEnd returns where the line of at ends and where the next begins.
func lineEnd(src []byte, at int) (end, next int) {
	i := bytes.IndexAny(src[at:], "\r\n")
	if i < 0 {
		return len(src), len(src)
	}
	end = at + i
	if src[end] == '\r' && end+1 < len(src) && src[end+1] == '\n' {
		return end, end + 2
	}
	return end, end + 1
}

// isSpace reports what upstream's language trims and takes for white space: more than Go's
// by four separators. A byte that is not UTF-8 is none.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func parseLine(src []byte, from, to int) (Assignment, bool) {
	line := string(src[from:to])
	name, rest, ok := strings.Cut(line, "=")
	name = strings.TrimLeftFunc(name, isSpace)
	if !ok || strings.HasPrefix(name, "#") {
		return Assignment{}, false
	}
	if after, ok := strings.CutPrefix(name, "export"); ok && strings.TrimLeftFunc(after, isSpace) != after {
		name = after
	}
	name = strings.TrimFunc(name, isSpace)
	if name == "" {
		return Assignment{}, false
	}
	value := strings.TrimFunc(rest, isSpace)
	a := Assignment{Key: name, Value: unquote(value)}
	a.valueFrom = to - len(strings.TrimLeftFunc(rest, isSpace))
	a.valueTo = a.valueFrom + len(value)
	return a, true
}

// unquote returns the value of what stands behind '='. A '#' that starts it is part of it:
// a comment needs text and white space before it.
func unquote(s string) string {
	if s == "" {
		return s
	}
	if q := s[0]; q == '\'' || q == '"' {
		if text, ok := quoted(s, q); ok {
			return text
		}
		return s // a quote without an end is part of the value
	}
	for i := 1; i < len(s); i++ {
		if s[i] != '#' {
			continue
		}
		if before := strings.TrimRightFunc(s[:i], isSpace); len(before) < i {
			return before
		}
	}
	return s
}

// quoted reads a quoted value; behind the closing quote only a comment may follow.
func quoted(s string, q byte) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case q == '"' && s[i] == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		case s[i] == q:
			rest := strings.TrimLeftFunc(s[i+1:], isSpace)
			return b.String(), rest == "" || rest[0] == '#'
		default:
			b.WriteByte(s[i])
		}
	}
	return "", false
}

// Bytes returns the file's text. The caller does not change it.
func (f *File) Bytes() []byte { return f.src }

// All returns the assignments in the order of the file.
func (f *File) All() []Assignment { return append([]Assignment(nil), f.assignments...) }

// Lookup returns the value of a key: of several assignments the last one counts.
func (f *File) Lookup(key string) (string, bool) {
	for _, v := range slices.Backward(f.assignments) {
		if v.Key == key {
			return v.Value, true
		}
	}
	return "", false
}

// Remove returns a file without the lines of the assignments that match, and those. A file
// without a final line break still has none. The only error is [ErrNotText]: what would be
// left starts as text in another encoding does.
func (f *File) Remove(match func(Assignment) bool) (*File, []Assignment, error) {
	return f.edit(match, func(a Assignment) (int, int) { return a.from, a.to })
}

// Empty returns a file in which the assignments that match have an empty value, and those.
func (f *File) Empty(match func(Assignment) bool) (*File, []Assignment, error) {
	return f.edit(match, func(a Assignment) (int, int) { return a.valueFrom, a.valueTo })
}

// edit cuts a range out of each matching assignment. Where the last line goes and had no
// break, the break before it goes too.
func (f *File) edit(match func(Assignment) bool, cut func(Assignment) (from, to int)) (*File, []Assignment, error) {
	var out []byte
	var hit []Assignment
	at := 0
	for _, a := range f.assignments {
		if !match(a) {
			continue
		}
		from, to := cut(a)
		hit = append(hit, a)
		out = append(out, f.src[at:from]...)
		at = to
		if wholeLine := from == a.from; wholeLine && to == len(f.src) && lastBreak(f.src) == 0 {
			out = out[:len(out)-lastBreak(out)]
		}
	}
	if hit == nil {
		return f, nil, nil
	}
	g, err := Parse(append(out, f.src[at:]...))
	if err != nil {
		return nil, nil, err
	}
	return g, hit, nil
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
