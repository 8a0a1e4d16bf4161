// SPDX-License-Identifier: MIT

package childenv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// randomWorld plants values of several origins and owners on few names, in random spelling,
// so that they meet: files beat exports, sources beat files, and names of one profile cover
// those of another.
func randomWorld(r *rand.Rand) world {
	w := world{mux: r.IntN(2) == 0, asked: r.IntN(2) == 0}
	for i := range 4 + r.IntN(8) {
		class := oracleClasses[r.IntN(len(oracleClasses))]
		if class == isMarker {
			continue // has tests of its own
		}
		names := namesOf(class)
		name := names[r.IntN(len(names))]
		if slices.ContainsFunc(w.plants, func(p plant) bool { return strings.EqualFold(p.name, name) }) {
			continue
		}
		for j := range 1 + r.IntN(5) {
			owner, origin := "", freeOrigins[r.IntN(len(freeOrigins))]
			if r.IntN(4) > 0 {
				owner, origin = string("ABC"[r.IntN(3)]), ownedOrigins[r.IntN(len(ownedOrigins))]
			}
			spelled := respell(r, name)
			file := func(origin string) string { return strings.Replace(origin, fromParent, fromDotenv, 1) }
			if slices.ContainsFunc(w.plants, func(p plant) bool {
				return p.name == spelled && p.owner == owner && file(p.origin) == file(origin)
			}) {
				continue // one file holds one value of a name
			}
			w.plants = append(w.plants, plant{owner, origin, class, spelled, fmt.Sprintf("%s-%s-%d-%d", owner, origin, i, j)})
		}
	}
	return w
}

// respell changes the case of a name now and then.
func respell(r *rand.Rand, name string) string {
	switch r.IntN(6) {
	case 0:
		return strings.ToLower(name)
	case 1:
		b := []byte(name)
		for i := range b {
			if r.IntN(2) == 0 {
				b[i] = strings.ToLower(name)[i]
			}
		}
		return string(b)
	}
	return name
}

// expect says what a child sees under one exact name, from the oracle's answer for each
// value and the order of the origins. decided is false where the oracle leaves it open.
func (w world) expect(kind, target, name string) (value string, there, decided bool) {
	var mine []plant
	for i, p := range w.plants {
		later := func(q plant) bool { return q.name == name && q.inProcess() }
		if p.name != name || p.inProcess() && slices.ContainsFunc(w.plants[i+1:], later) {
			continue // of several inherited ones the last counts
		}
		mine = append(mine, p)
	}
	for _, p := range w.plants {
		if p.name == name && p.origin == fromParent && p.owner == target {
			p.origin = fromDotenv // it stands in the target's own .env, too
			mine = append(mine, p)
		}
	}
	slices.SortStableFunc(mine, func(a, b plant) int {
		return slices.Index(oracleRank, a.origin) - slices.Index(oracleRank, b.origin)
	})
	for _, p := range mine {
		switch w.fate(kind, target, p) {
		case must:
			return p.value, true, true
		case either:
			return "", false, false
		}
	}
	return "", false, true
}

// fate is the oracle's answer for one value among others: a name that is residue by one of
// them takes the inherited ones with it.
func (w world) fate(kind, target string, p plant) need {
	n, _ := oracle(oracleCase{kind, target != "A", w.mux, w.asked, p.owner == target, p.origin, p.class, p.name})
	if (kind == "mcp" || kind == "mcp-task") && p.origin == fromManaged && slices.ContainsFunc(w.plants, func(q plant) bool {
		return q.origin == fromApplied && q.owner == target && strings.EqualFold(q.name, p.name)
	}) {
		return either // S2
	}
	if target == "A" || !p.inProcess() || p.class == isGlobal || p.class == isPlace {
		return n
	}
	for _, q := range w.plants {
		if !strings.EqualFold(q.name, p.name) {
			continue
		}
		inFile := q.owner == "A" && (q.origin == fromDotenv || q.origin == fromParent || q.origin == fromOpEnv)
		named := q.origin == fromApplied || q.origin == fromLost || q.owner == "A" && (q.origin == fromBridge || q.origin == fromScalar)
		switch {
		case q.origin == fromRemoved, p.class != isProxy && (inFile || named):
			return mustNot
		}
	}
	return n
}

// TestProperty compares random worlds with the oracle.
func TestProperty(t *testing.T) {
	t.Parallel()
	p := load(t)
	seed := uint64(20260217)
	checked := 0
	for i := range 4000 {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		w := randomWorld(r)
		target := string("ABC"[r.IntN(3)])
		s := w.snapshot(target)
		s.Inherited = append(s.Inherited, "=C:=C:\\", "no-equals-sign", "", "=", "zero\x00byte=x", "FOO=zero\x00byte")
		s.Target.Vars = append(s.Target.Vars, Var{Name: "OPENAI_API_KEY=x", Value: "y"}, Var{Name: "", Value: "y"}, Var{Name: "A\x00", Value: "y"}, Var{Name: "A", Value: "\x00"})
		for _, kind := range oracleKinds {
			env, err := p.Build(kind, s)
			if err != nil {
				t.Fatal(err)
			}
			child, wrong := toMap(env)
			for _, name := range names(w) {
				want, there, decided := w.expect(kind, target, name)
				if !decided {
					continue
				}
				checked++
				if got, ok := child[name]; ok != there || got != want {
					wrong = append(wrong, fmt.Sprintf("%s = %q, %v; want %q, %v", name, got, ok, want, there))
				}
			}
			if _, ok := child["A"]; ok {
				wrong = append(wrong, "a value with a zero byte is there")
			}
			if len(wrong) > 0 {
				t.Fatalf("seed %d,%d: %s for %s (mux %v, asked %v):\n%s\n%+v", seed, i, kind, target, w.mux, w.asked, strings.Join(wrong, "\n"), w.plants)
			}
		}
	}
	t.Logf("%d names checked", checked)
}

func names(w world) []string {
	var out []string
	for _, p := range w.plants {
		if !slices.Contains(out, p.name) && p.name != "HERMES_HOME" && p.name != "PATH" { // made for every child
			out = append(out, p.name)
		}
	}
	return out
}

// TestDuplicates: of several inherited variables with one name the last counts, and if it is
// another profile's, an earlier one does not come back.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	p := load(t)
	s := world{}.snapshot("B")
	s.Inherited = append(s.Inherited, "X=op", "X=c", "Y=c", "Y=op")
	s.Foreign = map[string][]string{"X": {"c"}, "Y": {"c"}}
	env, err := p.Build("terminal", s)
	if err != nil {
		t.Fatal(err)
	}
	child, wrong := toMap(env)
	if v, ok := child["X"]; ok || child["Y"] != "op" || wrong != nil {
		t.Errorf("X = %q, Y = %q, %v", v, child["Y"], wrong)
	}
}

// TestCaseless is a build as on Windows, where names that differ in case are one variable.
func TestCaseless(t *testing.T) {
	t.Parallel()
	s := world{}.snapshot("A")
	s.Inherited = []string{"Path=/bin", "=C:=C:\\x", "Foo=1", "hermes_home=/old", "broken"}
	s.Target.Vars = []Var{own("FOO", "2")}
	s.BinDir = "/opt/bin"
	run := func(target *Profile) []string {
		s := s
		s.Target = target
		b := builder{p: load(t), s: &s, kind: "terminal", caseless: true}
		if err := b.build(); err != nil {
			t.Fatal(err)
		}
		return b.env()
	}
	want := []string{"Path=/bin:/opt/bin:/usr/local/bin:/usr/bin:/usr/local/sbin:/usr/sbin:/sbin", "=C:=C:\\x", "FOO=2", "hermes_home=" + homeKey("A")}
	if got := run(s.Target); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	b := *s.Target
	b.Key = homeKey("B")
	if got := run(&b); slices.ContainsFunc(got, func(kv string) bool { return strings.HasPrefix(kv, "=") }) {
		t.Errorf("another profile's child is told this process's directories: %q", got)
	}
}

// FuzzBuild feeds a build with arbitrary names and values. Nothing of another profile gets
// through, and what comes out is an environment.
func FuzzBuild(f *testing.F) {
	f.Add("FOO", "bar", "terminal", uint8(0))
	f.Add("OPENAI_API_KEY", "() { :; }", "cli", uint8(0xff))
	f.Add("_HERMES_FORCE_GH_TOKEN", "\x00", "execute-code", uint8(3))
	f.Add("=C:", "=", "mcp", uint8(7))
	f.Add("https_proxy", "http://x", "tool", uint8(9))
	f.Add("Kıtap_\xff", "\xfe", "host", uint8(1))
	p, err := Load()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name, value, kind string, how uint8) {
		if !slices.Contains(oracleKinds, kind) {
			kind = oracleKinds[int(how)%len(oracleKinds)]
		}
		secret := "foreign-canary-" + value
		s := world{mux: how&1 != 0}.snapshot("B")
		inherit(&s, name+"="+secret, "OTHER="+value, strings.ToLower(name)+"="+secret, value)
		s.Foreign = map[string][]string{name: {secret}, strings.ToLower(name): {secret}}
		if how&2 != 0 {
			s.Launch.Dotenv = []string{name}
		}
		if how&4 != 0 {
			s.Launch.Ever = []string{name}
		}
		if how&8 != 0 {
			s.Target.Passthrough, s.Forward, s.Target.Applied = []string{name}, []string{name}, []string{name}
		}
		if how&16 != 0 {
			s.Target.Vars = []Var{own(name, "own"), {Name: name, Value: value, Origin: Source}}
		}
		if how&32 != 0 {
			s.Extra = []Var{{Name: name, Value: "extra"}}
			s.GatePrefixes = []string{name, ""}
		}
		env, err := p.Build(kind, s)
		if err != nil {
			t.Fatal(err)
		}
		m, wrong := toMap(env)
		for _, line := range wrong {
			t.Error(line)
		}
		hosts := p.Global(name) || strings.ContainsRune(name, '=') || strings.EqualFold(name, oracleMarker) || strings.EqualFold(value, name)
		for n, v := range m {
			if !hosts && strings.Contains(v, "foreign-canary-") && !strings.HasPrefix(value, n+"=") && !strings.Contains(value, "foreign-canary-") {
				t.Errorf("%s for B: %s = %q", kind, n, v)
			}
			if strings.ContainsRune(n+v, 0) {
				t.Errorf("%q = %q is no variable", n, v)
			}
		}
		if _, err := p.Explain(kind, s); err != nil {
			t.Error(err)
		}
	})
}
