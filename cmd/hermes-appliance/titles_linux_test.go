// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

const naming = "You name conversations"

// newSession makes a session of the API.
func (r *running) newSession(body string) string {
	r.t.Helper()
	_, got := r.request(r.key, "/api/sessions", body)
	return field[map[string]any](r.t, got, "session")["id"].(string)
}

func (r *running) titleOf(session string) string {
	r.t.Helper()
	_, body := r.request(r.key, "/api/sessions/"+session, "")
	title, _ := field[map[string]any](r.t, body, "session")["title"].(string)
	return title
}

func (r *running) chat(session, text string) {
	r.t.Helper()
	if status, body := r.request(r.key, "/api/sessions/"+session+"/chat", `{"message":`+quote(text)+`}`); status != 200 {
		r.t.Fatalf("%d %s", status, body)
	}
}

// TestTitles: a model names a session after its first exchange; a person's name stays; and
// nobody's is made for what nobody comes back to, or where the profile says no.
func TestTitles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config string
		say    modelserver.Reply
		want   string // in the end
		asks   int    // of the model, for two exchanges
	}{
		"a model's":       {"", modelserver.Reply{Text: "Title: \"Repair of the\u202e fence\"\nmore"}, "Repair of the fence", 1},
		"in a language":   {"language: Basque", modelserver.Reply{Text: "Hesia konpondu"}, "Hesia konpondu", 1},
		"the model fails": {"", modelserver.Reply{Status: 500, Body: "{}"}, "how do I repair a fence?", 1},
		"says nothing":    {"", modelserver.Reply{Text: "\"\""}, "how do I repair a fence?", 1},
		"calls a tool":    {"", modelserver.Reply{Calls: []modelserver.Call{{ID: "x", Name: "x", Args: "{}"}}}, "how do I repair a fence?", 1},
		"no model":        {"model_upgrade_enabled: false", modelserver.Reply{}, "how do I repair a fence?", 0},
		"no titles":       {"enabled: false", modelserver.Reply{}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			srv := modelserver.NewFunc(t, func(r modelserver.Request) modelserver.Reply {
				q := tell(t, r)
				if !strings.HasPrefix(q.System, naming) {
					return modelserver.Reply{Text: "done"}
				}
				asked.Add(1)
				if !strings.Contains(q.User, "repair a fence") || strings.Contains(q.User, "opaque-value") || name == "in a language" && !strings.Contains(q.System, "in Basque") {
					t.Errorf("asked %+v", q)
				}
				return c.say
			})
			p := newPlace(t, map[string]string{
				"config.yaml": "_config_version: 50\nmodel: {provider: custom, default: scripted, base_url: " + srv.URL + "/v1}\nauxiliary: {title_generation: {" + c.config + "}}\n",
				".env":        apiOn + "MY_TOKEN=opaque-value-of-mine-8147\n",
			})
			g := p.start(t, "gateway", "run", "--home", p.home)
			g.ask("", g.key, "how do I repair a fence? "+name) // nobody comes back to it
			mine := g.newSession(`{"title":"my fence"}`)
			g.chat(mine, "how do I repair a fence?")
			s := g.newSession(`{}`)
			g.chat(s, "how do I repair a fence?\nopaque-value-of-mine-8147")
			for give := time.Now().Add(deadline); g.titleOf(s) != c.want || int(asked.Load()) < c.asks; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(give) {
					t.Fatalf("the title is %q, want %q; %d requests", g.titleOf(s), c.want, asked.Load())
				}
			}
			g.chat(s, "and a gate?")
			if code := g.end(syscall.SIGTERM); code != 0 { // whatever is still to be named is given up
				t.Errorf("exit %d", code)
			}
			titles := rows(t, filepath.Join(p.home, "state.db"), fmt.Sprintf("SELECT title FROM sessions WHERE id IN ('%s', '%s')", s, mine))
			all := strings.Join(titles, "\n")
			if !strings.Contains(all, "my fence") || !strings.Contains(all, c.want) || int(asked.Load()) != c.asks {
				t.Errorf("titles %q, %d requests, want %d", titles, asked.Load(), c.asks)
			}
		})
	}
}

// TestTitleNeverDelays: a model that never names a session keeps nobody from an answer, and not
// the gateway from its end.
func TestTitleNeverDelays(t *testing.T) {
	t.Parallel()
	held, never := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(never) })
	srv := modelserver.NewFunc(t, func(r modelserver.Request) modelserver.Reply {
		if strings.HasPrefix(tell(t, r).System, naming) {
			return modelserver.Reply{Text: "late", Hold: never, Held: held}
		}
		return modelserver.Reply{Text: "done"}
	})
	p := newPlace(t, map[string]string{
		"config.yaml": "_config_version: 50\nmodel: {provider: custom, default: scripted, base_url: " + srv.URL + "/v1}\nauxiliary: {title_generation: {timeout: 600}}\n", ".env": apiOn,
	})
	g := p.start(t, "gateway", "run", "--home", p.home)
	s := g.newSession(`{}`)
	g.chat(s, "first")
	<-held
	g.chat(s, "second")
	if got := g.titleOf(s); got != "first" {
		t.Errorf("until then it is called %q", got)
	}
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}
