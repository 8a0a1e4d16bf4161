// SPDX-License-Identifier: MIT

package yamlspan

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// The types of a plain scalar as upstream's reader sees them: YAML 1.1 with PyYAML's
// patterns, where yes, no, on and off are booleans.
var (
	reInt   = regexp.MustCompile(`^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*|[1-9][0-9_]*(?::[0-5]?[0-9])+)$`)
	reFloat = regexp.MustCompile(`^[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?)$`)
)

// Resolve returns the value of a scalar: nil, bool, int64, float64 or string. Integers that
// do not fit are float64. A scalar with a tag other than the standard ones, and every node
// that is not a scalar, resolves to a value equal to nothing: its *Node.
func Resolve(n *Node) any {
	if n == nil || n.Kind != Scalar {
		return n
	}
	switch n.Tag {
	case "":
		if n.Style != Plain {
			return n.Value
		}
		return resolvePlain(n.Value)
	case "!", "!!str":
		return n.Value
	case "!!int", "!!bool", "!!null", "!!float":
		return resolvePlain(n.Value)
	}
	return n
}

func resolvePlain(s string) any {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return nil
	case "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON":
		return true
	case "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF":
		return false
	case ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF":
		return math.Inf(1)
	case "-.inf", "-.Inf", "-.INF":
		return math.Inf(-1)
	case ".nan", ".NaN", ".NAN":
		return math.NaN()
	}
	if c := s[0]; (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' {
		return s
	}
	if reInt.MatchString(s) {
		return resolveInt(s)
	}
	if reFloat.MatchString(s) {
		if f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64); err == nil {
			return f
		}
	}
	return s
}

// resolveInt reads an integer in one of YAML 1.1's spellings.
func resolveInt(s string) any {
	digits := strings.ReplaceAll(s, "_", "")
	sign := int64(1)
	if digits[0] == '-' || digits[0] == '+' {
		if digits[0] == '-' {
			sign = -1
		}
		digits = digits[1:]
	}
	if strings.Contains(digits, ":") {
		var v int64
		for part := range strings.SplitSeq(digits, ":") {
			d, err := strconv.ParseInt(part, 10, 32)
			if err != nil || v > math.MaxInt32 {
				return s
			}
			v = v*60 + d
		}
		return sign * v
	}
	base, text := 10, digits
	switch {
	case strings.HasPrefix(digits, "0b"):
		base, text = 2, digits[2:]
	case strings.HasPrefix(digits, "0x"):
		base, text = 16, digits[2:]
	case len(digits) > 1 && digits[0] == '0':
		base, text = 8, digits[1:]
	}
	v, err := strconv.ParseInt(text, base, 64)
	if err == nil {
		return sign * v
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && base == 10 {
		return float64(sign) * f
	}
	return s
}

// IsInt reports whether a resolved value is a number equal to want. A boolean is none,
// though upstream's language would compare it equal to 0 or 1.
func IsInt(v any, want int64) bool {
	switch x := v.(type) {
	case int64:
		return x == want
	case float64:
		return x == float64(want)
	}
	return false
}

var rePlainSafe = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./@+-]*$`)

// Quote returns text as a YAML scalar that every reader takes as that string: plain where
// nothing could be misread, else in double quotes.
func Quote(text string) string {
	if rePlainSafe.MatchString(text) {
		if _, ok := resolvePlain(text).(string); ok && !ambiguousWord(text) {
			return text
		}
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20 || r == 0x7f:
			b.WriteString(`\x`)
			b.WriteString(strings.ToUpper(string("0123456789abcdef"[r>>4]) + string("0123456789abcdef"[r&15])))
		case r == 0x85 || r == 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff:
			b.WriteString(`\u`)
			h := strconv.FormatInt(int64(r), 16)
			b.WriteString(strings.Repeat("0", 4-len(h)) + h)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// ambiguousWord reports words that some YAML reader takes for something else than text.
func ambiguousWord(s string) bool {
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return true
	}
	return false
}
