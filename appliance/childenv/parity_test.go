// SPDX-License-Identifier: MIT

package childenv

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// clean is the environment of an operator who has set nothing of Hermes.
var clean = []string{
	"HOME=/home/me", "PATH=/usr/bin:/bin", "USER=me", "LANG=en_US.UTF-8", "LC_TIME=C", "TERM=xterm", "SHELL=/bin/sh",
	"XDG_DATA_HOME=/home/me/.data", "EDITOR=vi", "DEMO_ALLOWED_SENDER=me", "SSH_AUTH_SOCK=/run/agent", "HTTPS_PROXY=http://op",
}

// parityException is the short list of names in which the two may differ: a helper of the
// process's own profile is a verbatim copy, and a routed one is not (GAP-helper).
func parityException(kind, name, class string) bool {
	return kind == "helper" && (oracleTier(kind, class) != 0 || name == "HERMES_HOME" || name == "PATH" ||
		slices.Contains([]string{isForce, isSession, isIdentity, isMarker, isRouting}, class))
}

// ownWorld has a value of B at every origin of its own, for every class, and managed ones.
func ownWorld() world {
	w := world{mux: true}
	for i, origin := range []string{fromDotenv, fromOpEnv, fromApplied, fromBridge, fromScalar, fromManaged} {
		for _, class := range oracleClasses {
			owner := "B"
			if origin == fromManaged {
				owner = ""
			}
			for j, n := range namesOf(class) {
				if j%6 == i {
					w.plants = append(w.plants, plant{owner, origin, class, n, "b-" + origin + "-" + n})
				}
			}
		}
	}
	return w
}

// TestParity is §1.9: a child that a gateway launched for A builds for B is the child that a
// process of B alone builds, however much of A and C the gateway has inherited.
func TestParity(t *testing.T) {
	t.Parallel()
	p := load(t)
	w := ownWorld()
	class := map[string]string{}
	for _, pl := range w.plants {
		class[pl.name] = pl.class
	}
	for _, asked := range []bool{false, true} {
		w.asked = asked
		alone := w.snapshot("B")
		alone.Launch, alone.Multiplexed, alone.Foreign = Launch{Key: homeKey("B")}, false, nil
		alone.Inherited = append([]string{"HERMES_HOME=" + homeKey("B")}, clean...)

		routed := w.snapshot("B")
		routed.Inherited = append(routed.Inherited, clean...)
		for _, launch := range []string{"A", "C"} {
			for _, origin := range []string{fromParent, fromRemoved} {
				other := oneOrigin(launch, origin)
				other.plants = slices.DeleteFunc(other.plants, func(pl plant) bool {
					return slices.Contains([]string{isGlobal, isPlace, isMarker, isProxy}, pl.class) || inherits(clean, pl.name) // the host's
				})
				s := other.snapshot("B")
				routed.Inherited = append(routed.Inherited, s.Inherited[1:]...)
				routed.Launch.Ever = append(routed.Launch.Ever, s.Launch.Ever...)
				for n, v := range s.Foreign {
					routed.Foreign[n] = append(routed.Foreign[n], v...)
				}
				if launch == "A" {
					routed.Launch.Dotenv = append(routed.Launch.Dotenv, s.Launch.Dotenv...)
				}
			}
		}
		for _, kind := range oracleKinds {
			want := sorted(t, p, kind, alone)
			got := sorted(t, p, kind, routed)
			for _, kv := range difference(want, got) {
				n, _, _ := strings.Cut(kv, "=")
				if !parityException(kind, n, class[n]) {
					t.Errorf("%s: only the process of B alone hands over %s", kind, kv)
				}
			}
			for _, kv := range difference(got, want) {
				if n, _, _ := strings.Cut(kv, "="); kind == "helper" && (n == "HERMES_HOME" || n == "PATH") {
					continue
				}
				t.Errorf("%s: only the gateway of A hands over %s", kind, kv)
			}
		}
	}
}

func inherits(env []string, name string) bool {
	return slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
}

func sorted(t *testing.T, p *Policy, kind string, s Snapshot) []string {
	t.Helper()
	env, err := p.Build(kind, s)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(env)
	return env
}

// difference returns what is in a and not in b.
func difference(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(kv string) bool { return slices.Contains(b, kv) })
}

// TestUnroutedIdentity is L11: that other profiles are served changes no byte of the launch
// profile's own children.
func TestUnroutedIdentity(t *testing.T) {
	t.Parallel()
	p := load(t)
	for _, w := range worlds() {
		single := w.snapshot("A")
		single.Multiplexed, single.Foreign, single.Launch = false, nil, Launch{Key: homeKey("A")}
		multi := w.snapshot("A")
		multi.GatePrefixes = []string{"canary", "MYPLUG"}
		for _, kind := range oracleKinds {
			want, err := p.Build(kind, single)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Build(kind, multi)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, %s values of %q: %v\n got %q\nwant %q", kind, w.plants[0].origin, w.plants[0].owner, err, got, want)
			}
		}
	}
}

// digest is a hash of everything a build could change.
func digest(t *testing.T, s Snapshot) string {
	t.Helper()
	data, err := json.Marshal([]any{s, TakeEnviron(), os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// TestNonMutation is L12: neither the environment of this process nor the snapshot changes.
func TestNonMutation(t *testing.T) {
	t.Parallel()
	p := load(t)
	for _, w := range worlds() {
		for _, target := range []string{"A", "B"} {
			s := w.snapshot(target)
			s.Extra = []Var{{Name: "_HERMES_FORCE_FOO", Value: "x"}}
			s.Foreign["lower"] = []string{"x"}
			before := digest(t, s)
			for _, kind := range oracleKinds {
				if _, err := p.Build(kind, s); err != nil {
					t.Fatal(err)
				}
				if _, err := p.Explain(kind, s); err != nil {
					t.Fatal(err)
				}
			}
			if digest(t, s) != before {
				t.Errorf("%s values of %q: something was changed", w.plants[0].origin, w.plants[0].owner)
			}
		}
	}
}
