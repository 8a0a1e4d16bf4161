// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/platform/webhook"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
	"github.com/hermes-appliance/hermes-appliance/appliance/tool"
)

// hookSettings are what a profile's config says of webhooks, environment before config
// (gateway spec §1.3).
type hookSettings struct {
	enabled bool
	host    string // "" = every address
	port    int
	secret  secret.Text // of its routes that have none
	limits  webhook.Limits
	routes  map[string]hookRoute
	unknown []string // keys that mean nothing
}

// hookRoute is a route as a config has it.
type hookRoute struct {
	path  []string
	value any
}

// bound is the profile that a route names, "" for none.
func (r hookRoute) bound() string {
	m, _ := r.value.(map[string]any)
	name, _ := m["profile"].(string)
	return strings.TrimSpace(name)
}

// hookSections are the places of the webhook settings in a config, lowest first; in each, what
// is below extra wins.
func hookSections() [][]string {
	return [][]string{{"platforms", "webhook"}, {"gateway", "platforms", "webhook"}}
}

// hookKeys are the keys of a section that mean something here.
func hookKeys() []string {
	return []string{"enabled", "extra", "host", "port", "secret", "routes", "rate_limit", "max_body_bytes"}
}

func (t *Tenant) hookSettings(b bound) (hookSettings, error) {
	s := hookSettings{port: 8644, limits: webhook.DefaultLimits(), routes: map[string]hookRoute{}}
	at := map[string][]string{}
	values := map[string]any{}
	for _, section := range hookSections() {
		for _, path := range [][]string{section, append(slices.Clone(section), "extra")} {
			m, err := b.view.Map(path...)
			if err != nil {
				return s, err
			}
			for k, v := range m {
				values[k], at[k] = v, append(slices.Clone(path), k)
				if !slices.Contains(hookKeys(), k) {
					s.unknown = append(s.unknown, strings.Join(at[k], "."))
				}
			}
			routes, ok := m["routes"].(map[string]any)
			if !ok && m["routes"] != nil {
				return s, fault(b.view, at["routes"], "expected a section with a name for each route", "")
			}
			for name, v := range routes {
				s.routes[name] = hookRoute{append(slices.Clone(at["routes"]), name), v}
			}
		}
	}
	slices.Sort(s.unknown)
	text := func(variable, key string) string {
		if v := t.setting(b, variable); variable != "" && v != "" {
			return v
		}
		if v := values[key]; v != nil {
			return strings.TrimSpace(fmt.Sprint(v))
		}
		return ""
	}
	number := func(variable, key string, least, most int64) (int64, bool, error) {
		v := text(variable, key)
		if v == "" {
			return 0, false, nil
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < least || n > most {
			want := fmt.Sprintf("expected a number from %d to %d", least, most)
			if variable != "" && t.setting(b, variable) != "" {
				return 0, false, fmt.Errorf("%s: %q: %s", variable, v, want)
			}
			return 0, false, fault(b.view, at[key], want, "")
		}
		return n, true, nil
	}
	s.enabled = truth(text("WEBHOOK_ENABLED", "enabled"))
	s.host = text("", "host")
	s.secret = secret.Wrap(text("WEBHOOK_SECRET", "secret"))
	port, ok, err := number("WEBHOOK_PORT", "port", 0, 65535)
	if ok {
		s.port = int(port)
	}
	rate, ok, err2 := number("", "rate_limit", 1, 100_000)
	if ok {
		s.limits.PerMinute = int(rate)
	}
	body, ok, err3 := number("", "max_body_bytes", 1, 64<<20)
	if ok {
		s.limits.Body = body
	}
	return s, errors.Join(err, err2, err3)
}

// loopback reports whether the server is reached from this machine only.
func (s hookSettings) loopback() bool {
	return slices.Contains([]string{"127.0.0.1", "localhost", "::1"}, strings.ToLower(s.host))
}

// fault says what is wrong at a path of a config, with the file and line of the deepest part
// of it that is there.
func fault(v config.View, path []string, msg, fix string) error {
	e := &config.Error{Kind: config.ErrType, Path: path, Msg: msg, Fix: fix}
	for n := len(path); n > 0; n-- {
		if at, err := v.Get(path[:n]...); err == nil {
			e.File, e.Line = at.File, at.Line
			break
		}
	}
	return e
}

// hookHost is the gateway as the webhook server sees it.
type hookHost struct{ s *server }

// Profile implements [webhook.Host].
func (h hookHost) Profile(_ context.Context, name string) (webhook.Profile, error) {
	t, err := h.s.rt.Tenant(name)
	if errors.Is(err, home.ErrNoProfile) {
		return nil, webhook.ErrNoProfile
	}
	if err != nil {
		return nil, err
	}
	return hookProfile{t, h.s}, nil
}

// hookProfile is a profile as the webhook server sees it.
type hookProfile struct {
	t *Tenant
	s *server
}

// Key implements [webhook.Profile].
func (p hookProfile) Key() string { return p.t.Key() }

// ChatKey implements [webhook.Profile].
func (p hookProfile) ChatKey(chat string) string {
	return gateway.SessionKey(p.t.Name(), "webhook", "webhook", chat, "")
}

// Route implements [webhook.Profile]. A route of the launch profile's config counts where it is
// bound to, and one of a profile's own config for that profile alone.
func (p hookProfile) Route(ctx context.Context, name string) (webhook.Route, error) {
	launch, err := p.s.rt.Tenant("")
	if err != nil {
		return webhook.Route{}, err
	}
	_, lb, err := launch.bind(ctx)
	if err != nil {
		return webhook.Route{}, err
	}
	served, err := launch.hookSettings(lb)
	if err != nil {
		return webhook.Route{}, err
	}
	// A socket of the service manager may be open to more than the settings say.
	given := webhook.Given{Limits: served.limits, Loopback: served.loopback() && (p.s.hooks == nil || p.s.hooks.loopback())}
	r, ok := served.routes[name]
	owner := r.bound()
	if owner == "" {
		owner = launch.Name()
	}
	if p.t == launch {
		if !ok || owner != launch.Name() {
			return webhook.Route{}, webhook.ErrNoRoute
		}
		given.Fallback, given.FallbackName = served.secret, "WEBHOOK_SECRET in .env"
		return p.parse(name, r, lb, lb, given)
	}
	// What stands in for a route's secret is the routed profile's own, never the launch
	// profile's: who knows that one must not start another profile's turns (gateway spec §1.2).
	_, b, err := p.t.bind(ctx)
	if err != nil {
		return webhook.Route{}, err
	}
	own, err := p.t.hookSettings(b)
	if err != nil {
		return webhook.Route{}, err
	}
	given.Fallback, given.FallbackName = own.secret, "WEBHOOK_SECRET in the .env of the profile "+p.t.Name()
	if ok && owner == p.t.Name() {
		return p.parse(name, r, lb, b, given)
	}
	if r, ok = own.routes[name]; !ok || !own.enabled {
		return webhook.Route{}, webhook.ErrNoRoute
	}
	if owner := r.bound(); owner != "" && owner != p.t.Name() {
		return webhook.Route{}, fault(b.view, append(r.path, "profile"), "a profile can have routes for itself only", "write this route into the config of the default profile")
	}
	given.Limits = own.limits
	return p.parse(name, r, b, b, given)
}

// parse reads a route that stands in one config, for the profile of another.
func (p hookProfile) parse(name string, r hookRoute, in, b bound, given webhook.Given) (webhook.Route, error) {
	if written, err := in.view.With(nil).Value(append(slices.Clone(r.path), "secret")...); err == nil {
		given.Open = written == webhook.NoAuth
	}
	route, err := webhook.ParseRoute(name, r.value, given)
	if re, ok := errors.AsType[*webhook.RouteError](err); ok {
		return route, fault(in.view, append(slices.Clone(r.path), re.Key...), re.Msg, re.Fix)
	}
	if err != nil {
		return route, err
	}
	skills := &tool.Skills{Home: p.t.home.Dir}
	var texts []string
	for _, name := range route.Skills {
		text, err := skills.Text(name)
		if err != nil {
			return route, fault(in.view, append(slices.Clone(r.path), "skills"), err.Error(), "")
		}
		texts = append(texts, "# Skill: "+name+"\n\n"+text)
	}
	route.Overlay = strings.Join(texts, "\n\n")
	route.Toolsets = hookToolsets(b, route.Toolsets)
	return route, nil
}

// hookToolsets are the toolsets of a route's turns: what an event says is nobody's word, so
// tools of MCP servers are there only if the route or the platform's own list names them.
func hookToolsets(b bound, of []string) []string {
	if of == nil {
		if b.view.Has("platform_toolsets", "webhook") {
			return nil
		}
		return []string{"hermes-webhook", tool.NoMCP}
	}
	servers, err := b.view.Map("mcp_servers")
	if err == nil && slices.ContainsFunc(of, func(name string) bool {
		_, is := servers[strings.TrimPrefix(name, "mcp-")]
		return is
	}) {
		return of
	}
	return append(slices.Clone(of), tool.NoMCP)
}

// mostHookFile is how long a file of in_file may be.
const mostHookFile = 1 << 20

// File implements [webhook.Profile].
func (p hookProfile) File(_ context.Context, name string) (_ []byte, err error) {
	if first, _, _ := strings.Cut(name, "/"); first == "profiles" {
		return nil, fmt.Errorf("%s: belongs to another profile", name)
	}
	root, err := os.OpenRoot(p.t.home.Dir) // no link leads out of the home
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // opened for reading
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	data, err := io.ReadAll(io.LimitReader(f, mostHookFile+1))
	if len(data) > mostHookFile {
		return nil, fmt.Errorf("%s: longer than %d bytes", name, mostHookFile)
	}
	return data, err
}

// Handled implements [webhook.Profile].
func (p hookProfile) Handled(ctx context.Context, key string) (bool, error) {
	store, err := p.t.Sessions(ctx)
	if err != nil {
		return false, err
	}
	found, err := store.List(ctx, session.Filter{Sources: []string{webhook.Source}, Key: key, Archived: session.Any, Hidden: true, Children: true, Limit: 20})
	since := p.s.o.Now().Add(-24 * time.Hour)
	return slices.ContainsFunc(found, func(f session.Summary) bool {
		return f.EndReason == webhook.Complete && f.Ended.After(since)
	}), err
}

// Ask implements [webhook.Profile].
func (p hookProfile) Ask(ctx context.Context, a gateway.Ask) (*gateway.Turn, error) {
	return p.t.Ask(ctx, a)
}

// End implements [webhook.Profile].
func (p hookProfile) End(ctx context.Context, id, reason string) error {
	store, err := p.t.Sessions(ctx)
	if err != nil {
		return err
	}
	return store.End(ctx, id, reason)
}

// Redact implements [webhook.Profile].
func (p hookProfile) Redact(ctx context.Context, text string) string {
	_, b, err := p.t.bind(ctx)
	if err != nil {
		return ""
	}
	return b.redact.String(text)
}
