// SPDX-License-Identifier: MIT

package migrate

import (
	"strings"
	"testing"
)

func TestV047(t *testing.T) {
	t.Parallel()
	line := func(v string) string { return "compression:\n  threshold_tokens: " + v + "  # cap\n  threshold: 0.5\n" }
	rows := []at{
		{"the only key", "compression:\n  threshold_tokens: 256000\n", "compression: {}\n"},
		{"quoted key in brackets", "compression: {\"threshold_tokens\": 256000, a: 1}\n", "compression: {a: 1}\n"},
		{"commented out", "compression:\n  # threshold_tokens: 256000\n  enabled: true\n", ""},
		{"comment above stays", "compression:\n  # cap\n  threshold_tokens: 256000\n  enabled: true\n", "compression:\n  # cap\n  enabled: true\n"},
		{"top level", "threshold_tokens: 256000\n", ""},
	}
	for _, v := range []string{"256000", "256_000", "0x3E800", "256000.0", "2.56e+5", "+256000", "0764000", "1:11:06:40", "0b111110100000000000", "!!int 256000"} {
		rows = append(rows, at{"is 256000: " + v, line(v), "compression:\n  threshold: 0.5\n"})
	}
	for _, v := range []string{`"256000"`, "'256000'", "null", "~", "", "256001", "255999.999", "-256000", "2.56e5", "0o764000", "128000", "256k", "256,000", "[256000]", "${CAP}", "false"} {
		rows = append(rows, at{"a pin: " + v, line(v), ""})
	}
	runStep(t, 47, rows)

	p := planOf(t, plain(stamped(46, "compression:\n  threshold_tokens:\n")), Options{})
	wantList(t, "kept", keptOf(p.Kept), []string{"47 config.yaml compression.threshold_tokens = null"})
	p = planOf(t, plain(stamped(46, "compression:\n  threshold_tokens: \"256000\"\n")), Options{})
	wantList(t, "kept", keptOf(p.Kept), []string{"47 config.yaml compression.threshold_tokens = 256000"})
}

const (
	py311 = "nikolaik/python-nodejs:python3.11-nodejs20"
	py314 = "nikolaik/python-nodejs:python3.14-nodejs22"
)

var imageKeys = []string{"docker_image", "modal_image", "daytona_image", "singularity_image"}

// TestV048 goes through both literals and all four keys: which values fall and which are pins.
func TestV048(t *testing.T) {
	t.Parallel()
	for _, key := range imageKeys {
		prefix, foreign := "", "docker://"
		if key == "singularity_image" {
			prefix, foreign = "docker://", ""
		}
		line := func(v string) string {
			return "terminal:\n  backend: docker # b\n  " + key + ": " + v + "\n\n# c\n  cwd: .\n"
		}
		gone := "terminal:\n  backend: docker # b\n\n# c\n  cwd: .\n"
		rows := []at{{"absent", "terminal:\n  backend: docker\n", ""}}
		for _, image := range []string{py311, py314} {
			old := prefix + image
			for _, v := range []string{old, `"` + old + `"`, "'" + old + "'", old + "   # old default", old + "  ", ">-\n    " + old, "|-\n    " + old, "!!str " + old, "\n    " + old} {
				rows = append(rows, at{"falls: " + v, line(v), gone})
			}
			for _, v := range []string{
				foreign + image, "docker.io/" + image, "docker://docker.io/" + image, "docker.io/library/" + image, image + "@sha256:" + strings.Repeat("0", 64),
				strings.Replace(image, "python3", "Python3", 1), strings.ToUpper(image), image + "-slim", image + "2", `"` + old + ` "`, `" ` + old + `"`,
				`"` + old + `\n"`, "|\n    " + old, "[" + old + "]", "{" + old + ": 1}", prefix + "ghcr.io/me/" + image, "./" + image, "${IMAGE}", "${IMAGE:-" + image + "}",
			} {
				rows = append(rows, at{"a pin: " + v, line(v), ""})
			}
		}
		for _, v := range []string{
			"nikolaik/python-nodejs:python3.11-nodejs22", "nikolaik/python-nodejs:python3.14-nodejs20", "nikolaik/python-nodejs:latest", "nikolaik/python-nodejs",
			prefix + "nousresearch/hermes-sandbox:desktop", "null", "", "42", "true",
		} {
			rows = append(rows, at{"a pin: " + v, line(v), ""})
		}
		runStep(t, 48, rows)
	}
	runStep(t, 48, []at{
		{
			"each key for itself", "terminal:\n  docker_image: " + py311 + "\n  modal_image: mine\n  daytona_image: " + py314 + "\n  singularity_image: " + py311 + "\n",
			"terminal:\n  modal_image: mine\n  singularity_image: " + py311 + "\n",
		},
		{
			"all four, nothing else", "terminal:\n  docker_image: " + py311 + "\n  modal_image: " + py311 + "\n  daytona_image: " + py314 + "\n  singularity_image: docker://" + py314 + "\n",
			"terminal: {}\n",
		},
		{"commented out", "terminal:\n  cwd: .\n  # docker_image: " + py311 + "\n# docker_image: " + py311 + "\n", ""},
		{"another section", "sandbox:\n  docker_image: " + py311 + "\n", ""},
		{"a key of the top level", "docker_image: " + py311 + "\nterminal: {}\n", ""},
		{"no section", "terminal: docker_image\n", ""},
		{"a list below it", "terminal:\n- docker_image: " + py311 + "\n", ""},
		{"keys that are alike", "terminal:\n  docker_image_: " + py311 + "\n  Docker_image: " + py311 + "\n  docker-image: " + py311 + "\n", ""},
	})
}

func TestV048Report(t *testing.T) {
	t.Parallel()
	p := planOf(t, plain(stamped(47, "terminal:\n  docker_image: docker.io/"+py311+"\n  modal_image:\n  daytona_image: 'x y'\n  singularity_image: docker://nousresearch/hermes-sandbox:desktop\n")), Options{})
	wantList(t, "changes", changesOf(p.Changes), []string{"0 changed config.yaml _config_version"})
	wantList(t, "kept", keptOf(p.Kept), []string{
		"48 config.yaml terminal.docker_image = docker.io/" + py311,
		"48 config.yaml terminal.daytona_image = x y",
		"48 config.yaml terminal.singularity_image = docker://nousresearch/hermes-sandbox:desktop",
	})
	wantList(t, "advice", p.Advice, []string{})

	p = planOf(t, plain(stamped(47, "terminal:\n  docker_image: "+py311+"\n")), Options{})
	wantAdvice(t, p, "stays on its image until you decide")
	p = planOf(t, plain(stamped(47, "terminal:\n  modal_image: "+py311+"\n")), Options{})
	wantList(t, "a modal sandbox never moves, so there is nothing to decide", p.Advice, []string{})
}

// TestV048Mirrors: an image in .env was put there by a command. It stays and is reported.
func TestV048Mirrors(t *testing.T) {
	t.Parallel()
	const key = "TERMINAL_DOCKER_IMAGE"
	for _, r := range []struct {
		env  string
		says bool
	}{
		{key + "=" + py311 + "\n", true},
		{"A=1\nexport " + key + "=\"" + py314 + "\"\n", true},
		{"TERMINAL_SINGULARITY_IMAGE=docker://" + py311 + "\n", true},
		{"TERMINAL_MODAL_IMAGE=" + py311 + "\n", true},
		{"TERMINAL_DAYTONA_IMAGE='" + py314 + "'\n", true},
		{"# " + key + "=" + py311 + "\n", false},
		{key + "=docker.io/" + py311 + "\n", false},
		{key + "=nousresearch/hermes-sandbox:desktop\n", false},
		{key + "=\n", false},
		{"MY_" + key + "=" + py311 + "\n", false},
	} {
		in := Input{Config: []byte(stamped(47, "terminal:\n  docker_image: "+py311+"\n  cwd: .\n")), Env: []byte(r.env)}
		p := planOf(t, in, Options{})
		if out := afterPlan(in, p); string(out.Env) != r.env || strings.Contains(string(out.Config), "docker_image") {
			t.Errorf("got .env %q and config %q", out.Env, out.Config)
		}
		said := strings.Contains(strings.Join(p.Advice, "\n"), "holds an old default image")
		if said != r.says {
			t.Errorf("%q: got advice %t (%q), want %t", r.env, said, p.Advice, r.says)
		}
		at48 := planOf(t, Input{Config: []byte(stamped(48, "")), Env: []byte(r.env)}, Options{})
		wantList(t, "advice at 48", at48.Advice, []string{})
	}
}

func TestV049Config(t *testing.T) {
	t.Parallel()
	line := func(v string) string {
		return "terminal:\n  vercel_runtime: " + v + " # r\n  vercel_image: node24\n"
	}
	rows := []at{
		{"the only key", "terminal:\n  vercel_runtime: node24\n", "terminal: {}\n"},
		{"commented out", "terminal:\n  # vercel_runtime: node24\n  cwd: .\n", ""},
		{"another section", "vercel:\n  vercel_runtime: node24\n", ""},
		{"the image stays", "terminal:\n  vercel_image: node24\n", ""},
	}
	for _, v := range []string{"node24", `"node24"`, "'node24'"} {
		rows = append(rows, at{"falls: " + v, line(v), "terminal:\n  vercel_image: node24\n"})
	}
	for _, v := range []string{"node22", "python3.13", "Node24", "NODE24", "node24.x", `" node24"`, `"node24 "`, "node", "24", `""`, "null", "", "[node24]", "${R}"} {
		rows = append(rows, at{"a pin: " + v, line(v), ""})
	}
	runStep(t, 49, rows)
}

func TestV049Env(t *testing.T) {
	t.Parallel()
	const key = "TERMINAL_VERCEL_RUNTIME"
	for _, r := range []struct {
		name, env, want string
		kept            int
		mixed           bool
	}{
		{"plain", key + "=node24\n", "", 0, false},
		{"quoted", "A=1\n" + key + "=\"node24\"\nB=2\n", "A=1\nB=2\n", 0, false},
		{"single quotes", key + "='node24'\n", "", 0, false},
		{"export", "export " + key + "=node24\n", "", 0, false},
		{"export and blanks", "  export\t" + key + " = node24  \nA=1\n", "A=1\n", 0, false},
		{"blanks inside the quotes", key + "=\" node24 \"\n", "", 0, false},
		{"comment behind it", key + "=node24 # wizard\n", "", 0, false},
		{"every duplicate", key + "=node24\nA=1\nexport " + key + "='node24'\n", "A=1\n", 0, false},
		{"mixed, the literal last", key + "=python3.13\n" + key + "=node24\n", key + "=python3.13\n", 1, true},
		{"mixed, the literal first", key + "=node24\n" + key + "=node22\n", key + "=node22\n", 1, true},
		{"mixed with an empty one", key + "=\n" + key + "=node24\n", key + "=\n", 0, false},
		{"node22", key + "=node22\n", key + "=node22\n", 1, false},
		{"python3.13", "export " + key + "=python3.13\n", "export " + key + "=python3.13\n", 1, false},
		{"upper case", key + "=NODE24\n", key + "=NODE24\n", 1, false},
		{"more than the word", key + "=node24x\n", key + "=node24x\n", 1, false},
		{"comments", "# " + key + "=node24\n#" + key + "=node24\n  # " + key + "=node24\n", "# " + key + "=node24\n#" + key + "=node24\n  # " + key + "=node24\n", 0, false},
		{"other names", "X" + key + "=node24\n" + key + "2=node24\nterminal_vercel_runtime=node24\nTERMINAL_VERCEL_IMAGE=node24\n", "X" + key + "=node24\n" + key + "2=node24\nterminal_vercel_runtime=node24\nTERMINAL_VERCEL_IMAGE=node24\n", 0, false},
		{"in another value", "NOTE=\"" + key + "=node24\"\n", "NOTE=\"" + key + "=node24\"\n", 0, false},
		{"CRLF and BOM", "\ufeff" + key + "=node24\r\nA=1\r\n", "\ufeffA=1\r\n", 0, false},
		{"no final line break", "A=1\n" + key + "=node24", "A=1", 0, false},
		{"bytes of another encoding", "A=\xe4\xf6\n" + key + "=node24\nB=\xff\n", "A=\xe4\xf6\nB=\xff\n", 0, false},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			for _, config := range []string{"", "terminal:\n  vercel_runtime: node22\n"} {
				in := Input{Config: []byte(stamped(48, config)), Env: []byte(r.env)}
				p := planOf(t, in, Options{})
				wantSame(t, "step 49", afterPlan(in, p), Input{Config: []byte(stamped(50, config)), Env: []byte(r.want)})
				kept := 0
				for _, k := range p.Kept {
					if k.File == FileEnv {
						kept++
					}
				}
				if kept != r.kept {
					t.Errorf("got %d pins in .env, want %d", kept, r.kept)
				}
				if said := strings.Contains(strings.Join(p.Advice, "\n"), "several times"); said != r.mixed {
					t.Errorf("got a warning %t, want %t: %q", said, r.mixed, p.Advice)
				}
			}
			later := Input{Config: []byte(stamped(49, "terminal:\n  vercel_runtime: node24\n")), Env: []byte(r.env)}
			out := migrated(t, later, Options{})
			wantSame(t, "at 49", out, Input{Config: []byte(stamped(50, "terminal:\n  vercel_runtime: node24\n")), Env: []byte(r.env)})
		})
	}
}

// TestV049Environment: what only the process's environment says is no file's business.
func TestV049Environment(t *testing.T) {
	t.Parallel()
	env := func(v string) func(string) string {
		return func(key string) string {
			if key == "TERMINAL_VERCEL_RUNTIME" {
				return v
			}
			return ""
		}
	}
	in := Input{Config: []byte(stamped(48, "")), Env: []byte("A=1\n"), Getenv: env(" node24 ")}
	p := planOf(t, in, Options{})
	wantList(t, "changes", changesOf(p.Changes), []string{"0 changed config.yaml _config_version"})
	wantAdvice(t, p, "the environment of this process sets TERMINAL_VERCEL_RUNTIME=node24")
	in.Getenv = env("node22")
	wantList(t, "advice for node22", planOf(t, in, Options{}).Advice, []string{})
	in.Getenv, in.ConfigOnly, in.Env = nil, true, []byte("TERMINAL_VERCEL_RUNTIME=node24\n")
	p = planOf(t, in, Options{})
	wantAdvice(t, p, "on the home itself this step also removes TERMINAL_VERCEL_RUNTIME=node24")
	if out := afterPlan(in, p); string(out.Env) != string(in.Env) {
		t.Errorf("config only: .env became %q", out.Env)
	}
}

func TestV050(t *testing.T) {
	t.Parallel()
	runStep(t, 50, []at{
		{
			"all four", "security:\n  tirith_enabled: true # e\n  redact_secrets: true # r\n  tirith_path: /usr/bin/tirith\n  # c\n  tirith_timeout: 5\n  tirith_fail_open: true\n",
			"security:\n  redact_secrets: true # r\n  # c\n",
		},
		{"whatever they hold", "security: {tirith_enabled: [1], tirith_path: null, a: 1, tirith_timeout: {b: 2}}\n", "security: {a: 1}\n"},
		{"nothing else in the section", "security:\n  tirith_enabled: false\n", "security: {}\n"},
		{"absent", "security:\n  redact_secrets: true\n", ""},
		{"keys that are alike", "security:\n  tirith: 1\n  tirith_enabled_: 1\n  # tirith_enabled: 1\ntirith_enabled: 1\n", ""},
		{"no section", "security: tirith_enabled\n", ""},
	})
	p := planOf(t, plain(stamped(49, "security:\n  tirith_fail_open: false\n")), Options{})
	wantAdvice(t, p, "security.tirith_fail_open was false")
	p = planOf(t, plain(stamped(49, "security:\n  tirith_fail_open: true\n")), Options{})
	wantList(t, "advice", p.Advice, []string{})
}
