// SPDX-License-Identifier: MIT

package migrate

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// TestRefuse: shapes in which an edit would change something else, or in which readers
// disagree, are named with their place and nothing happens.
func TestRefuse(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		name   string
		from   int
		config string // below the stamp, if there is one, so its first line is line 2
		line   int
		path   string
	}{
		{"value is an alias", 47, "a: &i " + py311 + "\nterminal:\n  docker_image: *i\n", 4, "terminal docker_image"},
		{"section is an alias", 47, "a: &t\n  docker_image: " + py311 + "\nterminal: *t\n", 4, "terminal"},
		{"value through a merge", 47, "a: &t\n  docker_image: " + py311 + "\nterminal:\n  <<: *t\n  cwd: .\n", 5, "terminal docker_image"},
		{"value through a merge of a list", 47, "a: &t {docker_image: " + py311 + "}\nterminal:\n  <<: [*t]\n", 4, "terminal docker_image"},
		{"section is used again", 47, "terminal: &t\n  docker_image: " + py311 + "\nb:\n  <<: *t\n", 2, "terminal"},
		{"value is used again", 47, "terminal:\n  docker_image: &i " + py311 + "\nb: *i\n", 3, "terminal docker_image"},
		{"key given twice", 47, "terminal:\n  docker_image: x\n  docker_image: " + py311 + "\n", 4, "terminal docker_image"},
		{"another key of the section given twice", 47, "terminal:\n  cwd: a\n  docker_image: " + py311 + "\n  cwd: b\n", 5, "terminal cwd"},
		{"section given twice", 47, "terminal:\n  cwd: a\nterminal:\n  docker_image: " + py311 + "\n", 4, "terminal"},
		{"section given three times", 47, "terminal: {}\nterminal: {}\nterminal: {docker_image: " + py311 + "}\n", 4, "terminal"},
		{"quoted twin", 47, "terminal:\n  \"docker_image\": x\n  docker_image: " + py311 + "\n", 4, "terminal docker_image"},
		{"list behind an alias", 38, "a: &l [bfl]\nplatform_toolsets:\n  cli: *l\n", 4, "platform_toolsets cli"},
		{"list used again", 38, "platform_toolsets:\n  cli: &l [bfl]\n  web: *l\n", 3, "platform_toolsets cli"},
		{"number with a tag", 43, "curator:\n  stale_after_days: !!int 30\n", 3, "curator stale_after_days"},
		{"server behind an alias", 45, "a: &s {disabled: true}\nmcp_servers:\n  n: *s\n", 4, "mcp_servers n"},
		{"server through a merge", 45, "a: &s {disabled: true}\nmcp_servers:\n  n:\n    <<: *s\n", 5, "mcp_servers n disabled"},
		{"section to put a key into is an alias", 30, "a: &a {max_turns: 1}\nagent: *a\n", 3, "agent"},
		{"section to put a key into is used again", 30, "agent: &a {max_turns: 1}\nb: *a\n", 2, "agent"},
		{"providers given twice", 0, "providers: {}\ncustom_providers:\n- name: a\n  base_url: http://a\nproviders: {}\n", 5, "providers"},
		{"provider entry used again", 0, "custom_providers:\n- &p\n  name: a\n  base_url: http://a\nb: *p\n", 2, "custom_providers"},
		{"below lines that are gone", 16, "compression:\n  summary_model: ''\n  summary_provider: auto\n  summary_base_url: ''\nterminal:\n  cwd: a\n  cwd: b\n  docker_image: " + py311 + "\n", 8, "terminal cwd"},
		{"below lines that are new", 16, "compression:\n  summary_model: m\nauxiliary:\n  x: 1\nterminal:\n  docker_image: y\n  docker_image: " + py311 + "\n", 8, "terminal docker_image"},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			in := plain(r.config)
			if r.from > 0 {
				in = plain(stamped(r.from, r.config))
			}
			before := string(in.Config)
			got := refusalOf(t, in, Options{}, ErrAmbiguous, exitcode.Unparseable)
			if got.Line != r.line || strings.Join(got.Path, " ") != r.path || got.File != FileConfig {
				t.Errorf("got line %d, path %q of %s (%s), want line %d, path %q", got.Line, got.Path, got.File, got.Msg, r.line, r.path)
			}
			if !strings.HasPrefix(got.Msg, "step ") || got.Fix == "" {
				t.Errorf("got the message %q and the fix %q; want the step and what to do", got.Msg, got.Fix)
			}
			if string(in.Config) != before {
				t.Errorf("the input was changed to %q", in.Config)
			}
		})
	}
}

// TestNotRefused: the same shapes are no obstacle where nothing is edited.
func TestNotRefused(t *testing.T) {
	t.Parallel()
	const acts = "compression:\n  threshold_tokens: 256000\n  a: 1\n"
	for _, r := range []struct {
		name   string
		from   int
		config string
	}{
		{"value is an alias to a pin", 46, "a: &i mine\nterminal:\n  docker_image: *i\n"},
		{"section is an alias without the key", 46, "a: &t {cwd: .}\nterminal: *t\n"},
		{"section through a merge without the key", 46, "a: &t {cwd: .}\nterminal:\n  <<: *t\n"},
		{"section used again, a pin", 46, "terminal: &t {docker_image: mine}\nb: *t\n"},
		{"key given twice, the last one a pin", 46, "terminal:\n  docker_image: " + py311 + "\n  docker_image: mine\n"},
		{"section given twice, the last one without the key", 46, "terminal:\n  docker_image: " + py311 + "\nterminal:\n  cwd: .\n"},
		{"duplicates in a section that no step knows", 46, "other:\n  a: 1\n  a: 2\nother: {}\n"},
		{"duplicates in a section with nothing to do", 12, "agent: {verify_on_stop: false}\ncurator:\n  stale_after_days: 7\n  stale_after_days: 8\n"},
		{"anchors and merges elsewhere", 12, "agent: {verify_on_stop: false}\nx: &x {a: &y [1, 2]}\nz:\n  <<: *x\n  b: *y\n"},
		{"lists behind aliases, nothing to drop", 12, "agent: {verify_on_stop: false}\na: &l [my-list]\nplugins: {enabled: *l}\nplatform_toolsets:\n  cli: *l\n  web: *l\n"},
		{"servers behind aliases, on", 12, "agent: {verify_on_stop: false}\na: &s {disabled: false}\nmcp_servers:\n  n: *s\n  m:\n    <<: *s\n"},
		{"empty keys and odd ones", 46, "? [a, b]\n: 1\n\"\": 2\n1: 3\nnull: 4\n"},
		{"tags elsewhere", 46, "a: !!str 5\nb: !mine {c: 1}\n"},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			got := string(migrated(t, plain(stamped(r.from, r.config+acts)), Options{}).Config)
			if d := cmp.Diff(stamped(50, r.config+"compression:\n  a: 1\n"), got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestUnreadable: files that are no config are refused before any step looks at them.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		name, config string
		line         int
	}{
		{"list", "- a\n- b\n", 1},
		{"text", "just text\n", 1},
		{"number", "\n\n49\n", 3},
		{"two documents", "a: 1\n---\nb: 2\n", 2},
		{"unclosed bracket", "a: 1\nb: [1, 2\nc: 3\n", 0},
		{"unclosed quote", "a: 1\nb: \"x\nc: 3\n", 2},
		{"tab as indentation", "a:\n\tb: 1\n", 2},
		{"not UTF-8", "a: 1\nb: \xff\n", 2},
		{"NUL", "a: 1\nb: \x00\n", 0},
		{"bad indentation", "a:\n   b: 1\n  c: 2\n", 3},
		{"unknown alias", "a: *nobody\n", 0},
		{"merge conflict", "<<<<<<< ours\na: 1\n=======\na: 2\n>>>>>>> theirs\n", 0},
		{"UTF-16", "\xff\xfea\x00:\x00 \x001\x00", 1},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			got := refusalOf(t, plain(r.config), Options{}, ErrAmbiguous, exitcode.Unparseable)
			if r.line != 0 && got.Line != r.line {
				t.Errorf("got line %d: %v, want line %d", got.Line, got, r.line)
			}
		})
	}
}

// TestUnreadableEnv: only a step that needs .env fails for it.
func TestUnreadableEnv(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		config  string
		only    bool
		refused bool
	}{
		{"_config_version: 12\n", false, true},
		{"_config_version: 48\n", false, true},
		{"_config_version: 49\n", false, false},
		{"_config_version: 50\n", false, false},
		{"a: 1\n", false, false},
		{"_config_version: 12\n", true, false},
	} {
		for _, env := range []string{"A=1\x00\n", "\xff\xfeA\x00=\x001\x00"} {
			in := Input{Config: []byte(r.config), Env: []byte(env), ConfigOnly: r.only}
			if !r.refused {
				if out := migrated(t, in, Options{}); string(out.Env) != env {
					t.Errorf("%q: .env became %q", r.config, out.Env)
				}
				continue
			}
			got := refusalOf(t, in, Options{}, ErrAmbiguous, exitcode.Unparseable)
			if got.File != FileEnv || !strings.Contains(got.Msg, "not UTF-8 text") {
				t.Errorf("%q: got %v, want a refusal of .env", r.config, got)
			}
		}
	}
}

func TestRefusalExitCodes(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		kind error
		want exitcode.Code
	}{
		{ErrNewerStamp, exitcode.Newer},
		{ErrManaged, exitcode.Managed},
		{ErrBelowFloor, exitcode.BelowFloor},
		{ErrBadStamp, exitcode.BelowFloor},
		{ErrAmbiguous, exitcode.Unparseable},
		{ErrChanged, exitcode.Error},
		{nil, exitcode.Error},
	} {
		err := errors.Join(errors.New("first"), &Refusal{Kind: r.kind, Msg: "m"})
		if got := exitcode.Of(err); got != r.want {
			t.Errorf("%v: got exit code %d, want %d", r.kind, got, r.want)
		}
		if r.kind != nil && !errors.Is(err, r.kind) {
			t.Errorf("%v is not its kind", err)
		}
	}
}

func TestRefusalError(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		give Refusal
		want string
	}{
		{Refusal{File: "f", Line: 3, Path: []string{"a", "b.c"}, Msg: "m", Fix: "x"}, `f, line 3, a."b.c": m; x`},
		{Refusal{File: "f", Msg: "m"}, "f: m"},
		{Refusal{File: "f", Line: 1, Msg: "m", Fix: "x"}, "f, line 1: m; x"},
	} {
		if got := r.give.Error(); got != r.want {
			t.Errorf("got %q, want %q", got, r.want)
		}
	}
}

// TestAdmin: keys that an administrator decides are reported and never stripped.
func TestAdmin(t *testing.T) {
	t.Parallel()
	in := plain(stamped(47, "terminal:\n  docker_image: "+py311+"\n  modal_image: mine\n  cwd: .\n"))
	want := stamped(50, "terminal:\n  modal_image: mine\n  cwd: .\n")
	in.Admin = []byte("_config_version: 50\nterminal:\n  docker_image: ghcr.io/corp/box:1\n  modal_image: other\n  cwd: /srv\n")
	p := planOf(t, in, Options{})
	if got := string(afterPlan(in, p).Config); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	wantAdvice(t, p, "terminal.docker_image is decided by the administrator's config", "terminal.modal_image is decided by the administrator's config")
	if all := strings.Join(p.Advice, "\n"); strings.Contains(all, "cwd") || strings.Contains(all, stampKey) || strings.Contains(all, "corp") {
		t.Errorf("advice about keys that no step looked at, or values: %q", p.Advice)
	}
	in.Admin = []byte("a: [\n")
	wantAdvice(t, planOf(t, in, Options{}), "the administrator's config cannot be read")
	in.Admin = []byte("")
	if all := strings.Join(planOf(t, in, Options{}).Advice, "\n"); strings.Contains(all, "administrator") {
		t.Errorf("advice from an empty file: %q", all)
	}
}
