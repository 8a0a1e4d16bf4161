// SPDX-License-Identifier: MIT

package migrate

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func diffOf(t testing.TB, p *Plan) string {
	t.Helper()
	d, err := p.Diff()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, r := range []struct{ name, config, env, soul, want string }{
		{"nothing to do", stamped(50, "a: secret\n"), "", "", ""},
		{
			"one line", stamped(49, "key: hunter2 # hunter2\n\n"), "", "",
			"--- a/config.yaml\n+++ b/config.yaml\n@@ -1,3 +1,3 @@\n-_config_version: 49\n+_config_version: 50\n key: *** # ***\n \n",
		},
		{
			"an empty file", "", "", "",
			"--- a/config.yaml\n+++ b/config.yaml\n@@ -0,0 +1,1 @@\n+_config_version: 50\n",
		},
		{
			"planned values are shown", stamped(47, "terminal:\n  docker_image: "+py311+" # hunter2\n  sudo_password: hunter2\n"), "", "",
			"--- a/config.yaml\n+++ b/config.yaml\n@@ -1,4 +1,3 @@\n-_config_version: 47\n+_config_version: 50\n terminal:\n-  docker_image: " + py311 + " # ***\n   sudo_password: ***\n",
		},
		{
			"three files, config.yaml last", stamped(40, "agent: {verify_on_stop: false}\n"), "# hunter2\nTOKEN=hunter2\nTERMINAL_VERCEL_RUNTIME=node24\n\nodd hunter2\n", "Hunter2\n\n## Messaging other agents\nhunter2\n",
			"--- a/.env\n+++ b/.env\n@@ -1,5 +1,4 @@\n ***\n TOKEN=***\n-TERMINAL_VERCEL_RUNTIME=node24\n \n ***\n" +
				"--- a/SOUL.md\n+++ b/SOUL.md\n@@ -1,4 +1,1 @@\n ***\n-\n-## Messaging other agents\n-***\n" +
				"--- a/config.yaml\n+++ b/config.yaml\n@@ -1,2 +1,2 @@\n-_config_version: 40\n+_config_version: 50\n agent: {verify_on_stop: ***}\n",
		},
		{
			"nothing is left of a file", stamped(49, ""), "", "",
			"--- a/config.yaml\n+++ b/config.yaml\n@@ -1,1 +1,1 @@\n-_config_version: 49\n+_config_version: 50\n",
		},
		{
			"breaks of other kinds", "_config_version: 49\r\na: hunter2\rb: hunter2\n", "", "",
			"--- a/config.yaml\n+++ b/config.yaml\n@@ -1,3 +1,3 @@\n-_config_version: 49\n+_config_version: 50\n a: ***\n b: ***\n",
		},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			in := plain(r.config)
			if r.env != "" {
				in.Env = []byte(r.env)
			}
			if r.soul != "" {
				in.Soul = []byte(r.soul)
			}
			if d := cmp.Diff(r.want, diffOf(t, planOf(t, in, Options{}))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestDiffOddEnv: .env files with any kind of line break can be shown.
func TestDiffOddEnv(t *testing.T) {
	t.Parallel()
	for _, env := range []string{
		"A=hunter2\rTERMINAL_VERCEL_RUNTIME=node24\rB=hunter2", "TERMINAL_VERCEL_RUNTIME=node24", "A=hunter2\r\r\n\nTERMINAL_VERCEL_RUNTIME=node24\r\n",
		"\ufeffTERMINAL_VERCEL_RUNTIME=node24\nA=hunter2\n",
	} {
		in := Input{Config: []byte(stamped(48, "a: 1\n")), Env: []byte(env)}
		p := planOf(t, in, Options{})
		d, out := diffOf(t, p), afterPlan(in, p)
		if strings.Contains(d, "hunter2") || !strings.Contains(d, "-TERMINAL_VERCEL_RUNTIME=node24\n") {
			t.Errorf("%q gives\n%s", env, d)
		}
		checkHunks(t, d, map[string][2][]byte{FileEnv: {in.Env, out.Env}, FileConfig: {in.Config, out.Config}})
	}
}

// TestHomesDiff: the numbers in the hunks lead to the lines that the files really have there.
func TestHomesDiff(t *testing.T) {
	t.Parallel()
	eachHome(t, func(t *testing.T, in Input) {
		p := planOf(t, in, Options{})
		files := map[string][2][]byte{}
		for _, e := range p.edits {
			files[e.name] = [2][]byte{e.old, e.new}
		}
		checkHunks(t, diffOf(t, p), files)
	})
}

var (
	hunkHeader = regexp.MustCompile(`^@@ -(\d+),(\d+) \+(\d+),(\d+) @@$`)
	lineKey    = regexp.MustCompile(`^[^*:=]*`)
)

// checkHunks walks through a diff with the real files beside it. A masked line must start
// as the real one does, and every line that a hunk leaves out must be the same in both.
func checkHunks(t *testing.T, diff string, files map[string][2][]byte) {
	t.Helper()
	var old, now []string
	from, to := 1, 1
	ended := func() {
		if old != nil && !slices.Equal(old[min(from-1, len(old)):], now[min(to-1, len(now)):]) {
			t.Errorf("the diff leaves out changes behind line %d:\n%s", from, diff)
		}
	}
	same := func(real []string, n int, shown string) {
		part := strings.TrimPrefix(lineKey.FindString(shown), "\ufeff")
		if n < 1 || n > len(real) || !strings.Contains(strings.TrimPrefix(real[n-1], "\ufeff"), strings.TrimSpace(part)) {
			t.Errorf("the diff has %q where the file has line %d of %d", shown, n, len(real))
		}
	}
	for line := range strings.Lines(diff) {
		line = strings.TrimSuffix(line, "\n")
		h := hunkHeader.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "--- a/"):
			ended()
			f, ok := files[strings.TrimPrefix(line, "--- a/")]
			if !ok {
				t.Fatalf("a diff of an unknown file: %s", line)
			}
			old, now, from, to = unixSplit(f[0]), unixSplit(f[1]), 1, 1
		case strings.HasPrefix(line, "+++ b/"):
		case h != nil:
			var n [4]int
			if _, err := fmt.Sscan(strings.Join(h[1:], " "), &n[0], &n[1], &n[2], &n[3]); err != nil {
				t.Fatal(err)
			}
			start, newStart := n[0], n[2]
			if n[1] == 0 {
				start++
			}
			if n[3] == 0 {
				newStart++
			}
			if start-from != newStart-to || start < from || !slices.Equal(old[from-1:start-1], now[to-1:newStart-1]) {
				t.Errorf("the hunk %s does not continue at lines %d and %d", line, from, to)
			}
			from, to = start, newStart
		case strings.HasPrefix(line, "-"):
			same(old, from, line[1:])
			from++
		case strings.HasPrefix(line, "+"):
			same(now, to, line[1:])
			to++
		default:
			same(old, from, line[1:])
			same(now, to, line[1:])
			from, to = from+1, to+1
		}
	}
	ended()
}

func unixSplit(b []byte) []string {
	s := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(b))
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// planted marks a secret. Nothing that is printed may hold it.
const planted = "sekretPLANT"

// wantNoSecret fails if a plan, in any of the forms in which it is printed, holds a secret.
func wantNoSecret(t testing.TB, p *Plan) {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]string{"the diff": diffOf(t, p), "JSON": string(text), "the plan": fmt.Sprintf("%+v %v", p.Changes, p.Advice)} {
		if i := strings.Index(s, planted); i >= 0 {
			t.Errorf("%s shows a secret: ...%s", what, s[max(0, i-80):min(len(s), i+40)])
		}
	}
}

var (
	plainLine   = regexp.MustCompile(`^(\s*(?:- )?["']?)([\w.-]+)(["']?: )(\S.*)$`)
	commentLine = regexp.MustCompile(`^(\s*#)(.*)$`)
	envLine     = regexp.MustCompile(`^(\s*(?:export )?)(\w+)(\s*=\s*)(.+)$`)
)

// plantSecrets puts secrets into every comment and every simple value of a config whose key
// no step names.
func plantSecrets(config string, named map[string]bool) (out string, n int) {
	lines := strings.SplitAfter(config, "\n")
	for i, line := range lines {
		body, end := strings.TrimRight(line, "\r\n"), line[len(strings.TrimRight(line, "\r\n")):]
		switch m, c := plainLine.FindStringSubmatch(body), commentLine.FindStringSubmatch(body); {
		case c != nil:
			body = fmt.Sprintf("%s %s%d%s", c[1], planted, n, c[2])
		case m == nil || named[m[2]] || strings.ContainsAny(m[4][:1], "[{&*|>!'\"") || strings.Contains(m[4], ": ") || strings.ContainsAny(m[4], ",}]"):
			continue
		default:
			body = fmt.Sprintf("%s%s%s%s%d  # %s", m[1], m[2], m[3], planted, n, planted)
		}
		n++
		lines[i] = body + end
	}
	return strings.Join(lines, ""), n
}

// namedKeys are the keys whose values a report prints: those that a step looks at.
func namedKeys() map[string]bool {
	out := map[string]bool{}
	for _, k := range []string{
		stampKey, "model", "provider", "name", "summary_model", "summary_provider", "tool_progress", "telegram", "discord", "signal", "write_mode",
		"write_approval", "verify_on_stop", "max_async_children", "max_concurrent_children", "max_iterations", "personality", "ttl_hours",
		"background_process_notifications", "model_drift_guard", "multiplex_profile_allowlist", "stale_after_days", "archive_after_days", "enabled", "disabled", "threshold_tokens",
		"docker_image", "modal_image", "daytona_image", "singularity_image", "vercel_runtime", "tirith_enabled", "tirith_path", "tirith_timeout",
		"tirith_fail_open",
	} {
		out[k] = true
	}
	return out
}

// TestHomesHideSecrets plants secrets all over the frozen homes.
func TestHomesHideSecrets(t *testing.T) {
	t.Parallel()
	all := 0
	for _, name := range homeNames(t) {
		in := frozenHome(t, name)
		config, n := plantSecrets(string(in.Config), namedKeys())
		in.Config = []byte(config)
		if in.Soul != nil {
			in.Soul = []byte(planted + "\n" + strings.ReplaceAll(string(in.Soul), ":", ": "+planted))
		}
		env := "# " + planted + "\nexport TOKEN='" + planted + "'\n" + planted + "\nLLM_MODEL=" + planted + "\n"
		for line := range strings.Lines(string(in.Env)) {
			if m := envLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil && m[2] != "TERMINAL_VERCEL_RUNTIME" {
				env += m[1] + m[2] + m[3] + planted + "\n"
			} else {
				env += line
			}
		}
		in.Env = []byte(env)
		all += n
		p, err := Released().Plan(in, Options{})
		if err != nil {
			if strings.Contains(err.Error(), planted) {
				t.Errorf("%s: the error shows a secret: %v", name, err)
			}
			t.Errorf("%s is refused with secrets in it: %v", name, err)
			continue
		}
		wantNoSecret(t, p)
	}
	if all < 1500 {
		t.Errorf("only %d secrets were planted", all)
	}
}

// TestSecretsWhereStepsWork: values that stand right where a step edits, or move with it.
func TestSecretsWhereStepsWork(t *testing.T) {
	t.Parallel()
	s := planted
	for name, config := range map[string]string{
		"providers":        "custom_providers:\n# " + s + "\n- name: a # " + s + "\n  base_url: https://u:" + s + "@h/v1\n  api_key: " + s + "\n  headers: {X: " + s + "}\n  ? " + "x\n  : [" + s + "]\n- {name: b, base_url: http://h/" + s + ", api_key: \"" + s + "\"}\n",
		"beside a move":    "custom_providers:\n- " + s + "\n- {name: b, base_url: http://h}\n",
		"no name":          "custom_providers:\n- base_url: https://u:" + s + "@h.example/v1?key=" + s + "\n",
		"kept entries":     "custom_providers:\n- {base_url: " + s + ", api_key: " + s + "}\n- " + s + "\n- {name: x, base_url: http://h, url: " + s + ", url: " + s + "}\n",
		"summary address":  stamped(16, "compression:\n  summary_base_url: http://"+s+"\nauxiliary:\n  compression: {api_key: "+s+"}\n"),
		"mappings go":      stamped(49, "security:\n  tirith_path: {a: "+s+"}\n  tirith_timeout: [\n    "+s+" ]\n  tirith_enabled: # "+s+"\n    - "+s+"\n"),
		"an allowlist":     stamped(42, "gateway:\n  multiplex_profile_allowlist:\n    - "+s+" # "+s+"\n"),
		"a guard":          stamped(41, "cron: {model_drift_guard: {a: "+s+"}, token: "+s+"}\n"),
		"servers":          stamped(45, "mcp_servers:\n  n:\n    disabled: true\n    env: {TOKEN: "+s+"}\n    args:\n    - "+s+"\n    headers:\n      A: |\n        "+s+"\n        "+s+"\n"),
		"lists":            stamped(38, "platform_toolsets:\n  cli: [bfl, web]\n  x: "+s+"\nother: ["+s+", '"+s+"']\n"),
		"a prompt":         stamped(33, "agent:\n  system_prompt: "+s+"\n  personalities:\n    p: "+s+"\n"),
		"another prompt":   stamped(33, "agent:\n  system_prompt: |\n    "+s+"\n    more\n"),
		"plugins":          stamped(37, "plugins:\n  enabled: [nemo_relay]\n  entries: {a: {key: "+s+"}}\n"),
		"many lines":       stamped(49, "a: \"one\n  "+s+"\n  two\"\nb: one\n  "+s+"\nc: >-\n\n  "+s+"\n  #"+s+"\n"),
		"keys and anchors": stamped(49, "a: &x {b: "+s+"}\nc: [*x, !!str "+s+", &y "+s+"]\n? "+"k\n: "+s+"\n"),
		"comments":         "#" + s + "\n" + stamped(49, "a: 1 #"+s+"\n  #\t"+s+"\nb: # "+s+"\n  c: 2\n# "+s),
		"brackets":         stamped(47, "terminal: {docker_image: "+py311+", sudo_password: "+s+", # "+s+"\n  ssh: ["+s+"] # "+s+"\n}\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := plain(config)
			in.Env, in.Soul, in.Admin = []byte("A="+s+"\n"), []byte(s+"\n"), []byte("terminal: {docker_image: "+s+"}\na: "+s+"\n")
			p := planOf(t, in, Options{})
			if !p.Pending() {
				t.Fatal("nothing to show")
			}
			wantNoSecret(t, p)
		})
	}
}

// TestRefusalsHideSecrets: an error names the place and never what stands there.
func TestRefusalsHideSecrets(t *testing.T) {
	t.Parallel()
	s := planted
	for _, config := range []string{
		"a: [" + s + "\nb: 1\n", "a: \"" + s + "\nb: 1\n", "a: " + s + ": " + s + "\n", "a: 1\n" + s + "\n", "- " + s + "\n", s + "\n", "a: !!int " + s + "\n_config_version: x\n",
		"a:\n\t" + s + ": 1\n", "a: 1\n---\nb: " + s + "\n", "a: " + s + "\n b: " + s + "\n", "a: @" + s + "\n", "a: `" + s + "\n", "a: \"\\q" + s + "\"\n",
		stamped(47, "terminal:\n  docker_image: "+py311+"\n  token: "+s+"\n  token: "+s+"\n"),
		stamped(45, "mcp_servers: &m\n  n: {disabled: true, env: {T: "+s+"}}\nx: *m\n"),
		"custom_providers:\n- &p {name: a, base_url: http://h, api_key: " + s + "}\nx: *p\n",
		stamped(43, "curator:\n  stale_after_days: !!int 30 # "+s+"\n"),
		"_config_version: [" + s + "]\n", "_config_version: {a: " + s + "}\n",
	} {
		_, err := Released().Plan(plain(config), Options{})
		if err == nil {
			t.Errorf("%q is not refused", config)
			continue
		}
		if strings.Contains(err.Error(), planted) {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}
