// SPDX-License-Identifier: MIT

package childenv

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// mutation is one change of policy.json.
type mutation struct {
	what string
	word string // the name it is about, "" if it is about no name
	data []byte
}

// explained says of mutations that no check notices why that is right.
var explained = map[string]string{
	"allowlists.code.names without HERMES_HOME": "set for every child anyway; the list only keeps its place in the order",
	"kinds.host.extra_secrets = true":           "it keeps both tiers, extras included",
	"kinds.host.buzz = true":                    "it keeps tier 1",
}

// TestMutations removes every entry of every list of the policy, flips every switch and
// changes every word that decides something, one at a time: the checks must notice.
func TestMutations(t *testing.T) {
	t.Parallel()
	checks := newChecks()
	if lines := checks.run(load(t), ""); lines != "" {
		t.Fatalf("the policy as it is: %s", lines)
	}
	var killed, refused int
	all := mutations(t)
	for what := range explained {
		if !slices.ContainsFunc(all, func(m mutation) bool { return m.what == what }) {
			t.Errorf("%s is explained and no mutation", what)
		}
	}
	for _, m := range all {
		p, err := parsePolicy(m.data)
		if err != nil {
			refused++
			continue
		}
		if checks.run(p, m.word) != "" {
			killed++
			if why, ok := explained[m.what]; ok {
				t.Errorf("%s: explained (%s), but noticed", m.what, why)
			}
			continue
		}
		if _, ok := explained[m.what]; !ok {
			t.Errorf("survived: %s", m.what)
		}
	}
	t.Logf("%d noticed, %d refused by the parser, %d explained", killed, refused, len(explained))
}

// documentation are the keys whose words decide nothing.
var documentation = []string{"about", "rule", "reason", "gaps", "version"}

func mutations(t *testing.T) []mutation {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(policyJSON, &root); err != nil {
		t.Fatal(err)
	}
	var out []mutation
	add := func(what, word string) {
		data, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, mutation{what, word, data})
	}
	mutate(root, "", add)
	kinds := root["kinds"].(map[string]any)
	for name, k := range kinds {
		k := k.(map[string]any)
		for field := range reflect.TypeFor[KindPolicy]().Fields() {
			tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if field.Type.Kind() != reflect.Bool || k[tag] == true {
				continue
			}
			k[tag] = true
			add(fmt.Sprintf("kinds.%s.%s = true", name, tag), "")
			delete(k, tag)
		}
		for tag, values := range map[string][]string{"tier1": {strip, keep}, "tier2": {strip, keep, ask}, "base": {baseOwn, baseForward, "mcp", "code"}} {
			was := k[tag]
			for _, v := range values {
				if v != was {
					k[tag] = v
					add(fmt.Sprintf("kinds.%s.%s = %s", name, tag, v), "")
				}
			}
			k[tag] = was
		}
	}
	slices.SortFunc(out, func(a, b mutation) int { return strings.Compare(a.what, b.what) })
	return out
}

// mutate walks the tree; add takes a picture of it while one thing is changed.
func mutate(node any, path string, add func(what, word string)) {
	m, ok := node.(map[string]any)
	if !ok {
		return
	}
	for key, v := range m {
		at := strings.TrimPrefix(path+"."+key, ".")
		if slices.Contains(documentation, key) {
			continue
		}
		switch v := v.(type) {
		case []any:
			for i, x := range v {
				m[key] = slices.Delete(slices.Clone(v), i, i+1)
				if s, ok := x.(string); ok {
					add(at+" without "+s, s)
				} else {
					add(fmt.Sprintf("%s without %v", at, x.(map[string]any)["rule"]), "")
				}
				m[key] = v
				mutate(x, fmt.Sprintf("%s[%d]", at, i), add)
			}
		case map[string]any:
			if path != "" || key == "defaults" {
				delete(m, key)
				add("without "+at, "")
				m[key] = v
			}
			mutate(v, at, add)
		case bool:
			m[key] = !v
			add(at+" flipped", "")
			m[key] = v
		case string:
			if key == "base" || strings.HasPrefix(key, "tier") {
				continue // every other value is tried
			}
			m[key] = "ZZZ" + v
			add(at+" = "+m[key].(string), v)
			m[key] = v
		}
	}
}

// checks are the oracle and the scenes, made once.
type checks struct {
	scenes []scene
	worlds []builtWorld
}

type builtWorld struct {
	world
	target string
}

func newChecks() *checks {
	c := &checks{scenes: scenes()}
	for _, o := range []struct{ owner, origin string }{
		{"", fromExport},
		{"", fromManaged},
		{"A", fromDotenv},
		{"B", fromDotenv},
		{"B", fromApplied},
		{"A", fromParent},
		{"C", fromParent},
		{"A", fromRemoved},
		{"C", fromLost},
		{"B", fromBridge},
		{"B", fromOpEnv},
	} {
		for _, asked := range []bool{false, true} {
			w := oneOrigin(o.owner, o.origin)
			w.asked = asked
			c.worlds = append(c.worlds, builtWorld{w, "B"}, builtWorld{w, "A"})
		}
	}
	return c
}

// run returns the first thing that is wrong with a policy. Names like word go first.
func (c *checks) run(p *Policy, word string) string {
	for _, check := range []func(*Policy) []string{checkKinds, checkTiers, checkGlobal, checkControl, checkDenied, checkTransient} {
		if lines := check(p); len(lines) > 0 {
			return lines[0]
		}
	}
	for _, s := range c.scenes {
		if lines := s.check(p); len(lines) > 0 {
			return lines[0]
		}
	}
	if word != "" {
		if line := c.oracle(p, func(pl plant) bool { return strings.Contains(strings.ToUpper(pl.name), word) }); line != "" {
			return line
		}
	}
	return c.oracle(p, func(plant) bool { return true })
}

func (c *checks) oracle(p *Policy, which func(plant) bool) string {
	for _, bw := range c.worlds {
		w := bw.world
		w.plants = slices.DeleteFunc(slices.Clone(w.plants), func(pl plant) bool { return !which(pl) })
		if len(w.plants) == 0 {
			continue
		}
		s := w.snapshot(bw.target)
		for _, kind := range oracleKinds {
			env, err := p.Build(kind, s)
			if err != nil {
				return err.Error()
			}
			if lines := w.wrong(kind, bw.target, env); len(lines) > 0 {
				return lines[0]
			}
		}
	}
	return ""
}
