// SPDX-License-Identifier: MIT

package repotest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// pinned is an action at a commit, with the version that the commit is in a comment.
var pinned = regexp.MustCompile(`^[A-Za-z0-9_.-]+/[A-Za-z0-9_./-]+@[0-9a-f]{40}$`)

// lintWorkflow holds a workflow to actionlint and to our rules: actions of others at a
// commit with its version beside it, permissions named at the top and none to write there,
// a limit of time for each job, no secret where a pull request's code runs.
func lintWorkflow(name string, data []byte) ([]string, error) {
	l, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		return nil, err
	}
	errs, err := l.Lint(name, data, nil)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range errs {
		out = append(out, fmt.Sprintf("%d: %s [%s]", e.Line, e.Message, e.Kind))
	}
	w, _ := actionlint.Parse(data)
	if w == nil {
		return out, nil
	}
	say := func(pos *actionlint.Pos, rule, format string, args ...any) {
		out = append(out, fmt.Sprintf("%d: %s [%s]", pos.Line, fmt.Sprintf(format, args...), rule))
	}
	top := &actionlint.Pos{Line: 1}
	if w.Permissions == nil {
		say(top, "permissions", "no permissions at the top")
	} else {
		for name, p := range w.Permissions.Scopes {
			if p.Value.Value != "read" && p.Value.Value != "none" {
				say(p.Value.Pos, "permissions", "%s: %s at the top: give it to the job that needs it", name, p.Value.Value)
			}
		}
		if w.Permissions.All != nil {
			say(w.Permissions.All.Pos, "permissions", "permissions for everything")
		}
	}
	lines := strings.Split(string(data), "\n")
	for _, job := range w.Jobs {
		if job.WorkflowCall == nil && job.TimeoutMinutes == nil {
			say(job.Pos, "timeout", "job %s has no timeout-minutes", job.ID.Value)
		}
		for _, step := range job.Steps {
			a, ok := step.Exec.(*actionlint.ExecAction)
			if !ok || a.Uses == nil || strings.HasPrefix(a.Uses.Value, "./") {
				continue
			}
			if !pinned.MatchString(a.Uses.Value) {
				say(a.Uses.Pos, "pin", "uses: %s is not at a commit", a.Uses.Value)
			} else if line := lines[a.Uses.Pos.Line-1]; !regexp.MustCompile(`# v\d`).MatchString(line) {
				say(a.Uses.Pos, "pin", "uses: %s without its version in a comment", a.Uses.Value)
			}
		}
	}
	if slices.ContainsFunc(w.On, func(e actionlint.Event) bool { return e.EventName() == "pull_request_target" }) {
		say(top, "target", "pull_request_target runs with secrets on what others send")
	}
	out = append(out, looseSecrets(w)...)
	return out, nil
}

// looseSecrets finds secrets in jobs that no environment protects.
func looseSecrets(w *actionlint.Workflow) (out []string) {
	for _, job := range w.Jobs {
		if job.Environment != nil {
			continue
		}
		for _, step := range job.Steps {
			var values []string
			if step.Env != nil {
				for _, v := range step.Env.Vars {
					values = append(values, v.Value.Value)
				}
			}
			switch e := step.Exec.(type) {
			case *actionlint.ExecRun:
				values = append(values, e.Run.Value)
			case *actionlint.ExecAction:
				for _, in := range e.Inputs {
					values = append(values, in.Value.Value)
				}
			}
			for _, v := range values {
				if strings.Contains(v, "secrets.") {
					out = append(out, fmt.Sprintf("%d: job %s uses a secret outside of an environment [secret]", step.Pos.Line, job.ID.Value))
				}
			}
		}
	}
	return out
}

// TestWorkflows lints every workflow of the repository.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.y*ml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found, err := lintWorkflow(filepath.Base(path), data)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for _, f := range found {
			t.Errorf("%s:%s", path, f)
		}
	}
}

// TestWorkflowCommands: what a workflow runs is a script of the repository that runs the same
// anywhere, and there.
func TestWorkflowCommands(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.y*ml"))
	if err != nil {
		t.Fatal(err)
	}
	scripts := 0
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		w, _ := actionlint.Parse(data)
		for _, job := range w.Jobs {
			for _, step := range job.Steps {
				run, ok := step.Exec.(*actionlint.ExecRun)
				if !ok {
					continue
				}
				for _, name := range regexp.MustCompile(`\.ci/[a-z-]+`).FindAllString(run.Run.Value, -1) {
					scripts++
					if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode()&0o111 == 0 {
						t.Errorf("%s:%d: %s cannot be run: %v", path, run.Run.Pos.Line, name, err)
					}
				}
			}
		}
	}
	if scripts < 8 {
		t.Errorf("%d scripts found: the pattern of this test is wrong", scripts)
	}
}

// TestShellScripts lints every shell script that no other test does.
func TestShellScripts(t *testing.T) {
	t.Parallel()
	shellcheck, err := exec.LookPath("shellcheck")
	testkit.Need(t, "shellcheck", err == nil, "no shellcheck on PATH")
	scripts, err := filepath.Glob(filepath.Join(root, ".ci", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postinstall", "preremove", "postremove"} {
		scripts = append(scripts, filepath.Join(root, "installer", "package", name))
	}
	out, err := exec.CommandContext(t.Context(), shellcheck, append([]string{"--severity=warning"}, scripts...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestWorkflowRules gives each rule what it must find.
func TestWorkflowRules(t *testing.T) {
	t.Parallel()
	const hash = "df4cb1c069e1874edd31b4311f1884172cec0e10"
	workflow := func(perms, env, uses, run string) string {
		return "name: x\non: {pull_request: {}}\n" + perms + "jobs:\n  a:\n    runs-on: ubuntu-24.04\n    timeout-minutes: 5\n" + env + "    steps:\n      - uses: " + uses + "\n      - run: " + run + "\n"
	}
	const perms, uses = "permissions: {contents: read}\n", "actions/checkout@" + hash + " # v6.0.3"
	for name, tt := range map[string]struct{ file, want string }{
		"good":                  {workflow(perms, "", uses, "true"), ""},
		"a tag":                 {workflow(perms, "", "actions/checkout@v6", "true"), "[pin]"},
		"a branch":              {workflow(perms, "", "actions/checkout@main", "true"), "[pin]"},
		"a short hash":          {workflow(perms, "", "actions/checkout@df4cb1c", "true"), "[pin]"},
		"no version":            {workflow(perms, "", "actions/checkout@"+hash, "true"), "[pin]"},
		"no permissions":        {workflow("", "", uses, "true"), "[permissions]"},
		"write for all":         {workflow("permissions: {contents: write}\n", "", uses, "true"), "[permissions]"},
		"everything":            {workflow("permissions: write-all\n", "", uses, "true"), "[permissions]"},
		"no limit":              {strings.Replace(workflow(perms, "", uses, "true"), "    timeout-minutes: 5\n", "", 1), "[timeout]"},
		"a loose secret":        {workflow(perms, "", uses, "'echo ${{ secrets.X }}'"), "[secret]"},
		"a protected secret":    {workflow(perms, "    environment: release\n", uses, "'echo ${{ secrets.X }}'"), ""},
		"injection":             {workflow(perms, "", uses, "'echo ${{ github.event.pull_request.title }}'"), "[expression]"},
		"an unknown expression": {workflow(perms, "", uses, "'echo ${{ nothing.x }}'"), "[expression]"},
	} {
		found, err := lintWorkflow("x.yml", []byte(tt.file))
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(found, "\n")
		if tt.want == "" && all != "" || tt.want != "" && !strings.Contains(all, tt.want) {
			t.Errorf("%s: got %q, want %s", name, all, tt.want)
		}
	}
}
