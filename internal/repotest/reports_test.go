// SPDX-License-Identifier: MIT

package repotest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// reportLists are the lists of docs/reports.md: how many reports each has, and what is before
// their numbers. None may be left out, so that "no test yet" is always a sentence somebody wrote.
func reportLists() map[string]struct {
	prefix string
	last   int
} {
	return map[string]struct {
		prefix string
		last   int
	}{
		"Gateway": {"B", 34}, "Sandbox": {"", 37}, "Isolation": {"", 26},
		"Migrations": {"", 32}, "Services": {"", 50}, "Packaging": {"", 33},
	}
}

// proofs are the tests and the text literals of each package, and which scripts there are.
type proofs struct {
	tests map[string]bool     // package and function
	texts map[string][]string // package -> literals of its tests
}

func readProofs(t *testing.T) proofs {
	t.Helper()
	p := proofs{map[string]bool{}, map[string][]string{}}
	test := regexp.MustCompile(`^(Test|Fuzz)[^a-z]`)
	for _, s := range sources(t) {
		// Packages that hold the tests of several others are not test files themselves.
		if !s.test() && s.pkg() != "internal/terminaltest" {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && s.test() && test.MatchString(f.Name.Name) {
				p.tests[s.pkg()+" "+f.Name.Name] = true
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					p.texts[s.pkg()] = append(p.texts[s.pkg()], text)
				}
			}
			return true
		})
	}
	return p
}

// check says what is wrong with a proof such as "migrate TestReports/H#92554"; "" = nothing.
// What follows the slash is a whole word of a text in the package, or in internal/terminaltest,
// which has the cases of every backend; for TestScript it is the name of a script.
func (p proofs) check(proof string) string {
	pkg, rest, ok := strings.Cut(proof, " ")
	if !ok {
		return "no package and test"
	}
	name, sub, _ := strings.Cut(rest, "/")
	if !p.tests[pkg+" "+name] {
		return "no such test"
	}
	if sub == "" {
		return ""
	}
	if name == "TestScript" {
		if _, err := os.Stat(filepath.Join(root, pkg, "testdata", "script", sub+".txtar")); err != nil {
			return "no such script"
		}
		return ""
	}
	word := regexp.MustCompile(`(^|[^\w#])` + regexp.QuoteMeta(sub) + `($|\W)`)
	if !slices.ContainsFunc(slices.Concat(p.texts[pkg], p.texts["internal/terminaltest"]), word.MatchString) {
		return "the test has no such case"
	}
	return ""
}

// row is one report of a table.
type row struct {
	line                            int
	list, id, situation, does, test string
}

// readRows reads the tables below the headings of docs/reports.md.
func readRows(text string) (rows []row, bad []string) {
	list, n := "", 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if h, ok := strings.CutPrefix(line, "## "); ok {
			list, _, _ = strings.Cut(h, " ")
		}
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| # |") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 {
			bad = append(bad, fmt.Sprintf("line %d: %d cells, want 4", n, len(cells)))
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, row{n, list, cells[0], cells[1], cells[2], cells[3]})
	}
	return rows, bad
}

// faults says what is wrong with a row.
func (p proofs) faults(r row) (out []string) {
	if len(r.situation) < 10 || len(r.does) < 3 {
		out = append(out, "say what happened there and what this program does")
	}
	found := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(r.test, -1)
	for _, m := range found {
		if why := p.check(m[1]); why != "" {
			out = append(out, m[1]+": "+why)
		}
	}
	reason := regexp.MustCompile(`(open|not here): \S.{9,}`).MatchString(r.test)
	if len(found) == 0 && !reason {
		out = append(out, `name a test, or say "open: why" or "not here: why"`)
	}
	return out
}

// TestReportsAreProven reads docs/reports.md: every report of every list has a row, and every
// test that a row names exists.
func TestReportsAreProven(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join(root, "docs", "reports.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, bad := readRows(string(doc))
	for _, b := range bad {
		t.Error(b)
	}
	p, have := readProofs(t), map[string]int{}
	for _, r := range rows {
		have[r.list+" "+r.id]++
		for _, f := range p.faults(r) {
			t.Errorf("docs/reports.md:%d: %s %s: %s", r.line, r.list, r.id, f)
		}
	}
	for list, l := range reportLists() {
		for n := 1; n <= l.last; n++ {
			key := list + " " + l.prefix + strconv.Itoa(n)
			if have[key] != 1 {
				t.Errorf("%s has %d rows, want 1", key, have[key])
			}
			delete(have, key)
		}
	}
	if len(have) > 0 {
		t.Errorf("in no list: %v", slices.Sorted(maps.Keys(have)))
	}
}

// TestReportRules: what is wrong is found.
func TestReportRules(t *testing.T) {
	t.Parallel()
	p := readProofs(t)
	for test, ok := range map[string]bool{
		"`internal/repotest TestReportRules`":                                    true,
		"`internal/repotest TestReportRules/a case of its own`":                  true,
		"`internal/repotest TestReportRules/a case of nobody" + "'s`":            false,
		"`internal/repotest TestReport`":                                         false,
		"`internal/repotest TestNothing`":                                        false,
		"`internal TestReportRules`":                                             false,
		"`internal/repotest readProofs`":                                         false,
		"`TestReportRules`":                                                      false,
		"`cmd/hermes-appliance TestScript/migrate`":                              true,
		"`cmd/hermes-appliance TestScript/nothing`":                              false,
		"`appliance/terminal/docker TestConformance/ReportB207Timeout`":          true,
		"`appliance/terminal/docker TestConformance/ReportB207`":                 false,
		"`internal/repotest TestReportRules`; open: the rest of it is not there": true,
		"`internal/repotest TestNothing`; open: the rest of it is not there":     false,
		"open: there is no such platform here":                                   true,
		"open: no":                                                               false,
		"not here: another program does that":                                    true,
		"":                                                                       false,
		"it works":                                                               false,
	} {
		r := row{situation: "somebody was unlucky", does: "does better", test: test}
		if got := p.faults(r); (len(got) == 0) != ok {
			t.Errorf("%s: %v", test, got)
		}
	}
	rows, bad := readRows("## Gateway (x)\n| # | a | b | c |\n|---|---|---|---|\n| B1 | a | b | c |\n| B2 | a | b |\n")
	if len(rows) != 1 || rows[0].list != "Gateway" || rows[0].id != "B1" || len(bad) != 1 {
		t.Errorf("%v %v", rows, bad)
	}
}
