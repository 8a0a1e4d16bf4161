// SPDX-License-Identifier: MIT

package approval

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// unescape removes the backslashes of a literal.
func unescape(s string, quoted bool) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch {
		case s[i] == '\n':
		case quoted && !strings.ContainsRune("$`\"\\", rune(s[i])):
			b.WriteByte('\\')
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func sglQuoted(q *syntax.SglQuoted) string {
	if !q.Dollar {
		return q.Value
	}
	s, _, err := expand.Format(&expand.Config{}, q.Value, nil)
	if err != nil {
		return qhole
	}
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i] // the shell's string ends there
	}
	return s
}

// tilde writes home directories of other users as the paths they usually are.
func tilde(s string) string {
	name, rest, _ := strings.Cut(s, "/")
	switch {
	case !strings.HasPrefix(name, "~") || name == "~":
		return s
	case name == "~+":
		name = "."
	case name == "~root":
		name = "/root"
	default:
		name = "/home/" + name[1:]
	}
	if len(rest) > 0 || strings.HasSuffix(s, "/") {
		return name + "/" + rest
	}
	return name
}
