// SPDX-License-Identifier: MIT

package redact

import (
	"slices"
	"strings"
)

// vendor is a prefix by which an issuer marks its tokens, and how long the rest must be.
type vendor struct {
	prefix string
	rest   int
}

// vendorList are the prefixes, longest first among those that start alike.
func vendorList() []vendor {
	var out []vendor
	for rest, names := range map[int]string{
		4:  "GR1348941",
		10: "fw- fw_ fpk_ am_ sk_",
		12: "hsk- brv_ ntn_ syt_ fal_ fc- r8_ tvly- exa_ SG. bb_live_ mem0_ retaindb_ pk-lf- sk-lf-",
		16: "sk- sk-ant- sk-proj- sk-or- sk_live_ sk_test_ rk_live_ rk_test_ AKIA ASIA gsk_ hf_ pplx- xai- npm_ pypi- gAAAA dop_v1_ doo_v1_ " +
			"glpat- gloas- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- glsoat- glffct- glwt-",
		10_020: "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ AIza", // 20; apart only to keep the table short
		10_012: "xoxb- xoxa- xoxp- xoxr- xoxs- xoxe- xoxc- xoxd- xapp-",
	} {
		for name := range strings.FieldsSeq(names) {
			out = append(out, vendor{name, rest % 10_000})
		}
	}
	slices.SortFunc(out, func(a, b vendor) int {
		if len(a.prefix) != len(b.prefix) {
			return len(b.prefix) - len(a.prefix)
		}
		return strings.Compare(a.prefix, b.prefix)
	})
	return out
}

// byFirst is vendorList by first byte. It is made once and read only: making it for each
// text would cost more than the scan.
//
//nolint:gochecknoglobals // a table that nothing changes
var byFirst = func() (t [256][]vendor) {
	for _, v := range vendorList() {
		t[v.prefix[0]] = append(t[v.prefix[0]], v)
	}
	return t
}()

// vendors hides tokens by their issuer's prefix, in one scan.
func vendors(s string) string {
	var b strings.Builder
	at := 0
	for i := 0; i < len(s); i++ {
		list := byFirst[s[i]]
		if list == nil || i > 0 && wordByte(s[i-1]) {
			continue
		}
		end, dull := vendorEnd(s, i, list)
		if end < 0 {
			i = max(i, dull-1) // looking at the rest again for every start in it would be quadratic
			continue
		}
		b.WriteString(s[at:i])
		b.WriteString(token(s[i:end]))
		at, i = end, end-1
	}
	if at == 0 {
		return s
	}
	b.WriteString(s[at:])
	return b.String()
}

// vendorEnd returns where a token that starts at i ends, -1 if none does. No token starts
// between i and dull.
func vendorEnd(s string, i int, list []vendor) (end, dull int) {
	for _, v := range list {
		if !strings.HasPrefix(s[i:], v.prefix) {
			continue
		}
		from := i + len(v.prefix)
		end, digit := from, false
		for end < len(s) && tokenByte(s[end]) {
			digit = digit || s[end] >= '0' && s[end] <= '9'
			end++
		}
		if !digit {
			dull = max(dull, end)
		}
		for end > from && (s[end-1] == '.' || s[end-1] == '-') {
			end-- // the end of a sentence
		}
		// A token has digits; "sk-learn-something-else" and "am_i_a_function" have none.
		if end-from >= v.rest && digit {
			return end, 0
		}
	}
	return -1, dull
}

func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '-'
}

func tokenByte(c byte) bool { return wordByte(c) || c == '.' || c == '=' || c == '+' }
