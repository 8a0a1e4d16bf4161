// SPDX-License-Identifier: MIT

package redact

import (
	"regexp"
	"strings"
)

// Every pattern is linear (RE2) and stays on one line, except the PEM block.
var (
	rePEM = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`)
	// The beginning of a key, as head prints it.
	rePEMHead = regexp.MustCompile(`(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)((?:(?:\s|\\r|\\n)+[A-Za-z0-9+/=]{16,})+)`)
	reJWT     = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`)

	reHeader   = regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|x-api-key|x-auth-token|api-key)(\\?["']?[ \t]*[:=][ \t]*\\?["']?)((?:bearer|basic|token|digest)[ \t]+)?([^\s"'\\,;]+)`)
	reBearer   = regexp.MustCompile(`(?i)\b(bearer[ \t]+)([A-Za-z0-9._~+/=-]{12,})`)
	reUserinfo = regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9+.-]*://)([^\s/@:"'<>]*)(:?)([^\s/@"'<>]*)@`)
	reQuery    = regexp.MustCompile(`(?i)([?&](?:access_token|refresh_token|id_token|api_?key|key|token|sig|signature|x-amz-signature|secret|client_secret|password|auth|code)=)([^&\s"'#<>]+)`)
	reCookie   = regexp.MustCompile(`(?i)\b((?:set-)?cookie\\?["']?[ \t]*:[ \t]*\\?["']?)([^\s=;"'\\*]+=[^\r\n"'\\]+)`)
	reOption   = regexp.MustCompile(`(?i)(^|[\s"'=])(--?(?:[a-z0-9]+-)*(?:password|passwd|token|secret|api-?key|access-key|secret-key)["']?(?:[ \t]+|,[ \t]*)["']?)([^\s"'<>\[\]$,-][^\s"'<>\[\],]*)`)
	rePhone    = regexp.MustCompile(`(^|[^0-9A-Za-z+])(\+[1-9][0-9]{7,14})\b`)
)

// shapes hides credentials by their form.
func shapes(s string) string {
	if strings.Contains(s, "-----BEGIN") {
		s = rePEM.ReplaceAllString(s, "-----BEGIN PRIVATE KEY-----"+Mask+"-----END PRIVATE KEY-----")
		s = replace(rePEMHead, s, func(m []string) string { return m[1] + Mask })
	}
	if strings.Contains(s, "://") {
		s = replace(reUserinfo, s, userinfo)
	}
	if foldContains(s, "auth") || foldContains(s, "api-key") {
		s = replace(reHeader, s, func(m []string) string { return m[1] + m[2] + m[3] + token(m[4]) })
	}
	if foldContains(s, "bearer") {
		s = replace(reBearer, s, func(m []string) string { return m[1] + token(m[2]) })
	}
	if foldContains(s, "cookie") {
		s = replace(reCookie, s, func(m []string) string { return m[1] + Mask })
	}
	if strings.Contains(s, "-") {
		s = replace(reOption, s, option)
	}
	s = assignments(s)
	if strings.ContainsAny(s, "?&") {
		s = replace(reQuery, s, func(m []string) string { return m[1] + token(m[2]) })
	}
	if strings.Contains(s, "eyJ") {
		s = replace(reJWT, s, func(m []string) string { return token(m[0]) })
	}
	s = vendors(s)
	if strings.Contains(s, "+") {
		s = replace(rePhone, s, func(m []string) string { return m[1] + m[2][:3] + Mask })
	}
	return s
}

// foldContains reports whether s holds word, given in lower case, in any case.
func foldContains(s, word string) bool {
	first := word[0]
	for i := 0; i+len(word) <= len(s); i++ {
		if s[i]|0x20 == first && strings.EqualFold(s[i:i+len(word)], word) {
			return true
		}
	}
	return false
}

// replace is ReplaceAllStringFunc with the groups of each match; it returns s itself where
// nothing matches.
func replace(re *regexp.Regexp, s string, f func(groups []string) string) string {
	all := re.FindAllStringSubmatchIndex(s, -1)
	if all == nil {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	at := 0
	groups := make([]string, re.NumSubexp()+1)
	for _, m := range all {
		for i := range groups {
			groups[i] = ""
			if m[2*i] >= 0 {
				groups[i] = s[m[2*i]:m[2*i+1]]
			}
		}
		b.WriteString(s[at:m[0]])
		b.WriteString(f(groups))
		at = m[1]
	}
	b.WriteString(s[at:])
	return b.String()
}

// option hides what stands behind --password and the like, as a list of processes shows it.
// Help texts name what is to be given in letters only.
func option(m []string) string {
	v := m[3]
	if len(v) < 6 || vague(strings.ToLower(m[2]), v) || strings.HasPrefix(v, Mask) || strings.Contains(v, "...") || v[0] == '/' || v[0] == '~' {
		return m[0]
	}
	return m[1] + m[2] + token(v)
}

// userinfo hides the password of an address, or its user where that stands alone: a token.
func userinfo(m []string) string {
	scheme, user, colon, password := m[1], m[2], m[3], m[4]
	switch {
	case colon != "" && password != "":
		return scheme + user + ":" + Mask + "@"
	case colon == "" && password == "" && len(user) >= shortToken:
		return scheme + token(user) + "@"
	}
	return m[0]
}

// value hides what a key holds. References ($VAR, a path) are no secrets, except behind a
// word for a password, where they may well be one.
func value(key, v string) string {
	open, inner, end := unquote(v)
	low := strings.ToLower(key)
	password := strings.Contains(low, "pass") || strings.Contains(low, "pwd")
	switch {
	case inner == "" || strings.Contains(inner, Mask) || strings.Contains(inner, "...") || strings.Contains(inner, VaultMarker):
		return v
	case !password && (inner[0] == '$' || inner[0] == '/' || inner[0] == '~' || strings.HasPrefix(inner, "./") || strings.HasPrefix(inner, "op://")):
		return v
	case isWord(strings.ToLower(inner)):
		return v
	case low == "key" && len(inner) < shortToken:
		return v // "key: name" stands in every other log line
	}
	return open + token(inner) + end
}

func unquote(v string) (open, inner, end string) {
	for _, q := range []string{`\"`, `"`, "'"} {
		if len(v) >= 2*len(q) && strings.HasPrefix(v, q) && strings.HasSuffix(v, q) {
			return q, v[len(q) : len(v)-len(q)], q
		}
	}
	return "", v, ""
}

// isWord reports values that say something about a secret and are none.
func isWord(v string) bool {
	switch v {
	case "true", "false", "null", "none", "nil", "yes", "no", "on", "off", "required", "optional", "missing", "set", "unset", "string", "str", "int", "bool", "changed", "invalid", "expired", "undefined", "empty", "0", "1":
		return true
	}
	return false
}
