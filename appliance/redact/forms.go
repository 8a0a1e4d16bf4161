// SPDX-License-Identifier: MIT

package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
)

// wrapAt is the length of a line that base64 prints.
const wrapAt = 76

// forms returns a value as it may stand in output: plain, in base64 wherever in a longer
// text, in hex, escaped for a URL and for JSON.
func forms(v string) []string {
	out := []string{v}
	add := func(s string) {
		if len(s) >= minExact && s != v {
			out = append(out, s)
		}
	}
	for offset := range 3 {
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			add(aligned(enc, v, offset))
		}
	}
	h := hex.EncodeToString([]byte(v))
	add(h)
	add(strings.ToUpper(h))
	add(url.QueryEscape(v))
	add(url.PathEscape(v))
	// base64 breaks its output, and a terminal ends lines in its own way.
	if s := aligned(base64.RawStdEncoding, v, 0); len(s) > wrapAt {
		var b strings.Builder
		for len(s) > wrapAt {
			b.WriteString(s[:wrapAt] + "\n")
			s = s[wrapAt:]
		}
		add(b.String() + s)
	}
	if strings.Contains(v, "\n") {
		add(strings.ReplaceAll(strings.ReplaceAll(v, "\r\n", "\n"), "\n", "\r\n"))
		add(strings.ReplaceAll(v, "\r\n", "\n"))
	}
	if j, err := json.Marshal(v); err == nil {
		add(string(j[1 : len(j)-1]))
	}
	return out
}

// aligned returns the characters of base64 text that only depend on v where v starts offset
// bytes behind a group of three: those shared with a neighbour are cut off.
func aligned(enc *base64.Encoding, v string, offset int) string {
	s := enc.EncodeToString(append(make([]byte, offset), v...))
	from := (offset*8 + 5) / 6
	to := (offset + len(v)) * 8 / 6
	if from >= to {
		return ""
	}
	return s[from:to]
}
