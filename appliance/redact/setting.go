// SPDX-License-Identifier: MIT

package redact

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Setting returns a value of a config file as it may be shown under its key: what [Secret] says
// of the key counts for all the texts below it that have no key of their own.
func Setting(key string, v any) any { return setting(key, v, func(string, string) {}) }

// Values returns the secrets that stand in a value of a config file, for [New]: the same that
// [Setting] hides, bare of what stands around them (the scheme of a header, the name before a
// '='). A path to a secret is none, except behind a word for a password.
func Values(key string, v any) (out []string) {
	add := func(key, s string) {
		if s = strings.TrimSpace(s); s != "" && !slices.Contains(out, s) && !placeOf(key, s) {
			out = append(out, s)
		}
	}
	setting(key, v, func(key, s string) {
		add(key, s)
		scheme, rest, ok := strings.Cut(strings.TrimSpace(s), " ")
		switch strings.ToLower(scheme) {
		case "bearer", "token", "digest":
			add(key, rest)
		case "basic":
			add(key, rest)
			if both, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil && ok {
				_, password, _ := strings.Cut(string(both), ":")
				add("password", password)
			}
		}
	})
	return out
}

// setting hides a value and tells found of each secret in it, with the key it stands behind.
func setting(key string, v any, found func(key, secret string)) any {
	switch x := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, w := range x {
			out[k] = setting(k, w, found)
		}
		return out
	case []any:
		out := make([]any, len(x))
		option := "" // of a command line
		for i, w := range x {
			s, text := w.(string)
			of := key
			if text && Secret(option) && !strings.HasPrefix(s, "-") {
				of = option
			}
			out[i] = setting(of, w, found)
			option = ""
			if text && strings.HasPrefix(s, "-") {
				option = strings.TrimLeft(s, "-")
			}
		}
		return out
	case string:
		if Secret(key) && x != "" && !strings.HasPrefix(x, "${") && !strings.HasPrefix(x, "op://") {
			found(key, x)
			return Mask
		}
		inText(x, found)
		line := New(true, nil).String(key + ": " + x)
		if shown, ok := strings.CutPrefix(line, key+": "); ok {
			return shown
		}
		return Mask
	case nil, bool:
	default: // a password in digits
		if Secret(key) {
			found(key, fmt.Sprint(x))
			return Mask
		}
	}
	return v
}

// inText finds the secrets in a text that names them itself: NAME=value and --option=value of
// a command line, and the password and the query of an address.
func inText(s string, found func(key, secret string)) {
	if name, v, ok := strings.Cut(s, "="); ok && !strings.ContainsFunc(name, func(r rune) bool { return r > 0x7f || !wordByte(byte(r)) && r != '.' }) {
		if name = strings.TrimLeft(name, "-"); Secret(name) && !strings.HasPrefix(v, "${") {
			found(name, v)
		}
		return
	}
	if !strings.Contains(s, "://") {
		return
	}
	u, err := url.Parse(s)
	if err != nil {
		return
	}
	if password, ok := u.User.Password(); ok {
		found("password", password)
	}
	for name, values := range u.Query() {
		for _, v := range values {
			if Secret(name) {
				found(name, v)
			}
		}
	}
}

// placeOf reports whether a value says where a secret is, as value does for text. A secret in
// base64 may begin with '/', too, but has none of the other characters.
func placeOf(key, v string) bool {
	low := strings.ToLower(key)
	if strings.Contains(low, "pass") || strings.Contains(low, "pwd") {
		return false
	}
	return strings.HasPrefix(v, "~/") || strings.HasPrefix(v, "./") || strings.HasPrefix(v, "../") ||
		strings.HasPrefix(v, "/") && strings.ContainsAny(v, "._-")
}
