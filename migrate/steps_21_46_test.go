// SPDX-License-Identifier: MIT

package migrate

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

func TestV021(t *testing.T) {
	t.Parallel()
	installed := func(names ...string) func() ([]string, error) {
		return func() ([]string, error) { return names, nil }
	}
	for _, r := range []struct {
		name, config, want string
		plugins            func() ([]string, error)
	}{
		{"none installed", "a: 1\n", "", installed()},
		{"nobody to ask", "a: 1\n", "", nil},
		{"no section", "a: 1\n", "a: 1\nplugins:\n  enabled:\n    - ledger\n    - weather-lamp\n", installed("ledger", "weather-lamp")},
		{"section without the key", "plugins:\n  x: 1\n", "plugins:\n  x: 1\n  enabled:\n    - ledger\n", installed("ledger")},
		{"a null section", "plugins:\n", "plugins:\n  enabled:\n    - ledger\n", installed("ledger")},
		{"empty list", "plugins:\n  enabled: []\n", "", installed("ledger")},
		{"null list", "plugins:\n  enabled:\n", "", installed("ledger")},
		{"disabled ones", "plugins:\n  disabled: [ledger, ' b ']\n", "plugins:\n  disabled: [ledger, ' b ']\n  enabled:\n    - a\n", installed("a", "b", "ledger")},
		{"all disabled", "plugins:\n  disabled:\n  - ledger\n", "", installed("ledger")},
		{"the same name twice", "a: 1\n", "a: 1\nplugins:\n  enabled:\n    - b\n    - a\n", installed("b", "a", "b")},
		{"names that need quotes", "a: 1\n", "a: 1\nplugins:\n  enabled:\n    - \"on\"\n    - \"12\"\n    - \"a: b\"\n", installed("on", "12", "a: b")},
		{"section is a list", "plugins: [ledger]\n", "", installed("ledger")},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			want := r.want
			if want == "" {
				want = r.config
			}
			in := plain(stamped(20, r.config))
			in.Plugins = r.plugins
			if d := cmp.Diff(stamped(21, want), string(migrated(t, in, Options{To: 21}).Config)); d != "" {
				t.Errorf("step 21 (-want +got):\n%s", d)
			}
		})
	}
}

func TestV021CannotLook(t *testing.T) {
	t.Parallel()
	in := plain(stamped(20, "a: 1\n"))
	in.Plugins = func() ([]string, error) { return nil, errors.New("plugins: input/output error") }
	r := refusalOf(t, in, Options{}, ErrAmbiguous, exitcode.Unparseable)
	if !strings.Contains(r.Msg, "step 21-plugins-enabled: plugins: input/output error") {
		t.Errorf("got %q", r.Msg)
	}
	// Where the step does not look there is nothing to fail.
	in.Config = []byte(stamped(20, "plugins:\n  enabled: [a]\n"))
	planOf(t, in, Options{})
	in.Config, in.ConfigOnly = []byte(stamped(20, "a: 1\n")), true
	wantAdvice(t, planOf(t, in, Options{}), "plugins.enabled is not set")
}

func TestV023WritesNoDefaults(t *testing.T) {
	t.Parallel()
	runStep(t, 23, []at{{"no section", "a: 1\n", ""}, {"some keys", "curator:\n  enabled: false\n", ""}})
	runStep(t, 15, []at{{"no section", "a: 1\n", ""}, {"section", "display:\n  skin: x\n", ""}})
	runStep(t, 30, []at{{"section", "curator:\n  enabled: true\n", ""}})
}

// numberRows are the rows of a step that changes one number: every spelling of it acts,
// every other value is a pin.
func numberRows(section, key, old, text string) []at {
	line := func(value string) string {
		return section + ":\n  a: b # c\n  " + key + ": " + value + " # d\n  z: 1\n"
	}
	gone := section + ":\n  a: b # c\n  z: 1\n"
	rows := []at{
		{"no section", "x: 1\n", ""},
		{"section is a list", section + ": [" + key + "]\n", ""},
		{"key elsewhere", "other:\n  " + key + ": " + old + "\n", ""},
		{"nested deeper", section + ":\n  sub:\n    " + key + ": " + old + "\n", ""},
		{"in a comment", section + ":\n  a: 1\n  # " + key + ": " + old + "\n", ""},
	}
	acts := []string{old, "+" + old, old + ".0", old + "."}
	for _, v := range acts {
		want := gone
		if text != "" {
			want = line(text)
		}
		rows = append(rows, at{"acts on " + v, line(v), want})
	}
	for _, v := range []string{"0", "-" + old, old + "0", old + ".5", `"` + old + `"`, "'" + old + "'", "!!str " + old, "null", "~", "", "true", "[" + old + "]", "${N}", "text"} {
		rows = append(rows, at{"keeps " + v, line(v), ""})
	}
	return rows
}

func TestNumberSteps(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		step              int
		section, key, old string
		text              string
	}{
		{25, "model_catalog", "ttl_hours", "24", "1"},
		{36, "delegation", "max_iterations", "50", "250"},
		{37, "delegation", "max_concurrent_children", "3", "10"},
		{40, "model_catalog", "ttl_hours", "1", ""},
		{44, "curator", "stale_after_days", "30", "14"},
		{44, "curator", "archive_after_days", "90", "30"},
		{47, "compression", "threshold_tokens", "256000", ""},
	} {
		t.Run(r.key+" "+r.old, func(t *testing.T) {
			t.Parallel()
			runStep(t, r.step, numberRows(r.section, r.key, r.old, r.text))
		})
	}
}

// TestV025ThenV040: the number that step 25 writes is the one that step 40 takes away.
func TestV025ThenV040(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		from         int
		config, want string
	}{
		{24, "model_catalog:\n  ttl_hours: 24\n", "model_catalog: {}\n"},
		{24, "model_catalog:\n  ttl_hours: 24\n  ttl_minutes: 5\n", "model_catalog:\n  ttl_hours: 1\n  ttl_minutes: 5\n"},
		{25, "model_catalog:\n  ttl_hours: 24\n", "model_catalog:\n  ttl_hours: 24\n"},
		{39, "model_catalog:\n  ttl_hours: 1\n  ttl_minutes: null\n", "model_catalog:\n  ttl_hours: 1\n  ttl_minutes: null\n"},
		{40, "model_catalog:\n  ttl_hours: 1\n", "model_catalog:\n  ttl_hours: 1\n"},
	} {
		const agent = "agent: {verify_on_stop: false}\n"
		got := string(migrated(t, plain(stamped(r.from, agent+r.config)), Options{To: 40}).Config)
		if want := stamped(40, agent+r.want); got != want {
			t.Errorf("from %d: got\n%swant\n%s", r.from, got, want)
		}
	}
}

func TestV029(t *testing.T) {
	t.Parallel()
	runStep(t, 29, []at{
		{"absent", "memory:\n  memory_enabled: true\nskills: {}\n", ""},
		{"no section", "memory: approve\n", ""},
		{"approve", "memory:\n  write_mode: approve\n", "memory:\n  write_approval: true\n"},
		{"case and blanks", "skills:\n  write_mode: \" Approve \"\n  x: 1\n", "skills:\n  x: 1\n  write_approval: true\n"},
		{"anything else", "memory:\n  write_mode: approved\nskills:\n  write_mode: off\n", "memory:\n  write_approval: false\nskills:\n  write_approval: false\n"},
		{"null", "memory:\n  write_mode:\n", "memory:\n  write_approval: false\n"},
		{"over a value that is there", "memory:\n  write_mode: approve\n  write_approval: false # w\n", "memory:\n  write_approval: true # w\n"},
		{"in brackets", "memory: {write_mode: approve, a: 1}\n", "memory: {a: 1, write_approval: true}\n"},
	})
}

func TestV031(t *testing.T) {
	t.Parallel()
	runStep(t, 31, []at{
		{"no section", "a: 1\n", "a: 1\nagent:\n  verify_on_stop: false\n"},
		{"null section", "agent:\na: 1\n", "agent:\n  verify_on_stop: false\na: 1\n"},
		{"absent", "agent:\n  max_turns: 9 # n\n  # end\n", "agent:\n  max_turns: 9 # n\n  verify_on_stop: false\n  # end\n"},
		{"auto", "agent:\n  verify_on_stop: auto # s\n", "agent:\n  verify_on_stop: false # s\n"},
		{"auto, case and blanks", "agent:\n  verify_on_stop: \" AUTO \"\n", "agent:\n  verify_on_stop: false\n"},
		{"null", "agent:\n  verify_on_stop: null\n", "agent:\n  verify_on_stop: false\n"},
		{"empty", "agent:\n  verify_on_stop: # s\n", "agent:\n  verify_on_stop: false # s\n"},
		{"true", "agent:\n  verify_on_stop: true\n", ""},
		{"false", "agent:\n  verify_on_stop: no\n", ""},
		{"text", "agent:\n  verify_on_stop: sometimes\n", ""},
		{"section is a text", "agent: x\n", ""},
		{"section in brackets", "agent: {max_turns: 9}\n", "agent: {max_turns: 9, verify_on_stop: false}\n"},
		{"empty brackets", "agent: {}\n", "agent: {verify_on_stop: false}\n"},
	})
}

func TestV032(t *testing.T) {
	t.Parallel()
	runStep(t, 32, []at{
		{"true", "agent:\n  verify_on_stop: true # b\n", "agent:\n  verify_on_stop: false # b\n"},
		{"yes", "agent:\n  verify_on_stop: Yes\n", "agent:\n  verify_on_stop: false\n"},
		{"text true", "agent:\n  verify_on_stop: \"true\"\n", ""},
		{"one", "agent:\n  verify_on_stop: 1\n", ""},
		{"false", "agent:\n  verify_on_stop: false\n", ""},
		{"auto", "agent:\n  verify_on_stop: auto\n", ""},
		{"absent", "agent: {}\n", ""},
	})
	p := planOf(t, plain(stamped(30, "agent:\n  verify_on_stop: true\n")), Options{})
	wantList(t, "a value that 32 takes is no pin of 31", keptOf(p.Kept), nil)
}

func TestV033(t *testing.T) {
	t.Parallel()
	runStep(t, 33, []at{
		{"absent", "delegation:\n  max_iterations: 1\n", ""},
		{"the default", "delegation:\n  max_async_children: 3\n", "delegation: {}\n"},
		{"above 3 and above the default", "delegation:\n  max_async_children: 4\n", "delegation:\n  max_concurrent_children: 4\n"},
		{"above the other", "delegation:\n  max_async_children: 8 # x\n  max_concurrent_children: 5 # y\n", "delegation:\n  max_concurrent_children: 8 # y\n"},
		{"below the other", "delegation:\n  max_async_children: 8\n  max_concurrent_children: 9\n", "delegation:\n  max_concurrent_children: 9\n"},
		{"at most 3", "delegation:\n  max_async_children: 3\n  max_concurrent_children: 1\n", "delegation:\n  max_concurrent_children: 1\n"},
		{"text", "delegation:\n  max_async_children: \" 7 \"\n", "delegation:\n  max_concurrent_children: 7\n"},
		{"fraction", "delegation:\n  max_async_children: 5.9\n", "delegation:\n  max_concurrent_children: 5\n"},
		{"the other is no number", "delegation:\n  max_async_children: 5\n  max_concurrent_children: many\n", "delegation:\n  max_concurrent_children: 5\n"},
		{"no number", "delegation: {max_async_children: many, a: 1}\n", "delegation: {a: 1}\n"},
		{"endless", "delegation:\n  max_async_children: .inf\n", "delegation: {}\n"},
		{"no number at all", "delegation:\n  max_async_children: .nan\n  max_concurrent_children: 2\n", "delegation:\n  max_concurrent_children: 2\n"},
		{"null", "delegation:\n  max_async_children:\n", "delegation: {}\n"},
	})
}

func TestV035(t *testing.T) {
	t.Parallel()
	line := func(v string) string { return "display:\n  background_process_notifications: " + v + "\n" }
	rows := []at{{"absent", "display: {}\n", ""}}
	for _, v := range []string{"all", "ALL", "\" All \"", "'all'"} {
		rows = append(rows, at{v, line(v), line("concise")})
	}
	for _, v := range []string{"result", "error", "off", "\"off\"", "concise", "none", "allx", "null", "[all]", "true"} {
		rows = append(rows, at{v, line(v), ""})
	}
	runStep(t, 35, rows)
}

func TestV038(t *testing.T) {
	t.Parallel()
	runStep(t, 38, []at{
		{"both names", "plugins:\n  enabled:\n  - a # a\n  - nemo_relay # r\n  - observability/nemo_relay\n  - b\n", "plugins:\n  enabled:\n  - a # a\n  - b\n"},
		{"only one", "plugins:\n  enabled:\n    - nemo_relay\n  x: 1\n", "plugins:\n  enabled: []\n  x: 1\n"},
		{"in brackets", "plugins: {enabled: [nemo_relay, a, 'observability/nemo_relay']}\n", "plugins: {enabled: [a]}\n"},
		{"like names", "plugins:\n  enabled: [nemo-relay, relay, observability, other/nemo_relay, NEMO_RELAY]\n", ""},
		{"elsewhere", "plugins:\n  disabled: [nemo_relay]\nnemo_relay: 1\n", ""},
		{"text", "plugins:\n  enabled: nemo_relay\n", ""},
		{"behind an alias, not named", "l: &l [a]\nplugins:\n  enabled: *l\n", ""},
		{"shared, not named", "plugins:\n  enabled: &l [a]\nl: *l\n", ""},
		{"an item that is an alias of that name", "x: &nemo_relay a\nplugins:\n  enabled: [*nemo_relay]\n", ""},
	})
}

func TestV039(t *testing.T) {
	t.Parallel()
	runStep(t, 39, []at{
		{
			"every list", "platform_toolsets:\n  cli:\n  - bfl\n  - web\n  - bfl\n  telegram: [bfl]\nknown_builtin_toolsets:\n  cli: [web, \"bfl\"] # k\n",
			"platform_toolsets:\n  cli:\n  - web\n  telegram: []\nknown_builtin_toolsets:\n  cli: [web] # k\n",
		},
		{"like names", "platform_toolsets:\n  cli: [BFL, bfl2, [bfl]]\n  bfl: bfl\n", ""},
		{"no section", "platform_toolsets: [bfl]\n", ""},
		{"behind an alias, not named", "platform_toolsets:\n  cli: &t [web]\n  telegram: *t\n", ""},
		{"duplicate platform, not named", "platform_toolsets:\n  cli: [web]\n  cli: [web]\n", ""},
	})
}

func TestV042V043(t *testing.T) {
	t.Parallel()
	runStep(t, 42, []at{
		{"true", "cron:\n  model_drift_guard: true # g\n  x: 1\n", "cron:\n  x: 1\n"},
		{"false", "cron:\n  model_drift_guard: false\n", "cron: {}\n"},
		{"zero", "cron: {x: 1, model_drift_guard: 0}\n", "cron: {x: 1}\n"},
		{"text", "cron:\n  model_drift_guard: strict\n", "cron: {}\n"},
		{"null", "cron:\n  model_drift_guard: null\n", ""},
		{"empty", "cron:\n  model_drift_guard:\n", ""},
		{"elsewhere", "model_drift_guard: true\n", ""},
	})
	runStep(t, 43, []at{
		{"list", "gateway:\n  multiplex_profiles: true\n  multiplex_profile_allowlist:\n    - a # x\n    - b\n  # end\n", "gateway:\n  multiplex_profiles: true\n  # end\n"},
		{"null", "gateway:\n  multiplex_profile_allowlist:\n", "gateway: {}\n"},
		{"empty", "gateway: {multiplex_profile_allowlist: [], multiplex_profiles: false}\n", "gateway: {multiplex_profiles: false}\n"},
		{"only the switch", "gateway:\n  multiplex_profiles: true\n", ""},
		{"top level", "multiplex_profile_allowlist: [a]\n", ""},
	})
}

func TestV045(t *testing.T) {
	t.Parallel()
	runStep(t, 45, []at{
		{"single toolsets", "platform_toolsets:\n  cli:\n  - web # w\n  - file\n", "platform_toolsets:\n  cli:\n  - web # w\n  - file\n  - connections\n"},
		{"single and bundle", "platform_toolsets:\n  cli: [hermes-cli, web]\n", "platform_toolsets:\n  cli: [hermes-cli, web, connections]\n"},
		{"only bundles", "platform_toolsets:\n  cli: [hermes-cli]\n  telegram:\n  - hermes-telegram\n", ""},
		{"only names of others", "platform_toolsets:\n  cli: [my-mcp, hermes-cli]\n", ""},
		{"empty list", "platform_toolsets:\n  cli: []\n", ""},
		{"has it", "platform_toolsets:\n  cli: [connections, web]\n", ""},
		{"offered before", "platform_toolsets:\n  cli: [web]\nknown_builtin_toolsets:\n  cli: [connections, web]\n", ""},
		{
			"offered elsewhere", "platform_toolsets:\n  cli: [web]\nknown_builtin_toolsets:\n  telegram: [connections]\n",
			"platform_toolsets:\n  cli: [web, connections]\nknown_builtin_toolsets:\n  telegram: [connections]\n",
		},
		{
			"the list of offers grows", "platform_toolsets:\n  cli: [web]\nknown_builtin_toolsets:\n  cli:\n    - web\n",
			"platform_toolsets:\n  cli: [web, connections]\nknown_builtin_toolsets:\n  cli:\n    - web\n    - connections\n",
		},
		{"disabled", "agent:\n  disabled_toolsets: [connections]\nplatform_toolsets:\n  cli: [web]\n", ""},
		{"disabled as text", "agent:\n  disabled_toolsets: connections\nplatform_toolsets:\n  cli: [web]\n", ""},
		{"disabled as the text of a list", "agent:\n  disabled_toolsets: '[\"x\", \"connections\"]'\nplatform_toolsets:\n  cli: [web]\n", ""},
		{
			"others disabled", "agent:\n  disabled_toolsets: [web]\nplatform_toolsets:\n  cli: [file]\n",
			"agent:\n  disabled_toolsets: [web]\nplatform_toolsets:\n  cli: [file, connections]\n",
		},
		{
			"an item that is an alias of that name", "x: &connections y\nplatform_toolsets:\n  cli: [*connections, web]\n",
			"x: &connections y\nplatform_toolsets:\n  cli: [*connections, web, connections]\n",
		},
		{"text", "platform_toolsets:\n  cli: web\n", ""},
		{"no section", "platform_toolsets: [web]\n", ""},
	})
}

func TestV046(t *testing.T) {
	t.Parallel()
	server := func(lines string) string { return "mcp_servers:\n  n:\n    command: x\n" + lines }
	off := server("    enabled: false\n")
	rows := []at{
		{"beats enabled", server("    enabled: true # e\n    disabled: true # d\n"), server("    enabled: false # e\n")},
		{"enabled is false already", server("    disabled: true\n    enabled: no\n"), server("    enabled: no\n")},
		{"enabled is text", server("    disabled: true\n    enabled: \"false\"\n"), server("    enabled: false\n")},
		{"the only key", "mcp_servers:\n  n:\n    disabled: true\n", "mcp_servers:\n  n:\n    enabled: false\n"},
		{"in brackets", "mcp_servers: {n: {disabled: on}, m: {disabled: off}}\n", "mcp_servers: {n: {enabled: false}, m: {disabled: off}}\n"},
		{"a name with dots", "mcp_servers:\n  \"a.b\":\n    disabled: true\n", "mcp_servers:\n  \"a.b\":\n    enabled: false\n"},
		{"no mapping", "mcp_servers: [disabled]\n", ""},
		{"a server that is a text", "mcp_servers:\n  n: disabled\n", ""},
		{"another section", "servers:\n  n:\n    disabled: true\n", ""},
	}
	for _, v := range []string{"true", "yes", "On", "1", "2", "\"true\"", "' Yes '", "\"1\"", "ON"} {
		rows = append(rows, at{"acts on " + v, server("    disabled: " + v + "\n"), off})
	}
	for _, v := range []string{"false", "no", "off", "0", "\"false\"", "\"\"", "null", "", "maybe", "[true]"} {
		rows = append(rows, at{"keeps " + v, server("    disabled: " + v + "\n"), ""})
	}
	runStep(t, 46, rows)
}

// TestV029NeverWeakens: of an old and a new key the stricter counts.
func TestV029NeverWeakens(t *testing.T) {
	t.Parallel()
	runStep(t, 29, []at{
		{"true stays", "memory:\n  write_mode: \"on\"\n  write_approval: true\n", "memory:\n  write_approval: true\n"},
		{"approve sets true", "memory:\n  write_mode: approve\n  write_approval: false\n", "memory:\n  write_approval: true\n"},
		{"false and on", "memory:\n  write_mode: \"on\"\n  write_approval: false\n", "memory:\n  write_approval: false\n"},
	})
}
