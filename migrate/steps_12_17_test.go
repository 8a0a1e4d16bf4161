// SPDX-License-Identifier: MIT

package migrate

import (
	"strings"
	"testing"
)

func TestV012(t *testing.T) {
	t.Parallel()
	runStep(t, 12, []at{
		{"absent", "model: {}\n", ""},
		{"empty list", "custom_providers: []\n", ""},
		{"null", "custom_providers:\n", ""},
		{"a mapping", "custom_providers:\n  a: {base_url: http://h/v1}\n", ""},
		{"a text that looks like a list", "custom_providers: '[{base_url: http://h}]'\n", ""},
		{
			"one entry", "custom_providers:\n- name: Box\n  base_url: http://h/v1\n  api_key: ${K}\n",
			"providers:\n  box:\n    name: Box\n    api: http://h/v1\n    api_key: ${K}\n",
		},
		{
			"comments move along",
			"a: 1\n# list\ncustom_providers:\n  # one\n  - name: Box  # n\n    # inner\n    base_url: http://h/v1 # u\n\n# end\nb: 2\n",
			"a: 1\n# list\nproviders:\n  # one\n  box:\n    name: Box  # n\n    # inner\n    api: http://h/v1 # u\n\n# end\nb: 2\n",
		},
		{
			"name in kebab case", "custom_providers:\n- {name: ' My  (Big) Box-- ', base_url: http://h/v1}\n",
			"providers:\n  my-big-box: {name: ' My  (Big) Box-- ', api: http://h/v1}\n",
		},
		{
			"key from the host", "custom_providers:\n- base_url: https://llm.example.org:8443/v1\n",
			"providers:\n  llm-example-org:\n    api: https://llm.example.org:8443/v1\n",
		},
		{
			"url and api serve as well", "custom_providers:\n- {name: a, url: http://a/v1}\n- {name: b, api: http://b/v1}\n",
			"providers:\n  a: {name: a, api: http://a/v1}\n  b: {name: b, api: http://b/v1}\n",
		},
		{
			"an empty base_url gives way", "custom_providers:\n- {name: a, base_url: '', url: http://a/v1}\n",
			"providers:\n  a: {name: a, base_url: '', api: http://a/v1}\n",
		},
		{
			"an address known at run time", "custom_providers:\n- name: a\n  base_url: ${BASE}\n",
			"providers:\n  a:\n    name: a\n    api: ${BASE}\n",
		},
		{
			"keys that say no key", "custom_providers:\n- {name: a, base_url: http://a, api_key: no-key}\n- {name: b, base_url: http://b, api_key: no-key-required}\n- {name: c, base_url: http://c, api_key: ''}\n- {name: d, base_url: http://d, api_key: 'no key'}\n",
			"providers:\n  a: {name: a, api: http://a}\n  b: {name: b, api: http://b}\n  c: {name: c, api: http://c}\n  d: {name: d, api: http://d, api_key: 'no key'}\n",
		},
		{
			"model and api_mode have new names", "custom_providers:\n- name: a\n  base_url: http://a\n  model: m\n  \"api_mode\": responses\n",
			"providers:\n  a:\n    name: a\n    api: http://a\n    default_model: m\n    \"transport\": responses\n",
		},
		{
			"names that collide get the place in the list", "custom_providers:\n- {name: A, base_url: http://1}\n- {name: a, base_url: http://2}\n- {name: a, base_url: http://3}\n",
			"providers:\n  a: {name: A, api: http://1}\n  a-1: {name: a, api: http://2}\n  a-2: {name: a, api: http://3}\n",
		},
	})
}

// TestV012Stays: what is there already, and what cannot be converted, stays.
func TestV012Stays(t *testing.T) {
	t.Parallel()
	runStep(t, 12, []at{
		{
			"what exists is not overwritten", "providers:\n  # mine\n  a:\n    api: http://old\ncustom_providers:\n- name: a\n  base_url: http://new\n",
			"providers:\n  # mine\n  a:\n    api: http://old\n  a-0:\n    name: a\n    api: http://new\n",
		},
		{
			"what cannot be converted stays", "custom_providers:\n- name: later\n- base_url: not an address\n- just text\n- name: a\n  base_url: http://a\n  api: http://other\n- name: b\n  base_url: http://b\n",
			"providers:\n  b:\n    name: b\n    api: http://b\ncustom_providers:\n- name: later\n- base_url: not an address\n- just text\n- name: a\n  base_url: http://a\n  api: http://other\n",
		},
		{"nothing can be converted", "custom_providers:\n- name: later\n", ""},
		{"providers is no section", "providers: none\ncustom_providers:\n- {name: a, base_url: http://a}\n", ""},
		{
			"providers is null", "providers:\ncustom_providers:\n- name: a\n  base_url: http://a\n",
			"providers:\n  a:\n    name: a\n    api: http://a\n",
		},
		{
			"list in brackets", "custom_providers: [{name: a, base_url: http://a}]\nx: 1\n",
			"x: 1\nproviders:\n  a: {name: a, api: http://a}\n",
		},
		{
			"providers in brackets, the list in lines", "providers: {b: {api: http://b}}\ncustom_providers:\n- name: a\n  base_url: http://a\n", "",
		},
	})
}

// TestV012Advice: what stays in the list is named, and the reason does not depend on chance.
func TestV012Advice(t *testing.T) {
	t.Parallel()
	in := plain("custom_providers:\n- {base_url: http://a, model: m, default_model: n, api_mode: x, transport: y}\n- {name: b, base_url: http://b, url: u, url: v}\n- text\n")
	for range 20 {
		p := planOf(t, in, Options{})
		wantList(t, "advice", p.Advice, []string{
			"custom_providers, entry 1: it has both model and default_model; it stays in the list",
			"custom_providers, entry 2: the key url is given twice; it stays in the list",
			"custom_providers, entry 3: it is no mapping; it stays in the list",
		})
	}
}

// TestV013 needs an .env; the config gets nothing but the version.
func TestV013(t *testing.T) {
	t.Parallel()
	for _, r := range []struct{ name, env, want string }{
		{"both names", "LLM_MODEL=a\nOPENAI_MODEL=b\n", "LLM_MODEL=\nOPENAI_MODEL=\n"},
		{"shapes", "export LLM_MODEL=\"a b\"\n  OPENAI_MODEL = 'b'\n", "export LLM_MODEL=\n  OPENAI_MODEL = \n"},
		{"every duplicate", "LLM_MODEL=a\nX=1\nLLM_MODEL=b\n", "LLM_MODEL=\nX=1\nLLM_MODEL=\n"},
		{"empty already", "LLM_MODEL=\nOPENAI_MODEL=\"\"\n", "LLM_MODEL=\nOPENAI_MODEL=\"\"\n"},
		{"comments and like names", "# LLM_MODEL=a\nMY_LLM_MODEL=a\nOPENAI_MODEL_2=b\nllm_model=c\n", "# LLM_MODEL=a\nMY_LLM_MODEL=a\nOPENAI_MODEL_2=b\nllm_model=c\n"},
		{"no final line break, CRLF", "A=1\r\nLLM_MODEL=a", "A=1\r\nLLM_MODEL="},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			in := Input{Config: []byte(stamped(12, "")), Env: []byte(r.env)}
			p := planOf(t, in, Options{To: 13})
			wantSame(t, "step 13", afterPlan(in, p), Input{Config: []byte(stamped(13, "")), Env: []byte(r.want)})
			for _, c := range p.Changes {
				if c.File == FileEnv && (c.Old != "(a value)" || c.New != "(empty)") {
					t.Errorf("the report shows %q and %q", c.Old, c.New)
				}
			}
			later := Input{Config: []byte(stamped(13, "")), Env: []byte(r.env)}
			wantSame(t, "at 13", migrated(t, later, Options{To: 13}), later)
			plainHome := Input{Config: []byte("a: 1\n"), Env: []byte(r.env)}
			if got := string(migrated(t, plainHome, Options{}).Env); got != r.env {
				t.Errorf("without a version the names are generic; .env became %q", got)
			}
			configOnly := in
			configOnly.ConfigOnly = true
			if got := string(migrated(t, configOnly, Options{To: 13}).Env); got != r.env {
				t.Errorf("config only: .env became %q", got)
			}
		})
	}
}

func TestV014(t *testing.T) {
	t.Parallel()
	runStep(t, 14, []at{
		{"absent", "stt:\n  provider: openai\n", ""},
		{"no section", "stt: openai\n", ""},
		{"cloud provider", "stt:\n  provider: openai\n  model: whisper-1 # w\n", "stt:\n  provider: openai\n  openai:\n    model: whisper-1\n"},
		{"quotes stay", "stt:\n  provider: 'groq'\n  model: \"whisper-large\"\n", "stt:\n  provider: 'groq'\n  groq:\n    model: \"whisper-large\"\n"},
		{"local by default, a local name", "stt:\n  model: small.en\n", "stt:\n  local:\n    model: small.en\n"},
		{"local by default, a cloud name", "stt:\n  model: whisper-1\n", "stt: {}\n"},
		{"local named", "stt:\n  provider: local\n  model: large-v3\n", "stt:\n  provider: local\n  local:\n    model: large-v3\n"},
		{"local_command", "stt:\n  provider: local_command\n  model: tiny\n", "stt:\n  provider: local_command\n  local:\n    model: tiny\n"},
		{"other case is no local name", "stt:\n  provider: local\n  model: Tiny\n", "stt:\n  provider: local\n"},
		{"nested model wins", "stt:\n  provider: openai\n  model: a\n  openai:\n    model: b\n", "stt:\n  provider: openai\n  openai:\n    model: b\n"},
		{"nested section without a model", "stt:\n  model: base\n  local:\n    language: de\n", "stt:\n  local:\n    language: de\n    model: base\n"},
		{"nested section is a text", "stt:\n  provider: openai\n  model: a\n  openai: x\n", ""},
		{"in brackets", "stt: {provider: openai, model: a}\n", "stt: {provider: openai, openai: {model: a}}\n"},
		{"a reference in brackets", "stt:\n  provider: groq\n  model: ${M}\n  groq: {}\n", "stt:\n  provider: groq\n  groq: {model: \"${M}\"}\n"},
	})
}

func TestV016(t *testing.T) {
	t.Parallel()
	runStep(t, 16, []at{
		{"absent", "display:\n  skin: x\n", ""},
		{"empty", "display:\n  tool_progress_overrides: {}\n", ""},
		{"a list", "display:\n  tool_progress_overrides: [telegram]\n", ""},
		{
			"two platforms", "display:\n  tool_progress_overrides:\n    telegram: \"off\" # t\n    discord: all\n",
			"display:\n  tool_progress_overrides:\n    telegram: \"off\" # t\n    discord: all\n  platforms:\n    telegram:\n      tool_progress: \"off\"\n    discord:\n      tool_progress: all\n",
		},
		{
			"a value that is there wins", "display:\n  tool_progress_overrides: {telegram: all, slack: new}\n  platforms:\n    telegram: {tool_progress: verbose}\n    slack:\n      streaming: true\n",
			"display:\n  tool_progress_overrides: {telegram: all, slack: new}\n  platforms:\n    telegram: {tool_progress: verbose}\n    slack:\n      streaming: true\n      tool_progress: new\n",
		},
		{
			"a null stays a null", "display:\n  tool_progress_overrides:\n    telegram:\n",
			"display:\n  tool_progress_overrides:\n    telegram:\n  platforms:\n    telegram:\n      tool_progress: null\n",
		},
		{
			"booleans stay booleans", "display:\n  tool_progress_overrides:\n    telegram: off\n",
			"display:\n  tool_progress_overrides:\n    telegram: off\n  platforms:\n    telegram:\n      tool_progress: off\n",
		},
		{"platforms is a list", "display:\n  tool_progress_overrides: {telegram: all}\n  platforms: []\n", ""},
		{"the platform is a text", "display:\n  tool_progress_overrides: {telegram: all}\n  platforms: {telegram: x}\n", ""},
		{"the override is a list", "display:\n  tool_progress_overrides: {telegram: [all]}\n", ""},
		{
			"names with dots", "display:\n  tool_progress_overrides: {my.bot: all}\n",
			"display:\n  tool_progress_overrides: {my.bot: all}\n  platforms:\n    my.bot:\n      tool_progress: all\n",
		},
	})
}

func TestV017(t *testing.T) {
	t.Parallel()
	runStep(t, 17, []at{
		{"absent", "compression:\n  enabled: true\n", ""},
		{"no section", "compression: true\n", ""},
		{
			"all three", "compression:\n  summary_model: m\n  summary_provider: p\n  summary_base_url: http://u\n  enabled: true\n",
			"compression:\n  enabled: true\nauxiliary:\n  compression:\n    model: m\n    provider: p\n    base_url: http://u\n",
		},
		{"nothing said", "compression:\n  summary_model: ''\n  summary_provider: auto\n  summary_base_url: null\n", "compression: {}\n"},
		{"blanks say nothing", "compression: {summary_model: '  ', summary_provider: ' auto '}\n", "compression: {}\n"},
		{
			"what is set wins", "compression:\n  summary_model: m\n  summary_provider: p\nauxiliary:\n  compression:\n    model: mine\n    provider: mine\n",
			"compression: {}\nauxiliary:\n  compression:\n    model: mine\n    provider: mine\n",
		},
		{
			"auto and empty do not win", "compression:\n  summary_model: m\n  summary_provider: p\nauxiliary:\n  compression:\n    model: \"\"  # none\n    provider: auto\n",
			"compression: {}\nauxiliary:\n  compression:\n    model: m  # none\n    provider: p\n",
		},
		{
			"a null does not win", "compression:\n  summary_model: m\nauxiliary:\n  compression:\n    model:\n",
			"compression: {}\nauxiliary:\n  compression:\n    model: m\n",
		},
		{"a number becomes text", "compression:\n  summary_model: 4\n", "compression: {}\nauxiliary:\n  compression:\n    model: \"4\"\n"},
		{"auxiliary is a text", "compression:\n  summary_model: m\nauxiliary: x\n", ""},
		{"a list is left", "compression:\n  summary_model: [m]\n", ""},
		{"auxiliary is empty", "compression:\n  summary_model: a, b\nauxiliary: {}\n", "compression: {}\nauxiliary: {compression: {model: \"a, b\"}}\n"},
	})
}

// TestV017HidesAddresses: an address may hold a password.
func TestV017HidesAddresses(t *testing.T) {
	t.Parallel()
	p := planOf(t, plain(stamped(16, "compression:\n  summary_base_url: https://me:hunter2@h/v1\n")), Options{})
	for _, c := range p.Changes {
		if strings.Contains(c.Old+c.New+c.Reason, "hunter2") {
			t.Errorf("the report shows the address: %+v", c)
		}
	}
	if diff, err := p.Diff(); err != nil || strings.Contains(diff, "hunter2") || !strings.Contains(diff, "+    base_url: ***") {
		t.Errorf("got %v and the diff\n%s", err, diff)
	}
}
