// SPDX-License-Identifier: MIT

package migrate

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// step makes a step that a ladder accepts.
func step(to int) Step {
	return Step{To: to, ID: fmt.Sprintf("%02d-x", to), Title: "t", Detail: "d"}
}

func TestNewLadder(t *testing.T) {
	t.Parallel()
	with := func(s Step, change func(*Step)) Step {
		change(&s)
		return s
	}
	for _, r := range []struct {
		name  string
		steps []Step
		want  string // part of the error, "" = none
	}{
		{"one step", []Step{step(12)}, ""},
		{"three steps", []Step{step(12), step(13), step(14)}, ""},
		{"none", nil, "needs a step"},
		{"not from the floor", []Step{step(13)}, "expected 12"},
		{"gap", []Step{step(12), step(14)}, "expected 13"},
		{"duplicate", []Step{step(12), step(12)}, "expected 13"},
		{"disorder", []Step{step(13), step(12)}, "expected 12"},
		{"id of another number", []Step{step(12), with(step(13), func(s *Step) { s.ID = "14-x" })}, `id "14-x"`},
		{"id without a number", []Step{with(step(12), func(s *Step) { s.ID = "x" })}, `id "x"`},
		{"id is only a prefix", []Step{with(step(12), func(s *Step) { s.ID = "120-x" })}, `id "120-x"`},
		{"no id", []Step{with(step(12), func(s *Step) { s.ID = "" })}, `id ""`},
		{"no title", []Step{with(step(12), func(s *Step) { s.Title = "" })}, "no description"},
		{"no detail", []Step{with(step(12), func(s *Step) { s.Detail = "" })}, "no description"},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			l, err := NewLadder(r.steps...)
			switch {
			case r.want == "" && err != nil:
				t.Fatalf("got error %v", err)
			case r.want == "":
				if got, want := l.Latest(), r.steps[len(r.steps)-1].To; got != want {
					t.Errorf("got latest %d, want %d", got, want)
				}
			case err == nil || !strings.Contains(err.Error(), r.want):
				t.Errorf("got error %v, want one that says %q", err, r.want)
			}
		})
	}
}

func TestReleased(t *testing.T) {
	t.Parallel()
	if _, err := NewLadder(table()...); err != nil {
		t.Fatalf("the released table is no ladder: %v", err)
	}
	if Floor != 12 || Latest() != 50 {
		t.Errorf("got a ladder from %d to %d, want 12 to 50", Floor, Latest())
	}
	l := Released()
	l.Steps()[0].ID = "scratch"
	if l.Steps()[0].ID == "scratch" {
		t.Error("the steps are shared with the caller")
	}
	for v := Floor - 2; v <= Latest()+2; v++ {
		s, ok := Released().Step(v)
		if want := v >= Floor && v <= Latest(); ok != want || ok && s.To != v {
			t.Errorf("Step(%d): got %d, %t", v, s.To, ok)
		}
	}
}

// TestStepGroups holds the lists of the spec: which steps run on a file without a version,
// and which whatever the version says.
func TestStepGroups(t *testing.T) {
	t.Parallel()
	legacy := []int{12, 14, 16, 17, 29, 33, 38, 39, 42, 43, 46, 50}
	anyStamp := []int{46, 50}
	idle := []int{15, 18, 19, 20, 22, 23, 24, 26, 27, 28, 30}
	for _, s := range Released().Steps() {
		if got, want := s.LegacyKey, slices.Contains(legacy, s.To); got != want {
			t.Errorf("step %d: got LegacyKey %t, want %t", s.To, got, want)
		}
		if got, want := s.AnyStamp, slices.Contains(anyStamp, s.To); got != want {
			t.Errorf("step %d: got AnyStamp %t, want %t", s.To, got, want)
		}
		if got, want := s.run == nil, slices.Contains(idle, s.To); got != want {
			t.Errorf("step %d: got no work %t, want %t", s.To, got, want)
		}
	}
}

// stepFiles lists the source files of the steps.
func stepFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("v[0-9][0-9][0-9]_*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
	if len(files) == 0 {
		t.Fatal("no step files here")
	}
	return files
}

// TestEveryStepFileIsInTheTable: a file that nobody calls is a migration that never runs
// (H PR#40208).
func TestEveryStepFileIsInTheTable(t *testing.T) {
	t.Parallel()
	table := Released().Steps()
	var numbers []int
	for _, file := range stepFiles(t) {
		n, err := strconv.Atoi(file[1:4])
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("func v%03d() Step", n); !strings.Contains(string(src), want) {
			t.Errorf("%s does not have %q", file, want)
		}
		if want := regexp.MustCompile(fmt.Sprintf(`To: +%d, ID: +"%02d-`, n, n)); !want.Match(src) {
			t.Errorf("%s does not lead to %d, with an id of that number", file, n)
		}
		if !slices.ContainsFunc(table, func(s Step) bool { return s.To == n }) {
			t.Errorf("%s is not in the table of steps", file)
		}
	}
	for i, s := range table {
		if i >= len(numbers) || numbers[i] != s.To {
			t.Fatalf("the files have the numbers %v, the table has %d at place %d", numbers, s.To, i)
		}
	}
}

// TestStepsImportNothingThatChanges: a released step gives the same result for ever, so
// what it calls must be as frozen as itself.
func TestStepsImportNothingThatChanges(t *testing.T) {
	t.Parallel()
	const module = "github.com/hermes-appliance/hermes-appliance/"
	allowed := []string{module + "appliance/dotenv", module + "migrate/yamlspan"}
	for _, file := range stepFiles(t) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			std := !strings.Contains(strings.SplitN(path, "/", 2)[0], ".")
			if !std && !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s: a step keeps its own copy of what it needs", file, path)
			}
			if std && slices.Contains([]string{"os", "time", "net", "net/http", "os/exec", "math/rand", "math/rand/v2"}, path) {
				t.Errorf("%s imports %s: a plan is a pure function", file, path)
			}
		}
	}
}

// TestNewDefaultIsNotLegacy: a written image is a pin, also one that spells today's default,
// so no step may take it away.
func TestNewDefaultIsNotLegacy(t *testing.T) {
	t.Parallel()
	const today = "nousresearch/hermes-sandbox:desktop"
	if len(v048Images()) != 2 {
		t.Errorf("got %d old images, want 2", len(v048Images()))
	}
	for _, image := range v048Images() {
		if image == today || image == "docker://"+today || !strings.HasPrefix(image, "nikolaik/python-nodejs:python3.1") {
			t.Errorf("%s is no image of before the desktop image", image)
		}
	}
	for _, file := range stepFiles(t) {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(src), today) {
			t.Errorf("%s names %s", file, today)
		}
	}
}

// TestDescriptions: what --list and --explain print is one line and full sentences.
func TestDescriptions(t *testing.T) {
	t.Parallel()
	for _, s := range Released().Steps() {
		if strings.ContainsAny(s.Title, "\r\n") || len(s.Title) > 120 || strings.HasSuffix(s.Title, ".") {
			t.Errorf("step %d: the title %q is no short line", s.To, s.Title)
		}
		if strings.Contains(s.Detail, "  ") || !strings.HasSuffix(s.Detail, ".") {
			t.Errorf("step %d: the detail %q is no text", s.To, s.Detail)
		}
	}
}
