// SPDX-License-Identifier: MIT

package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// check returns arguments as the schema has them. What models get wrong all the time is put
// right where only one thing can be meant: numbers and booleans as texts, lists and objects
// as JSON in a text, one value where a list is wanted. Unknown names stay: the tool ignores
// them. Of the schema's words, those for combining schemas are left to the tool.
func check(schema Schema, args map[string]any) (Args, error) {
	v, err := conform(schema, args, "")
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("arguments are %s: send an object", kindOf(v))
	}
	return m, nil
}

// kinds returns the types that a schema allows; none = any.
func kinds(s Schema) []string {
	var out []string
	switch t := s["type"].(type) {
	case string:
		out = append(out, t)
	case []any:
		for _, v := range t {
			if name, ok := v.(string); ok {
				out = append(out, name)
			}
		}
	case []string:
		out = append(out, t...)
	}
	if n, ok := s["nullable"].(bool); ok && n {
		out = append(out, "null")
	}
	return out
}

func conform(s Schema, v any, at string) (any, error) {
	want := kinds(s)
	if len(want) == 0 {
		return native(v), nil
	}
	for _, k := range want {
		if out, ok := as(k, v, false); ok {
			return within(s, k, out, at)
		}
	}
	for _, k := range want {
		if out, ok := as(k, v, true); ok {
			return within(s, k, out, at)
		}
	}
	return nil, fmt.Errorf("%s must be %s, not %s", name(at), article(want), kindOf(v))
}

func name(at string) string {
	if at == "" {
		return "arguments"
	}
	return strconv.Quote(at)
}

func article(want []string) string {
	words := map[string]string{
		"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false", "array": "a list", "object": "an object", "null": "null",
	}
	out := make([]string, len(want))
	for i, k := range want {
		if out[i] = words[k]; out[i] == "" {
			out[i] = k
		}
	}
	return strings.Join(out, " or ")
}

// as returns v as a value of a type; with repair also what only looks otherwise.
func as(kind string, v any, repair bool) (any, bool) {
	str, isText := v.(string)
	switch kind {
	case "null":
		return nil, v == nil || repair && isText && strings.EqualFold(strings.TrimSpace(str), "null")
	case "string":
		if isText {
			return str, true
		}
		switch x := v.(type) {
		case json.Number:
			return x.String(), repair
		case bool:
			return strconv.FormatBool(x), repair
		}
	case "boolean":
		if b, ok := v.(bool); ok {
			return b, true
		}
		return truth(v), repair && truth(v) != nil
	case "integer", "number":
		return number(kind, v, repair)
	case "array", "object":
		return container(kind, v, repair)
	}
	return nil, false
}

func truth(v any) any {
	text, _ := v.(string)
	if n, ok := v.(json.Number); ok {
		text = n.String()
	}
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "yes", "1", "on":
		return true
	case "false", "no", "0", "off":
		return false
	}
	return nil
}

func number(kind string, v any, repair bool) (any, bool) {
	var text string
	switch x := v.(type) {
	case json.Number:
		text = x.String()
	case float64:
		text = strconv.FormatFloat(x, 'g', -1, 64)
	case int:
		text = strconv.Itoa(x)
	case string:
		if !repair {
			return nil, false
		}
		text = strings.TrimSpace(x)
	default:
		return nil, false
	}
	if kind == "integer" {
		n, ok := wholeNumber(text)
		return n, ok
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

func container(kind string, v any, repair bool) (any, bool) {
	switch x := v.(type) {
	case []any:
		return x, kind == "array"
	case map[string]any:
		if kind == "object" {
			return x, true
		}
		return []any{x}, repair
	case Args:
		return map[string]any(x), kind == "object"
	case string:
		if !repair {
			return nil, false
		}
		d := json.NewDecoder(strings.NewReader(x))
		d.UseNumber()
		var parsed any
		if d.Decode(&parsed) == nil && !d.More() {
			if out, ok := container(kind, parsed, false); ok {
				return out, true
			}
		}
		return []any{x}, kind == "array" && strings.TrimSpace(x) != ""
	}
	return []any{v}, kind == "array" && repair && v != nil
}

// within checks a value of the right type against the rest of the schema.
func within(s Schema, kind string, v any, at string) (any, error) {
	if err := enumerated(s, &v, at); err != nil {
		return nil, err
	}
	switch x := v.(type) {
	case int:
		return x, bounds(s, float64(x), at)
	case float64:
		return x, bounds(s, x, at)
	case []any:
		return items(s, x, at)
	case map[string]any:
		if kind == "object" {
			return properties(s, x, at)
		}
	}
	return v, nil
}

func enumerated(s Schema, v *any, at string) error {
	e, ok := s["enum"].([]any)
	if !ok || *v == nil {
		return nil
	}
	names := make([]string, 0, len(e))
	for _, want := range e {
		if fmt.Sprint(want) == fmt.Sprint(*v) {
			return nil
		}
		names = append(names, fmt.Sprintf("%q", fmt.Sprint(want)))
	}
	for _, want := range e { // another case of the same word
		if text, ok := want.(string); ok && strings.EqualFold(text, strings.TrimSpace(fmt.Sprint(*v))) {
			*v = text
			return nil
		}
	}
	return fmt.Errorf("%s must be one of %s, not %s", name(at), strings.Join(names, ", "), kindOf(*v))
}

func bounds(s Schema, n float64, at string) error {
	if low, ok := asFloat(s["minimum"]); ok && n < low {
		return fmt.Errorf("%s must be at least %v, not %v", name(at), low, n)
	}
	if high, ok := asFloat(s["maximum"]); ok && n > high {
		return fmt.Errorf("%s must be at most %v, not %v", name(at), high, n)
	}
	return nil
}

func asFloat(v any) (float64, bool) {
	switch x := v.(type) {
	case int:
		return float64(x), true
	case float64:
		return x, true
	case json.Number:
		f, err := x.Float64()
		return f, err == nil
	}
	return 0, false
}

func sub(v any) (Schema, bool) {
	switch s := v.(type) {
	case map[string]any:
		return s, true
	case Schema:
		return s, true
	}
	return nil, false
}

func items(s Schema, l []any, at string) (any, error) {
	if n, ok := asFloat(s["minItems"]); ok && len(l) < int(n) {
		return nil, fmt.Errorf("%s must have at least %d items, not %d", name(at), int(n), len(l))
	}
	of, ok := sub(s["items"])
	out := make([]any, len(l))
	for i, v := range l {
		if !ok {
			out[i] = native(v)
			continue
		}
		if m, is := v.(map[string]any); is && slices.Equal(kinds(of), []string{"string"}) { // a text with fields: its JSON is one
			if text, err := encode(m); err == nil {
				v = text
			}
		}
		x, err := conform(of, v, fmt.Sprintf("%s[%d]", at, i))
		if err != nil {
			return nil, err
		}
		out[i] = x
	}
	return out, nil
}

func properties(s Schema, m map[string]any, at string) (any, error) {
	props, _ := sub(s["properties"])
	out := make(map[string]any, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		p, known := sub(props[k])
		if !known {
			out[k] = native(m[k])
			continue
		}
		if m[k] == nil && !slices.Contains(required(s), k) && !slices.Contains(kinds(p), "null") {
			continue // null for what may be left out means left out
		}
		x, err := conform(p, m[k], join(at, k))
		if err != nil {
			return nil, err
		}
		out[k] = x
	}
	for _, k := range required(s) {
		if _, ok := m[k]; !ok {
			return nil, missing(props, m, join(at, k), k)
		}
	}
	return out, nil
}

func missing(props Schema, m map[string]any, at, k string) error {
	hint := ""
	if p, ok := sub(props[k]); ok {
		if d, ok := p["description"].(string); ok {
			hint = " (" + clip(d, 120) + ")"
		}
	}
	for _, other := range slices.Sorted(maps.Keys(m)) {
		if _, known := props[other]; !known {
			hint += fmt.Sprintf("; %q is not one of its arguments", other)
		}
	}
	return fmt.Errorf("%s is missing%s", name(at), hint)
}

func required(s Schema) []string {
	var out []string
	switch r := s["required"].(type) {
	case []any:
		for _, v := range r {
			if k, ok := v.(string); ok {
				out = append(out, k)
			}
		}
	case []string:
		out = r
	}
	return out
}

func join(at, k string) string {
	if at == "" {
		return k
	}
	return at + "." + k
}

// native gives numbers the types that [Args] promises.
func native(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(x.String()); err == nil {
			return n
		}
		f, err := x.Float64()
		if err != nil {
			return x.String()
		}
		return f
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = native(x[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for k := range x {
			out[k] = native(x[k])
		}
		return out
	}
	return v
}
