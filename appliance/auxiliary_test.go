// SPDX-License-Identifier: MIT

package appliance

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// bare is a turn of a profile with a config and an .env.
func bare(t *testing.T, config, env string) *work {
	t.Helper()
	e, launch, _ := world(t, map[string]string{"home/config.yaml": "_config_version: 50\n" + config, "home/.env": env})
	tenant := newTenant(&Runtime{env: e}, launch, e.host.LaunchKey())
	_, b, err := tenant.bind(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := &work{t: tenant, b: b, turn: &gateway.Turn{}, session: "s"}
	if w.routes, err = routes(b.view, b.lookup, gateway.RouteAsk{}); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestAuxiliary: which model does a side task.
func TestAuxiliary(t *testing.T) {
	t.Parallel()
	const main = "model: {provider: openrouter, default: big}\n"
	const keys = "OPENROUTER_API_KEY=key-or\nGROQ_API_KEY=key-groq\nOPENAI_API_KEY=key-oa\n"
	for section, want := range map[string]string{
		"":                                      "openrouter/big key-or",
		"provider: auto, model: ''":             "openrouter/big key-or",
		"provider: main":                        "openrouter/big key-or",
		"model: small":                          "openrouter/small key-or",
		"provider: auto, model: small":          "openrouter/small key-or",
		"provider: openrouter":                  "openrouter/big key-or",
		"provider: groq, model: small":          "groq/small key-groq",
		"base_url: 'http://x/v1', model: small": "custom/small key-oa http://x/v1",
		"base_url: 'http://x/v1', model: small, api_key: '${GROQ_API_KEY}'":   "custom/small key-groq http://x/v1",
		"provider: groq, model: small, api_key: own, base_url: 'http://x/v1'": "groq/small own http://x/v1",
		"provider: groq":                "auxiliary.approval: model.default: no model is named",
		"provider: anthropic, model: m": "auxiliary.approval: model.provider: no key for anthropic is set",
		"provider: nonesuch, model: m":  "auxiliary.approval: model.provider: no provider",
		"provider: [a]":                 "auxiliary.approval",
		"timeout: soon":                 "auxiliary.approval",
	} {
		w := bare(t, main+"auxiliary: {approval: {"+section+"}}\n", keys)
		a, err := w.auxiliary(auxApproval)
		got := strings.TrimSuffix(a.route.Provider+"/"+a.route.Model+" "+a.route.Key.Reveal()+" "+a.route.BaseURL, " https://openrouter.ai/api/v1")
		got = strings.TrimSuffix(got, " https://api.groq.com/openai/v1")
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", section, got, want)
		}
		if err == nil && a.timeout != auxTime {
			t.Errorf("%s: %s", section, a.timeout)
		}
	}
	for text, want := range map[string]time.Duration{"5": 5 * time.Second, "0": auxTime, "0.5": time.Second / 2, "1000000000": model.DefaultTimeout} {
		if a, err := bare(t, main+"auxiliary: {approval: {timeout: "+text+"}}\n", keys).auxiliary(auxApproval); err != nil || a.timeout != want {
			t.Errorf("timeout %s: %s, %v", text, a.timeout, err)
		}
	}
	if _, err := bare(t, "auxiliary: {approval: {model: small}}\n", "").auxiliary(auxApproval); !errors.Is(err, errNoModel) {
		t.Errorf("the rehearsal reviews: %v", err)
	}
	w := bare(t, main+"auxiliary: {compression: {model: small, timeout: 7}}\n", keys)
	if r := w.compressor(t.Context()); r.Model != "small" || r.Timeout != 7*time.Second {
		t.Errorf("compression: %s %s", r.Model, r.Timeout)
	}
	if r := bare(t, main+"auxiliary: {compression: {}}\n", keys).compressor(t.Context()); r.Model != "big" || r.Timeout != 0 {
		t.Errorf("compression: %s %s", r.Model, r.Timeout)
	}
}
