// SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// run runs one command line in process.
func run(t *testing.T, env map[string]string, args ...string) (code exitcode.Code, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(t.Context(), args, Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Getenv: func(name string) string { return env[name] },
		Now:    func() time.Time { return time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC) },
	})
	return code, out.String(), errs.String()
}

// commands returns every command line that has a help text.
func commands(cmd *cobra.Command, prefix []string) [][]string {
	out := [][]string{prefix}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			out = append(out, commands(c, append(slices.Clip(prefix), c.Name()))...)
		}
	}
	return out
}

func TestHelpGolden(t *testing.T) {
	t.Parallel()
	for _, args := range commands(newRoot(&state{}), nil) {
		name := strings.Join(append([]string{Name}, args...), "-")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := run(t, nil, append(args, "--help")...)
			if code != exitcode.OK || stderr != "" {
				t.Errorf("--help: exit %d, stderr %q", code, stderr)
			}
			for _, want := range []string{"Usage: ", "EXAMPLE", "EXIT STATUS"} {
				if !strings.Contains(stdout, want) {
					t.Errorf("help lacks %q", want)
				}
			}
			testkit.Golden(t, filepath.Join("testdata", "help", name+".txt"), []byte(stdout))
		})
	}
}

// TestTreesAreFresh checks that a flag of one run is not left over in the next.
func TestTreesAreFresh(t *testing.T) {
	t.Parallel()
	if _, stdout, _ := run(t, nil, "version", "--json"); !strings.HasPrefix(stdout, "{") {
		t.Errorf("--json printed %q", stdout)
	}
	if _, stdout, _ := run(t, nil, "version"); strings.HasPrefix(stdout, "{") {
		t.Errorf("without --json it printed %q", stdout)
	}
}

func TestJSONErrors(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := run(t, map[string]string{"HERMES_HOME": t.TempDir()}, "migrate", "--json", "--to", "3")
	if code != exitcode.Usage || stdout != "" {
		t.Errorf("exit %d, stdout %q", code, stdout)
	}
	for _, want := range []string{`"schema": 1`, `"command": "migrate"`, `"exit": 2`, `"kind": "usage"`} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr lacks %s:\n%s", want, stderr)
		}
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	for want, ns := range map[string][]int{"": nil, "13": {13}, "13, 15": {13, 15}, "18-20, 22": {18, 19, 20, 22}} {
		if got := ranges(ns); got != want {
			t.Errorf("ranges(%v): got %q, want %q", ns, got, want)
		}
	}
}

// TestRulesDocumented holds docs/child-environments.md to the policy that decides.
func TestRulesDocumented(t *testing.T) {
	t.Parallel()
	_, stdout, _ := run(t, nil, "env", "rules")
	testkit.Golden(t, filepath.Join("..", "..", "docs", "child-environments.md"), []byte(stdout))
}
