// SPDX-License-Identifier: MIT

package childenv

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
)

// scene is one situation and what comes of it.
type scene struct {
	name   string
	kinds  string // one or several; "own" = every kind with the whole base, "*" = all
	target string // "A" is the launch profile; "" = "B"
	edit   func(s *Snapshot)
	want   map[string]string // exactly these values
	absent string            // names that are not there
	refuse string            // the rule of the refusal
}

// ownKinds start from the inherited environment and the profile's values.
var ownKinds = slices.DeleteFunc(slices.Clone(oracleKinds), func(k string) bool {
	return k == "terminal-remote" || k == "execute-code" || k == "mcp" || k == "mcp-task"
})

func env(kv ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return m
}

func own(name, value string) Var { return Var{Name: name, Value: value, Origin: Dotenv} }

// apply makes a value one that a source of the target applied.
func apply(s *Snapshot, name, value string) {
	s.Target.Vars = append(s.Target.Vars, Var{Name: name, Value: value, Origin: Source})
	s.Target.Applied = append(s.Target.Applied, name)
}

func inherit(s *Snapshot, kv ...string) { s.Inherited = append(s.Inherited, kv...) }

// check returns what is wrong, one line each.
func (c scene) check(p *Policy) []string {
	kinds := strings.Fields(c.kinds)
	switch c.kinds {
	case "own":
		kinds = ownKinds
	case "*":
		kinds = oracleKinds
	}
	if c.target == "" {
		c.target = "B"
	}
	var out []string
	for _, kind := range kinds {
		s := world{mux: true}.snapshot(c.target)
		s.SessionEngaged = false
		c.edit(&s)
		before := slices.Clone(s.Inherited)
		got, err := p.Build(kind, s)
		if !slices.Equal(before, s.Inherited) {
			out = append(out, kind+": the snapshot was changed (L12)")
		}
		for _, line := range c.judge(got, err) {
			out = append(out, c.name+": "+kind+": "+line)
		}
	}
	return out
}

// judge compares one child with what the scene wants.
func (c scene) judge(got []string, err error) []string {
	if c.refuse != "" {
		var r *Refusal
		if !errors.As(err, &r) || r.Rule != c.refuse || got != nil {
			return []string{fmt.Sprintf("got %v, %v; want a refusal by %s", got, err, c.refuse)}
		}
		return nil
	}
	if err != nil {
		return []string{err.Error()}
	}
	child, out := toMap(got)
	for _, n := range slices.Sorted(maps.Keys(c.want)) {
		if v, ok := child[n]; !ok || v != c.want[n] {
			out = append(out, fmt.Sprintf("%s = %q, %v; want %q", n, v, ok, c.want[n]))
		}
	}
	for n := range strings.FieldsSeq(c.absent) {
		if v, ok := child[n]; ok {
			out = append(out, fmt.Sprintf("%s = %q is there", n, v))
		}
	}
	return out
}

func launchRules() []scene {
	return []scene{
		{name: "L1", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "LAUNCH_ONLY=x", "launch_lower=x")
			s.Launch.Dotenv = []string{"LAUNCH_ONLY", "Launch_Lower"}
		}, absent: "LAUNCH_ONLY launch_lower"},
		{name: "L2", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "OLD=x", "HTTPS_PROXY=x")
			s.Launch.Ever = []string{"OLD", "HTTPS_PROXY"}
		}, absent: "OLD HTTPS_PROXY"},
		{name: "L3", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "CUSTOM_VAULT_SECRET=x")
			s.Launch.Supplied = []string{"CUSTOM_VAULT_SECRET"}
		}, absent: "CUSTOM_VAULT_SECRET"},
		{name: "L4", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "V=launch", "W=launch")
			s.Launch.Supplied = []string{"V", "W"}
			apply(s, "V", "mine")
		}, want: env("V", "mine"), absent: "W"},
		{name: "L6 both files", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "ORG_POLICY_FLAG=launch-user")
			s.Launch.Dotenv = []string{"ORG_POLICY_FLAG"}
			s.Target.Vars = []Var{own("ORG_POLICY_FLAG", "user-value")}
			s.Managed = []Var{{Name: "ORG_POLICY_FLAG", Value: "managed-value", Fill: true}}
		}, want: env("ORG_POLICY_FLAG", "managed-value")},
		{name: "L6 spelled otherwise", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "ORG_FLAG=launch-user")
			s.Launch.Dotenv = []string{"ORG_FLAG"}
			s.Managed = []Var{{Name: "Org_Flag", Value: "managed"}}
		}, want: env("Org_Flag", "managed"), absent: "ORG_FLAG"},
		{name: "L6 host names", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "HTTPS_PROXY=operator", "LANG=C")
			s.Managed = []Var{{Name: "HTTPS_PROXY", Value: "managed"}, {Name: "LANG", Value: "de_DE"}}
		}, want: env("HTTPS_PROXY", "managed", "LANG", "de_DE")},
		{name: "L7", kinds: "own", target: "C", edit: func(s *Snapshot) {
			inherit(s, "X=export")
			s.Launch.Supplied = []string{"X"} // a source of B supplied it and lost
		}, absent: "X"},
	}
}

func bridgeRules() []scene {
	return []scene{
		{name: "L8 terminal", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "TERMINAL_SSH_KEY=/a", "TERMINAL_DOCKER_IMAGE_PINNED=1", "TERMINAL_NEW_SETTING=a", "TERMINAL_CWD=/a")
			s.Target.Bridge = []Var{{Name: "TERMINAL_CWD", Value: "/b"}}
		}, want: env("TERMINAL_CWD", "/b"), absent: "TERMINAL_SSH_KEY TERMINAL_DOCKER_IMAGE_PINNED TERMINAL_NEW_SETTING"},
		{name: "L8 budget", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "HERMES_MAX_ITERATIONS=40")
			s.Target.Bridge = []Var{{Name: "HERMES_MAX_ITERATIONS", Value: "120"}}
		}, want: env("HERMES_MAX_ITERATIONS", "120")},
		{name: "L8 budget null", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "HERMES_MAX_ITERATIONS=40")
		}, absent: "HERMES_MAX_ITERATIONS"},
		{name: "L8 scalar", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "timezone=UTC")
			s.Launch.Bridged = []string{"timezone"}
		}, absent: "timezone"},
		{name: "L9", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "HERMES_WRITE_SAFE_ROOT=/c", "C_ONLY=c", "EDITOR=vim", "Mixed_Case=c", "HTTPS_PROXY=http://c")
			s.Foreign = map[string][]string{
				"HERMES_WRITE_SAFE_ROOT": {"/d", "/c"}, "C_ONLY": {"c"}, "EDITOR": {"emacs"}, "mixed_case": {"c"}, "https_proxy": {"http://c"},
			}
		}, want: env("EDITOR", "vim"), absent: "HERMES_WRITE_SAFE_ROOT C_ONLY Mixed_Case HTTPS_PROXY"},
		{name: "GAP-proxy", kinds: "own", edit: func(s *Snapshot) { // A's .env names it, the operator's export is another
			inherit(s, "HTTPS_PROXY=http://op", "no_proxy=a")
			s.Launch.Dotenv, s.Launch.Supplied, s.Launch.Bridged = []string{"HTTPS_PROXY", "NO_PROXY"}, []string{"HTTPS_PROXY"}, []string{"HTTPS_PROXY"}
			s.Foreign = map[string][]string{"HTTPS_PROXY": {"http://a"}, "NO_PROXY": {"a"}}
			s.Target.Vars = []Var{own("ALL_PROXY", "http://mine")}
		}, want: env("HTTPS_PROXY", "http://op", "ALL_PROXY", "http://mine"), absent: "no_proxy NO_PROXY"},
		{name: "L9 own child", kinds: "own", target: "C", edit: func(s *Snapshot) {
			inherit(s, "HERMES_WRITE_SAFE_ROOT=/c")
			s.Target.Vars = []Var{own("HERMES_WRITE_SAFE_ROOT", "/c")}
		}, want: env("HERMES_WRITE_SAFE_ROOT", "/c")},
		{name: "L10", kinds: "*", edit: func(s *Snapshot) {
			inherit(s, "OPENAI_API_KEY=x", "TELEGRAM_BOT_TOKEN=x", "myplug_token=x", "MYADAPTER_KEY=x", "BACKEND=x", "anthropic_api_key=x")
			s.Target.Declared, s.Target.AdapterEnv, s.Target.BackendKeys = []string{"MYPLUG_TOKEN"}, []string{"MYADAPTER_KEY"}, []string{"BACKEND"}
		}, absent: "OPENAI_API_KEY TELEGRAM_BOT_TOKEN myplug_token MYADAPTER_KEY BACKEND anthropic_api_key"},
		{name: "L11", kinds: "terminal", target: "A", edit: func(s *Snapshot) {
			inherit(s, "LAUNCH_ONLY=x", "TERMINAL_CWD=/a", "DISCORD_ALLOWED_CHANNELS=1", "C=c", "HERMES_MAX_ITERATIONS=40", "HERMES_PROFILE=a")
			s.Launch.Dotenv, s.Launch.Supplied, s.Launch.Ever = []string{"LAUNCH_ONLY"}, []string{"LAUNCH_ONLY"}, []string{"LAUNCH_ONLY"}
			s.Foreign = map[string][]string{"C": {"c"}}
		}, want: env("LAUNCH_ONLY", "x", "TERMINAL_CWD", "/a", "DISCORD_ALLOWED_CHANNELS", "1", "C", "c", "HERMES_MAX_ITERATIONS", "40", "HERMES_PROFILE", "a")},
		{name: "L13", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "DEMO_ALLOWED_SENDER=me", "SSH_AUTH_SOCK=/s", "AWS_SECRET_ACCESS_KEY=k")
		}, want: env("DEMO_ALLOWED_SENDER", "me", "SSH_AUTH_SOCK", "/s", "AWS_SECRET_ACCESS_KEY", "k")},
	}
}

func nameRules() []scene {
	return []scene{
		{name: "N1", kinds: "mcp mcp-task", edit: func(s *Snapshot) {
			inherit(s, "LOST=process")
			s.Launch.Supplied = []string{"LOST"} // supplied is for stripping, not for forwarding
		}, absent: "LOST"},
		{name: "N2", kinds: "mcp mcp-task", edit: func(s *Snapshot) {
			inherit(s, "GITHUB_TOKEN=launch", "XDG_DATA_HOME=/x")
			apply(s, "GITHUB_TOKEN", "mine")
			apply(s, "OPENAI_API_KEY", "mine")
			apply(s, "LANG", "from-a-source") // S1
			s.Target.Vars = append(s.Target.Vars, own("DOTENV_ONLY", "x"), own("XDG_DATA_HOME", "/own"))
			s.Target.Bridge = []Var{{Name: "XDG_CACHE_HOME", Value: "/c"}}
			s.Target.Applied = append(s.Target.Applied, "MISSED", "DOTENV_ONLY")
		}, want: env("GITHUB_TOKEN", "mine", "OPENAI_API_KEY", "mine", "XDG_DATA_HOME", "/x"), absent: "DOTENV_ONLY MISSED LANG XDG_CACHE_HOME"},
		{name: "N2 the server's own env", kinds: "mcp", edit: func(s *Snapshot) {
			s.Extra = []Var{{Name: "GH_TOKEN", Value: "named"}, {Name: "DOTENV_ONLY", Value: "named"}, {Name: "AUXILIARY_X_API_KEY", Value: "no"}}
		}, want: env("GH_TOKEN", "named", "DOTENV_ONLY", "named"), absent: "AUXILIARY_X_API_KEY"},
		{name: "G1", kinds: "*", edit: func(s *Snapshot) {
			inherit(s, "DISCORD_ALLOWED_CHANNELS=1", "SIGNAL_GROUP_ALLOWED_X=1")
		}, absent: "DISCORD_ALLOWED_CHANNELS SIGNAL_GROUP_ALLOWED_X"},
		{name: "G1 own", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "DISCORD_ALLOWED_CHANNELS=1")
			s.Target.Vars = []Var{own("DISCORD_ALLOWED_CHANNELS", "2")}
		}, want: env("DISCORD_ALLOWED_CHANNELS", "2")},
		{name: "G2", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "HERMES_MEDIA_ALLOW_DIRS=/m", "_DISCORD_ALLOWED_X=1", "HERMES_DISCORD_ALLOWED_X=1")
			s.GatePrefixes = []string{"hermes", "_discord"}
		}, want: env("HERMES_MEDIA_ALLOW_DIRS", "/m", "_DISCORD_ALLOWED_X", "1", "HERMES_DISCORD_ALLOWED_X", "1")},
		{name: "G3", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "MY_CHAT_ALLOWED_USERS=1", "XY_ALLOW_ALL_USERS=1", "XY_COLOR=1")
			s.GatePrefixes = []string{"my-chat", "XY_"}
		}, want: env("XY_COLOR", "1"), absent: "MY_CHAT_ALLOWED_USERS XY_ALLOW_ALL_USERS"},
	}
}

func manifestRules() []scene {
	return []scene{
		{name: "M2 own", kinds: "terminal cli tool", edit: func(s *Snapshot) {
			s.Target.Vars = []Var{own("FOO_TOKEN", "mine")}
			s.Target.Declared = []string{"FOO_TOKEN"}
		}, absent: "FOO_TOKEN"},
		{name: "M2 another's", kinds: "own", edit: func(s *Snapshot) {
			s.Target.Vars = []Var{own("FOO_TOKEN", "mine")} // A's plugin declares it; that is not B's affair
		}, want: env("FOO_TOKEN", "mine")},
		{name: "M3", kinds: "cli openviking", edit: func(s *Snapshot) {
			inherit(s, "PATH=/p", "HTTPS_PROXY=p")
			s.Target.Vars = []Var{own("OPENAI_API_KEY", "mine")}
			s.Target.Declared = []string{"OPENAI_API_KEY", "HTTPS_PROXY", "LANG"}
		}, want: env("OPENAI_API_KEY", "mine", "HTTPS_PROXY", "p")},
		{name: "M4", kinds: "*", refuse: "M4", edit: func(s *Snapshot) { s.Target.DeclaredErr = fs.ErrPermission }},
		{name: "M9", kinds: "terminal tool", edit: func(s *Snapshot) {
			s.Target.Vars = []Var{own("ADAPTER_TOKEN", "t"), own("ADAPTER_COLOR", "c")}
			s.Target.AdapterEnv = []string{"ADAPTER_TOKEN", "ADAPTER_COLOR"}
		}, want: env("ADAPTER_COLOR", "c"), absent: "ADAPTER_TOKEN"},
		{name: "M9 is tier 2", kinds: "cli", edit: func(s *Snapshot) {
			s.Target.Vars = []Var{own("ADAPTER_TOKEN", "t"), own("BOTH_TOKEN", "t")}
			s.Target.AdapterEnv, s.Target.Declared = []string{"ADAPTER_TOKEN", "BOTH_TOKEN"}, []string{"BOTH_TOKEN"}
		}, want: env("ADAPTER_TOKEN", "t"), absent: "BOTH_TOKEN"},
	}
}

func scopeRules() []scene {
	return []scene{
		{name: "S1", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "LANG=C", "HTTPS_PROXY=op", "TERMINAL_ENV=docker")
			apply(s, "LANG", "x")
			apply(s, "HTTPS_PROXY", "x")
			apply(s, "TERMINAL_ENV", "x")
		}, want: env("LANG", "C", "HTTPS_PROXY", "op"), absent: "TERMINAL_ENV"},
		{name: "S1 order", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "A=in", "B=in", "C=in", "D=in", "E=in")
			for _, n := range []string{"A", "B", "C", "D"} {
				s.Target.Vars = append(s.Target.Vars, own(n, "dotenv"))
			}
			for _, n := range []string{"A", "B", "C", "D", "E", "F"} {
				s.Target.Vars = append(s.Target.Vars, Var{Name: n, Value: "op", Origin: OpEnv})
			}
			for _, n := range []string{"A", "B", "C"} {
				apply(s, n, "source")
			}
			s.Managed = []Var{{Name: "A", Value: "managed"}, {Name: "B", Value: "managed"}}
			s.Target.Bridge = []Var{{Name: "A", Value: "bridge"}, {Name: "D", Value: "scalar", Fill: true}, {Name: "G", Value: "scalar", Fill: true}}
		}, want: env("A", "bridge", "B", "managed", "C", "source", "D", "dotenv", "E", "in", "F", "op", "G", "scalar")},
		{name: "S2", kinds: "mcp mcp-task", edit: func(s *Snapshot) {
			apply(s, "K", "source")
			s.Managed = []Var{{Name: "K", Value: "managed"}, {Name: "M", Value: "managed"}}
		}, want: env("K", "managed"), absent: "M"},
		{name: "S2 managed only", kinds: "own", edit: func(s *Snapshot) {
			s.Managed = []Var{{Name: "M", Value: "managed"}}
		}, want: env("M", "managed")},
		{name: "S3", kinds: "terminal-remote", edit: func(s *Snapshot) {
			inherit(s, "FWD=process", "PASS=process", "BOTH=process")
			s.Forward, s.Target.Passthrough = []string{"FWD", "BOTH"}, []string{"PASS"}
			s.Target.Vars = []Var{own("BOTH", "mine")}
		}, want: env("BOTH", "mine"), absent: "FWD PASS"},
		{name: "S3 unrouted", kinds: "terminal-remote", target: "A", edit: func(s *Snapshot) {
			inherit(s, "FWD=process", "PASS=process", "REST=process", "GH_TOKEN=x")
			s.Forward, s.Target.Passthrough = []string{"FWD", "GH_TOKEN"}, []string{"PASS", "GH_TOKEN"}
		}, want: env("FWD", "process", "PASS", "process"), absent: "REST GH_TOKEN HERMES_HOME PATH"},
		{name: "S3 unbound", kinds: "*", refuse: "S3", edit: func(s *Snapshot) { s.Target = nil }},
		{name: "R12", kinds: "*", refuse: "R12", edit: func(s *Snapshot) { s.Target, s.Multiplexed = nil, false }},
		{name: "R12 no key", kinds: "*", refuse: "R12", edit: func(s *Snapshot) { s.Target.Key = "" }},
		{name: "R12 no home", kinds: "*", refuse: "R12", edit: func(s *Snapshot) { s.Target.Dir = "" }},
		{name: "R12 no launch home", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "OPENAI_API_KEY=x", "TERMINAL_CWD=/a")
			s.Launch.Key = ""
		}, absent: "OPENAI_API_KEY TERMINAL_CWD"},
		{name: "P8", kinds: "terminal background terminal-remote execute-code", refuse: "P8", edit: func(s *Snapshot) { s.Target.TerminalRefused = "config.yaml: line 3" }},
		{name: "P8 others", kinds: "tool mcp mcp-task cron-script cron-worker delivery kanban-worker cli served host openviking helper desktop", edit: func(s *Snapshot) { s.Target.TerminalRefused = "config.yaml: line 3" }, want: env("HERMES_HOME", homeKey("B"))},
		{name: "unknown kind", kinds: "termnial", refuse: "KIND", edit: func(*Snapshot) {}},
		{name: "GAP-backend", kinds: "background terminal-remote execute-code cron-script cron-worker delivery kanban-worker cli served openviking helper tool desktop", refuse: "GAP-backend", edit: func(s *Snapshot) { s.Target.BackendErr = fs.ErrPermission }},
		{name: "GAP-backend terminal", kinds: "terminal host mcp mcp-task", edit: func(s *Snapshot) { s.Target.BackendErr = fs.ErrPermission }, want: env("HERMES_HOME", homeKey("B"))},
		{name: "GAP-backend remote", kinds: "terminal-remote execute-code", edit: func(s *Snapshot) {
			s.Target.Vars, s.Target.BackendKeys = []Var{own("MYBACKEND_CRED", "mine")}, []string{"MYBACKEND_CRED"}
			s.Forward, s.Target.Passthrough = []string{"MYBACKEND_CRED"}, []string{"MYBACKEND_CRED"}
		}, absent: "MYBACKEND_CRED"},
		{name: "GAP-backend copy", kinds: "helper", target: "A", edit: func(s *Snapshot) { s.Target.BackendErr = fs.ErrPermission }, want: env("HERMES_HOME", homeKey("A"))},
	}
}

func scenes() []scene {
	return slices.Concat(
		launchRules(), bridgeRules(), nameRules(), manifestRules(), scopeRules(),
		childRules(), forceRules(), homeRules(), servedRules(), limitRules(), reports(), laterReports(),
	)
}

// TestRules is a situation for each rule of the spec that a build decides.
func TestRules(t *testing.T) {
	t.Parallel()
	p := load(t)
	for _, c := range scenes() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, line := range c.check(p) {
				t.Error(line)
			}
		})
	}
}
