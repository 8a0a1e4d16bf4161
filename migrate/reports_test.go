// SPDX-License-Identifier: MIT

package migrate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// Public reports of migrations that went wrong, as far as the plan decides them: what must
// come out of the same input here. H is NousResearch/hermes-agent, O is openclaw/openclaw.
//
// Reports about what happens on disk have their rows in reports_commit_test.go: H#51579 and
// H PR#51675 (a run that fails half way), H#16743, H PR#16980 and H PR#33508 (links and other
// file systems), omacom/omarchy PR#9372 (mode and owner), agent-of-empires#3186 (one writer
// for all paths), H#20438, H#54926, H#79048 and H PR#62492 (profiles), numtide/llm-agents.nix
// PR#7057 and H#12864 (managed markers), home-manager#4814 (a link into a store).

// report is one row: the files before and after. An empty want is the file as it was.
type report struct {
	name         string
	config, want string
	env, wantEnv string
	changes      []string // nil = not looked at
}

func TestReports(t *testing.T) {
	t.Parallel()
	for _, r := range concat(commentReports(), valueReports(), shapeReports()) {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			in := plain(r.config)
			if r.env != "" {
				in.Env = []byte(r.env)
			}
			p := planOf(t, in, Options{})
			out := afterPlan(in, p)
			want := Input{Config: []byte(either(r.want, r.config)), Env: in.Env}
			if r.env != "" {
				want.Env = []byte(either(r.wantEnv, r.env))
			}
			wantSame(t, r.name, out, want)
			if r.changes != nil {
				wantList(t, "changes", changesOf(p.Changes), r.changes)
			}
			if again := planOf(t, out, Options{}); again.Pending() {
				t.Errorf("the second run has changes %q", changesOf(again.Changes))
			}
		})
	}
}

func either(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func concat(lists ...[]report) (all []report) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// commentReports: comments, quotes and boilerplate.
func commentReports() []report {
	const curated = "# ours\n_config_version: 33 # set by us\n\n# --- display ---\ndisplay:\n  tool_progress: \"off\"   # quoted on purpose\n  # all is too much\n  background_process_notifications: all # for now\n\n# fallback_model:\n#   provider: x\ndelegation: {max_iterations: 50} # five at a time\n"
	const template = "_config_version: 46\n# model:\n#   default: x\n#\n## terminal:\n#  docker_image: " + py311 + "\n\n\n  # odd\nmodel:\n  # inner\n  default: x\n  # tail\n# end"
	return []report{
		{
			name: "H#92554", config: curated,
			want: strings.NewReplacer("33", "50", "notifications: all", "notifications: concise", "max_iterations: 50", "max_iterations: 250").Replace(curated),
		},
		{name: "H#50698", config: template, want: strings.Replace(template, "46", "50", 1), changes: []string{"0 changed config.yaml _config_version"}},
		{
			name: "H PR#105249, H PR#105271", config: "# a\n_config_version: 40 # b\n# c\nx: 1\n",
			want: "# a\n_config_version: 50 # b\n# c\nx: 1\n", changes: []string{"0 changed config.yaml _config_version"},
		},
		{
			name: "meltano#7206", config: "_config_version: 46\nbase: &base {a: 1, b: &inner [1]}\nunused: &unused x\nuse:\n  <<: *base\n  c: *inner\ncompression: {threshold_tokens: 256000, enabled: true}\n",
			want: "_config_version: 50\nbase: &base {a: 1, b: &inner [1]}\nunused: &unused x\nuse:\n  <<: *base\n  c: *inner\ncompression: {enabled: true}\n",
		},
		{
			name:   "ruyaml#43, ruyaml#50, ruyaml#115",
			config: "_config_version: 46\na: &a {x: 1}\nb: &b {y: 2}\nboth:\n  <<: *a\n  <<: *b\nl:\n\n# between\n\n  - 1\n\n  # items\n\n  - 2\n",
			want:   "_config_version: 50\na: &a {x: 1}\nb: &b {y: 2}\nboth:\n  <<: *a\n  <<: *b\nl:\n\n# between\n\n  - 1\n\n  # items\n\n  - 2\n",
		},
		{
			name: "docker/compose PR#2693", config: "_config_version: 47 # v\nterminal: # t\n  cwd: . # c\n  docker_image: " + py311 + " # i\n  timeout: 1 # o\n",
			want: "_config_version: 50 # v\nterminal: # t\n  cwd: . # c\n  timeout: 1 # o\n",
		},
		{
			name: "H#119844", config: "_config_version: 47\npath: \"C:\\\\Users\\\\mira\\\\bin;\\\n  C:\\\\tools\"\nplain: C:\\new\\table\nterminal: {vercel_runtime: node24}\n",
			want: "_config_version: 50\npath: \"C:\\\\Users\\\\mira\\\\bin;\\\n  C:\\\\tools\"\nplain: C:\\new\\table\nterminal: {}\n",
		},
		{
			name: "H#31999", config: "_config_version: 38\nplatform_toolsets:\n  cli:\n  - web\n  - bfl\n  slack:\n      - bfl\n      - file\nplugins:\n   enabled:\n    - a\n",
			want: "_config_version: 50\nplatform_toolsets:\n  cli:\n  - web\n  - connections\n  slack:\n      - file\n      - connections\nplugins:\n   enabled:\n    - a\n",
		},
	}
}

// valueReports: whose value is whose.
func valueReports() []report {
	const small = "_config_version: 12\nagent: {verify_on_stop: false}\ncustom_providers: []\nmy_own: {k: [1, 2]}\nmodel: {default: x}\n"
	const absolute = "_config_version: 12\ntimezone: Europe/Berlin\nterminal:\n  cwd: /srv/work\nauxiliary:\n  vision: {provider: nous, model: v}\n  web_extract:\n    model: w\nagent:\n  verify_on_stop: off\n"
	return []report{
		{name: "H#40821", config: small, want: strings.Replace(small, "12", "50", 1)},
		{
			name: "H PR#55715, H PR#42030", config: "_config_version: 12\n", want: "_config_version: 50\nagent:\n  verify_on_stop: false\n",
			changes: []string{"31 added config.yaml agent.verify_on_stop", "0 changed config.yaml _config_version"},
		},
		{name: "H PR#54740, baked by 30", config: "_config_version: 30\nagent:\n  verify_on_stop: true\n", want: "_config_version: 50\nagent:\n  verify_on_stop: false\n"},
		{name: "H PR#54740, chosen after 32", config: "_config_version: 32\nagent:\n  verify_on_stop: true\n", want: "_config_version: 50\nagent:\n  verify_on_stop: true\n"},
		{
			name: "H#86656", config: "_config_version: 33\ndisplay: {personality: kawaii}\n", want: "_config_version: 50\ndisplay: {personality: \"\"}\n",
			changes: []string{"34 changed config.yaml display.personality", "0 changed config.yaml _config_version"},
		},
		{
			name: "H PR#111286", config: "_config_version: 37\nmodel_catalog: {ttl_hours: 1, enabled: true}\ncurator: {stale_after_days: 30}\n",
			want:    "_config_version: 50\nmodel_catalog: {enabled: true}\ncurator: {stale_after_days: 14}\n",
			changes: []string{"40 removed config.yaml model_catalog.ttl_hours", "44 changed config.yaml curator.stale_after_days", "0 changed config.yaml _config_version"},
		},
		{
			name: "H#26804", config: "_config_version: 48\n", want: "_config_version: 50\n",
			env: "# mine\nTELEGRAM_BOT_TOKEN=12:ab\n\nMY KEY = odd\nTERMINAL_VERCEL_RUNTIME=node24\nnot an assignment\nEMPTY=\n", wantEnv: "# mine\nTELEGRAM_BOT_TOKEN=12:ab\n\nMY KEY = odd\nnot an assignment\nEMPTY=\n",
		},
		{name: "H#17182", config: absolute, want: strings.Replace(absolute, "12", "50", 1), changes: []string{"0 changed config.yaml _config_version"}},
		{
			name: "O#134730, O#133997", config: "_config_version: 41\n# live\ncron: {model_drift_guard: true, wrap: 1}\ngateway:\n  multiplex_profile_allowlist: [a]\n  port: 1\nsecurity:\n  tirith_path: x\n  tirith_timeout: 5\n  other: y # newer than any backup\n",
			want: "_config_version: 50\n# live\ncron: {wrap: 1}\ngateway:\n  port: 1\nsecurity:\n  other: y # newer than any backup\n",
		},
		{
			name: "O#136071, half done by hand", config: "_config_version: 46\ncompression: {enabled: true}\nterminal: {vercel_runtime: node24}\n", want: "_config_version: 50\ncompression: {enabled: true}\nterminal: {}\n",
			env: "A=1\n",
		},
		{
			name: "wimpysworld/nix-config PR#1013, PR#1014", config: "{\"agent\":{\"max_turns\":9},\"compression\":{\"threshold_tokens\":256000}}",
			want: "{\"agent\":{\"max_turns\":9},\"compression\":{\"threshold_tokens\":256000}, \"_config_version\": 50}", changes: []string{"0 added config.yaml _config_version"},
		},
	}
}

// shapeReports: files that the loader, or a schema, would not take.
func shapeReports() []report {
	servers := "mcp_servers:\n  notes:\n    command: notes # mine\n    env: {TOKEN: \"${T}\"}\n  \"a.b\":\n    url: http://a\n"
	return []report{
		{name: "O#76798", config: "_config_version: 47\nplugins: {enabled: [does-not-exist], entries: {x: !!binary AA==}}\nmodel: 12\nterminal: {vercel_runtime: node24}\n", want: "_config_version: 50\nplugins: {enabled: [does-not-exist], entries: {x: !!binary AA==}}\nmodel: 12\nterminal: {}\n"},
		{name: "O#70407", config: "_config_version: 12\nmodel: claude\ndisplay: {personality: [x]}\nagent: none\nmemory: 3\ncompression: on\nterminal: {backend: {kind: docker}}\n", want: "_config_version: 50\nmodel: claude\ndisplay: {personality: [x]}\nagent: none\nmemory: 3\ncompression: on\nterminal: {backend: {kind: docker}}\n"},
		{name: "O#71866", config: "_config_version: 46\n" + strings.Repeat("# padding\n", 400) + servers + "terminal: {docker_image: " + py311 + "}\n", want: "_config_version: 50\n" + strings.Repeat("# padding\n", 400) + servers + "terminal: {}\n"},
		{name: "praveen-ks-2001/hermes-agent-template PR#21", config: "_config_version: 46\n" + servers, want: "_config_version: 50\n" + servers},
		{
			name: "H#84064, H#91607", config: "_config_version: 46\nmodels:\n  grok-4.6: {a.b: 1}\n  \"x.y\":\n    z: 1\nterminal.docker_image: " + py311 + "\ncompression.threshold_tokens: 256000\n",
			want: "_config_version: 50\nmodels:\n  grok-4.6: {a.b: 1}\n  \"x.y\":\n    z: 1\nterminal.docker_image: " + py311 + "\ncompression.threshold_tokens: 256000\n",
		},
	}
}

// TestReportStepFails is H#119658: a step that cannot be done leaves the version alone, so
// that it runs again, and no later step is carried out without it.
func TestReportStepFails(t *testing.T) {
	t.Parallel()
	in := plain("_config_version: 44\nplatform_toolsets: &p\n  cli: [web]\nb: *p\nsecurity: {tirith_path: x}\n")
	r := refusalOf(t, in, Options{}, ErrAmbiguous, exitcode.Unparseable)
	if r.Line != 2 || !strings.Contains(r.Msg, "45-connections") {
		t.Errorf("got line %d: %s; want the step on line 2", r.Line, r.Msg)
	}
	fixed := plain(strings.NewReplacer(" &p", "", "b: *p\n", "").Replace(string(in.Config)))
	want := "_config_version: 50\nplatform_toolsets:\n  cli: [web, connections]\nsecurity: {}\n"
	if got := string(migrated(t, fixed, Options{}).Config); got != want {
		t.Errorf("after it was mended: got\n%swant\n%s", got, want)
	}
}

// TestReportThreeStates is H PR#78070 and H PR#7763: a missing, a broken and a valid version
// are three things. A missing one is neither old nor current.
func TestReportThreeStates(t *testing.T) {
	t.Parallel()
	missing := planOf(t, plain("model: {}\n"), Options{})
	if missing.From != 0 || !missing.Pending() || missing.Skipped == nil {
		t.Errorf("missing: got from %d, pending %t", missing.From, missing.Pending())
	}
	broken := refusalOf(t, plain("_config_version: x\n"), Options{}, ErrBadStamp, exitcode.BelowFloor)
	if strings.Contains(broken.Msg, "older") {
		t.Errorf("broken: got %q", broken.Msg)
	}
	if valid := planOf(t, plain("_config_version: 50\n"), Options{}); valid.From != 50 || valid.Pending() {
		t.Errorf("valid: got from %d, pending %t", valid.From, valid.Pending())
	}
}

// TestReportVersionOfTheBinary is H#90945, H PR#40208 and hyrax PR#878: what is the latest version comes
// from the steps that this binary has, and from nothing else.
func TestReportVersionOfTheBinary(t *testing.T) {
	t.Parallel()
	short, err := NewLadder(table()[:38]...) // up to 49
	if err != nil {
		t.Fatal(err)
	}
	if short.Latest() != 49 {
		t.Fatalf("got latest %d, want 49", short.Latest())
	}
	p, err := short.Plan(plain("_config_version: 33\n"), Options{})
	if err != nil || p.To != 49 {
		t.Fatalf("got %v, to %d; want 49", err, p.To)
	}
	// O#72527, O PR#72535, helixscreen#1460: an older binary leaves a newer file alone and names both numbers.
	_, err = short.Plan(plain("_config_version: 50\n"), Options{})
	if exitcode.Of(err) != exitcode.Newer || !strings.Contains(err.Error(), "version 50") || !strings.Contains(err.Error(), "up to 49") {
		t.Errorf("got %v, want a refusal that names 50 and 49", err)
	}
}

// TestReportPins is H#91501 and mnemosyne#446: a value that stands against a new default is
// kept and named, with the reason.
func TestReportPins(t *testing.T) {
	t.Parallel()
	config := "_config_version: 35\ndelegation: {max_iterations: 75, max_concurrent_children: 3}\ncurator: {archive_after_days: 180}\nterminal:\n  docker_image: ghcr.io/me/box:1\n  vercel_runtime: python3.13\n"
	p := planOf(t, plain(config), Options{})
	wantList(t, "kept", keptOf(p.Kept), []string{
		"36 config.yaml delegation.max_iterations = 75",
		"44 config.yaml curator.archive_after_days = 180",
		"48 config.yaml terminal.docker_image = ghcr.io/me/box:1",
		"49 config.yaml terminal.vercel_runtime = python3.13",
	})
	for _, k := range p.Kept {
		if k.Why == "" || k.ID == "" || k.Line == 0 {
			t.Errorf("the pin %q has why %q, step %q, line %d", k.Path, k.Why, k.ID, k.Line)
		}
	}
	for _, c := range p.Changes {
		if c.Reason == "" || c.ID == "" {
			t.Errorf("the change of %q has the reason %q, step %q", c.Path, c.Reason, c.ID)
		}
	}
	if d := cmp.Diff(1, strings.Count(string(afterPlan(plain(config), p).Config), "max_concurrent_children: 10")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
