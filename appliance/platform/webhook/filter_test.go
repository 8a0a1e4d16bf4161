// SPDX-License-Identifier: MIT

package webhook

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"
)

// m is a filter as a config has it.
type m = map[string]any

func testEvent(t testing.TB, body string) *event {
	return &event{
		payload: mustJSON(t, body), kind: "push", header: http.Header{"X-Origin": {"here"}},
		file: func(name string) ([]byte, error) {
			files := map[string]string{"list.json": `["a", 4]`, "map.json": `{"a": 1}`, "lines.txt": " a \n\n4\r\nb c", "one.json": `"a"`}
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		},
		warn: func(error) {},
	}
}

const filterBody = `{"action":"opened","n":4,"f":4.0,"big":9007199254740993,"yes":true,"nothing":null,"labels":["bug","p1",7],
	"user":{"name":"ann","id":4},"payload":{"inner":"x"},"text":"line one\nline two","huge":1e999999999}`

func TestFilters(t *testing.T) {
	t.Parallel()
	e := testEvent(t, filterBody)
	for _, c := range []struct {
		filter any
		want   bool
	}{
		{nil, true},
		{[]any{}, true},
		{m{"field": "action", "exists": true}, true},
		{m{"field": "action", "exists": false}, false},
		{m{"field": "gone", "exists": false}, true},
		{m{"field": "nothing", "exists": true}, true},
		{m{"field": "gone", "missing": true}, true},
		{m{"field": "action", "missing": true}, false},
		{m{"field": "action", "missing": false}, true},
		{m{"field": "action", "equals": "opened"}, true},
		{m{"field": "action", "equals": "Opened"}, false},
		{m{"field": "gone", "equals": nil}, false},
		{m{"field": "nothing", "equals": nil}, true},
		{m{"field": "n", "equals": int64(4)}, true},
		{m{"field": "n", "equals": 4.0}, true},
		{m{"field": "f", "equals": int64(4)}, true},
		{m{"field": "n", "equals": "4"}, false},
		{m{"field": "yes", "equals": true}, true},
		{m{"field": "yes", "equals": int64(1)}, false},
		{m{"field": "big", "equals": int64(9007199254740993)}, true},
		{m{"field": "big", "equals": int64(9007199254740992)}, false},
		{m{"field": "huge", "equals": int64(1)}, false},
		{m{"field": "user", "equals": m{"name": "ann", "id": int64(4)}}, true},
		{m{"field": "user", "equals": m{"name": "ann"}}, false},
		{m{"field": "labels", "equals": []any{"bug", "p1", int64(7)}}, true},
		{m{"field": "action", "not_equals": "closed"}, true},
		{m{"field": "action", "not_equals": "opened"}, false},
		{m{"field": "gone", "not_equals": "x"}, true},
		{m{"field": "labels", "contains": "bug"}, true},
		{m{"field": "labels", "contains": "bu"}, false},
		{m{"field": "labels", "contains": int64(7)}, true},
		{m{"field": "user", "contains": "name"}, true},
		{m{"field": "user", "contains": "ann"}, false},
		{m{"field": "text", "contains": "two"}, true},
		{m{"field": "n", "contains": "4"}, true},
		{m{"field": "gone", "contains": ""}, false},
		{m{"field": "n", "in": []any{int64(3), int64(4)}}, true},
		{m{"field": "action", "in": []any{"closed"}}, false},
		{m{"field": "gone", "in": []any{nil}}, false},
		{m{"field": "user.name", "in_file": "lines.txt"}, false},
		{m{"field": "n", "in_file": "lines.txt"}, true},
		{m{"field": "n", "in_file": "~/.hermes/list.json"}, true},
		{m{"field": "action", "in_file": "list.json"}, false},
		{m{"field": "payload.inner", "in_file": "one.json"}, false},
		{m{"field": "action", "in_file": "gone.txt"}, false},
		{m{"field": "action", "regex": "^op"}, true},
		{m{"field": "action", "regex": "^OP"}, false},
		{m{"field": "action", "regex": "(?i)^OP"}, true},
		{m{"field": "text", "regex": "(?m)^line two$"}, true},
		{m{"field": "n", "regex": `^\d$`}, true},
		{m{"field": "gone", "regex": ""}, false},
		{m{"field": "user.name", "equals": "ann"}, true},
		{m{"field": "labels.0", "equals": "bug"}, true},
		{m{"field": "labels.9", "exists": true}, false},
		{m{"field": "payload.inner", "equals": "x"}, true},
		{m{"field": "payload.action", "exists": true}, false},
		{m{"field": "event", "equals": "push"}, true},
		{m{"field": "event_type", "in": []any{"push"}}, true},
		{m{"field": "headers.x-origin", "equals": "here"}, true},
		{m{"field": "headers.X-Gone", "missing": true}, true},
		{m{"all": []any{}}, true},
		{m{"any": []any{}}, false},
		{m{"any": []any{m{"field": "gone", "exists": true}, m{"field": "n", "equals": int64(4)}}}, true},
		{m{"all": []any{m{"field": "gone", "exists": true}, m{"field": "n", "equals": int64(4)}}}, false},
		{m{"not": m{"field": "gone", "exists": true}}, true},
		{m{"not": m{"any": []any{m{"field": "n", "exists": true}}}}, false},
		{[]any{m{"field": "n", "exists": true}, m{"field": "gone", "exists": true}}, false},
	} {
		f, err := parseFilters(c.filter, []string{"filters"})
		if err != nil {
			t.Errorf("%v: %v", c.filter, err)
			continue
		}
		if got := f(e); got != c.want {
			t.Errorf("%v: got %v", c.filter, got)
		}
	}
	flat := testEvent(t, `{"labels":["a"]}`)
	f, err := parseFilters(m{"field": "payload.labels", "contains": "a"}, nil)
	if err != nil || !f(flat) {
		t.Errorf("payload. of a flat payload: %v", err)
	}
}

// TestBadFilters: what would be ignored is refused, by its place.
func TestBadFilters(t *testing.T) {
	t.Parallel()
	deep := any(m{"field": "a", "exists": true})
	for range maxFilterDepth + 1 {
		deep = m{"not": deep}
	}
	for _, c := range []struct {
		filter any
		want   string
	}{
		{"x", "filters: expected a list"},
		{[]any{"x"}, "filters.[1]: expected a filter"},
		{[]any{m{}}, "no operator"},
		{[]any{m{"field": "a"}}, "no operator"},
		{m{"equals": "a"}, "needs a field"},
		{m{"field": " .. ", "equals": "a"}, "needs a field"},
		{m{"field": "a", "equal": "a"}, `"equal" is no operator`},
		{m{"field": "a", "equals": "a", "contains": "b"}, "has both contains and equals"},
		{m{"field": "a", "exists": "yes"}, "filters.exists: expected true or false"},
		{m{"field": "a", "in": "b"}, "filters.in: expected a list"},
		{m{"field": "a", "regex": "(?=x)"}, "RE2"},
		{m{"field": "a", "regex": "("}, "RE2"},
		{m{"field": "a", "regex": int64(1)}, "in quotes"},
		{m{"field": "a", "in_file": "/etc/passwd"}, "below the home"},
		{m{"field": "a", "in_file": "../.env"}, "below the home"},
		{m{"field": "a", "in_file": "~/x"}, "below the home"},
		{m{"field": "a", "in_file": ""}, "below the home"},
		{m{"any": []any{m{"field": "a", "exists": true}, m{"x": 1}}}, "filters.any.[2]"},
		{m{"all": m{}}, "filters.all: expected a list"},
		{deep, "nest"},
	} {
		_, err := parseFilters(c.filter, []string{"filters"})
		var re *RouteError
		if !errors.As(err, &re) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %s", c.filter, err, c.want)
		}
	}
}

// TestRegexIsLinear: a pattern that takes a backtracking engine for ever.
func TestRegexIsLinear(t *testing.T) {
	t.Parallel()
	f, err := parseFilters(m{"field": "a", "regex": `^(a+)+$`}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := testEvent(t, `{"a":"`+strings.Repeat("a", 100_000)+`!"}`)
	done := make(chan bool, 1)
	go func() { done <- f(e) }()
	select {
	case got := <-done:
		if got {
			t.Error("it matches")
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}

// FuzzFilter: any filter on any payload decides, and not turns it around.
func FuzzFilter(f *testing.F) {
	f.Add("a.b", "equals", `"x"`, `{"a":{"b":"x"}}`)
	f.Add("labels", "contains", `"bug"`, `{"labels":["bug"]}`)
	f.Add("payload.x", "regex", `"^(a|b)*$"`, `{"payload":{"x":"abab"}}`)
	f.Add("headers.X-Origin", "in", `["here",1e400]`, `{"x":1e999999999}`)
	f.Add("n", "not_equals", `4.0`, `{"n":4}`)
	f.Add("n", "all", `[{"field":"n","exists":true},{"not":{"field":"x","missing":true}}]`, `{"n":[[]]}`)
	f.Fuzz(func(t *testing.T, field, op, arg, body string) {
		a, err := parseJSON([]byte(arg))
		if err != nil {
			return
		}
		if _, err := parseJSON([]byte(body)); err != nil {
			return
		}
		e := testEvent(t, body)
		spec := m{"field": field, op: a.value}
		if op == "all" || op == "any" || op == "not" {
			delete(spec, "field")
		}
		yes, err := parseFilters(spec, []string{"filters"})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "filters") {
				t.Errorf("no place: %v", err)
			}
			return
		}
		no, err := parseFilters(m{"not": spec}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if yes(e) == no(e) {
			t.Errorf("%v and its opposite agree on %s", fmt.Sprint(spec), body)
		}
	})
}
