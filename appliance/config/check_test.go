// SPDX-License-Identifier: MIT

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// lines shows problems, one a line.
func lines(p problems) []string {
	var out []string
	for _, q := range p {
		out = append(out, fmt.Sprintf("%s %s:%d %s: %s; %s", q.Severity, filepath.Base(q.File), q.Line, yamlspan.PathString(q.Path), q.Msg, q.Fix))
	}
	return out
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const stamp = "_config_version: 50\n"
	for name, row := range map[string]struct {
		user, admin, env string
		want             []string // the beginning of each line
	}{
		"good":        {stamp + "terminal: {timeout: 1}\nanything: [goes, {x: y}]\n", "-", "-", nil},
		"template":    {string(home.Template()), "-", "-", nil},
		"no file":     {"-", "-", "-", []string{"warning config.yaml:0 (top level): is not there"}},
		"no stamp":    {"a: 1\n", "-", "-", []string{"warning config.yaml:0 _config_version: is not there"}},
		"bad stamp":   {"a: 1\n_config_version: x\n", "-", "-", []string{"error config.yaml:2 _config_version: is text; expected a version"}},
		"unparsable":  {"a: 1\nb: \"x\n", "-", "-", []string{"error config.yaml:2 (top level): not valid YAML"}},
		"admin":       {stamp, "a: [", "-", []string{"warning admin.yaml:1 (top level): not valid YAML"}},
		"admin shape": {stamp, "terminal: x\n", "-", []string{"warning admin.yaml:1 terminal: is text; expected a section"}},
		"env":         {stamp, "-", "\x00", []string{"error .env:0 (top level): not UTF-8"}},
		"env value":   {stamp, "-", "A=b\nTERMINAL_TIMEOUT=x\n", []string{"error .env:2 TERMINAL_TIMEOUT: expected a number"}},
		"env backend": {stamp, "-", "TERMINAL_ENV=dock\n", []string{"error .env:0 TERMINAL_ENV: expected one of local, docker"}},
		"section":     {stamp + "terminal: docker\n", "-", "-", []string{"error config.yaml:2 terminal: is text; expected a section of keys"}},
		"types": {
			stamp + "terminal:\n  timeout: soon\n  docker_volumes: x\n  docker_env: [a]\n  env_passthrough: {a: b}\n  auto_source_bashrc: 5\n  docker_image: [x]\ncompression:\n  threshold: high\n  protect_last_n: 1.5\n", "-", "-",
			[]string{
				"error config.yaml:3 terminal.timeout: is text; expected a number", "error config.yaml:6 terminal.env_passthrough: is a section",
				"error config.yaml:7 terminal.auto_source_bashrc: is a number; expected true or false", "error config.yaml:8 terminal.docker_image: is a list",
				"error config.yaml:5 terminal.docker_env: is a list", "error config.yaml:4 terminal.docker_volumes: is text; expected a list",
				"error config.yaml:10 compression.threshold: is text", "error config.yaml:11 compression.protect_last_n: is a number; expected a whole number",
			},
		},
		"backend":    {stamp + "terminal: {backend: dokcer}\n", "-", "-", []string{"error config.yaml:2 terminal.backend: is text; expected one of local, docker, ssh, singularity, modal, daytona, vercel_sandbox; did you mean docker?"}},
		"upper case": {stamp + "terminal: {backend: Docker}\n", "-", "-", nil},
		"ssh":        {stamp + "terminal:\n  backend: ssh\n", "-", "-", []string{"error config.yaml:3 terminal.ssh_host: is not set"}},
		"ssh by env": {stamp + "terminal:\n  backend: ssh\n", "-", "TERMINAL_SSH_HOST=h\n", nil},
		"twice":      {stamp + "a: 1\nb: {c: 1, c: 2}\na: 2\n", "-", "-", []string{"warning config.yaml:3 b.c: is given before, on line 3", "warning config.yaml:4 a: is given before, on line 2; the last one counts"}},
		"pins": {
			stamp + "terminal:\n  docker_image: nousresearch/hermes-sandbox:desktop\n  modal_image: me/x:1\n  daytona_image:\n", "-", "-",
			[]string{"info config.yaml:3 terminal.docker_image: spells out the default", "info config.yaml:4 terminal.modal_image: is a choice of yours"},
		},
		"no pins in an older file": {"_config_version: 46\nterminal:\n  docker_image: me/x:1\n", "-", "-", nil},
		"pin in .env":              {stamp, "-", "TERMINAL_DOCKER_IMAGE=x\n", []string{"info .env:0 TERMINAL_DOCKER_IMAGE: pins the sandbox image"}},
		"shadowed":                 {stamp + "terminal: {timeout: 1}\n", "terminal: {timeout: 2}\n", "-", []string{"info config.yaml:2 terminal.timeout: has no effect"}},
		"variables":                {stamp + "a: \"${KNOWN} ${GONE} ${env:ALSO}\"\nb: [\"${GONE2}\"]\nterminal: {timeout: \"${KNOWN}\"}\n", "-", "-", []string{"error config.yaml:4 terminal.timeout: refers to ${KNOWN}", "warning config.yaml:2 a: refers to ${GONE}", "warning config.yaml:2 a: refers to ${ALSO}", "warning config.yaml:3 b: refers to ${GONE2}"}},
	} {
		got := lines(Check(CheckInput{Latest: 50, User: file("config.yaml", row.user), Admin: file("admin.yaml", row.admin), Env: file(".env", row.env), Lookup: env("KNOWN", "sekret")}))
		want := slices.Clone(row.want)
		for _, g := range got {
			i := slices.IndexFunc(want, func(w string) bool { return strings.HasPrefix(g, w) })
			if i < 0 {
				t.Errorf("%s: unexpected: %s", name, g)
				continue
			}
			want = slices.Delete(want, i, i+1)
			if strings.Contains(g, "sekret") {
				t.Errorf("%s: shows a value: %s", name, g)
			}
		}
		for _, w := range want {
			t.Errorf("%s: missing: %s\nin:\n%s", name, w, strings.Join(got, "\n"))
		}
		if !slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(rank(a), rank(b)) }) {
			t.Errorf("%s: faults do not come first:\n%s", name, strings.Join(got, "\n"))
		}
	}
}

func rank(line string) string {
	return map[string]string{"error": "a", "warning": "b", "info": "c"}[strings.Fields(line)[0]]
}

// TestCheckAgreesWithPolicy: where a policy is refused, Check says why, and the other way
// round for everything that reaches the policy.
func TestCheckAgreesWithPolicy(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"x", "5", "-5", "1.5", "yes", "null", "''", "[a]", "[[a]]", "{a: b}", "{a: [b]}", "!t x", "\"${X}\"", "'[\"a\"]'", "'{\"a\": 1}'", ".inf"} {
		for _, key := range []string{"timeout", "ssh_port", "docker_image", "docker_volumes", "docker_env", "persistent_shell", "ssh_host", "cwd", "modal_mode"} {
			b, _ := bridgedKey(key) // one of each kind
			text := "_config_version: 50\nterminal:\n  " + b.key + ": " + value + "\n"
			_, err := NewTerminal(TerminalInput{Config: parse(t, text, "-"), Lookup: env("X", "y")})
			faults := 0
			for _, p := range Check(CheckInput{User: file("config.yaml", text), Lookup: env("X", "y")}) {
				if p.Severity == Fault {
					faults++
				}
			}
			if (err != nil) != (faults > 0) {
				t.Errorf("terminal.%s: %s: policy %v, %d faults", b.key, value, err, faults)
			}
		}
	}
}

func TestCheckCorpus(t *testing.T) {
	t.Parallel()
	dir := testkit.Corpus(t)
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, p := range Check(CheckInput{User: File{path, data}}) {
			if p.Severity == Fault {
				t.Errorf("%s: %+v", path, p)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoSecretInErrors: a password without quotes that YAML takes for an alias or a tag is not
// shown by what complains about it.
func TestNoSecretInErrors(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"*s3cr3t", "!s3cr3t x", "!s3cr3t", "&a [*a, *s3cr3t]", "@s3cr3t", "`s3cr3t", "%s3cr3t", "\"s3cr3t", "{s3cr3t", "s3cr3t: x: y", "|s3cr3t", ">s3cr3t"} {
		for _, key := range []string{"api_key", "base_url"} {
			file := File{"config.yaml", []byte("model:\n  " + key + ": " + value + "\n  provider: x\n")}
			var said []string
			for _, p := range Check(CheckInput{User: file}) {
				said = append(said, p.Msg+p.Fix)
			}
			c, err := Parse(file, File{})
			if err == nil {
				_, err = c.With(nil).String("model", key)
			}
			if err != nil {
				said = append(said, err.Error())
			}
			if d, err := newDraft(file, []string{"model", "x"}); err != nil {
				said = append(said, err.Error())
			} else if err := d.unset(); err != nil {
				said = append(said, err.Error())
			}
			if all := strings.Join(said, "\n"); strings.Contains(all, "s3cr3t") {
				t.Errorf("%s: %s: %s", key, value, all)
			}
		}
	}
}
