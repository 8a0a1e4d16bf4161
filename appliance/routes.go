// SPDX-License-Identifier: MIT

package appliance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
)

// provider is where a kind of model is found if the config says nothing else.
type provider struct {
	keys []string // variables that may hold the key, the first one that does counts
	url  string   // "" = the official endpoint of the API mode
	mode model.APIMode
	free bool // needs no key: a server of one's own
}

// providers are those that need no base_url, by their names in config.yaml.
func providers() map[string]provider {
	return map[string]provider{
		"openrouter": {keys: []string{"OPENROUTER_API_KEY"}, url: "https://openrouter.ai/api/v1"},
		"anthropic":  {keys: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_TOKEN"}, mode: model.AnthropicMessages},
		"openai":     {keys: []string{"OPENAI_API_KEY"}, url: "https://api.openai.com/v1"},
		"deepseek":   {keys: []string{"DEEPSEEK_API_KEY"}, url: "https://api.deepseek.com/v1"},
		"groq":       {keys: []string{"GROQ_API_KEY"}, url: "https://api.groq.com/openai/v1"},
		"mistral":    {keys: []string{"MISTRAL_API_KEY"}, url: "https://api.mistral.ai/v1"},
		"xai":        {keys: []string{"XAI_API_KEY"}, url: "https://api.x.ai/v1"},
		"together":   {keys: []string{"TOGETHER_API_KEY"}, url: "https://api.together.xyz/v1"},
		"gemini":     {keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, url: "https://generativelanguage.googleapis.com/v1beta/openai"},
		"ollama":     {keys: []string{"OLLAMA_API_KEY"}, url: "http://127.0.0.1:11434/v1", free: true},
		"vllm":       {url: "http://127.0.0.1:8000/v1", free: true},
		"llamacpp":   {url: "http://127.0.0.1:8080/v1", free: true},
		"lmstudio":   {keys: []string{"LM_API_KEY"}, url: "http://127.0.0.1:1234/v1", free: true},
		"custom":     {keys: []string{"OPENAI_API_KEY"}, free: true},
	}
}

// autoOrder is the order in which a key decides the provider where the config says auto.
func autoOrder() []string {
	return []string{"openrouter", "anthropic", "openai", "gemini", "deepseek", "groq", "mistral", "xai", "together"}
}

// RouteError says why a profile's model cannot be reached as it is configured.
type RouteError struct{ Key, Problem, Fix string }

func (e *RouteError) Error() string { return e.Key + ": " + e.Problem + "; " + e.Fix }

// routes are the models a turn may use, best first. With no provider configured it is the
// rehearsal model.
func routes(v config.View, lookup config.Lookup, want gateway.RouteAsk) ([]model.Route, error) {
	r := router{v: v, lookup: lookup}
	main, err := r.main(want)
	if err != nil {
		return nil, err
	}
	out := []model.Route{main}
	if main.APIMode == model.RehearsalMode {
		return out, nil
	}
	more, err := r.fallbacks("fallback_providers")
	return append(out, more...), err
}

type router struct {
	v      config.View
	lookup config.Lookup
}

func (r router) text(path ...string) (string, error) {
	s, err := r.v.String(path...)
	return strings.TrimSpace(s), err
}

// main is the route that the request, or else the config, names.
func (r router) main(want gateway.RouteAsk) (model.Route, error) {
	name, err := r.text("model", "provider")
	if err != nil {
		return model.Route{}, err
	}
	id, err := r.text("model", "default")
	if err == nil && id == "" {
		id, err = r.text("model", "model")
	}
	if err != nil {
		return model.Route{}, err
	}
	base, err := r.text("model", "base_url")
	if err != nil {
		return model.Route{}, err
	}
	if want.Model != "" {
		id = want.Model
	}
	if want.Provider != "" {
		name, base = want.Provider, ""
	}
	if name == "" || name == "auto" {
		if name = r.auto(base); name == "" {
			return model.Route{Provider: "rehearsal", Model: "rehearsal", APIMode: model.RehearsalMode}, nil
		}
	}
	o := override{base: base}
	if want.Provider == "" {
		if o.key, err = r.text("model", "api_key"); err != nil {
			return model.Route{}, err
		}
	}
	route, err := r.named(name, id, o)
	if err != nil {
		return route, err
	}
	return route, r.tune(&route)
}

// auto chooses a provider by the key that is there; "" = none.
func (r router) auto(base string) string {
	if base != "" {
		return "custom"
	}
	for _, name := range autoOrder() {
		if r.key(providers()[name].keys) != "" {
			return name
		}
	}
	return ""
}

func (r router) key(names []string) string {
	for _, name := range names {
		if v, ok := r.lookup(name); ok && strings.TrimSpace(v) != "" {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// override is what stands beside a provider's name; it wins over the provider's section.
type override struct{ base, key, keyEnv, mode string }

// named is the route of a provider: one of providers.<name> in the config, over a built-in.
func (r router) named(name, id string, o override) (model.Route, error) {
	built, known := providers()[name]
	own, err := r.v.Map("providers", name)
	if err != nil {
		return model.Route{}, err
	}
	if !known && own == nil {
		return model.Route{}, &RouteError{
			"model.provider", fmt.Sprintf("no provider %q is known", name),
			"use one of " + strings.Join(slices.Sorted(maps.Keys(providers())), ", ") + ", or describe it in providers." + name,
		}
	}
	section := map[string]string{}
	for _, key := range []string{"base_url", "api_mode", "api_key", "key_env", "model"} {
		if section[key], err = r.text("providers", name, key); err != nil {
			return model.Route{}, err
		}
	}
	keys := built.keys
	if env := first(o.keyEnv, section["key_env"]); env != "" {
		keys = []string{env}
	}
	key := first(o.key, section["api_key"], r.key(keys))
	route := model.Route{
		Provider: name, Model: first(id, section["model"]), Key: secret.Wrap(key), BaseURL: first(o.base, section["base_url"], built.url),
		APIMode: model.APIMode(first(o.mode, section["api_mode"], string(built.mode))),
	}
	switch {
	case key != "" && known && !built.free && secret.Placeholder(key):
		return route, &RouteError{"model.provider", fmt.Sprintf("the key for %s is a placeholder", name), "put the real one into .env"}
	case route.Model == "":
		return route, &RouteError{"model.default", "no model is named", "run hermes-appliance config set model.default NAME"}
	case key == "" && len(keys) > 0 && !built.free && (own == nil || first(o.keyEnv, section["key_env"]) != ""):
		return route, &RouteError{"model.provider", fmt.Sprintf("no key for %s is set", name), "put " + keys[0] + "=… into .env"}
	case route.APIMode != "" && route.APIMode != model.ChatCompletions && route.APIMode != model.AnthropicMessages:
		return route, &RouteError{"providers." + name + ".api_mode", fmt.Sprintf("%q is not spoken here", route.APIMode), "use chat_completions or anthropic_messages"}
	case route.BaseURL == "" && route.APIMode != model.AnthropicMessages:
		return route, &RouteError{"model.base_url", "no address of the model's server is set", "run hermes-appliance config set model.base_url URL"}
	}
	return route, r.extras(&route, name)
}

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}

// extras reads what a provider's section says of every request.
func (r router) extras(route *model.Route, name string) error {
	headers, err := r.v.Map("providers", name, "extra_headers")
	if err != nil {
		return err
	}
	addHeaders(route, headers)
	body, err := r.v.Map("providers", name, "extra_body")
	if err != nil {
		return err
	}
	for k, x := range body {
		raw, err := json.Marshal(x)
		if err != nil {
			return err
		}
		if route.Extra == nil {
			route.Extra = map[string]json.RawMessage{}
		}
		route.Extra[k] = raw
	}
	for key, to := range map[string]*time.Duration{"request_timeout_seconds": &route.Timeout, "stale_timeout_seconds": &route.Stale} {
		d, err := r.v.Duration("providers", name, key)
		if err != nil {
			return err
		}
		if d > 0 {
			*to = d
		}
	}
	return nil
}

func addHeaders(route *model.Route, headers map[string]any) {
	for k, x := range headers {
		if route.Headers == nil {
			route.Headers = map[string]string{}
		}
		route.Headers[k] = fmt.Sprint(x)
	}
}

// tune reads what the model section says of the main route.
func (r router) tune(route *model.Route) error {
	for _, key := range []string{"default_headers", "extra_headers"} {
		headers, err := r.v.Map("model", key)
		if err != nil {
			return err
		}
		addHeaders(route, headers)
	}
	if r.v.Has("model", "context_length") {
		n, err := r.v.Int("model", "context_length")
		if err != nil {
			return err
		}
		route.Context = n
	}
	if r.v.Has("model", "streaming") {
		on, err := r.v.Bool("model", "streaming")
		if err != nil {
			return err
		}
		route.NoStream = !on
	}
	return nil
}

// fallbacks are the models of a list of them.
func (r router) fallbacks(path ...string) (out []model.Route, err error) {
	value, err := r.v.Value(path...)
	if err != nil {
		return nil, err
	}
	list, _ := value.([]any)
	for i, entry := range list {
		f, err := r.fallback(entry)
		if err != nil {
			return nil, fmt.Errorf("%s, entry %d: %w", strings.Join(path, "."), i+1, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// fallback is one entry of fallback_providers: a provider's name, or a section.
func (r router) fallback(entry any) (model.Route, error) {
	switch e := entry.(type) {
	case string:
		return r.named(e, "", override{})
	case map[string]any:
		text := func(key string) string {
			s, _ := e[key].(string)
			return strings.TrimSpace(s)
		}
		o := override{base: text("base_url"), key: text("api_key"), keyEnv: text("key_env"), mode: text("api_mode")}
		name := text("provider")
		if name == "" && o.base != "" {
			name = "custom"
		}
		return r.named(name, text("model"), o)
	}
	return model.Route{}, &RouteError{"fallback_providers", "an entry is neither a name nor a section", "write provider and model"}
}
