// SPDX-License-Identifier: MIT

package childenv

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func load(t testing.TB) *Policy {
	t.Helper()
	p, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestIdentity is L11: an unrouted child of a process with nothing to add gets what it would
// have got, byte for byte.
func TestIdentity(t *testing.T) {
	t.Parallel()
	env := []string{"HOME=/home/me", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/home/me/.local/bin", "http_proxy=a", "HTTP_PROXY=b", "FOO=bar", "HERMES_HOME=/h"}
	got, err := load(t).Build("terminal", Snapshot{Inherited: env, Launch: Launch{Key: "/h"}, Target: &Profile{Key: "/h", Dir: "/h"}})
	if err != nil || !slices.Equal(got, env) {
		t.Errorf("got %q, %v\nwant %q", got, err, env)
	}
}

// TestExplain: every value that was met is accounted for, with the first rule that spoke
// against it.
func TestExplain(t *testing.T) {
	t.Parallel()
	s := world{mux: true}.snapshot("B")
	inherit(&s, "KEPT=1", "LAUNCH=1", "REPLACED=1", "GH_TOKEN=1", "HERMES_KANBAN_TASK=1", "DISCORD_ALLOWED_X=1")
	s.Launch.Dotenv = []string{"LAUNCH", "REPLACED", "HERMES_SESSION_ID"}
	s.Target.Vars = []Var{own("REPLACED", "2"), own("OPENAI_API_KEY", "2"), {Name: "LANG", Value: "2", Origin: Source}, {Name: "UNSAID", Value: "2"}}
	s.Managed = []Var{{Name: "M", Value: "3"}}
	s.Target.Bridge = []Var{{Name: "TERMINAL_CWD", Value: "/"}}
	s.Extra = []Var{{Name: "GITHUB_TOKEN", Value: "4"}, {Name: "FINE", Value: "4"}, {Name: "_HERMES_FORCE__HERMES_FORCE_X", Value: "4"}}
	s.Session, s.SessionEngaged, s.Fence = []Var{{Name: "HERMES_SESSION_ID", Value: "5"}}, true, "/board"
	got, err := load(t).Explain("terminal", s)
	if err != nil {
		t.Fatal(err)
	}
	want := []Decision{
		{"DISCORD_ALLOWED_X", false, Inherited, "G1"},
		{"FINE", true, Extra, ""},
		{"GH_TOKEN", false, Inherited, "L10"},
		{"GITHUB_TOKEN", false, Extra, "T1-github"},
		{oracleMarker, true, Fixed, ""},
		{"HERMES_HOME", true, Fixed, ""},
		{"HERMES_KANBAN_TASK", false, Inherited, "K1"},
		{"HERMES_SESSION_ID", true, Session, ""},
		{"KEPT", true, Inherited, ""},
		{"LANG", false, Source, "S1"},
		{"LAUNCH", false, Inherited, "L1"},
		{"M", true, Managed, ""},
		{"OPENAI_API_KEY", false, Dotenv, "T2-providers"},
		{"PATH", true, Fixed, ""},
		{"REPLACED", true, Dotenv, ""},
		{"REPLACED", false, Inherited, "L1"},
		{"TERMINAL_CWD", true, Bridge, ""},
		{"UNSAID", true, Dotenv, ""},
		{"_HERMES_FORCE_X", false, Extra, "FORCE"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := load(t).Explain("nothing", s); err == nil {
		t.Error("an unknown kind is explained")
	}
	mcp, err := load(t).Explain("mcp", s)
	if err != nil || !slices.Contains(mcp, Decision{"REPLACED", false, Dotenv, "N2"}) || !slices.Contains(mcp, Decision{"TERMINAL_CWD", false, Bridge, "N2"}) || !slices.Contains(mcp, Decision{"KEPT", false, Inherited, "ALLOW-mcp"}) {
		t.Errorf("%v, %v", mcp, err)
	}
}

// TestExplainRules: each way of being left out has its own rule.
func TestExplainRules(t *testing.T) {
	t.Parallel()
	s := world{mux: true}.snapshot("B")
	inherit(&s, "L1=1", "L2=1", "L3=1", "L8=1", "TERMINAL_X=1", "L9=1", "HERMES_SESSION_X=1", "COPILOT_CLI_PATH=1", "NOTIFY_SOCKET=1",
		"PYTHONHOME=1", "_HERMES_FORCE_X=1")
	s.Launch.Dotenv, s.Launch.Ever, s.Launch.Supplied, s.Launch.Bridged = []string{"L1"}, []string{"L1", "L2"}, []string{"L2", "L3"}, []string{"L3", "L8"}
	s.Foreign = map[string][]string{"L9": {"1"}}
	t2 := s.Target
	t2.Vars = []Var{own("PLUG_KEY", "1"), own("ADAPTER_KEY", "1"), own("BACKEND_KEY", "1"), own("AUXILIARY_X_API_KEY", "1"), own("BUZZ_X", "1")}
	t2.Declared, t2.AdapterEnv, t2.BackendKeys = []string{"PLUG_KEY"}, []string{"ADAPTER_KEY", "PLUG_KEY"}, []string{"BACKEND_KEY"}
	got, err := load(t).Explain("tool", s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Decision{
		{"L1", false, Inherited, "L1"},
		{"L2", false, Inherited, "L2"},
		{"L3", false, Inherited, "L3"},
		{"L8", false, Inherited, "L8"},
		{"TERMINAL_X", false, Inherited, "L8"},
		{"L9", false, Inherited, "L9"},
		{"HERMES_SESSION_X", false, Inherited, "GAP-session"},
		{"COPILOT_CLI_PATH", false, Inherited, "P-routing"},
		{"NOTIFY_SOCKET", false, Inherited, "#25"},
		{"PYTHONHOME", false, Inherited, "PYTHON"},
		{"_HERMES_FORCE_X", false, Inherited, "FORCE"},
		{"PLUG_KEY", false, Dotenv, "M2"},
		{"ADAPTER_KEY", false, Dotenv, "M9"},
		{"BACKEND_KEY", false, Dotenv, "T1-backend"},
		{"AUXILIARY_X_API_KEY", false, Dotenv, "T1-auxiliary"},
		{"BUZZ_X", false, Dotenv, "T1-buzz"},
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%+v is not in %+v", want, got)
		}
	}
}

// TestOrder: inherited variables keep their place, replaced or not; the others come sorted.
func TestOrder(t *testing.T) {
	t.Parallel()
	s := world{}.snapshot("A")
	s.Inherited = []string{"Z=1", "B=1", "PATH=/", "A=1", "M=1"}
	s.Target.Vars = []Var{own("Y", "2"), own("M", "2"), own("C", "2")}
	got, err := load(t).Build("terminal", s)
	const path = "PATH=/:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
	want := []string{"Z=1", "B=1", path, "A=1", "M=2", "C=2", "HERMES_HOME=" + homeKey("A"), "Y=2"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got  %q, %v\nwant %q", got, err, want)
	}
}

func manyVars(n int) []string {
	env := []string{"HOME=/home/me", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/home/me/.local/bin", "HERMES_HOME=/h"}
	for i := len(env); i < n; i++ {
		env = append(env, fmt.Sprintf("SOME_VARIABLE_%d=%d", i, i))
	}
	return env
}

func BenchmarkBuild300(b *testing.B) {
	p := load(b)
	s := Snapshot{Inherited: manyVars(300), Launch: Launch{Key: "/h"}, Target: &Profile{Key: "/h", Dir: "/h"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Build("terminal", s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBuild300Routed(b *testing.B) {
	p := load(b)
	s := Snapshot{Inherited: manyVars(300), Launch: Launch{Key: "/h", Dotenv: []string{"A", "B", "C"}}, Target: &Profile{Key: "/h/profiles/b", Dir: "/h/profiles/b"}, Multiplexed: true}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Build("terminal", s); err != nil {
			b.Fatal(err)
		}
	}
}
