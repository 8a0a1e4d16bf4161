// SPDX-License-Identifier: MIT

package migrate

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// expectation is what a note says about one config of the corpus.
type expectation struct {
	changes []string // lines below "expected to be removed or changed"
	kept    []string // lines below "expected kept"
	verdict string   // the text behind "expected:"
}

// readNote reads a note.txt: one part for each config, named by its path.
func readNote(t *testing.T, path string) map[string]*expectation {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*expectation{}
	var now *expectation
	var list *[]string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		name, isPart := strings.CutPrefix(line, "== ")
		verdict, isVerdict := strings.CutPrefix(line, "expected: ")
		switch {
		case isPart:
			now, list = &expectation{}, nil
			out[name] = now
		case now == nil:
		case strings.HasPrefix(line, "expected to be removed or changed"):
			list = &now.changes
		case strings.HasPrefix(line, "expected kept"):
			list = &now.kept
		case isVerdict:
			now.verdict, list = verdict, nil
		case strings.HasPrefix(line, "  ") && list != nil:
			*list = append(*list, strings.TrimSpace(line))
		default:
			list = nil
		}
	}
	return out
}

func TestCorpus(t *testing.T) {
	t.Parallel()
	root := testkit.Corpus(t)
	seen := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "note.txt" {
			return err
		}
		dir := filepath.Dir(path)
		for name, want := range readNote(t, path) {
			seen++
			t.Run(filepath.Join(filepath.Base(dir), name), func(t *testing.T) {
				t.Parallel()
				checkCorpusFile(t, filepath.Join(dir, name), want)
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 30 {
		t.Errorf("the corpus has only %d configs", seen)
	}
}

func checkCorpusFile(t *testing.T, path string, want *expectation) {
	t.Helper()
	config, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	in := plain(string(config))
	if env, err := os.ReadFile(filepath.Join(filepath.Dir(path), FileEnv)); err == nil {
		in.Env = env
	}
	if strings.HasPrefix(want.verdict, "refused (floor") {
		refusalOf(t, in, Options{}, ErrBelowFloor, exitcode.BelowFloor)
		return
	}
	p := planOf(t, in, Options{})
	out := afterPlan(in, p)
	if strings.HasPrefix(want.verdict, "no step runs") {
		if p.Pending() {
			t.Errorf("nothing was to be done; got %q", changesOf(p.Changes))
		}
	} else if want.changes == nil {
		t.Fatal("the note says nothing about changes")
	}
	wantNoted(t, p, in, want.changes)
	for _, line := range want.kept {
		wantNotedKept(t, in, out, line)
	}
	keepsLines(t, p, in, out)
	keepsComments(t, p, FileConfig, in.Config, out.Config)
	if string(out.Env) != string(in.Env) {
		t.Error(".env was changed")
	}
	if again := planOf(t, out, Options{}); again.Pending() {
		t.Errorf("a second run has changes %q", changesOf(again.Changes))
	}
	if _, err := p.Diff(); err != nil {
		t.Error(err)
	}
	if p.From > 0 {
		chainSame(t, migrated(t, in, Options{To: p.From}), out, p.From)
	}
}

var (
	noteLine = regexp.MustCompile(`^(\d+(?:\+\d+)*): (\S+)(.*)$`)
	braces   = regexp.MustCompile(`^(.*)\{([^}]*)\}$`)
)

// wantNoted compares the plan's changes with a note, as sets of "step path".
func wantNoted(t *testing.T, p *Plan, in Input, lines []string) {
	t.Helper()
	want, got := []string{}, []string{}
	for _, line := range lines {
		m := noteLine.FindStringSubmatch(line)
		if m == nil {
			if line != "nothing but the stamp" && line != "stamp written at the end" {
				t.Errorf("the note has a line that the test does not know: %q", line)
			}
			continue
		}
		if m[1] == "21" || m[1] == "23" {
			continue // no plugins are installed; and no defaults are written
		}
		if m[2] == "connections" {
			m[2] = strings.Fields(m[3])[2] // "appended to PATH"
		}
		for _, path := range notedPaths(t, in, strings.TrimSuffix(m[2], ":")) {
			for step := range strings.SplitSeq(m[1], "+") {
				want = append(want, step+" "+path)
			}
		}
	}
	for _, c := range p.Changes {
		path := strings.Join(c.Path, ".")
		moved := c.Step == 17 && c.Path[0] == "auxiliary" || c.Step == 45 && c.Path[0] == "known_builtin_toolsets"
		if c.Step != 0 && !moved {
			got = append(got, strings.Fields(changesOf([]Change{c})[0])[0]+" "+path)
		}
	}
	for _, l := range []*[]string{&want, &got} {
		slices.Sort(*l)
		*l = slices.Compact(*l)
	}
	wantList(t, "changes by the note", got, want)
}

// notedPaths takes "section.a/b/c" and "section.{a,b}" apart. Of several keys those count
// that the file has.
func notedPaths(t *testing.T, in Input, path string) []string {
	t.Helper()
	var all []string
	if m := braces.FindStringSubmatch(path); m != nil {
		for key := range strings.SplitSeq(m[2], ",") {
			all = append(all, m[1]+key)
		}
		return all
	}
	section, keys, ok := strings.Cut(path, ".")
	if !ok || !strings.Contains(keys, "/") {
		return []string{path}
	}
	tree := corpusTree(t, in.Config)
	for key := range strings.SplitSeq(keys, "/") {
		key = strings.TrimPrefix(key, section+".")
		if tree.At(section, key) != nil {
			all = append(all, section+"."+key)
		}
	}
	if len(all) == 0 {
		t.Errorf("the file has none of %s", path)
	}
	return all
}

func corpusTree(t *testing.T, config []byte) *yamlspan.Tree {
	t.Helper()
	tree, err := yamlspan.ReadTree(config)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// wantNotedKept checks one line of "expected kept": a path with a value, several paths, or
// lists of toolsets.
func wantNotedKept(t *testing.T, in, out Input, line string) {
	t.Helper()
	before, after := corpusTree(t, in.Config), corpusTree(t, out.Config)
	same := func(path ...string) {
		old := before.At(path...)
		if ok, _ := old.Equal(after.At(path...)); old == nil || !ok {
			t.Errorf("%q is not as it was", path)
		}
	}
	if names, ok := strings.CutPrefix(line, "platform_toolsets composite-only lists: "); ok {
		for name := range strings.SplitSeq(names, ",") {
			same("platform_toolsets", name)
		}
		return
	}
	path, value, ok := strings.Cut(line, ": ")
	if !ok {
		for _, p := range notedPaths(t, in, path) {
			same(strings.Split(p, ".")...)
		}
		return
	}
	same(strings.Split(path, ".")...)
	value, _, _ = strings.Cut(value, " (")
	if v := after.At(strings.Split(path, ".")...); v == nil || value != "[]" && v.Text() != value {
		t.Errorf("%s is not %q any more", path, value)
	}
}

// TestCorpusEnvOnly: a home without a config has nothing to migrate.
func TestCorpusEnvOnly(t *testing.T) {
	t.Parallel()
	envs, err := filepath.Glob(filepath.Join(testkit.Corpus(t), "*", FileEnv))
	if err != nil || len(envs) == 0 {
		t.Fatalf("no .env in the corpus (%v)", err)
	}
	for _, path := range envs {
		env, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if p := planOf(t, Input{Env: env}, Options{}); p.Pending() {
			t.Errorf("%s: got changes %q", path, changesOf(p.Changes))
		}
		// Beside a config of the oldest version its own lines stay, byte for byte.
		in := Input{Config: []byte(stamped(Floor, "")), Env: env}
		if got := string(migrated(t, in, Options{}).Env); got != string(env) {
			t.Errorf("%s was changed", path)
		}
	}
}
