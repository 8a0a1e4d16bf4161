// SPDX-License-Identifier: MIT

package apiserver

import (
	"strings"
	"testing"
)

// TestSandboxChoice: the question of a profile is seen and answered with its own key only, once,
// and only by switch or keep.
func TestSandboxChoice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("x"))
	choice := func() *SandboxChoice {
		return &SandboxChoice{Current: "old:1", Target: "new:2", Containers: []SandboxContainer{{Name: "c", Image: "old:1", State: "running"}}}
	}
	for name, p := range map[string]*prof{"": w.launch(), "alice": w.add("alice", "key-of-alice", says("x"))} {
		base, key, other := "", testKey, "key-of-alice"
		if name != "" {
			base, key, other = "/p/"+name, other, key
		}
		p.box = Sandbox{Backend: "docker", Image: "new:2", Choice: choice()}
		do := func(key, method string, body any) reply {
			return w.do(method, base+"/api/sandbox", body, "Authorization", "Bearer "+key)
		}
		for _, wrong := range []string{other, ""} {
			if r := do(wrong, "POST", map[string]any{"answer": "switch"}); r.status != 401 || p.box.Choice == nil {
				t.Errorf("%q: the key %q: %d, choice %v", name, wrong, r.status, p.box.Choice)
			}
			if r := do(wrong, "GET", nil); r.status != 401 || strings.Contains(r.body, "old:1") {
				t.Errorf("%q: the key %q: %d %s", name, wrong, r.status, r.body)
			}
		}
		got := do(key, "GET", nil).json(t)
		if c, _ := got["choice"].(map[string]any); c["current"] != "old:1" || c["target"] != "new:2" || len(c["containers"].([]any)) != 1 || got["pin"] != nil {
			t.Errorf("%q: %v", name, got)
		}
		for _, bad := range []map[string]any{{}, {"answer": "yes"}, {"answer": ""}, {"answer": true}} {
			if r := do(key, "POST", bad); r.status != 400 || p.box.Choice == nil {
				t.Errorf("%q: %v: %d", name, bad, r.status)
			}
		}
		if r := do(key, "POST", map[string]any{"answer": "keep"}); r.status != 200 || r.json(t)["image"] != "old:1" {
			t.Errorf("%q: %d %s", name, r.status, r.body)
		}
		if r := do(key, "POST", map[string]any{"answer": "switch"}); r.status != 409 || r.code(t) != "no_choice" {
			t.Errorf("%q: a second answer: %d %s", name, r.status, r.body)
		}
		if got := do(key, "GET", nil).json(t); got["choice"] != nil || got["pin"] != "config.yaml" {
			t.Errorf("%q: %v", name, got)
		}
		p.unable = &SandboxError{Code: "engine_unreachable", Message: "no engine"}
		if r := do(key, "GET", nil); r.status != 503 || r.code(t) != "engine_unreachable" {
			t.Errorf("%q: no engine: %d %s", name, r.status, r.body)
		}
	}
}
