// SPDX-License-Identifier: MIT

package webhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// maxFilterDepth is how deeply groups of filters may nest.
const maxFilterDepth = 16

// event is what filters look at.
type event struct {
	payload payload
	kind    string
	header  http.Header
	file    func(name string) ([]byte, error) // of the profile's home
	warn    func(err error)                   // the file of in_file cannot be read
}

// filter decides about an event. A filter has no state.
type filter func(e *event) bool

// operators are the words of a filter, beside field.
func operators() []string {
	return []string{"all", "any", "not", "exists", "missing", "equals", "not_equals", "contains", "in", "in_file", "regex"}
}

// parseFilters reads what stands under filters: a list, all of which must hold, or one filter.
func parseFilters(v any, key []string) (filter, error) {
	switch v := v.(type) {
	case nil:
		return func(*event) bool { return true }, nil
	case []any:
		return group(v, key, 0, true)
	case map[string]any:
		return parseFilter(v, key, 0)
	}
	return nil, &RouteError{Key: key, Msg: "expected a list of filters"}
}

// group reads a list of filters; every = all must hold, else one.
func group(v any, key []string, depth int, every bool) (filter, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, &RouteError{Key: key, Msg: "expected a list of filters"}
	}
	var parts []filter
	for i, it := range list {
		f, err := parseFilter(it, append(slices.Clone(key), fmt.Sprintf("[%d]", i+1)), depth+1)
		if err != nil {
			return nil, err
		}
		parts = append(parts, f)
	}
	return func(e *event) bool {
		for _, f := range parts {
			if f(e) != every {
				return !every
			}
		}
		return every
	}, nil
}

// parseFilter reads one filter. A word that nobody knows, or two operators in one filter, is
// an error: what would be ignored lets events in that were meant to stay out.
func parseFilter(v any, key []string, depth int) (filter, error) {
	bad := func(format string, args ...any) (filter, error) {
		return nil, &RouteError{Key: key, Msg: fmt.Sprintf(format, args...)}
	}
	m, ok := v.(map[string]any)
	if !ok {
		return bad("expected a filter such as {field: action, equals: opened}")
	}
	if depth > maxFilterDepth {
		return bad("groups nest more than %d deep", maxFilterDepth)
	}
	var op string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		switch {
		case k == "field":
		case !slices.Contains(operators(), k):
			return bad("%q is no operator; expected one of %s", k, strings.Join(operators(), ", "))
		case op != "":
			return bad("has both %s and %s; put two filters into a list or under all", op, k)
		default:
			op = k
		}
	}
	arg, below := m[op], append(slices.Clone(key), op)
	switch op {
	case "":
		return bad("has no operator; expected one of %s", strings.Join(operators(), ", "))
	case "all", "any":
		return group(arg, below, depth, op == "all")
	case "not":
		f, err := parseFilter(arg, below, depth+1)
		if err != nil {
			return nil, err
		}
		return func(e *event) bool { return !f(e) }, nil
	}
	field, _ := m["field"].(string)
	path := strings.FieldsFunc(strings.TrimSpace(field), func(r rune) bool { return r == '.' })
	if len(path) == 0 {
		return bad("needs a field such as pull_request.title")
	}
	test, err := operator(op, arg, below)
	if err != nil {
		return nil, err
	}
	return func(e *event) bool {
		value, there := e.field(path)
		return test(e, value, there)
	}, nil
}

// test decides about the value of a field.
type test func(e *event, value any, there bool) bool

// operator makes the test of an operator that looks at a field.
func operator(op string, arg any, key []string) (test, error) {
	switch op {
	case "exists", "missing":
		want, ok := arg.(bool)
		if !ok {
			return nil, &RouteError{Key: key, Msg: "expected true or false"}
		}
		if op == "missing" {
			want = !want
		}
		return func(_ *event, _ any, there bool) bool { return there == want }, nil
	case "equals":
		return func(_ *event, v any, there bool) bool { return there && equal(v, arg) }, nil
	case "not_equals":
		return func(_ *event, v any, there bool) bool { return !there || !equal(v, arg) }, nil
	case "contains":
		return func(_ *event, v any, there bool) bool { return there && contains(v, arg) }, nil
	case "in":
		list, ok := arg.([]any)
		if !ok {
			return nil, &RouteError{Key: key, Msg: "expected a list of values"}
		}
		return func(_ *event, v any, there bool) bool { return there && among(v, list) }, nil
	case "in_file":
		return inFile(arg, key)
	}
	pattern, ok := arg.(string)
	if !ok {
		return nil, &RouteError{Key: key, Msg: "expected a regular expression in quotes"}
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, &RouteError{
			Key: key, Msg: "is no regular expression of the RE2 kind: " + err.Error(),
			Fix: "look-arounds and back-references do not exist there: write several filters, or not",
		}
	}
	return func(_ *event, v any, there bool) bool { return there && re.MatchString(text(v)) }, nil
}

// field finds what a filter looks at: event or event_type, headers.<name>, payload.<path> (of
// a payload that has a key of that name, below it), or a path in the payload.
func (e *event) field(path []string) (any, bool) {
	switch path[0] {
	case "event", "event_type":
		if len(path) == 1 {
			return e.kind, true
		}
		return nil, false
	case "headers":
		if len(path) != 2 || len(e.header.Values(path[1])) == 0 {
			return nil, false
		}
		return e.header.Get(path[1]), true
	case "payload":
		if inner, ok := step(e.payload.value, "payload"); ok {
			return find(inner, path[1:])
		}
		return find(e.payload.value, path[1:])
	}
	return find(e.payload.value, path)
}

// equal compares a value of a payload with one of a config, without turning one kind into
// another: "4" is not 4. 4 and 4.0 are.
func equal(got, want any) bool {
	if n, ok := number(got); ok {
		w, ok := number(want)
		return ok && n.Cmp(w) == 0
	}
	switch got := got.(type) {
	case nil, bool, string:
		switch want.(type) {
		case nil, bool, string:
			return got == want
		}
	case []any:
		w, ok := want.([]any)
		return ok && slices.EqualFunc(got, w, equal)
	case map[string]any:
		w, ok := want.(map[string]any)
		return ok && maps.EqualFunc(got, w, equal)
	}
	return false
}

// mostDigits bounds the numbers that are compared exactly: 1e999999999 must not be written out.
const mostDigits = 64

// number reads a number of a payload or of a config, exactly.
func number(v any) (*big.Rat, bool) {
	var s string
	switch v := v.(type) {
	case json.Number:
		s = v.String()
	case int64, float64:
		s = fmt.Sprint(v)
	default:
		return nil, false
	}
	if _, exp, ok := strings.Cut(strings.ToLower(s), "e"); len(s) > mostDigits || ok && len(strings.TrimLeft(exp, "+-0")) > 3 {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}

func among(v any, list []any) bool {
	return slices.ContainsFunc(list, func(x any) bool { return equal(v, x) })
}

// contains looks for a value in a list, for a key in a map, and for a text in anything else.
func contains(v, want any) bool {
	switch v := v.(type) {
	case []any:
		return among(want, v)
	case map[string]any:
		name, ok := want.(string)
		_, there := v[name]
		return ok && there
	}
	return strings.Contains(text(v), fmt.Sprint(want))
}

// inFile reads the values of a file of the profile's home at each event: a JSON list, the keys
// of a JSON object, or lines. A file that cannot be read holds nothing.
func inFile(arg any, key []string) (test, error) {
	name, _ := arg.(string)
	name = strings.TrimPrefix(strings.TrimSpace(name), "~/.hermes/")
	if name == "" || strings.HasPrefix(name, "/") || strings.HasPrefix(name, "~") || strings.Contains(name, "\\") || slices.Contains(strings.Split(name, "/"), "..") {
		return nil, &RouteError{Key: key, Msg: "expected a file below the home of the profile, such as data/watchlist.json"}
	}
	return func(e *event, v any, there bool) bool {
		if !there {
			return false
		}
		data, err := e.file(name)
		if err != nil {
			e.warn(err)
			return false
		}
		p, err := parseJSON(data)
		if err != nil {
			s := text(v)
			for line := range strings.Lines(string(data)) {
				if line = strings.TrimSpace(line); line != "" && line == s {
					return true
				}
			}
			return false
		}
		switch list := p.value.(type) {
		case []any:
			return among(v, list)
		case map[string]any:
			s, ok := v.(string)
			_, found := list[s]
			return ok && found
		}
		return equal(v, p.value)
	}, nil
}
