// SPDX-License-Identifier: MIT

package repotest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// finding is one thing that is wrong in a Dockerfile.
type finding struct {
	rule string
	line int
	text string
}

// lintDockerfile holds a Dockerfile to what BuildKit's parser warns of (the rest of its rules
// need a build: docker build --check), and to our rules:
//
//	from-latest     no image without a tag or with the tag latest
//	from-arg        the base is an ARG, so that a build can pin it by digest
//	apt-lists       what apt-get update fetches is removed in the same layer
//	apt-recommends  apt-get install takes no recommended packages
//	pipe-to-shell   nothing that was just fetched is run unseen
//	add-checksum    ADD of an address names its checksum
//	secret          no ARG or ENV by the name of a secret
//	pipefail        a RUN with a pipe fails when any part fails
//	pip-pinned      pip installs versions that are named
//
// A RUN may leave the lists to a script that was copied in before: read returns a file of the
// build context.
func lintDockerfile(data []byte, read func(path string) string) ([]finding, error) {
	res, err := parser.Parse(strings.NewReader(string(data)))
	if err != nil {
		return nil, err
	}
	var out []finding
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, text string, at []parser.Range) {
		line := 0
		if len(at) > 0 {
			line = at[0].Start.Line
		}
		out = append(out, finding{rule, line, text})
	}})
	for _, w := range res.Warnings {
		line := 0
		if w.Location != nil {
			line = w.Location.Start.Line
		}
		out = append(out, finding{"parser", line, w.Short})
	}
	stages, meta, err := instructions.Parse(res.AST, lint)
	if err != nil {
		return nil, err
	}
	d := &dockerfile{out: out, args: map[string]bool{}, stages: map[string]bool{}, read: read}
	for _, a := range meta {
		d.arg(a)
	}
	for _, s := range stages {
		d.stage(s)
	}
	return d.out, nil
}

// dockerfile is a file that is being linted.
type dockerfile struct {
	out      []finding
	args     map[string]bool // arguments before the first FROM
	stages   map[string]bool // by name
	pipefail bool            // of the stage
	copied   []string        // directories of the context that the stage copied to its root
	read     func(path string) string
}

func (d *dockerfile) say(c instructions.Command, rule, format string, args ...any) {
	line := 0
	if at := c.Location(); len(at) > 0 {
		line = at[0].Start.Line
	}
	d.out = append(d.out, finding{rule, line, fmt.Sprintf(format, args...)})
}

func (d *dockerfile) arg(a instructions.ArgCommand) {
	for _, kv := range a.Args {
		d.args[kv.Key] = true
		d.secret(&a, kv.Key)
		if kv.Value != nil {
			d.image(&a, *kv.Value, strings.HasSuffix(kv.Key, "BASE") || strings.HasSuffix(kv.Key, "IMAGE"))
		}
	}
}

var (
	argRef     = regexp.MustCompile(`^\$\{?([A-Za-z_][A-Za-z0-9_]*)`)
	secretName = regexp.MustCompile(`(?i)(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|PRIVATE_?KEY|CREDENTIALS?)(_|$)`)
	fetchPipe  = regexp.MustCompile(`\b(curl|wget)\b[^;&\n]*\|\s*(sudo\s+)?(ba|da|z|k)?sh\b`)
	fetchSubst = regexp.MustCompile(`\b(ba|da|z)?sh\b[^;&\n]*(<\(|\$\()\s*(curl|wget)\b`)
	pipInstall = regexp.MustCompile(`\bpip3?\s+install\b([^;&|]*)`)
	aptClean   = regexp.MustCompile(`\b(rm|find)\b[^\n;&]*/var/lib/apt/lists`)
	pipe       = regexp.MustCompile(`[^|]\|[^|]`)
)

func (d *dockerfile) stage(s instructions.Stage) {
	line := 0
	if len(s.Location) > 0 {
		line = s.Location[0].Start.Line
	}
	say := func(rule, text string) { d.out = append(d.out, finding{rule, line, text}) }
	switch m := argRef.FindStringSubmatch(s.BaseName); {
	case d.stages[s.BaseName], s.BaseName == "scratch":
	case m == nil:
		say("from-arg", "FROM "+s.BaseName+": name the base by an ARG, which a build pins by digest")
		if latest(s.BaseName) {
			say("from-latest", "FROM "+s.BaseName+": no tag, or latest")
		}
	case !d.args[m[1]]:
		say("from-arg", "FROM "+s.BaseName+": no ARG by that name before it")
	}
	if s.Name != "" {
		d.stages[s.Name] = true
	}
	d.pipefail, d.copied = false, nil
	for _, c := range s.Commands {
		d.command(c)
	}
}

// image checks the default of an argument that is an image.
func (d *dockerfile) image(c instructions.Command, ref string, base bool) {
	if base && latest(ref) {
		d.say(c, "from-latest", "%s: no tag, or latest", ref)
	}
}

func latest(ref string) bool {
	if strings.Contains(ref, "@sha256:") {
		return false
	}
	name := ref[strings.LastIndex(ref, "/")+1:]
	_, tag, ok := strings.Cut(name, ":")
	return !ok || tag == "latest"
}

func (d *dockerfile) command(c instructions.Command) {
	switch c := c.(type) {
	case *instructions.ShellCommand:
		d.pipefail = slices.Contains(c.Shell, "pipefail") || slices.ContainsFunc(c.Shell, func(s string) bool { return strings.Contains(s, "pipefail") })
	case *instructions.ArgCommand:
		for _, kv := range c.Args {
			d.secret(c, kv.Key)
		}
	case *instructions.EnvCommand:
		for _, kv := range c.Env {
			d.secret(c, kv.Key)
		}
	case *instructions.AddCommand:
		for _, src := range c.SourcePaths {
			if strings.Contains(src, "://") && c.Checksum == "" {
				d.say(c, "add-checksum", "ADD %s without --checksum", src)
			}
		}
	case *instructions.CopyCommand:
		if c.From == "" && c.DestPath == "/" {
			d.copied = append(d.copied, c.SourcePaths...)
		}
	case *instructions.RunCommand:
		d.run(c)
	}
}

func (d *dockerfile) secret(c instructions.Command, name string) {
	if secretName.MatchString(name) {
		d.say(c, "secret", "%s stays in the image's history: mount it with RUN --mount=type=secret", name)
	}
}

func (d *dockerfile) run(c *instructions.RunCommand) {
	text := strings.Join(c.CmdLine, " ")
	for _, f := range c.Files {
		text += "\n" + f.Data
	}
	if strings.Contains(text, "apt-get update") && !d.cleans(text) {
		d.say(c, "apt-lists", "apt-get update without removing /var/lib/apt/lists in the same RUN")
	}
	if strings.Contains(text, "apt-get install") && !strings.Contains(text, "--no-install-recommends") {
		d.say(c, "apt-recommends", "apt-get install without --no-install-recommends")
	}
	if fetchPipe.MatchString(text) || fetchSubst.MatchString(text) {
		d.say(c, "pipe-to-shell", "what was just fetched is run unseen")
	}
	if c.PrependShell && pipe.MatchString(text) && !d.pipefail && !strings.Contains(text, "pipefail") {
		d.say(c, "pipefail", "a pipe without pipefail: begin with SHELL [\"/bin/bash\", \"-o\", \"pipefail\", \"-c\"]")
	}
	for _, m := range pipInstall.FindAllStringSubmatch(text, -1) {
		for word := range strings.FieldsSeq(m[1]) {
			if !strings.HasPrefix(word, "-") && !strings.Contains(word, "==") && !strings.Contains(word, "://") && !strings.ContainsAny(word, "./$") {
				d.say(c, "pip-pinned", "pip install %s: name the version with ==", word)
			}
		}
	}
}

// cleans reports whether a RUN takes away what apt-get update fetched.
func (d *dockerfile) cleans(text string) bool {
	if strings.Contains(text, "target=/var/lib/apt") {
		return true
	}
	for word := range strings.FieldsSeq(text) {
		for _, dir := range d.copied {
			if strings.HasPrefix(word, "/") {
				text += "\n" + d.read(filepath.Join(dir, word))
			}
		}
	}
	return aptClean.MatchString(text)
}

// TestDockerfiles lints every Dockerfile of the repository.
func TestDockerfiles(t *testing.T) {
	t.Parallel()
	for _, path := range find(t, func(path string) bool { return strings.HasPrefix(filepath.Base(path), "Dockerfile") }) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found, err := lintDockerfile(data, func(name string) string {
			text, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
			if err != nil {
				return ""
			}
			return string(text)
		})
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for _, f := range found {
			t.Errorf("%s:%d: %s: %s", path, f.line, f.rule, f.text)
		}
	}
}

// find lists files of the repository, without test data.
func find(t *testing.T, want func(path string) bool) (out []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (e.Name() == ".git" || e.Name() == "testdata" || e.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if !e.IsDir() && want(path) {
			out = append(out, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDockerfileRules gives each rule what it must find, and what it must not.
func TestDockerfileRules(t *testing.T) {
	t.Parallel()
	const head = "ARG BASE=debian:13\nFROM ${BASE}\n"
	tests := map[string]struct {
		file string
		want string // rules, sorted
	}{
		"good":                    {head + "SHELL [\"/bin/bash\", \"-o\", \"pipefail\", \"-c\"]\nRUN apt-get update && apt-get install -y --no-install-recommends curl && rm -rf /var/lib/apt/lists/*\nRUN echo a | cat\nADD --checksum=sha256:24454f830cdb571e2c4ad15481119c43b3cafd48dd869a9b2945d1036d1dc68d https://example.org/x /x\n", ""},
		"stages":                  {"ARG BASE=debian:13@sha256:" + strings.Repeat("a", 64) + "\nFROM ${BASE} AS one\nFROM one\nCOPY --from=one /a /a\n", ""},
		"no tag":                  {"FROM debian\n", "from-arg from-latest"},
		"latest":                  {"FROM debian:latest\n", "from-arg from-latest"},
		"latest by argument":      {"ARG BASE=debian:latest\nFROM ${BASE}\n", "from-latest"},
		"a fixed base":            {"FROM debian:13\n", "from-arg"},
		"a registry with a port":  {"FROM localhost:5000/debian\n", "from-arg from-latest"},
		"lists left":              {head + "RUN apt-get update && apt-get install -y --no-install-recommends curl\n", "apt-lists"},
		"lists removed too late":  {head + "RUN apt-get update\nRUN rm -rf /var/lib/apt/lists/*\n", "apt-lists"},
		"lists left to a script":  {head + "COPY seal/ /\nRUN apt-get update; apt-get install -y --no-install-recommends curl; /usr/bin/seal\n", ""},
		"a script that does not":  {head + "COPY seal/ /\nRUN apt-get update; /usr/bin/other\n", "apt-lists"},
		"a script not copied":     {head + "RUN apt-get update; /usr/bin/seal\n", "apt-lists"},
		"recommends":              {head + "RUN apt-get update && apt-get install -y curl && rm -rf /var/lib/apt/lists/*\n", "apt-recommends"},
		"curl to sh":              {head + "SHELL [\"/bin/bash\", \"-o\", \"pipefail\", \"-c\"]\nRUN curl -fsSL https://example.org/install.sh | sh\n", "pipe-to-shell"},
		"wget to sudo bash":       {head + "SHELL [\"/bin/bash\", \"-o\", \"pipefail\", \"-c\"]\nRUN wget -qO- https://example.org/i | sudo bash -s\n", "pipe-to-shell"},
		"bash of curl":            {head + "RUN bash -c \"$(curl -fsSL https://example.org/i)\"\n", "pipe-to-shell"},
		"ADD without a checksum":  {head + "ADD https://example.org/x.tar.gz /x/\n", "add-checksum"},
		"a secret argument":       {head + "ARG NPM_TOKEN\n", "secret"},
		"a secret in the env":     {head + "ENV MY_API_KEY=x\n", "secret"},
		"a pipe in sh":            {head + "RUN cat /etc/passwd | wc -l\n", "pipefail"},
		"a pipe in a heredoc":     {head + "RUN <<EOF\ncat /etc/passwd | wc -l\nEOF\n", "pipefail"},
		"or is no pipe":           {head + "RUN false || true\n", ""},
		"pip floats":              {head + "RUN pip install --no-cache-dir 'pillow>=10'\n", "pip-pinned"},
		"pip pinned":              {head + "RUN pip install --no-cache-dir pillow==12.0.0\n", ""},
		"BuildKit's: stage name":  {"ARG BASE=debian:13\nFROM ${BASE} AS One\n", "StageNameCasing"},
		"BuildKit's: AS in FROM":  {"ARG BASE=debian:13\nFROM ${BASE} as one\n", "FromAsCasing"},
		"BuildKit's: MAINTAINER":  {head + "MAINTAINER me\n", "MaintainerDeprecated"},
		"BuildKit's: empty lines": {head + "RUN true \\\n\n && true\n", "parser"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := lintDockerfile([]byte(tt.file), func(name string) string {
				return map[string]string{"seal/usr/bin/seal": "find /var/lib/apt/lists -mindepth 1 -delete\n", "seal/usr/bin/other": "true\n"}[name]
			})
			if err != nil {
				t.Fatal(err)
			}
			var rules []string
			for _, f := range found {
				rules = append(rules, f.rule)
			}
			slices.Sort(rules)
			if got := strings.Join(slices.Compact(rules), " "); got != tt.want {
				t.Errorf("got %q, want %q: %v", got, tt.want, found)
			}
		})
	}
}
