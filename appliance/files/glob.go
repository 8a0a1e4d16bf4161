// SPDX-License-Identifier: MIT

package files

import (
	"errors"
	"regexp"
	"strings"
)

// errGlob says that a pattern cannot be read.
var errGlob = errors.New("its brackets or braces do not fit together")

// glob turns a pattern with *, ?, [a-z] and ** into a regular expression for a path with
// slashes. Regular expressions of this kind take time in proportion to the path, whatever the
// pattern: one in a repository's .gitignore must not be able to stop a search. braces says
// whether {a,b} means a choice.
func glob(pattern string, braces bool) (*regexp.Regexp, error) {
	const longest = 4096
	if len(pattern) > longest {
		return nil, errors.New("it is too long")
	}
	var b strings.Builder
	b.WriteString("^(?s:")
	depth := 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*':
			i += stars(&b, pattern, i)
		case c == '?':
			b.WriteString("[^/]")
		case c == '[':
			n, ok := class(&b, pattern[i:])
			if !ok {
				return nil, errGlob
			}
			i += n - 1
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		case c == '{' && braces:
			depth++
			b.WriteString("(?:")
		case c == '}' && depth > 0:
			depth--
			b.WriteByte(')')
		case c == ',' && depth > 0:
			b.WriteByte('|')
		case c < 0x80:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		default:
			b.WriteByte(c) // a part of a character
		}
	}
	if depth > 0 {
		return nil, errGlob
	}
	b.WriteString(")$")
	return regexp.Compile(b.String())
}

// stars writes what the stars at i mean, and returns how many further bytes that takes.
func stars(b *strings.Builder, pattern string, i int) int {
	n := 1
	for i+n < len(pattern) && pattern[i+n] == '*' {
		n++
	}
	starts := i == 0 || pattern[i-1] == '/'
	switch {
	case n >= 2 && starts && i+n < len(pattern) && pattern[i+n] == '/': // **/ is any directories, or none
		b.WriteString("(?:.*/)?")
		return n
	case n >= 2 && starts && i+n == len(pattern):
		b.WriteString(".+")
	default:
		b.WriteString("[^/]*")
	}
	return n - 1
}

// class writes a bracket expression and returns its length in the pattern.
func class(b *strings.Builder, p string) (int, bool) {
	i := 1
	b.WriteByte('[')
	if i < len(p) && (p[i] == '!' || p[i] == '^') {
		b.WriteString("^/")
		i++
	}
	for first := true; i < len(p); first = false {
		switch {
		case p[i] == ']' && !first:
			b.WriteByte(']')
			return i + 1, true
		case strings.HasPrefix(p[i:], "[:") && strings.Contains(p[i:], ":]"):
			n := strings.Index(p[i:], ":]") + 2
			b.WriteString(p[i : i+n])
			i += n
		case p[i] == '\\' && i+1 < len(p):
			b.WriteString(regexp.QuoteMeta(p[i+1 : i+2]))
			i += 2
		case p[i] == '-' || p[i] >= 0x80:
			b.WriteByte(p[i])
			i++
		case p[i] == '[' || p[i] == ']' || p[i] == '^' || p[i] == '&' || p[i] == '~':
			b.WriteString(`\` + p[i:i+1])
			i++
		default:
			b.WriteString(regexp.QuoteMeta(p[i : i+1]))
			i++
		}
	}
	return 0, false
}
