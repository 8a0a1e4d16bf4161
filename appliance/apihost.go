// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/platform/apiserver"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
	"github.com/hermes-appliance/hermes-appliance/appliance/tool"
)

// apiSource is what sessions of the API say they come from.
const apiSource = "api-server"

// apiSections are the places of the api_server settings in a config, lowest first; in each,
// what is below extra wins.
func apiSections() [][]string {
	return [][]string{{"platforms", "api_server"}, {"gateway", "platforms", "api_server"}, {"gateway", "api_server"}}
}

// apiSettings are the settings of a profile's API, environment before config (gateway spec
// §1.2).
type apiSettings struct {
	enabled bool
	host    string
	port    int
	most    int // turns at a time; 0 = any number
	apiserver.Settings
}

// setting reads a variable of the profile's own: its scope, or for the launch profile what the
// process was started with. An empty one counts as not set.
func (t *Tenant) setting(b bound, name string) string {
	if v, ok := b.scope.Lookup(name); ok && !v.Text.Empty() {
		return strings.TrimSpace(v.Text.Reveal())
	}
	if t.key == t.rt.env.host.LaunchKey() {
		return strings.TrimSpace(t.rt.env.Getenv(name))
	}
	return ""
}

func (t *Tenant) apiSettings(b bound) (apiSettings, error) {
	s := apiSettings{host: "127.0.0.1", port: 8642, most: 10}
	values := map[string]any{}
	for _, path := range apiSections() {
		m, err := b.view.Map(path...)
		if err != nil {
			return s, err
		}
		maps.Copy(values, m)
		if extra, ok := m["extra"].(map[string]any); ok {
			maps.Copy(values, extra)
		}
	}
	text := func(variable, key string) string {
		if variable != "" {
			if v := t.setting(b, variable); v != "" {
				return v
			}
		}
		if v, ok := values[key]; ok && v != nil {
			return strings.TrimSpace(fmt.Sprint(v))
		}
		return ""
	}
	s.Key = secret.Wrap(text("API_SERVER_KEY", "key"))
	s.ModelName = text("API_SERVER_MODEL_NAME", "model_name")
	if s.ModelName == "" && t.home.Profile != home.Default {
		s.ModelName = t.home.Profile
	}
	if v := text("API_SERVER_HOST", "host"); v != "" {
		s.host = v
	}
	if v := text("API_SERVER_PORT", "port"); v != "" {
		port, err := strconv.Atoi(v)
		if err != nil || port < 0 || port > 65535 {
			return s, fmt.Errorf("API_SERVER_PORT: %q is no port; expected a number up to 65535", v)
		}
		s.port = port
	}
	if v := text("", "max_concurrent_runs"); v != "" {
		most, err := strconv.Atoi(v)
		if err != nil || most < 0 {
			return s, fmt.Errorf("api_server.max_concurrent_runs: %q is no number; expected how many turns may run at a time, 0 for any number", v)
		}
		s.most = most
	}
	s.enabled = truth(text("API_SERVER_ENABLED", "enabled"))
	s.DirectModels = truth(text("", "direct_model_requests"))
	if b.view.Has("display", "show_reasoning") {
		on, err := b.view.Bool("display", "show_reasoning")
		if err != nil {
			return s, err
		}
		s.Reasoning = on
	}
	s.CORSOrigins = origins(text("API_SERVER_CORS_ORIGINS", ""), values["cors_origins"])
	s.Aliases = aliases(values["model_routes"])
	return s, nil
}

// keyFault says why an API must not start with its key: whoever has none, or guesses it, could
// run commands here.
func (s apiSettings) keyFault() error {
	switch {
	case s.Key.Empty():
		return errors.New("API_SERVER_KEY is not set; put API_SERVER_KEY=… into .env: whoever has no key could run commands here")
	case secret.Placeholder(s.Key.Reveal()):
		return errors.New("API_SERVER_KEY is a placeholder, no key; put a random one into .env, such as openssl rand -hex 24 prints")
	}
	return nil
}

// origins are those of the variable, a list with commas, or else of the config.
func origins(variable string, configured any) (out []string) {
	for origin := range strings.SplitSeq(variable, ",") {
		if origin = strings.TrimSpace(origin); origin != "" {
			out = append(out, origin)
		}
	}
	if list, ok := configured.([]any); ok && len(out) == 0 {
		for _, o := range list {
			out = append(out, fmt.Sprint(o))
		}
	}
	return out
}

// aliases reads model_routes: what a name stands for, a model or a model of a provider.
func aliases(configured any) map[string]apiserver.Alias {
	m, ok := configured.(map[string]any)
	if !ok {
		return nil
	}
	out := map[string]apiserver.Alias{}
	for name, v := range m {
		switch v := v.(type) {
		case string:
			out[name] = apiserver.Alias{Model: v}
		case map[string]any:
			a := apiserver.Alias{}
			a.Model, _ = v["model"].(string)
			a.Provider, _ = v["provider"].(string)
			out[name] = a
		}
	}
	return out
}

// truth reads a switch as people write it.
func truth(s string) bool {
	switch strings.ToLower(s) {
	case "1", "true", "yes", "on":
		return true
	}
	return false
}

// apiHost is the gateway as the API server sees it.
type apiHost struct{ s *server }

// Profile implements [apiserver.Host].
func (h apiHost) Profile(_ context.Context, name string) (apiserver.Profile, error) {
	t, err := h.s.rt.Tenant(name)
	if errors.Is(err, home.ErrNoProfile) {
		return nil, apiserver.ErrNoProfile
	}
	if err != nil {
		return nil, err
	}
	return apiProfile{t, h.s}, nil
}

// apiProfile is a profile as the API server sees it.
type apiProfile struct {
	t *Tenant
	s *server
}

// Name implements [apiserver.Profile].
func (p apiProfile) Name() string { return p.t.Key() }

// Settings implements [apiserver.Profile].
func (p apiProfile) Settings(ctx context.Context) (apiserver.Settings, error) {
	_, b, err := p.t.bind(ctx)
	if err != nil {
		return apiserver.Settings{}, err
	}
	s, err := p.t.apiSettings(b)
	return s.Settings, err
}

// Sessions implements [apiserver.Profile].
func (p apiProfile) Sessions(ctx context.Context) (*session.Store, error) { return p.t.Sessions(ctx) }

// Forget implements [apiserver.Profile].
func (p apiProfile) Forget(ctx context.Context, session string) {
	p.t.rt.grants.Forget(p.t.home.Dir, session)
	p.t.forget(ctx, session)
}

// Ask implements [apiserver.Profile].
func (p apiProfile) Ask(ctx context.Context, a gateway.Ask) (*gateway.Turn, error) {
	a.Source = apiSource
	turn, err := p.t.Ask(ctx, a)
	if re, ok := errors.AsType[*RouteError](err); ok {
		return nil, &apiserver.RequestError{Param: "model", Code: "invalid_model", Message: re.Error()}
	}
	return turn, err
}

// Turn implements [apiserver.Profile].
func (p apiProfile) Turn(id string) (*gateway.Turn, bool) { return p.t.Turn(id) }

// Skills implements [apiserver.Profile].
func (p apiProfile) Skills(context.Context) ([]apiserver.Skill, error) {
	var out []apiserver.Skill
	for _, s := range (&tool.Skills{Home: p.t.home.Dir}).List() {
		out = append(out, apiserver.Skill{Name: s.Name, Description: s.Description, Category: s.Category})
	}
	return out, nil
}

// Toolsets implements [apiserver.Profile].
func (p apiProfile) Toolsets(ctx context.Context) ([]apiserver.Toolset, error) {
	ctx, b, err := p.t.bind(ctx)
	if err != nil {
		return nil, err
	}
	w := &work{t: p.t, b: b, turn: &gateway.Turn{Ask: gateway.Ask{Source: apiSource}}}
	set, err := w.tools(ctx)
	if err != nil {
		return nil, err
	}
	by := map[string]int{}
	var out []apiserver.Toolset
	for _, t := range set.Tools() {
		i, ok := by[t.Toolset]
		if !ok {
			i = len(out)
			by[t.Toolset] = i
			out = append(out, apiserver.Toolset{Name: t.Toolset, Enabled: true})
		}
		out[i].Tools = append(out[i].Tools, t.Name)
	}
	return out, nil
}

// Health implements [apiserver.Profile].
func (p apiProfile) Health(ctx context.Context) apiserver.Health {
	h := apiserver.Health{State: string(p.s.state.Status().Phase)}
	add := func(name, status, detail string, counts map[string]int) {
		h.Checks = append(h.Checks, apiserver.Check{Name: name, Status: status, Detail: detail, Counts: counts})
	}
	_, b, err := p.t.bind(ctx)
	if err != nil {
		add("config", apiserver.Failed, err.Error(), nil)
	} else {
		add("config", apiserver.OK, "", nil)
		if rs, err := routes(b.view, b.lookup, gateway.RouteAsk{}); err != nil {
			add("model", apiserver.Failed, err.Error(), nil)
		} else if rs[0].APIMode == model.RehearsalMode {
			add("model", apiserver.Degraded, "no provider is configured: the rehearsal model answers", nil)
		} else {
			add("model", apiserver.OK, "", map[string]int{"routes": len(rs)})
		}
	}
	switch sh, open, err := p.t.StoreHealth(); {
	case err != nil:
		add("state_db", apiserver.Failed, err.Error(), nil)
	case !open:
		add("state_db", apiserver.OK, "", nil) // opened by the first turn
	case sh.State == session.Sound:
		add("state_db", apiserver.OK, "", nil)
	case sh.State == session.Degraded:
		add("state_db", apiserver.Degraded, strings.Join(sh.Notices, "; "), nil)
	default:
		add("state_db", apiserver.Failed, sh.Reason, nil)
	}
	switch free, err := home.FreeSpace(p.t.home.Dir); {
	case err != nil:
		add("disk", apiserver.Degraded, "free space is unknown", nil)
	case free < 100<<20: // as the doctor sees it
		add("disk", apiserver.Degraded, "less than 100 MB are free", map[string]int{"free_mb": int(free >> 20)})
	default:
		add("disk", apiserver.OK, "", nil)
	}
	st := p.s.state.Status()
	counts, status := map[string]int{}, apiserver.OK
	for _, platform := range st.Platforms {
		counts[platform.State]++
		if platform.State == "failed" {
			status = apiserver.Degraded
		}
	}
	add("platforms", status, "", counts)
	add("runs", apiserver.OK, "", map[string]int{"active": len(p.s.rt.Turns.Running(p.t.Key()))})
	mcpCounts := map[string]int{}
	for _, m := range p.t.MCP() {
		mcpCounts[string(m.State)]++
	}
	add("mcp", apiserver.OK, "", mcpCounts)
	if p.t.key == p.t.rt.env.host.LaunchKey() { // of the whole process: no other profile's business
		add("process", apiserver.OK, "", map[string]int{"goroutines": runtime.NumGoroutine()})
	}
	return h
}
