// SPDX-License-Identifier: MIT

package approval

import (
	"strings"
	"unicode/utf8"
)

// fnmatch matches the whole of s against a pattern with *, ? and [...], as Python's fnmatch
// does: * matches everything, newlines and slashes included. Work is at most
// len(pattern) × len(s).
func fnmatch(pattern, s string) bool {
	pi, si := 0, 0
	star, mark := -1, 0
	for si < len(s) {
		if pi < len(pattern) && pattern[pi] == '*' {
			star, mark = pi, si
			pi++
			continue
		}
		if n, size, ok := matchOne(pattern[pi:], s[si:]); ok {
			pi += n
			si += size
			continue
		}
		if star < 0 {
			return false
		}
		_, size := utf8.DecodeRuneInString(s[mark:])
		mark += size
		pi, si = star+1, mark
	}
	return strings.Trim(pattern[pi:], "*") == ""
}

// matchOne matches the first rune of s with the first element of the pattern and returns the
// lengths of both.
func matchOne(pattern, s string) (n, size int, ok bool) {
	if pattern == "" {
		return 0, 0, false
	}
	r, size := utf8.DecodeRuneInString(s)
	switch pattern[0] {
	case '?':
		return 1, size, true
	case '[':
		if n, in := matchClass(pattern, r); n > 0 {
			return n, size, in
		}
	}
	p, n := utf8.DecodeRuneInString(pattern)
	return n, size, p == r && pattern[:n] == s[:size]
}

// matchClass returns the length of the class at the start of the pattern, or 0 if it is never
// closed, and whether r is in it.
func matchClass(pattern string, r rune) (n int, in bool) {
	body := pattern[1:]
	negated := strings.HasPrefix(body, "!")
	if negated {
		body = body[1:]
	}
	end := strings.IndexByte(body[min(1, len(body)):], ']')
	if end < 0 {
		return 0, false
	}
	set := []rune(body[:end+1])
	for i := 0; i < len(set); i++ {
		if i+2 < len(set) && set[i+1] == '-' {
			in = in || set[i] <= r && r <= set[i+2]
			i += 2
			continue
		}
		in = in || set[i] == r
	}
	return len(pattern) - len(body) + end + 2, in != negated
}
