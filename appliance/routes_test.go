// SPDX-License-Identifier: MIT

package appliance

import (
	"errors"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
)

// TestRoutes reads which models a home uses, from its real files.
func TestRoutes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, config, env string
		ask               gateway.RouteAsk
		want              string // "provider model url mode key" of each route
	}{
		{name: "nothing", want: "rehearsal rehearsal  rehearsal "},
		{name: "an empty key is none", env: "OPENROUTER_API_KEY=\n", want: "rehearsal rehearsal  rehearsal "},
		{name: "auto by key", config: "model:\n  default: m\n", env: "DEEPSEEK_API_KEY=k\n", want: "deepseek m https://api.deepseek.com/v1  k"},
		{
			name: "auto takes the first in order", config: "model:\n  provider: auto\n  default: m\n", env: "GROQ_API_KEY=g\nANTHROPIC_TOKEN=a\nOPENAI_API_KEY=o\n",
			want: "anthropic m  anthropic_messages a",
		},
		{name: "an address alone is a server of one's own", config: "model:\n  default: m\n  base_url: http://h/v1\n", want: "custom m http://h/v1  "},
		{name: "custom by name", config: "model:\n  provider: custom\n  default: m\n  base_url: http://h/v1\n  api_key: k\n", want: "custom m http://h/v1  k"},
		{name: "key in the model section", config: "model:\n  provider: openai\n  default: m\n  api_key: ${MY_KEY}\n", env: "MY_KEY=mine\n", want: "openai m https://api.openai.com/v1  mine"},
		{name: "old name of the model", config: "model:\n  provider: ollama\n  model: m\n", want: "ollama m http://127.0.0.1:11434/v1  "},
		{
			name:   "own provider",
			config: "model:\n  provider: mine\nproviders:\n  mine:\n    base_url: http://m/v1\n    key_env: MINE\n    api_mode: anthropic_messages\n    model: own\n",
			env:    "MINE=x\nOPENAI_API_KEY=no\n", want: "mine own http://m/v1 anthropic_messages x",
		},
		{name: "a key beats key_env", config: "model:\n  provider: mine\n  default: m\nproviders:\n  mine:\n    base_url: http://m/v1\n    key_env: MINE\n    api_key: given\n", env: "MINE=x\n", want: "mine m http://m/v1  given"},
		{
			name:   "fallbacks",
			config: "model:\n  provider: openai\n  default: m\nfallback_providers:\n- provider: custom\n  model: f\n  base_url: http://f/v1\n  api_key: ${FALL}\n- base_url: http://g/v1\n  model: g\n- provider: groq\n  model: q\n",
			env:    "OPENAI_API_KEY=o\nFALL=fk\nGROQ_API_KEY=gk\n",
			want:   "openai m https://api.openai.com/v1  o|custom f http://f/v1  fk|custom g http://g/v1  o|groq q https://api.groq.com/openai/v1  gk",
		},
		{name: "a request names a model", config: "model:\n  provider: openai\n  default: m\n", env: "OPENAI_API_KEY=o\n", ask: gateway.RouteAsk{Model: "n"}, want: "openai n https://api.openai.com/v1  o"},
		{
			name: "a request names a provider: the key and address of the other stay behind", config: "model:\n  provider: custom\n  default: m\n  base_url: http://h/v1\n  api_key: k\n",
			env: "GROQ_API_KEY=g\n", ask: gateway.RouteAsk{Model: "n", Provider: "groq"}, want: "groq n https://api.groq.com/openai/v1  g",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rs, err := routesOf(t, c.config, c.env, c.ask)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(rs, "|"); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func routesOf(t *testing.T, config, env string, ask gateway.RouteAsk) ([]string, error) {
	t.Helper()
	e, launch, _ := world(t, map[string]string{"home/config.yaml": "_config_version: 50\n" + config, "home/.env": env})
	_, b, err := newTenant(&Runtime{env: e}, launch, e.host.LaunchKey()).bind(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rs, err := routes(b.view, b.lookup, ask)
	var out []string
	for _, r := range rs {
		out = append(out, strings.Join([]string{r.Provider, r.Model, r.BaseURL, string(r.APIMode), r.Key.Reveal()}, " "))
	}
	return out, err
}

// TestRouteErrors: what is missing is named, and what to do about it.
func TestRouteErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, config, env, key, fix string }{
		{"no key", "model:\n  provider: openai\n  default: m\n", "", "model.provider", "put OPENAI_API_KEY=… into .env"},
		{"no key behind key_env", "model:\n  provider: mine\n  default: m\nproviders:\n  mine:\n    base_url: http://m/v1\n    key_env: MINE\n", "", "model.provider", "put MINE=… into .env"},
		{"no model", "model:\n  provider: openai\n", "OPENAI_API_KEY=k\n", "model.default", "config set model.default"},
		{"no address", "model:\n  provider: custom\n  default: m\n", "", "model.base_url", "config set model.base_url"},
		{"unknown provider", "model:\n  provider: nobody\n  default: m\n", "", "model.provider", "providers.nobody"},
		{"unknown wire", "model:\n  provider: mine\n  default: m\nproviders:\n  mine:\n    base_url: http://m/v1\n    api_mode: codex_responses\n", "", "providers.mine.api_mode", "use chat_completions"},
		{"fallback without a key", "model:\n  provider: openai\n  default: m\nfallback_providers: [groq]\nproviders:\n  groq:\n    model: q\n    key_env: GROQ_API_KEY\n", "OPENAI_API_KEY=k\n", "model.provider", "put GROQ_API_KEY=… into .env"},
		{"fallback of another kind", "model:\n  provider: openai\n  default: m\nfallback_providers: [3]\n", "OPENAI_API_KEY=k\n", "fallback_providers", "write provider and model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := routesOf(t, c.config, c.env, gateway.RouteAsk{})
			var route *RouteError
			if !errors.As(err, &route) || route.Key != c.key || !strings.Contains(err.Error(), c.fix) {
				t.Errorf("got %v, want %s and %q", err, c.key, c.fix)
			}
		})
	}
}
