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

// plain is a home that has only a config.
func plain(config string) Input { return Input{Config: []byte(config)} }

// planOf plans with the released ladder.
func planOf(t testing.TB, in Input, o Options) *Plan {
	t.Helper()
	p, err := Released().Plan(in, o)
	if err != nil {
		t.Fatalf("plan: %v\nof:\n%s", err, in.Config)
	}
	return p
}

// afterPlan is the home as the plan leaves it.
func afterPlan(in Input, p *Plan) Input {
	for _, e := range p.edits {
		switch e.name {
		case FileConfig:
			in.Config = e.new
		case FileEnv:
			in.Env = e.new
		case FileSoul:
			in.Soul = e.new
		}
	}
	return in
}

// migrated is the home after a whole plan.
func migrated(t testing.TB, in Input, o Options) Input {
	t.Helper()
	return afterPlan(in, planOf(t, in, o))
}

// wantSame fails for every file in which two homes differ.
func wantSame(t testing.TB, what string, got, want Input) {
	t.Helper()
	for _, f := range []struct {
		name      string
		got, want []byte
	}{{FileConfig, got.Config, want.Config}, {FileEnv, got.Env, want.Env}, {FileSoul, got.Soul, want.Soul}} {
		if d := cmp.Diff(string(f.want), string(f.got)); d != "" || (f.got == nil) != (f.want == nil) {
			t.Errorf("%s: %s differs (-want +got):\n%s", what, f.name, d)
		}
	}
}

// refusalOf plans and expects a refusal of a kind and exit code.
func refusalOf(t testing.TB, in Input, o Options, kind error, code exitcode.Code) *Refusal {
	t.Helper()
	p, err := Released().Plan(in, o)
	var r *Refusal
	if !errors.As(err, &r) || !errors.Is(err, kind) {
		t.Fatalf("got error %v, want a refusal of kind %q", err, kind)
	}
	if p != nil {
		t.Errorf("got a plan beside the refusal %v", err)
	}
	if got := exitcode.Of(err); got != code {
		t.Errorf("got exit code %d for %v, want %d", got, err, code)
	}
	return r
}

// stamped puts a version before a config.
func stamped(version int, config string) string {
	return fmt.Sprintf("_config_version: %d\n%s", version, config)
}

// at is one row of a table about one step: the config before it and after it. The stamp is
// added on both sides.
type at struct {
	name, config, want string // want "" = the config stays as it is
}

// runStep runs each row from the version before a step to the step.
func runStep(t *testing.T, step int, rows []at) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			want := r.want
			if want == "" {
				want = r.config
			}
			from := max(step-1, Floor)
			if step == Floor {
				// No file that the ladder accepts has a version below its first step, and one without
				// goes to the last: so the ladder has no further step here.
				got := string(firstStep(t, r.config).Config(plain(r.config)))
				if d := cmp.Diff(want+"_config_version: 12\n", got); d != "" {
					t.Errorf("step %d (-want +got):\n%s", step, d)
				}
				return
			}
			got := string(migrated(t, plain(stamped(from, r.config)), Options{To: step}).Config)
			if d := cmp.Diff(stamped(step, want), got); d != "" {
				t.Errorf("step %d (-want +got):\n%s", step, d)
			}
			again := string(migrated(t, plain(stamped(step, r.config)), Options{To: step}).Config)
			if s, _ := Released().Step(step); !s.AnyStamp && again != stamped(step, r.config) {
				t.Errorf("a file that is at %d already was changed:\n%s", step, again)
			}
		})
	}
}

// firstStep plans a config without a version on a ladder of the first step alone.
func firstStep(t *testing.T, config string) *Plan {
	t.Helper()
	l, err := NewLadder(v012())
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Plan(plain(config), Options{})
	if err != nil {
		t.Fatalf("plan: %v\nof:\n%s", err, config)
	}
	return p
}

// changesOf lists a plan's changes, each as "step action path".
func changesOf(cs []Change) []string {
	out := []string{}
	for _, c := range cs {
		out = append(out, fmt.Sprintf("%d %s %s %s", c.Step, c.Action, c.File, strings.Join(c.Path, ".")))
	}
	return out
}

// keptOf lists a plan's pins, each as "step path = value".
func keptOf(ks []Pin) []string {
	out := []string{}
	for _, k := range ks {
		out = append(out, fmt.Sprintf("%d %s %s = %s", k.Step, k.File, strings.Join(k.Path, "."), k.Value))
	}
	return out
}

func wantList(t testing.TB, what string, got, want []string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// wantAdvice fails unless exactly one piece of advice holds each text.
func wantAdvice(t testing.TB, p *Plan, texts ...string) {
	t.Helper()
	for _, text := range texts {
		n := 0
		for _, a := range p.Advice {
			if strings.Contains(a, text) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d pieces of advice say %q, want 1; all advice: %q", n, text, p.Advice)
		}
	}
}
