// SPDX-License-Identifier: MIT

package config

import (
	"strconv"
	"strings"
)

// ParsePath reads a key as people write it on a command line: segments joined by dots, a
// segment with dots or quotes in it in quotes of its own, as in model."grok-4.6".x. It
// undoes [yamlspan.PathString] for every path but the empty one. The error is an [*Error]
// of [ErrUsage].
func ParsePath(text string) ([]string, error) {
	bad := func(msg, fix string) ([]string, error) {
		return nil, &Error{Kind: ErrUsage, Msg: strconv.Quote(text) + " is no key: " + msg, Fix: fix}
	}
	var path []string
	for rest := text; ; {
		segment, tail, why := cutSegment(rest)
		if why != "" {
			return bad(why, `write it like terminal.timeout or model."name.with.dots"`)
		}
		path = append(path, segment)
		if tail == "" {
			return path, nil
		}
		if tail[0] != '.' {
			return bad("expected a dot behind the quotes", `write it like model."name.with.dots".x`)
		}
		rest = tail[1:]
	}
}

// cutSegment takes the first segment off a text; why is what is wrong with it.
func cutSegment(s string) (segment, tail, why string) {
	switch {
	case s == "":
		return "", "", "a part of it is empty"
	case s[0] == '"':
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return "", "", "a quote without its end"
		}
		if segment, err = strconv.Unquote(quoted); err != nil {
			return "", "", "a quote that cannot be read"
		}
		return segment, s[len(quoted):], ""
	case s[0] == '\'':
		return cutSingle(s)
	}
	end := strings.IndexByte(s, '.')
	if end < 0 {
		end = len(s)
	}
	switch segment = s[:end]; {
	case segment == "":
		return "", "", "a part of it is empty"
	case strings.ContainsAny(segment, `"'`):
		return "", "", "a quote inside a part of it"
	case strings.ContainsAny(segment, "[]{}"):
		return "", "", "a bracket: entries of a list have no key; set the whole list"
	}
	return segment, s[end:], ""
}

// cutSingle reads a segment in single quotes, in which two stand for one.
func cutSingle(s string) (segment, tail, why string) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] != '\'':
			b.WriteByte(s[i])
		case i+1 < len(s) && s[i+1] == '\'':
			b.WriteByte('\'')
			i++
		default:
			return b.String(), s[i+1:], ""
		}
	}
	return "", "", "a quote without its end"
}
