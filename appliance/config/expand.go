// SPDX-License-Identifier: MIT

package config

import "strings"

// Lookup gives the value of a variable to which a config refers as ${NAME} or ${env:NAME}:
// the secret scope of the profile on whose behalf it is read. It is safe for concurrent use.
type Lookup func(name string) (value string, ok bool)

// expand puts the values of variables into a text. What is not known stays as it is written,
// and what was put in is not looked at again.
func (l Lookup) expand(s string) string {
	if l == nil || !strings.Contains(s, "${") {
		return s
	}
	var b strings.Builder
	for s != "" {
		name, from, to := reference(s)
		if name == "" {
			break
		}
		b.WriteString(s[:from])
		if v, ok := l(name); ok {
			b.WriteString(v)
		} else {
			b.WriteString(s[from:to])
		}
		s = s[to:]
	}
	b.WriteString(s)
	return b.String()
}

// reference finds the first reference to a variable and where it stands; name is "" where
// there is none.
func reference(s string) (name string, from, to int) {
	for from < len(s) {
		i := strings.Index(s[from:], "${")
		if i < 0 {
			break
		}
		from += i
		end := strings.IndexByte(s[from:], '}')
		if end < 0 {
			break
		}
		to = from + end + 1
		if name = strings.TrimPrefix(s[from+2:to-1], "env:"); isName(name) {
			return name, from, to
		}
		from += 2
	}
	return "", 0, 0
}

// isName reports whether a text can be the name of a variable.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
