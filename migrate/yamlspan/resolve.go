// SPDX-License-Identifier: MIT

package yamlspan

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// The types of a plain scalar as upstream's reader sees them: YAML 1.1 with PyYAML's
// patterns, where yes, no, on and off are booleans.
var (
	reInt   = regexp.MustCompile(`^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*|[1-9][0-9_]*(?::[0-5]?[0-9])+)$`)
	reFloat = regexp.MustCompile(`^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?)$`)
	reSixty = regexp.MustCompile(`^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*$`)
)

// Resolve returns the value of a scalar: nil, bool, int64, float64 or string. Integers that
// do not fit are float64. A scalar with a tag other than the standard ones, and every node
// that is not a scalar, resolves to a value equal to nothing: its *Node.
func Resolve(n *Node) any {
	if n == nil || n.Kind != Scalar {
		return n
	}
	switch n.Tag {
	case "", "!": // a lone "!" says nothing, for upstream's reader and the library alike
		if n.Style != Plain {
			return n.Value
		}
		return resolvePlain(n.Value)
	case "!!str":
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
	if reSixty.MatchString(s) {
		return resolveSixty(strings.ReplaceAll(s, "_", ""))
	}
	return s
}

// resolveSixty reads a number to the base 60 with a fraction, as 1:30.5.
func resolveSixty(s string) any {
	digits := strings.TrimLeft(s, "+-")
	v := 0.0
	for part := range strings.SplitSeq(digits, ":") {
		d, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return s
		}
		v = v*60 + d
	}
	if s[0] == '-' {
		return -v
	}
	return v
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
// nothing could be misread, else in double quotes, which are JSON as well.
func Quote(text string) string {
	if rePlainSafe.MatchString(text) {
		if _, ok := resolvePlain(text).(string); ok && !ambiguousWord(text) {
			return text
		}
	}
	return doubleQuote(text)
}

// doubleQuote puts text in double quotes. What a reader may refuse, trim or fold is written
// as an escape.
func doubleQuote(text string) string {
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
		case r < 0x20 || r >= 0x7f && r <= 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// singleQuotable reports whether text can stand between single quotes as it is.
func singleQuotable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '\'' || r == '\\' }) < 0
}

var reNumber = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$`)

// jsonScalar rewrites a scalar for a file that is JSON, which has no plain text and fewer
// numbers; asked for nothing it returns text.
func jsonScalar(text string, asJSON bool) string {
	if !asJSON {
		return text
	}
	root, err := parse([]byte(text))
	if err != nil || root != nil && root.Kind != Scalar {
		return text
	}
	switch v := resolveOrNull(root).(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case int64:
		if !reNumber.MatchString(text) {
			return strconv.FormatInt(v, 10)
		}
	case float64:
		if !reNumber.MatchString(text) && !math.IsInf(v, 0) && !math.IsNaN(v) {
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
	case string:
		if root.Style != DoubleQuoted || !json.Valid([]byte(text)) {
			return doubleQuote(v)
		}
	}
	return text
}

func resolveOrNull(n *Node) any {
	if n == nil {
		return nil
	}
	return Resolve(n)
}

// ambiguousWord reports words that some YAML reader takes for something else than text.
func ambiguousWord(s string) bool {
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return true
	}
	return false
}
