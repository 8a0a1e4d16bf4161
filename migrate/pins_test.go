// SPDX-License-Identifier: MIT

package migrate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// pinKey is a key that a step changes only while it holds certain values.
type pinKey struct {
	section, key string
	from         int // the oldest version at which other values are safe
	falls        func(text string) bool
}

// number reports spellings of a number that a random text can be.
func number(ns ...string) func(string) bool {
	return func(text string) bool {
		for _, n := range ns {
			if text == n || text == "+"+n || strings.TrimRight(text, "0") == n+"." {
				return true
			}
		}
		return false
	}
}

// texts reports spellings of texts: bare and in quotes.
func texts(ts ...string) func(string) bool {
	return func(text string) bool {
		for _, s := range ts {
			if text == s || text == `"`+s+`"` || text == "'"+s+"'" {
				return true
			}
		}
		return false
	}
}

func pinKeys() []pinKey {
	return []pinKey{
		{"model_catalog", "ttl_hours", 12, number("24", "1")},
		{"delegation", "max_iterations", 12, number("50")},
		{"delegation", "max_concurrent_children", 12, number("3")},
		{"curator", "stale_after_days", 12, number("30")},
		{"curator", "archive_after_days", 12, number("90")},
		{"compression", "threshold_tokens", 12, number("256000", "256_000", "0x3E800")},
		{"terminal", "docker_image", 12, texts(py311, py314)},
		{"terminal", "modal_image", 12, texts(py311, py314)},
		{"terminal", "daytona_image", 12, texts(py311, py314)},
		{"terminal", "singularity_image", 12, texts("docker://"+py311, "docker://"+py314)},
		{"terminal", "vercel_runtime", 12, texts("node24")},
		{"display", "background_process_notifications", 12, func(s string) bool {
			return strings.EqualFold(strings.Trim(s, `"' `), "all")
		}},
		{"agent", "verify_on_stop", 32, func(string) bool { return false }},
		{"agent", "system_prompt", 12, func(string) bool { return false }},
		{"cron", "model_drift_guard", 42, func(string) bool { return false }},
		{"display", "personality", 34, func(string) bool { return false }},
		{"memory", "write_approval", 12, func(string) bool { return false }},
	}
}

// randomValue is a value as somebody may write it on one line. Half of them are close to
// values that fall.
func randomValue(r *rand.Rand) string {
	near := []string{
		py311, py314, "docker://" + py311, "docker.io/" + py311, "node24", "node22", "python3.13", "256000", "24", "1", "50", "3", "30", "90", "all", "auto",
		"nousresearch/hermes-sandbox:desktop",
	}
	base := near[r.IntN(len(near))]
	switch r.IntN(14) {
	case 0:
		return fmt.Sprint(r.IntN(400000))
	case 1:
		return fmt.Sprintf("%d.%d", r.IntN(300), r.IntN(100))
	case 2:
		return "-" + fmt.Sprint(r.IntN(100))
	case 3:
		return `"` + base + `"`
	case 4:
		return `"` + base + strings.Repeat(" ", r.IntN(3)) + `"`
	case 5:
		return "'" + strings.ToUpper(base) + "'"
	case 6:
		return base + "@sha256:" + fmt.Sprintf("%064x", r.Uint64())
	case 7:
		return base + "-" + fmt.Sprint(r.IntN(9))
	case 8:
		return []string{"true", "false", "off", "yes", "null", "~", "''", `""`, ".inf", "0x1F", "1_000", "0b111"}[r.IntN(12)]
	case 9:
		return "[" + base + ", 1]"
	case 10:
		return "{a: " + base + "}"
	case 11:
		return "${" + strings.ToUpper(strings.Map(letters, base)) + "}"
	case 12:
		return "\"" + string([]rune("äß猫é\u00a0😀")[:1+r.IntN(5)]) + "\\n" + base + "\""
	}
	return base
}

func letters(r rune) rune {
	if r >= 'a' && r <= 'z' {
		return r
	}
	return '_'
}

// TestPinsSurvive: any value that no literal of a step is stays as it stands in the file,
// from every version on.
func TestPinsSurvive(t *testing.T) {
	t.Parallel()
	keys := pinKeys()
	fell, stayed := 0, 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 48))
		k := keys[r.IntN(len(keys))]
		value := randomValue(r)
		from := k.from + r.IntN(Latest()-k.from+1)
		line := fmt.Sprintf("  %s: %s  # mine, %d", k.key, value, seed)
		config := stamped(from, fmt.Sprintf("%s:\n  zz_before: %d\n%s\n  zz_behind: x\nzz: [1]\n", k.section, seed, line))
		got := string(migrated(t, plain(config), Options{}).Config)
		if k.falls(value) {
			fell++
			continue
		}
		stayed++
		if !strings.Contains(got, "\n"+line+"\n") {
			t.Errorf("seed %d, from %d: the pin %q is lost:\n%s", seed, from, line, got)
		}
		if !strings.Contains(got, fmt.Sprintf("zz_before: %d\n", seed)) || !strings.Contains(got, "\n  zz_behind: x\n") || !strings.Contains(got, "\nzz: [1]\n") {
			t.Errorf("seed %d: the neighbours are lost:\n%s", seed, got)
		}
	}
	if fell < 20 || stayed < 3000 {
		t.Errorf("only %d values fell and %d stayed: the generator is useless", fell, stayed)
	}
}

// TestPinsWithoutVersion: a file without a version keeps even the values that fall elsewhere.
func TestPinsWithoutVersion(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 12))
		k := pinKeys()[r.IntN(12)]
		line := fmt.Sprintf("  %s: %s", k.key, randomValue(r))
		config := k.section + ":\n" + line + "\n"
		if got, want := string(migrated(t, plain(config), Options{}).Config), config+"_config_version: 50\n"; got != want {
			t.Errorf("seed %d: got\n%swant\n%s", seed, got, want)
		}
	}
}

// TestEnvPinsSurvive is the same for .env.
func TestEnvPinsSurvive(t *testing.T) {
	t.Parallel()
	keys := []string{"TERMINAL_VERCEL_RUNTIME", "TERMINAL_DOCKER_IMAGE", "TERMINAL_VERCEL_IMAGE", "OPENAI_API_KEY", "LLM_MODEL"}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 49))
		var lines, want []string
		for range 1 + r.IntN(6) {
			key, value := keys[r.IntN(len(keys))], strings.TrimSuffix(strings.ReplaceAll(randomValue(r), `\n`, ""), "\n")
			line := []string{"", "export ", "  ", "# "}[r.IntN(4)] + key + []string{"=", " = "}[r.IntN(2)] + value
			lines = append(lines, line)
			bare := strings.TrimSpace(strings.Trim(value, `"'`))
			if key != "TERMINAL_VERCEL_RUNTIME" || bare != "node24" || line[0] == '#' {
				want = append(want, line)
			}
		}
		text := func(ls []string) string {
			if len(ls) == 0 {
				return ""
			}
			return strings.Join(ls, "\n") + "\n"
		}
		in := Input{Config: []byte(stamped(13+r.IntN(36), "")), Env: []byte(text(lines))}
		if got := string(migrated(t, in, Options{}).Env); got != text(want) {
			t.Errorf("seed %d: got\n%swant\n%s", seed, got, text(want))
		}
	}
}

// TestListPinsSurvive: of lists only the retired names go, in every notation.
func TestListPinsSurvive(t *testing.T) {
	t.Parallel()
	names := []string{"web", "file", "hermes-cli", "my.tool", "\"on\"", "BFL", "bfl", "bfl", "nemo_relay", "ledger", "observability/nemo_relay", "12"}
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 39))
		section, key, gone := "known_builtin_toolsets", "cli", map[string]bool{"bfl": true}
		if r.IntN(2) == 0 {
			section, key, gone = "plugins", "enabled", map[string]bool{"nemo_relay": true, "observability/nemo_relay": true}
		}
		var items, want []string
		for range 1 + r.IntN(7) {
			it := names[r.IntN(len(names))]
			items = append(items, it)
			if !gone[it] {
				want = append(want, it)
			}
		}
		flow := r.IntN(2) == 0
		text := func(items []string) string {
			if flow || len(items) == 0 {
				return fmt.Sprintf("%s:\n  %s: [%s]\n", section, key, strings.Join(items, ", "))
			}
			return fmt.Sprintf("%s:\n  %s:\n    - %s\n", section, key, strings.Join(items, "\n    - "))
		}
		got := string(migrated(t, plain(stamped(37, text(items))), Options{}).Config)
		if got != stamped(50, text(want)) {
			t.Errorf("seed %d: %q became\n%swant\n%s", seed, items, got, stamped(50, text(want)))
		}
	}
}
