// SPDX-License-Identifier: MIT

package migrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// homesDir holds homes as users had them at every version, and in unusual shapes. A home is
// frozen: what a released step made of it is what it must make of it for ever.
const homesDir = "testdata/homes"

// homeNames lists the frozen homes.
func homeNames(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(homesDir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	if len(out) < Latest()-Floor+1 {
		t.Fatalf("only %d frozen homes", len(out))
	}
	return out
}

// frozenHome reads one of them.
func frozenHome(t testing.TB, name string) Input {
	t.Helper()
	read := func(file string) []byte {
		data, err := os.ReadFile(filepath.Join(homesDir, name, file))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	in := Input{Config: read(FileConfig), Env: read(FileEnv), Soul: read(FileSoul)}
	if in.Config == nil {
		t.Fatalf("%s has no %s", name, FileConfig)
	}
	in.Plugins = func() ([]string, error) { return plugins(filepath.Join(homesDir, name, "plugins")) }
	return in
}

// eachHome runs a test on every frozen home.
func eachHome(t *testing.T, test func(t *testing.T, in Input)) {
	t.Helper()
	for _, name := range homeNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, frozenHome(t, name))
		})
	}
}

func TestFrozenHomes(t *testing.T) {
	t.Parallel()
	for _, name := range homeNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := frozenHome(t, name)
			p := planOf(t, in, Options{})
			out := afterPlan(in, p)
			want := filepath.Join(homesDir, name, "want")
			for file, data := range map[string][]byte{FileConfig: out.Config, FileEnv: out.Env, FileSoul: out.Soul} {
				if data != nil {
					testkit.Golden(t, filepath.Join(want, file), data)
				}
			}
			text, err := json.MarshalIndent(p, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, filepath.Join(want, "plan.json"), append(text, '\n'))
			diff, err := p.Diff()
			if err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, filepath.Join(want, "diff.txt"), []byte(diff))
		})
	}
}

func TestEveryVersionHasAHome(t *testing.T) {
	t.Parallel()
	for v := Floor; v <= Latest(); v++ {
		name := fmt.Sprintf("v%d", v)
		if !slices.Contains(homeNames(t), name) {
			t.Errorf("%s/%s is missing: freeze a home as users have it at version %d", homesDir, name, v)
			continue
		}
		if p := planOf(t, frozenHome(t, name), Options{}); p.From != v {
			t.Errorf("%s is stamped %d", name, p.From)
		}
	}
}

// TestEveryStepActsAndRests: a step that no frozen home shows at work, or none shows keeping
// still on a file it runs on, is not frozen at all.
func TestEveryStepActsAndRests(t *testing.T) {
	t.Parallel()
	acts, rests := map[int]string{}, map[int]string{}
	for _, name := range homeNames(t) {
		p := planOf(t, frozenHome(t, name), Options{})
		for _, s := range Released().Steps() {
			runs := p.From < s.To && (p.From > 0 || s.LegacyKey) || s.AnyStamp
			hit := slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Step == s.To })
			switch {
			case hit:
				acts[s.To] = name
			case runs && !hit:
				rests[s.To] = name
			}
		}
	}
	for _, s := range Released().Steps() {
		if s.run != nil && acts[s.To] == "" {
			t.Errorf("no frozen home in which step %s acts", s.ID)
		}
		if rests[s.To] == "" {
			t.Errorf("no frozen home in which step %s has nothing to do", s.ID)
		}
		if s.run == nil && acts[s.To] != "" {
			t.Errorf("step %s has nothing to do and acts on %s", s.ID, acts[s.To])
		}
	}
}

// TestHomesTwice: the second run finds nothing to do.
func TestHomesTwice(t *testing.T) {
	t.Parallel()
	eachHome(t, func(t *testing.T, in Input) {
		out := migrated(t, in, Options{})
		p := planOf(t, out, Options{})
		if p.Pending() || len(p.Changes) > 0 {
			t.Errorf("a second plan has changes: %q", changesOf(p.Changes))
		}
		wantSame(t, "second run", afterPlan(out, p), out)
	})
}

// TestHomesStayJSON: Nix writes JSON, and what reads it may not take YAML.
func TestHomesStayJSON(t *testing.T) {
	t.Parallel()
	n := 0
	for _, name := range homeNames(t) {
		in := frozenHome(t, name)
		if !json.Valid(in.Config) {
			continue
		}
		n++
		if out := migrated(t, in, Options{}).Config; !json.Valid(out) {
			t.Errorf("%s is no JSON any more: %s", name, out)
		}
	}
	if n < 3 {
		t.Errorf("only %d frozen homes are JSON", n)
	}
}

// TestHomesPure: planning twice gives the same, and leaves the input alone.
func TestHomesPure(t *testing.T) {
	t.Parallel()
	eachHome(t, func(t *testing.T, in Input) {
		kept := Input{Config: bytes.Clone(in.Config), Env: bytes.Clone(in.Env), Soul: bytes.Clone(in.Soul)}
		p, q := planOf(t, in, Options{}), planOf(t, in, Options{})
		wantSame(t, "the input", in, kept)
		wantSame(t, "the second planning", afterPlan(in, q), afterPlan(in, p))
		for _, l := range [][2]any{{p.Changes, q.Changes}, {p.Kept, q.Kept}, {p.NotApplied, q.NotApplied}, {p.Advice, q.Advice}} {
			if d := cmp.Diff(l[0], l[1]); d != "" {
				t.Errorf("planning twice differs:\n%s", d)
			}
		}
	})
}

// TestHomesStepByStep: one jump is the chain of single steps, byte for byte.
func TestHomesStepByStep(t *testing.T) {
	t.Parallel()
	eachHome(t, func(t *testing.T, in Input) {
		if planOf(t, in, Options{}).From == 0 {
			// After its first step a file without a version has one, and more steps would run.
			in = migrated(t, in, Options{To: Floor, Assume: Floor})
		}
		p := planOf(t, in, Options{})
		chainSame(t, migrated(t, in, Options{To: p.From}), afterPlan(in, p), p.From)
	})
}

// chainSame climbs one step at a time and compares with the home that one jump gave.
func chainSame(t *testing.T, in, jump Input, from int) {
	t.Helper()
	for to := from + 1; to <= Latest(); to++ {
		p := planOf(t, in, Options{To: to})
		if p.To != to || p.From != to-1 {
			t.Fatalf("plan from %d to %d, want from %d to %d", p.From, p.To, to-1, to)
		}
		for _, c := range p.Changes {
			if s, ok := Released().Step(c.Step); c.Step != 0 && c.Step != to && (!ok || !s.AnyStamp) {
				t.Errorf("on the way to %d, step %d changed %q", to, c.Step, c.Path)
			}
		}
		in = afterPlan(in, p)
	}
	wantSame(t, fmt.Sprintf("single steps from %d", from), in, jump)
}

// TestHomesStrangeNeighbours: text that no step knows is carried through, also shapes that
// would be refused where a step edits.
func TestHomesStrangeNeighbours(t *testing.T) {
	t.Parallel()
	eachHome(t, func(t *testing.T, in Input) {
		first := bytes.TrimPrefix(in.Config, []byte("\xef\xbb\xbf"))
		if bytes.HasPrefix(bytes.TrimSpace(first), []byte("{")) || bytes.IndexByte(first, '\r') >= 0 {
			t.Skip("no lines can be put around this one")
		}
		const head = "zz_yy: &yy text\n# ---- before\nzz_before: &zz {a: [1, 2], b: *yy}\n"
		const behind, end = "\nzz_behind:\n  # inner\n  k: *zz\n", "# ---- behind\n"
		if !bytes.HasSuffix(first, []byte("\n")) {
			first = append(bytes.Clone(first), '\n')
		}
		in2 := in
		in2.Config = slices.Concat([]byte(head), first, []byte(behind+end))
		out := string(migrated(t, in2, Options{}).Config)
		if !strings.HasPrefix(out, head) || !strings.Contains(out, behind) || !strings.HasSuffix(out, end) {
			t.Errorf("the text around the file was changed:\n%s", out)
		}
	})
}
