// SPDX-License-Identifier: MIT

package childenv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestTable keeps what the docs show.
func TestTable(t *testing.T) {
	t.Parallel()
	testkit.Golden(t, "testdata/table.md", []byte(load(t).Table()))
}

// edited returns policy.json with one edit on its tree.
func edited(t testing.TB, edit func(root map[string]any)) []byte {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(policyJSON, &root); err != nil {
		t.Fatal(err)
	}
	edit(root)
	data, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestPolicyIsStrict: what the file says and the code does not understand is an error.
func TestPolicyIsStrict(t *testing.T) {
	t.Parallel()
	sub := func(root map[string]any, path ...string) map[string]any {
		for _, p := range path {
			root = root[p].(map[string]any)
		}
		return root
	}
	groups := func(root map[string]any, tier string) map[string]any {
		return root[tier].([]any)[0].(map[string]any)
	}
	add := func(m map[string]any, key string, values ...any) { m[key] = append(m[key].([]any), values...) }
	tests := []struct {
		name, want string
		edit       func(root map[string]any)
	}{
		{"unknown field", "unknown field", func(r map[string]any) { r["extra"] = 1 }},
		{"unknown field of a kind", "unknown field", func(r map[string]any) { sub(r, "kinds", "mcp")["allowed"] = true }},
		{"wrong version", "version 2", func(r map[string]any) { r["version"] = 2 }},
		{"unknown base", "unknown base", func(r map[string]any) { sub(r, "kinds", "mcp")["base"] = "mpc" }},
		{"unknown tier 1 rule", "unknown tier rule", func(r map[string]any) { sub(r, "kinds", "mcp")["tier1"] = "ask" }},
		{"unknown tier 2 rule", "unknown tier rule", func(r map[string]any) { sub(r, "kinds", "mcp")["tier2"] = "" }},
		{"tier 1 without tier 2", "keeps tier 1", func(r map[string]any) { sub(r, "kinds", "mcp")["tier1"] = "keep" }},
		{"no about", "says nothing", func(r map[string]any) { sub(r, "kinds", "mcp")["about"] = "" }},
		{"passthrough of the whole base", "passthrough does nothing", func(r map[string]any) { sub(r, "kinds", "tool")["passthrough"] = true }},
		{"detached without a tree", "detached does nothing", func(r map[string]any) { sub(r, "kinds", "terminal-remote")["detached"] = true }},
		{"buzz on a list", "buzz does nothing", func(r map[string]any) { sub(r, "kinds", "mcp")["buzz"] = true }},
		{"two groups", "in the groups", func(r map[string]any) { add(groups(r, "tier1"), "names", "OPENAI_API_KEY") }},
		{"twice in one group", "in the groups", func(r map[string]any) { add(groups(r, "tier2"), "names", "OPENAI_API_KEY") }},
		{"group without reason", "lacks", func(r map[string]any) { groups(r, "tier1")["reason"] = "" }},
		{"group without names", "lacks", func(r map[string]any) { groups(r, "tier1")["names"] = []any{} }},
		{"lower case", "upper case", func(r map[string]any) { add(groups(r, "tier1"), "names", "my_token") }},
		{"empty prefix", "upper case", func(r map[string]any) { add(sub(r, "global"), "prefixes", "") }},
		{"empty marker", "upper case", func(r map[string]any) { sub(r, "kanban")["marker"] = "" }},
		{"equals sign", "upper case", func(r map[string]any) { add(sub(r, "allowlists", "mcp"), "names", "A=B") }},
		{"covered by a prefix", "covered", func(r map[string]any) { add(sub(r, "allowlists", "mcp"), "names", "XDG_DATA_HOME") }},
		{"covered prefix", "covered", func(r map[string]any) { add(sub(r, "allowlists", "code"), "prefixes", "TMPDIR") }},
		{"covered gate", "covered", func(r map[string]any) { add(sub(r, "gates"), "prefixes", "SLACK_X") }},
		{"covered by a shape", "covered", func(r map[string]any) { add(groups(r, "tier1"), "names", "AUXILIARY_X_API_KEY") }},
		{"covered global", "covered", func(r map[string]any) { add(sub(r, "global"), "names", "HERMES_KANBAN_DB") }},
		{"covered session", "covered", func(r map[string]any) { add(sub(r, "session"), "names", "HERMES_SESSION_ID") }},
		{"covered shell", "covered", func(r map[string]any) { add(sub(r, "shell"), "names", "HERMES_SESSION_ID") }},
		{"wrong type", "cannot unmarshal", func(r map[string]any) { r["python"] = "VIRTUAL_ENV" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := parsePolicy(edited(t, tt.edit))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
	if _, err := parsePolicy(append(bytes.Clone(policyJSON), "{}"...)); err == nil {
		t.Error("text behind the policy is accepted")
	}
	if _, err := parsePolicy([]byte("[")); err == nil {
		t.Error("half a file is accepted")
	}
}

// TestLists checks what the policy says about names and kinds, without a build.
func TestLists(t *testing.T) {
	t.Parallel()
	p := load(t)
	for _, check := range []func(*Policy) []string{checkKinds, checkTiers, checkGlobal, checkControl, checkDenied, checkTransient} {
		for _, line := range check(p) {
			t.Error(line)
		}
	}
}

// checkKinds: no kind but the host, and the verbatim copy for the launch profile, lets a
// tier 1 name through, whatever is declared (§2.6, hole a).
func checkKinds(p *Policy) (out []string) {
	names, kinds := p.Kinds()
	if !slices.Equal(names, slices.Sorted(slices.Values(oracleKinds))) {
		out = append(out, fmt.Sprintf("kinds are %v", names))
	}
	for _, n := range names {
		if kinds[n].Tier1 != strip && n != "host" {
			out = append(out, n+" keeps tier 1")
		}
		if kinds[n].Verbatim && n != "helper" {
			out = append(out, n+" is a verbatim copy")
		}
		if tier2 := kinds[n].Tier2; tier2 != strip && !slices.Contains([]string{"cli", "served", "host", "openviking"}, n) {
			out = append(out, n+" has tier 2 "+tier2)
		}
	}
	return out
}

func checkTiers(p *Policy) (out []string) {
	for class, want := range map[string]int{isTier1: 1, isDynamic: 1, isBuzz: 1, isTier2: 2, isPlain: 0} {
		for _, n := range namesOf(class) {
			if tier, rule := p.Tier(n); tier != want || (rule != "") != (want > 0) {
				out = append(out, fmt.Sprintf("Tier(%s) = %d, %q", n, tier, rule))
			}
		}
	}
	if tier, rule := p.Tier("COPILOT_ACP_BASE_URL"); tier != 2 || rule == "" { // a routing key, too
		out = append(out, fmt.Sprintf("Tier(COPILOT_ACP_BASE_URL) = %d, %q", tier, rule))
	}
	return out
}

// checkGlobal is §2.3.
func checkGlobal(p *Policy) (out []string) {
	extra := oracleWords(`VIRTUAL_ENV HERMES_KANBAN_ANYTHING HERMES_TELEGRAM_X TERMINAL_X http_proxy Path`)
	for _, n := range slices.Concat(oracleGlobal, oracleProxies, oraclePlace, oracleTerminalKeys, extra) {
		if !p.Global(n) || !p.Core(n) {
			out = append(out, n+" is not global")
		}
	}
	for _, n := range oracleWords(`API_SERVER_KEY OPENAI_API_KEY FOO PATHS HERMES_KANBAN`) {
		if p.Global(n) {
			out = append(out, n+" is global")
		}
	}
	return out
}

// checkControl is N6.
func checkControl(p *Policy) (out []string) {
	for name, want := range map[string]bool{"HERMES_PORTAL_BASE_URL": true, "hermes_portal_base_url": true, "OPENAI_BASE_URL": false, "FOO": false} {
		if p.Control(name) != want {
			out = append(out, name+" as a control name")
		}
	}
	return out
}

// checkDenied is the passthrough seal: GHSA-rhgp-j443-p4rf, report 16.
func checkDenied(p *Policy) (out []string) {
	b := &Profile{
		Declared: []string{"MYPLUG_TOKEN", "path"}, AdapterEnv: []string{"MYADAPTER_KEY", "MYADAPTER_COLOR"},
		BackendKeys: []string{"MYBACKEND_CRED"},
	}
	tests := []struct{ name, want string }{
		{"OPENAI_API_KEY", "T2-providers"},
		{"openai_api_key", "T2-providers"},
		{"ANTHROPIC_TOKEN", "T2-providers"},
		{"GH_TOKEN", "T1-github"},
		{"AUXILIARY_VISION_API_KEY", "T1-auxiliary"},
		{"GATEWAY_RELAY_SECRET", "T1-relay"},
		{"BUZZ_PRIVATE_KEY", "T1-buzz"},
		{"_HERMES_FORCE_FOO", "FORCE"},
		{"myplug_token", "M2"},
		{"MYADAPTER_KEY", "M9"},
		{"MYADAPTER_COLOR", ""},
		{"MYBACKEND_CRED", "T1-backend"},
		{"PATH", ""},
		{"SLACK_USER_TOKEN", ""},
		{"LOCAL_LLM_API_KEY", ""},
		{"GATEWAY_API_KEY", ""},
		{"CLAUDE_CODE_OAUTH_TOKEN", ""},
		{"AWS_SECRET_ACCESS_KEY", ""},
		{"", ""},
	}
	for _, tt := range tests {
		if got := p.Denied(tt.name, b); got != tt.want {
			out = append(out, fmt.Sprintf("Denied(%q) = %q, want %q", tt.name, got, tt.want))
		}
	}
	if got := p.Denied("MYPLUG_TOKEN", nil); got != "" {
		out = append(out, "without a profile Denied = "+got)
	}
	return out
}

// checkTransient is C5 and report 24: what a shell's saved environment must not hold.
func checkTransient(p *Policy) (out []string) {
	b := &Profile{Passthrough: []string{"my_pass"}}
	for _, n := range slices.Concat(oracleIdentity, namesOf(isSession), namesOf(isBuzz), namesOf(isForce), oracleWords(`
		MY_PASS HERMES_DELEGATED_CHILD_CONTEXT HERMES_RPC_TOKEN HERMES_KERNEL_DIR AI_AGENT HERMES_AGENT
		HERMES_BROWSER_CONTROL_X OPENAI_API_KEY`)) {
		if p.Transient(n, b) != "C5" {
			out = append(out, "a saved environment may hold "+n)
		}
	}
	for _, n := range oracleWords(`PATH EDITOR FOO HERMES_HOME`) {
		if got := p.Transient(n, b); got != "" {
			out = append(out, "a saved environment may not hold "+n+": "+got)
		}
	}
	if got := p.Transient("MY_PASS", nil); got != "" {
		out = append(out, "without a profile: "+got)
	}
	return out
}
