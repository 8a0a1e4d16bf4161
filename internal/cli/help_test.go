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
	return runAt(t, func() time.Time { return time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC) }, env, args...)
}

func runAt(t *testing.T, now func() time.Time, env map[string]string, args ...string) (code exitcode.Code, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(t.Context(), args, Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Getenv: func(name string) string { return env[name] },
		Now:    now,
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

// TestWrongArguments: too few arguments, too many and wrong flags exit 2 and say what is expected,
// in words of the command.
func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ line, want string }{
		{"config get", "config get takes KEY, and there is none"},
		{"config set terminal.timeout", `config set takes KEY VALUE; "terminal.timeout" does not fit`},
		{"migrate everything", `migrate takes no argument but its flags; "everything" does not fit`},
		{"update ./file", `update takes no argument but its flags; "./file" does not fit`},
		{"version x", `version takes no argument but its flags; "x" does not fit`},
		{"completion tcsh", `completion takes bash|zsh|fish|powershell; "tcsh" does not fit`},
		{"images publish", "images publish takes DIGEST..., and there is none"},
		{"migrate --to soon", `invalid argument "soon" for "--to" flag: expected a number`},
		{"bogus", `unknown command "bogus"`},
		{"config bogus", `unknown command "bogus"`},
	} {
		code, stdout, stderr := run(t, nil, strings.Fields(row.line)...)
		if code != exitcode.Usage || stdout != "" || !strings.HasPrefix(stderr, Name+": "+row.want) || !strings.Contains(stderr, "--help") || strings.Contains(stderr, "strconv") {
			t.Errorf("%s: exit %d, %s%s", row.line, code, stdout, stderr)
		}
	}
}
