// SPDX-License-Identifier: MIT

package session

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxTitle is how many characters a title may have.
const MaxTitle = 100

// clean is a text that every reader of the file can decode: Python refuses a whole row that is
// not valid UTF-8.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// cleanTitle takes from a title what cannot be seen, makes every run of spaces one space, and
// returns "" for nothing.
func cleanTitle(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == '\uFFFC', r == '\u2028', r == '\u2029':
			return -1
		}
		return r
	}, clean(s))
	return strings.Join(strings.Fields(s), " ")
}

// cut returns at most n characters of s, with an ellipsis for the rest.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:n-1]), " ") + "…"
}

// oneLine is a text for a list: one line, at most n characters.
func oneLine(s string, n int) string { return cut(strings.Join(strings.Fields(s), " "), n) }

// like is a pattern that finds s anywhere; use it with ESCAPE '\'.
func like(s string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s) + "%"
}
