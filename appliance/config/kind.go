// SPDX-License-Identifier: MIT

package config

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// kind is what a known key may hold.
type kind uint8

const (
	kindText   kind = iota // any text; an empty one is a value
	kindWord               // one of a few words
	kindImage              // a container image
	kindDir                // a directory to start in
	kindWhole              // a whole number
	kindNumber             // a number, with or without a fraction
	kindBool               // true or false
	kindList               // a list of texts
	kindTable              // names and texts
)

func (k kind) String() string {
	return [...]string{
		kindText: "text", kindWord: "a word", kindImage: "the name of an image", kindDir: "a directory",
		kindWhole: "a whole number, not negative", kindNumber: "a number, not negative", kindBool: "true or false",
		kindList: "a list of texts", kindTable: "a section of names and texts",
	}[k]
}

// check brings a text into the form in which tools read it. ok is false where it says
// nothing, valid where it is no such value.
func (k kind) check(s string) (value string, ok, valid bool) {
	trimmed := strings.TrimSpace(s)
	switch k {
	case kindText:
		return s, true, true
	case kindDir:
		return s, !isPlaceholder(s), true
	case kindWord, kindImage:
		return trimmed, trimmed != "", true
	}
	if trimmed == "" {
		return "", false, true
	}
	switch k {
	case kindBool:
		value, valid = boolText(trimmed)
	case kindWhole, kindNumber:
		f, err := strconv.ParseFloat(trimmed, 64)
		value, valid = trimmed, err == nil && f >= 0 && f < math.MaxInt32 && (k == kindNumber || f == math.Trunc(f))
	case kindList:
		value, valid = listText(trimmed)
	default:
		value, valid = tableText(trimmed)
	}
	return value, valid, valid
}

// isPlaceholder reports whether a directory means one that is to be found later.
func isPlaceholder(dir string) bool {
	switch strings.TrimSpace(dir) {
	case "", ".", "auto", "cwd":
		return true
	}
	return false
}

func boolText(s string) (value string, valid bool) {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "1":
		return "true", true
	case "false", "no", "off", "0":
		return "false", true
	}
	return "", false
}

// listText reads a list in JSON and writes it as one of texts.
func listText(s string) (value string, valid bool) {
	var x []any
	if !fromJSON(s, &x) || x == nil {
		return "", false
	}
	out := make([]string, len(x))
	for i, it := range x {
		if out[i], valid = scalarText(it); !valid {
			return "", false
		}
	}
	return toJSON(out), true
}

// tableText reads a map in JSON and writes it as one of texts.
func tableText(s string) (value string, valid bool) {
	var x map[string]any
	if !fromJSON(s, &x) || x == nil {
		return "", false
	}
	out := make(map[string]string, len(x))
	for name, it := range x {
		if out[name], valid = scalarText(it); !valid {
			return "", false
		}
	}
	return toJSON(out), true
}

func fromJSON(s string, to any) bool {
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber() // as it is written
	return dec.Decode(to) == nil && !dec.More()
}

func toJSON(x any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(x) //nolint:errcheck // what a config file can hold: that cannot fail, but for numbers without end
	return strings.TrimSuffix(b.String(), "\n")
}

// scalarText is the text of a value in JSON that is no list and no map; null is an empty one.
func scalarText(x any) (text string, ok bool) {
	switch x := x.(type) {
	case nil:
		return "", true
	case string:
		return x, true
	case bool:
		return strconv.FormatBool(x), true
	case json.Number:
		return x.String(), true
	}
	return "", false
}
