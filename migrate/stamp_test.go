// SPDX-License-Identifier: MIT

package migrate

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// oldValues holds something for 47, 48 and 49 to take away.
const oldValues = "compression:\n  threshold_tokens: 256000\nterminal:\n  docker_image: " + py311 + "\n  vercel_runtime: node24\n"

func TestStampRefused(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		value string
		kind  error
		code  exitcode.Code
	}{
		{"0", ErrBelowFloor, exitcode.BelowFloor},
		{"1", ErrBelowFloor, exitcode.BelowFloor},
		{"10", ErrBelowFloor, exitcode.BelowFloor},
		{"11", ErrBelowFloor, exitcode.BelowFloor},
		{"11.99", ErrBelowFloor, exitcode.BelowFloor},
		{`"11"`, ErrBelowFloor, exitcode.BelowFloor},
		{"0.5", ErrBelowFloor, exitcode.BelowFloor},
		{"null", ErrBadStamp, exitcode.BelowFloor},
		{"", ErrBadStamp, exitcode.BelowFloor},
		{"~", ErrBadStamp, exitcode.BelowFloor},
		{"true", ErrBadStamp, exitcode.BelowFloor},
		{"no", ErrBadStamp, exitcode.BelowFloor},
		{"latest", ErrBadStamp, exitcode.BelowFloor},
		{"v49", ErrBadStamp, exitcode.BelowFloor},
		{`"49.9"`, ErrBadStamp, exitcode.BelowFloor},
		{`""`, ErrBadStamp, exitcode.BelowFloor},
		{"-1", ErrBadStamp, exitcode.BelowFloor},
		{"-49", ErrBadStamp, exitcode.BelowFloor},
		{".inf", ErrBadStamp, exitcode.BelowFloor},
		{"-.inf", ErrBadStamp, exitcode.BelowFloor},
		{".nan", ErrBadStamp, exitcode.BelowFloor},
		{"99999999999999999999", ErrBadStamp, exitcode.BelowFloor},
		{"[49]", ErrBadStamp, exitcode.BelowFloor},
		{"{v: 49}", ErrBadStamp, exitcode.BelowFloor},
		{"!mine 49", ErrBadStamp, exitcode.BelowFloor},
		{"51", ErrNewerStamp, exitcode.Newer},
		{`"51"`, ErrNewerStamp, exitcode.Newer},
		{"51.0", ErrNewerStamp, exitcode.Newer},
		{"99", ErrNewerStamp, exitcode.Newer},
		{"2147483647", ErrNewerStamp, exitcode.Newer},
	} {
		t.Run(r.value, func(t *testing.T) {
			t.Parallel()
			in := plain("# one\n" + oldValues + "_config_version: " + r.value + " # v\n")
			in.Env = []byte("TERMINAL_VERCEL_RUNTIME=node24\n")
			before := string(in.Config)
			got := refusalOf(t, in, Options{}, r.kind, r.code)
			if got.Line != 7 || cmp.Diff([]string{stampKey}, got.Path) != "" || got.File != FileConfig || got.Fix == "" {
				t.Errorf("got line %d, path %q, file %q, fix %q; want line 7 of the stamp", got.Line, got.Path, got.File, got.Fix)
			}
			if string(in.Config) != before {
				t.Errorf("the input was changed to %q", in.Config)
			}
		})
	}
}

// TestStampNames: a person must learn which versions are meant.
func TestStampNames(t *testing.T) {
	t.Parallel()
	for _, r := range []struct{ value, want string }{
		{"51", "version 51 was written by a newer program; this binary knows up to 50"},
		{"11", "version 11 is older than 12"},
		{"latest", `"latest" is no version; expected a whole number from 12 to 50`},
	} {
		_, err := Released().Plan(plain("_config_version: "+r.value+"\n"), Options{})
		if err == nil || !strings.Contains(err.Error(), r.want) || !strings.HasPrefix(err.Error(), "config.yaml, line 1, _config_version: ") {
			t.Errorf("got %v, want one that says %q", err, r.want)
		}
	}
	_, err := Released().Plan(Input{Config: []byte("_config_version: 51\n"), Name: "/srv/h/config.yaml"}, Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "/srv/h/config.yaml, line 1") {
		t.Errorf("got %v, want the name of the file", err)
	}
}

func TestStampAccepted(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		value, after string
		from         int
	}{
		{"49", "50", 49},
		{`"49"`, "50", 49},
		{"'49'", "50", 49},
		{`" 49 "`, "50", 49},
		{"49.9", "50", 49},
		{"49.0", "50", 49},
		{"0x31", "50", 49},
		{"+49", "50", 49},
		{"!!int 12", "", 12},
		{"12", "50", 12},
		{"50", "50", 50},
		{`"50"`, `"50"`, 50},
		{"50.7", "50.7", 50},
	} {
		t.Run(r.value, func(t *testing.T) {
			t.Parallel()
			in := plain("agent: {verify_on_stop: false}\n_config_version: " + r.value + "  # v\nz: 1\n")
			p, err := Released().Plan(in, Options{})
			if r.after == "" {
				if !errors.Is(err, ErrAmbiguous) {
					t.Errorf("got %v, want a refusal to rewrite a value with a tag", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.From != r.from || p.To != 50 || p.Assumed {
				t.Errorf("got a plan from %d to %d, want from %d to 50", p.From, p.To, r.from)
			}
			want := "agent: {verify_on_stop: false}\n_config_version: " + r.after + "  # v\nz: 1\n"
			if got := string(afterPlan(in, p).Config); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			if p.Pending() != (r.after != r.value) {
				t.Errorf("got pending %t", p.Pending())
			}
		})
	}
}

// TestStampDoubtful: a version that cannot be replaced at one place is refused, and one that
// need not be replaced is no obstacle.
func TestStampDoubtful(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		name, config string
		line         int // 0 = nothing to do
	}{
		{"twice, the last one counts", "_config_version: 50\na: 1\n_config_version: 48\n", 3},
		{"twice, current", "_config_version: 12\na: 1\n_config_version: 50\n", 0},
		{"alias", "v: &v 49\n_config_version: *v\n", 2},
		{"current alias", "v: &v 50\n_config_version: *v\n", 0},
		{"anchor used again", "_config_version: &v 49\nv: *v\n", 1},
		{"anchor of no use", "v: 1\n_config_version: &v 50\n", 0},
		{"merge", "b: &b {_config_version: 49}\n<<: *b\n", 2},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			if r.line == 0 {
				if p := planOf(t, plain(r.config), Options{}); p.Pending() {
					t.Errorf("got changes %q", changesOf(p.Changes))
				}
				return
			}
			got := refusalOf(t, plain(r.config), Options{}, ErrAmbiguous, exitcode.Unparseable)
			if got.Line != r.line || !strings.Contains(got.Msg, "step stamp") {
				t.Errorf("got line %d: %s, want line %d", got.Line, got.Msg, r.line)
			}
		})
	}
}

// TestNoStamp: what a file without a version gets.
func TestNoStamp(t *testing.T) {
	t.Parallel()
	for _, r := range []struct{ name, config, want string }{
		{"empty file", "", "_config_version: 50\n"},
		{"only line breaks", "\n\n", "\n\n_config_version: 50\n"},
		{"only comments", "# a\n  # b\n", "# a\n  # b\n_config_version: 50\n"},
		{"a comment without a line break", "# a", "# a\n_config_version: 50"},
		{"a byte order mark", "\ufeff", "\ufeff_config_version: 50\n"},
		{"marker", "---\n# a\n", "---\n# a\n_config_version: 50\n"},
		{"empty mapping", "{}\n", "{\"_config_version\": 50}\n"},
		{"CRLF", "a: 1\r\nb: 2\r\n", "a: 1\r\nb: 2\r\n_config_version: 50\r\n"},
		{"no final line break", "a: 1", "a: 1\n_config_version: 50"},
		{"end marker", "a: 1\n...\n", "a: 1\n_config_version: 50\n...\n"},
		{"values of 47, 48 and 49 stay", oldValues, oldValues + "_config_version: 50\n"},
		{"retired keys go", "security:\n  tirith_path: x\n  a: 1\n", "security:\n  a: 1\n_config_version: 50\n"},
		{"a stamp elsewhere is none", "meta: {_config_version: 49}\n", "meta: {_config_version: 49}\n_config_version: 50\n"},
		{"a commented stamp is none", "# _config_version: 49\na: 1\n", "# _config_version: 49\na: 1\n_config_version: 50\n"},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			in := plain(r.config)
			p := planOf(t, in, Options{})
			out := afterPlan(in, p)
			if d := cmp.Diff(r.want, string(out.Config)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if p.From != 0 || p.To != 50 || len(p.Skipped) != 39-12 {
				t.Errorf("got from %d to %d, %d steps skipped; want 0, 50, 27", p.From, p.To, len(p.Skipped))
			}
			if again := planOf(t, out, Options{}); again.Pending() || again.From != 50 {
				t.Errorf("a second plan is from %d with %q", again.From, changesOf(again.Changes))
			}
		})
	}
}

// TestNoStampReport: what was not done for lack of a version is listed.
func TestNoStampReport(t *testing.T) {
	t.Parallel()
	in := plain(oldValues + "delegation: {max_iterations: 50}\n")
	in.Env = []byte("TERMINAL_VERCEL_RUNTIME=node24\nLLM_MODEL=m\n")
	in.Soul = []byte("## Messaging other agents\n")
	p := planOf(t, in, Options{})
	wantList(t, "changes", changesOf(p.Changes), []string{"0 added config.yaml _config_version"})
	wantList(t, "not applied", changesOf(p.NotApplied), []string{
		"13 changed .env LLM_MODEL",
		"31 added config.yaml agent.verify_on_stop",
		"36 changed config.yaml delegation.max_iterations",
		"41 removed SOUL.md Messaging other agents",
		"47 removed config.yaml compression.threshold_tokens",
		"48 removed config.yaml terminal.docker_image",
		"49 removed config.yaml terminal.vercel_runtime",
		"49 removed .env TERMINAL_VERCEL_RUNTIME",
	})
	for _, c := range p.NotApplied {
		if !strings.Contains(c.Reason, "no provenance") {
			t.Errorf("step %d gives the reason %q", c.Step, c.Reason)
		}
	}
	out := afterPlan(in, p)
	if string(out.Env) != string(in.Env) || string(out.Soul) != string(in.Soul) {
		t.Errorf("got .env %q and SOUL.md %q", out.Env, out.Soul)
	}
}

// TestNoStampSkipsFailures: a step that does not run cannot fail the plan.
func TestNoStampSkipsFailures(t *testing.T) {
	t.Parallel()
	in := plain("x: &x\n  docker_image: " + py311 + "\nterminal: *x\n")
	if got, want := string(migrated(t, in, Options{}).Config), string(in.Config)+"_config_version: 50\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	refusalOf(t, in, Options{Assume: 47}, ErrAmbiguous, exitcode.Unparseable)
}

func TestAssume(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		assume int
		want   []string
	}{
		{49, []string{"0 added config.yaml _config_version"}},
		{48, []string{"49 removed config.yaml terminal.vercel_runtime", "49 removed .env TERMINAL_VERCEL_RUNTIME", "0 added config.yaml _config_version"}},
		{46, []string{
			"47 removed config.yaml compression.threshold_tokens", "48 removed config.yaml terminal.docker_image",
			"49 removed config.yaml terminal.vercel_runtime", "49 removed .env TERMINAL_VERCEL_RUNTIME", "0 added config.yaml _config_version",
		}},
		{50, []string{"0 added config.yaml _config_version"}},
	} {
		in := plain(oldValues)
		in.Env = []byte("TERMINAL_VERCEL_RUNTIME=node24\n")
		p := planOf(t, in, Options{Assume: r.assume})
		wantList(t, fmt.Sprintf("assuming %d", r.assume), changesOf(p.Changes), r.want)
		if p.From != r.assume || !p.Assumed || len(p.Skipped) != 0 || len(p.NotApplied) != 0 {
			t.Errorf("assuming %d: got from %d, assumed %t, %d skipped", r.assume, p.From, p.Assumed, len(p.Skipped))
		}
	}
	for _, stamp := range []string{"49", "12", "50", "11", "51", `"49"`} {
		r := refusalOf(t, plain("_config_version: "+stamp+"\n"), Options{Assume: 40}, ErrBadStamp, exitcode.BelowFloor)
		if !strings.Contains(r.Msg, "without a version") {
			t.Errorf("stamp %s: got %q", stamp, r.Msg)
		}
	}
	refusalOf(t, plain("_config_version: garbage\n"), Options{Assume: 40}, ErrBadStamp, exitcode.BelowFloor)
}

// TestVersionsOfNoStep: neither of the two options can stamp what no step leads to.
func TestVersionsOfNoStep(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{To: 51}, {To: 11}, {To: -1}, {Assume: 51}, {Assume: 11}, {Assume: -1}, {Assume: 99, To: 12}} {
		for _, config := range []string{"", "_config_version: 49\n", oldValues} {
			p, err := Released().Plan(plain(config), o)
			if err == nil || p != nil || !strings.Contains(err.Error(), "the ladder goes from 12 to 50") {
				t.Errorf("%+v: got plan %v, error %v", o, p, err)
			}
		}
	}
}

// TestTo: a plan stops where it is told, and never goes back.
func TestTo(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		from, to, after int
		want            []string
	}{
		{46, 47, 47, []string{"47 removed config.yaml compression.threshold_tokens", "0 changed config.yaml _config_version"}},
		{46, 46, 46, nil},
		{47, 48, 48, []string{"48 removed config.yaml terminal.docker_image", "0 changed config.yaml _config_version"}},
		{49, 47, 49, nil},
		{50, 12, 50, nil},
	} {
		in := plain(stamped(r.from, oldValues))
		p := planOf(t, in, Options{To: r.to})
		wantList(t, fmt.Sprintf("from %d to %d", r.from, r.to), changesOf(p.Changes), r.want)
		if p.From != r.from || p.To != r.after {
			t.Errorf("from %d to %d: the plan says from %d to %d", r.from, r.to, p.From, p.To)
		}
		if stamp, _ := strings.CutPrefix(string(afterPlan(in, p).Config), "_config_version: "); !strings.HasPrefix(stamp, fmt.Sprint(r.after)) {
			t.Errorf("from %d to %d: got a file that starts with %.20q", r.from, r.to, stamp)
		}
	}
}

// TestAnyStamp: branch builds stamped homes with numbers of their own, so keys that nothing
// reads go whatever the version says, and the version stays.
func TestAnyStamp(t *testing.T) {
	t.Parallel()
	config := stamped(50, "mcp_servers:\n  n:\n    disabled: true\nsecurity:\n  tirith_enabled: true\n  a: 1\n"+oldValues)
	want := stamped(50, "mcp_servers:\n  n:\n    enabled: false\nsecurity:\n  a: 1\n"+oldValues)
	in := plain(config)
	in.Env = []byte("TERMINAL_VERCEL_RUNTIME=node24\n")
	p := planOf(t, in, Options{})
	out := afterPlan(in, p)
	wantSame(t, "at 50", out, Input{Config: []byte(want), Env: in.Env})
	wantList(t, "changes", changesOf(p.Changes), []string{
		"46 added config.yaml mcp_servers.n.enabled", "46 removed config.yaml mcp_servers.n.disabled", "50 removed config.yaml security.tirith_enabled",
	})
	if again := planOf(t, out, Options{}); again.Pending() {
		t.Errorf("a second plan has changes %q", changesOf(again.Changes))
	}
	// A newer file is left alone whatever it holds.
	in.Config = []byte(strings.Replace(config, "50", "51", 1))
	refusalOf(t, in, Options{}, ErrNewerStamp, exitcode.Newer)
}

// TestNoConfig: without a config there is nothing to do, also in the other files.
func TestNoConfig(t *testing.T) {
	t.Parallel()
	in := Input{Env: []byte("TERMINAL_VERCEL_RUNTIME=node24\n"), Soul: []byte("## Messaging other agents\n")}
	p := planOf(t, in, Options{})
	if p.Pending() || p.From != 50 || p.To != 50 || p.Config(in) != nil {
		t.Errorf("got pending %t, from %d to %d, config %q", p.Pending(), p.From, p.To, p.Config(in))
	}
}

// TestToNeedsAVersion: a file without a version is not stamped half way. Steps that look for
// copied defaults would run on it next time as if it had provenance.
func TestToNeedsAVersion(t *testing.T) {
	t.Parallel()
	in := plain("terminal:\n  docker_image: nikolaik/python-nodejs:python3.11-nodejs20\n")
	r := refusalOf(t, in, Options{To: 46}, ErrBadStamp, exitcode.BelowFloor)
	if !strings.Contains(r.Fix, "--assume-version") {
		t.Errorf("got fix %q", r.Fix)
	}
	if got := string(migrated(t, in, Options{To: 47, Assume: 46}).Config); !strings.HasSuffix(got, "_config_version: 47\n") {
		t.Errorf("with an assumed version it can stop: got %q", got)
	}
	if got := string(migrated(t, in, Options{To: Latest()}).Config); !strings.HasSuffix(got, "_config_version: 50\n") {
		t.Errorf("the latest version may be named: got %q", got)
	}
}
