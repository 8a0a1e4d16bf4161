// SPDX-License-Identifier: MIT

package webhook

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
)

// Route is what happens with the events of one sender. It is made by [ParseRoute].
type Route struct {
	Name    string
	Profile string // that it is bound to; "" = the one whose config has it
	Secret  secret.Text
	Open    bool // everybody may post: the secret is [NoAuth], as it is written
	Skills  []string
	// Overlay is laid on the system prompt of the turn: the skills' texts. The profile fills it.
	Overlay  string
	Toolsets []string // nil = those of the platform
	Direct   bool     // deliver_only: the message is what is delivered, no turn
	Notes    []string // what a person should know about the route
	Limits   Limits

	events []string
	prompt string
	filter filter
}

// Limits are what requests to a route may cost.
type Limits struct {
	PerMinute int
	Body      int64 // bytes
}

// DefaultLimits are upstream's.
func DefaultLimits() Limits { return Limits{PerMinute: 30, Body: 1 << 20} }

// RouteError says what is wrong with a route. It holds no secret.
type RouteError struct {
	Key []string // below the route; empty = the route itself
	Msg string
	Fix string // "" = Msg says it
}

func (e *RouteError) Error() string {
	s := e.Msg
	if len(e.Key) > 0 {
		s = strings.Join(e.Key, ".") + ": " + s
	}
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// routeName is what can stand in a path without being written otherwise.
var routeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// later are keys of upstream's that are not done here.
func later() map[string]string {
	return map[string]string{
		"script":   "filters and prompt can do much of what a script does",
		"cron_job": "a route without it starts a turn of its own",
		"coalesce": "a route without it starts a turn for each event",
	}
}

// Given is what a route is made of, beside its own keys.
type Given struct {
	// Fallback is the secret of a route that has none; empty = there is none.
	Fallback secret.Text
	// FallbackName says where Fallback is set, for messages.
	FallbackName string
	Limits       Limits
	Loopback     bool // the server can be reached from this machine only
	// Open says that the file itself has [NoAuth] as the route's secret: a variable that
	// happens to hold it does not count.
	Open bool
}

// ParseRoute reads a route from its keys in a config. The error is a [*RouteError]: of the
// first thing that is wrong, in the order of the keys' names. Nothing is ignored silently: a
// route with a key that is not known, or not done here, is refused.
func ParseRoute(name string, v any, g Given) (Route, error) {
	r := Route{Name: name, Limits: g.Limits}
	refuse := func(key, msg, fix string) (Route, error) {
		return Route{Name: name}, &RouteError{Key: keyed(key), Msg: msg, Fix: fix}
	}
	if !routeName.MatchString(name) {
		return refuse("", "the name cannot stand in a URL", "use letters, digits, '.', '_' and '-'")
	}
	m, ok := v.(map[string]any)
	if !ok {
		return refuse("", "expected a section with keys such as prompt and secret", "")
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		v := m[key]
		if why, is := later()[key]; is {
			if v == nil || v == "" || v == false {
				continue
			}
			return refuse(key, "is not done by hermes-appliance yet, so the route is off", "remove the key: "+why)
		}
		if err := r.set(key, v); err != nil {
			return Route{Name: name}, err
		}
	}
	if r.filter == nil {
		r.filter = func(*event) bool { return true }
	}
	if r.Direct && r.prompt == "" {
		return refuse("deliver_only", "needs a prompt: its text is what is delivered", "")
	}
	return r, r.admit(m, g)
}

func keyed(key string) []string {
	if key == "" {
		return nil
	}
	return []string{key}
}

// set reads one key.
func (r *Route) set(key string, v any) (err error) {
	bad := func(want string) error { return &RouteError{Key: []string{key}, Msg: "expected " + want} }
	switch key {
	case "secret", "description", "deliver_extra", "created_at":
	case "enabled":
		on, ok := v.(bool)
		switch {
		case !ok:
			return bad("true or false")
		case !on:
			return &RouteError{Key: []string{key}, Msg: "is false: the route is switched off"}
		}
	case "profile":
		// A null or a blank is no way to say "the default profile": it fails closed, as upstream's.
		r.Profile, _ = v.(string)
		if r.Profile = strings.TrimSpace(r.Profile); r.Profile == "" {
			return bad("the name of a profile, or no such key")
		}
	case "prompt":
		var ok bool
		if r.prompt, ok = v.(string); !ok && v != nil {
			return bad("a text")
		}
	case "events":
		r.events, err = words(v, key)
	case "skills":
		r.Skills, err = words(v, key)
	case "toolsets":
		r.Toolsets, err = words(v, key)
	case "filters":
		r.filter, err = parseFilters(v, []string{key})
	case "deliver_only":
		var ok bool
		if r.Direct, ok = v.(bool); !ok && v != nil {
			return bad("true or false")
		}
	case "deliver":
		target, ok := v.(string)
		switch {
		case v == nil || target == "log":
		case !ok:
			return bad("the name of a target")
		default:
			return &RouteError{Key: []string{key}, Msg: fmt.Sprintf("nothing is delivered to %q by hermes-appliance yet, so the route is off", target), Fix: "deliver: log is the target there is"}
		}
	default:
		return &RouteError{Key: []string{key}, Msg: "is no key of a route", Fix: "a key that was ignored could open the route: remove or correct it"}
	}
	return err
}

// words reads a list of texts, or one text.
func words(v any, key string) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		out := make([]string, 0, len(v))
		for i, it := range v {
			s, ok := it.(string)
			if s = strings.TrimSpace(s); !ok || s == "" {
				return nil, &RouteError{Key: []string{key, fmt.Sprintf("[%d]", i+1)}, Msg: "expected a text"}
			}
			out = append(out, s)
		}
		return out, nil
	}
	return nil, &RouteError{Key: []string{key}, Msg: "expected a list of texts"}
}

// admit decides who may post: everybody only if the config says so in so many words, and then
// from this machine only.
func (r *Route) admit(m map[string]any, g Given) error {
	v, has := m["secret"]
	own, ok := v.(string)
	if !ok && v != nil {
		return &RouteError{Key: []string{"secret"}, Msg: "expected a text", Fix: "put it in quotes"}
	}
	r.Secret = secret.Wrap(strings.TrimSpace(own))
	if r.Secret.Empty() {
		if has && v != nil {
			return &RouteError{Key: []string{"secret"}, Msg: "is empty: whoever knows the URL could post", Fix: "set a secret, or remove the key to use " + g.FallbackName}
		}
		r.Secret = g.Fallback
	}
	switch s := r.Secret.Reveal(); {
	case s == "":
		return &RouteError{Key: []string{"secret"}, Msg: "is not set, and there is no " + g.FallbackName, Fix: "set one of them"}
	case s == NoAuth && !g.Open:
		return &RouteError{Key: []string{"secret"}, Msg: NoAuth + " counts only where it is written as the secret of the route itself"}
	case s == NoAuth && !g.Loopback:
		return &RouteError{Key: []string{"secret"}, Msg: NoAuth + " is for trying things out on one machine, and this server can be reached from others", Fix: "set platforms.webhook.extra.host: 127.0.0.1, or a secret"}
	case s == NoAuth:
		r.Open = true
		r.Notes = append(r.Notes, "everybody on this machine may post to it: its secret is "+NoAuth)
	case secret.Placeholder(s):
		return &RouteError{Key: []string{"secret"}, Msg: "is a placeholder, no secret", Fix: "put the real one into .env and refer to it, or write it here"}
	}
	if extra, _ := m["deliver_extra"].(map[string]any); len(extra) > 0 {
		r.Notes = append(r.Notes, "deliver_extra means nothing to deliver: log")
	}
	return nil
}

// accepts tells whether the route is for one of the names of an event.
func (r *Route) accepts(names []string) bool {
	return len(r.events) == 0 || slices.ContainsFunc(names, func(n string) bool { return slices.Contains(r.events, n) })
}
