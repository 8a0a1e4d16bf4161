// SPDX-License-Identifier: MIT

package service

import (
	"fmt"
	"strings"
)

// percent keeps systemd from reading specifiers.
func percent(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// quoted is a word in double quotes.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(percent(s)) + `"`
}

// execWord is a word of a command line, in which $ begins a variable, too.
func execWord(s string) string { return strings.ReplaceAll(quoted(s), "$", "$$") }

// execLine is a command line.
func execLine(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = execWord(w)
	}
	return strings.Join(out, " ")
}

// ErrWords says that a value cannot be split into words.
type wordError struct{ at int }

func (e wordError) Error() string { return fmt.Sprintf("byte %d: a quote is not closed", e.at) }

// Words splits a value into words as systemd does, and undoes the escapes that this package
// makes: quotes, backslashes and %%; in a command line $$, too.
func Words(value string, command bool) ([]string, error) {
	var out []string
	var word strings.Builder
	in, quote, start := false, byte(0), 0
	for i := 0; i < len(value); i++ {
		c := value[i]
		next := byte(0)
		if i+1 < len(value) {
			next = value[i+1]
		}
		switch {
		case quote == 0 && (c == ' ' || c == '\t'):
			if in {
				out = append(out, word.String())
				word.Reset()
			}
			in = false
			continue
		case quote == 0 && (c == '"' || c == '\''):
			quote, start, in = c, i, true
			continue
		case c == quote:
			quote = 0
			continue
		case c == '\\' && (next == '"' || next == '\\'), c == '%' && next == '%', command && c == '$' && next == '$':
			i++
			c = next
		}
		in = true
		word.WriteByte(c)
	}
	if quote != 0 {
		return nil, wordError{start}
	}
	if in {
		out = append(out, word.String())
	}
	return out, nil
}
