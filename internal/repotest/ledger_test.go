// SPDX-License-Identifier: MIT

package repotest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// direct returns the modules that go.mod requires directly.
func direct(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^(?:require )?\t?(\S+\.\S+/\S+) v\S+$`).FindAllStringSubmatch(string(data), -1) {
		out = append(out, m[1])
	}
	return out
}

// TestDependencyLedger compares go.mod with docs/dependencies.md, which gives the reason for
// each direct module in a table row that starts with its path.
func TestDependencyLedger(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|[^|\n]+\\|[^|\n]{10,}\\|").FindAllStringSubmatch(string(data), -1) {
		listed = append(listed, m[1])
	}
	have := direct(t)
	if len(have) == 0 {
		t.Fatal("no direct module found in go.mod: the pattern of this test is wrong")
	}
	for _, m := range have {
		if !slices.Contains(listed, m) {
			t.Errorf("%s is in go.mod and not in docs/dependencies.md: say who imports it and why", m)
		}
	}
	for _, m := range listed {
		if !slices.Contains(have, m) {
			t.Errorf("%s is in docs/dependencies.md and not in go.mod", m)
		}
	}
}

// TestReadmeNamesDirectories wants a sentence in the README for every directory at the top.
func TestReadmeNamesDirectories(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !strings.Contains(string(readme), "`"+e.Name()+"/`") {
			t.Errorf("README.md does not say what `%s/` is for", e.Name())
		}
	}
}

// TestExitCodesDocumented compares the table in the docs with the code.
func TestExitCodesDocumented(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "docs", "exit-codes.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range exitcode.All() {
		row := fmt.Sprintf("| %d | %s | %s |", int(c), c, c.Meaning())
		if !strings.Contains(string(data), row) {
			t.Errorf("docs/exit-codes.md lacks the row %q", row)
		}
	}
}

// TestNoForeignPaths keeps the workshop out of the product.
func TestNoForeignPaths(t *testing.T) {
	t.Parallel()
	re := regexp.MustCompile(`(^|[^A-Za-z0-9_.-])/(work|farm)/|\.\./` + `shared|\.lib` + `rary\b`)
	for _, dir := range []string{"README.md", "docs", "appliance", "cmd", "internal", "migrate", "bench"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for i, line := range strings.Split(string(data), "\n") {
				if re.MatchString(line) && !strings.HasSuffix(path, "ledger_test.go") {
					t.Errorf("%s:%d names a path outside the project: %s", path, i+1, line)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
