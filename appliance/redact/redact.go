// SPDX-License-Identifier: MIT

// Package redact hides credentials in what tools print and programs log, for one profile: by
// the shapes of well-known credentials, and by the exact values that the profile holds. A
// Redactor never knows another profile's values (hiding them would confirm that they exist),
// never changes text that holds neither, and never takes more than a fixed number of passes.
//
// It is a seat belt and no wall: a program that encodes a secret in a way of its own gets it
// past. What must not leave must not be given to the child.
package redact

import (
	"slices"
	"strings"
)

// Mask stands for a short credential.
const Mask = "***"

// VaultMarker stands for an exact value of the profile.
const VaultMarker = "«redacted-vault-secret»"

const (
	// minExact is the length from which an exact value is looked for. Shorter ones ("true",
	// "8080", "admin") stand in ordinary text too often.
	minExact = 8
	// maxExact bounds how many exact values a profile's redactor knows; the oldest go first.
	maxExact = 256
	// shortToken is the length below which a token is hidden whole.
	shortToken = 18
)

// Redactor hides one profile's credentials. It is immutable and safe for concurrent use. The
// zero value and nil hide nothing.
type Redactor struct {
	on      bool
	exact   *strings.Replacer // nil = no exact values
	longest []string          // exact values that span lines, for streams
}

// New makes the redactor of one profile. values are its secrets, oldest first; on is what
// [Switch] decided. Values shorter than eight bytes are left out, and of more than 256 the
// oldest.
func New(on bool, values []string) *Redactor {
	r := &Redactor{on: on}
	var usable []string
	for _, v := range values {
		if v = strings.TrimSpace(v); len(v) >= minExact && !slices.Contains(usable, v) {
			usable = append(usable, v)
		}
	}
	if n := len(usable) - maxExact; n > 0 {
		usable = usable[n:]
	}
	needles := map[string]bool{}
	for _, v := range usable {
		for _, form := range forms(v) {
			needles[form] = true
		}
	}
	var pairs []string
	for n := range needles {
		pairs = append(pairs, n)
	}
	// At one place the replacer takes the first that fits: the longest must come first.
	slices.SortFunc(pairs, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var args []string
	for _, n := range pairs {
		args = append(args, n, VaultMarker)
		if strings.Contains(n, "\n") {
			r.longest = append(r.longest, n)
		}
	}
	if len(args) > 0 {
		r.exact = strings.NewReplacer(args...)
	}
	return r
}

// String returns s with every credential hidden. Text without one comes back as it is.
func (r *Redactor) String(s string) string {
	if r == nil || !r.on || s == "" {
		return s
	}
	if r.exact != nil {
		s = r.exact.Replace(s)
	}
	return shapes(s)
}

// token hides a token: short ones whole, of long ones the first six and the last four bytes
// stay, so that people can tell which one it was.
func token(s string) string {
	if len(s) == 13 && s[6:9] == "..." {
		return s // hidden already
	}
	if len(s) < shortToken {
		return Mask
	}
	return s[:6] + "..." + s[len(s)-4:]
}

// Lookups are where the switch may stand, most specific first; a nil function is a place
// that does not exist.
type Lookups struct {
	Scope  func() (value string, ok bool)            // HERMES_REDACT_SECRETS in the bound scope
	Dotenv func() (value string, ok bool)            // in the home's .env, where no scope is bound
	Config func() (value, ok bool, unreadable error) // security.redact_secrets
}

// Switch decides whether a profile's output is redacted: the scope's word, or without a scope
// the .env's, then the config's, then yes. A policy that cannot be read means yes. It is
// asked once, when a redactor is made: a child that exports the variable changes nothing.
func Switch(l Lookups) bool {
	for _, f := range []func() (string, bool){l.Scope, l.Dotenv} {
		if f == nil {
			continue
		}
		if v, ok := f(); ok {
			switch strings.ToLower(strings.TrimSpace(v)) {
			case "0", "false", "no", "off":
				return false
			case "":
			default:
				return true
			}
		}
		if l.Scope != nil {
			break // with a scope bound, the file it was made from is not asked again
		}
	}
	if l.Config != nil {
		if v, ok, err := l.Config(); err == nil && ok {
			return v
		}
	}
	return true
}
