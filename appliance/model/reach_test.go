// SPDX-License-Identifier: MIT

package model

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
)

func TestReach(t *testing.T) {
	t.Parallel()
	const key = "sk-reach-canary"
	var got *http.Request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		if strings.HasSuffix(r.URL.Path, "/gone/models") {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	c := New(nil)
	t.Cleanup(c.Close)
	for _, x := range []struct {
		name   string
		route  Route
		path   string
		header string
		status int
	}{
		{"chat completions", Route{BaseURL: s.URL + "/v1", Key: secret.Wrap(key)}, "/v1/models", "Authorization", 200},
		{"a slash at the end", Route{BaseURL: s.URL + "/api/v1/", Key: secret.Wrap(key)}, "/api/v1/models", "Authorization", 200},
		{"anthropic", Route{BaseURL: s.URL, Key: secret.Wrap(key), APIMode: AnthropicMessages}, "/v1/models", "X-Api-Key", 200},
		{"no list of models", Route{BaseURL: s.URL + "/gone", Key: secret.Wrap(key)}, "/gone/models", "Authorization", 404},
	} {
		r, err := c.Reach(t.Context(), x.route)
		if err != nil || r.Status != x.status || r.Date.IsZero() {
			t.Errorf("%s: %+v, %v", x.name, r, err)
			continue
		}
		if got.URL.Path != x.path || !strings.HasSuffix(got.Header.Get(x.header), key) || got.Method != http.MethodGet {
			t.Errorf("%s: %s %s %v", x.name, got.Method, got.URL.Path, got.Header)
		}
	}
	if r, err := c.Reach(t.Context(), Route{APIMode: RehearsalMode}); err != nil || r.Status != 200 {
		t.Errorf("rehearsal: %+v, %v", r, err)
	}
	_, err := c.Reach(t.Context(), Route{BaseURL: "http://127.0.0.1:1/" + key, Key: secret.Wrap(key)})
	if err == nil || strings.Contains(err.Error(), key) {
		t.Errorf("nobody there: %v", err)
	}
}
