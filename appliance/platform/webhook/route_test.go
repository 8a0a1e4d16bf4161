// SPDX-License-Identifier: MIT

package webhook

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
)

func TestRoutes(t *testing.T) {
	t.Parallel()
	fallback := Given{Fallback: secret.Wrap("global secret"), FallbackName: "WEBHOOK_SECRET", Limits: DefaultLimits()}
	none := Given{FallbackName: "WEBHOOK_SECRET", Limits: DefaultLimits()}
	local := none
	local.Loopback, local.Open = true, true
	writtenPublic := none
	writtenPublic.Open = true
	unwritten := none
	unwritten.Loopback = true
	globalOpen := local
	globalOpen.Fallback, globalOpen.Open = secret.Wrap(NoAuth), false
	for _, c := range []struct {
		name  string
		given Given
		route any
		want  string // "" = fine
	}{
		{"r", fallback, m{}, ""},
		{"r", none, m{"secret": "own secret"}, ""},
		{"r", fallback, m{"events": "push", "skills": []any{"a"}, "toolsets": []any{}, "prompt": "x", "deliver": "log", "enabled": true, "description": "d"}, ""},
		{"r", fallback, m{"script": "", "cron_job": nil, "coalesce": false, "deliver": nil, "events": nil, "filters": nil}, ""},
		{"r", none, m{}, "secret: is not set, and there is no WEBHOOK_SECRET"},
		{"r", fallback, m{"secret": ""}, "secret: is empty"},
		{"r", fallback, m{"secret": "  "}, "secret: is empty"},
		{"r", fallback, m{"secret": int64(12)}, "in quotes"},
		{"r", fallback, m{"secret": "***"}, "placeholder"},
		{"r", fallback, m{"secret": "${NOT_SET}"}, "placeholder"},
		{"r", fallback, m{"secret": "undefined"}, "placeholder"},
		{"r", local, m{"secret": NoAuth}, ""},
		{"r", writtenPublic, m{"secret": NoAuth}, "host: 127.0.0.1"},
		{"r", unwritten, m{"secret": NoAuth}, "only where it is written"}, // it came out of a variable
		{"r", globalOpen, m{}, "only where it is written"},
		{"r", fallback, m{"secret": "insecure_no_auth"}, ""}, // a secret like any other
		{"r", fallback, m{"script": "x.py"}, "script: is not done"},
		{"r", fallback, m{"cron_job": "x"}, "cron_job: is not done"},
		{"r", fallback, m{"coalesce": m{"key": "x"}}, "coalesce: is not done"},
		{"r", fallback, m{"deliver": "github_comment"}, `deliver: nothing is delivered to "github_comment"`},
		{"r", fallback, m{"deliver": "telegram", "deliver_extra": m{"chat_id": "1"}}, `"telegram"`},
		{"r", fallback, m{"filter": []any{}}, "filter: is no key of a route"},
		{"r", fallback, m{"filters": []any{m{"field": "a", "equal": 1}}}, "filters.[1]"},
		{"r", fallback, m{"events": int64(1)}, "events: expected a list"},
		{"r", fallback, m{"events": []any{"a", int64(1)}}, "events.[2]"},
		{"r", fallback, m{"prompt": []any{}}, "prompt: expected a text"},
		{"r", fallback, m{"profile": nil}, "profile: expected"},
		{"r", fallback, m{"profile": " "}, "profile: expected"},
		{"r", fallback, m{"enabled": false}, "switched off"},
		{"r", fallback, m{"enabled": "no"}, "true or false"},
		{"r", fallback, m{"deliver_only": true}, "needs a prompt"},
		{"r", fallback, m{"deliver_only": "yes"}, "true or false"},
		{"r", fallback, "x", "expected a section"},
		{"r", fallback, nil, "expected a section"},
		{"a/b", fallback, m{}, "cannot stand in a URL"},
		{"..", fallback, m{}, "cannot stand in a URL"},
		{"", fallback, m{}, "cannot stand in a URL"},
	} {
		r, err := ParseRoute(c.name, c.route, c.given)
		var re *RouteError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%v: %v", c.route, err)
		case c.want != "" && (!errors.As(err, &re) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v: got %v, want %q", c.route, err, c.want)
		case err == nil && r.filter == nil, err == nil && r.Secret.Empty():
			t.Errorf("%v: half a route", c.route)
		case err == nil && r.Open != (r.Secret.Reveal() == NoAuth):
			t.Errorf("%v: open %v", c.route, r.Open)
		}
		if err != nil && strings.Contains(err.Error(), "global secret") {
			t.Errorf("%v: the error holds a secret", err)
		}
	}
}

func TestOpenRoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": m{"secret": NoAuth}})
	w.profiles[""].given.Open = true
	if got := w.send("/webhooks/r", "{}"); got.status != 202 {
		t.Errorf("%d %s", got.status, got.text)
	}
	w.profiles[""].given.Loopback = false
	if got := w.send("/webhooks/r", "{}"); got.status != 404 {
		t.Errorf("reachable from elsewhere: %d %s", got.status, got.text)
	}
	r, err := ParseRoute("r", m{"secret": NoAuth}, Given{Open: true, Loopback: true})
	if err != nil || !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, NoAuth) }) {
		t.Errorf("%v, %v: nobody is warned", r.Notes, err)
	}
}

func TestFiltersDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": m{"filters": []any{m{"field": "id", "in_file": "data/list.json"}}}})
	w.profiles[""].write("data/list.json", `["a"]`)
	for i, step := range []struct {
		write, body string
		want        int
	}{{"", `{"id":"a"}`, 202}, {"", `{"id":"b"}`, 200}, {`["b"]`, `{"id":"b"}`, 202}} {
		if step.write != "" {
			w.profiles[""].write("data/list.json", step.write)
		}
		got := w.post("r", step.body, "X-GitHub-Delivery", fmt.Sprint("d", i))
		if got.status != step.want || got.status == 200 && got.body["reason"] != "filter" {
			t.Errorf("%+v: %d %s", step, got.status, got.text)
		}
	}
}
