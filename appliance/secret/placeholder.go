// SPDX-License-Identifier: MIT

package secret

import (
	"slices"
	"strings"
)

// Placeholder reports whether a text is what a masked, unresolved or forgotten value leaves
// behind, and no secret: whoever takes it for one has a bot with a well-known key, or one
// that is refused by its provider and nobody knows why (OpenClaw #151189, #139494).
func Placeholder(s string) bool {
	s = strings.TrimSpace(s)
	if s == "" || strings.Trim(s, "*•x.…") == "" || strings.Contains(s, "${") {
		return true
	}
	return slices.Contains([]string{"undefined", "null", "none", "changeme", "redacted", "secret", "password"}, strings.ToLower(strings.Trim(s, "[]<>«»")))
}
