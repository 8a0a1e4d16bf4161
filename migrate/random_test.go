// SPDX-License-Identifier: MIT

package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// fields are the sections whose values are plain: each key with values it may have, old
// defaults among them.
func (s *shaper) fields() map[string][][]string {
	with := func(k string) []string { return []string{k, py311, py314, "docker://" + py311, "mine:1", "null", ""} }
	return map[string][][]string{
		"terminal": {
			with("docker_image"), with("modal_image"), with("daytona_image"), with("singularity_image"),
			{"vercel_runtime", "node24", "node22", ""},
			{"cwd", ".", "/srv/x"},
			{"timeout", "180"},
		},
		"compression": {
			{"threshold_tokens", "256000", "256_000", "1", "null"},
			{"summary_model", "m", `""`, "${M}", "4"},
			{"summary_provider", "auto", "nous"},
			{"summary_base_url", "http://h/v1?a=1", ""},
			{"enabled", "true"},
		},
		"delegation":    {{"max_async_children", "8", "3", "x"}, {"max_iterations", "50", "75"}, {"max_concurrent_children", "3", "5"}},
		"curator":       {{"stale_after_days", "30", "14"}, {"archive_after_days", "90", "180"}, {"enabled", "true"}},
		"model_catalog": {{"ttl_hours", "24", "1", "6"}, {"ttl_minutes", "5"}},
		"agent":         {{"verify_on_stop", "auto", "true", "false"}, {"max_turns", "9"}, {"system_prompt", "be brief"}},
		"memory":        {{"write_mode", "approve", "on"}, {"write_approval", "false"}},
		"gateway":       {{"multiplex_profile_allowlist", "[a, b]", "null"}, {"port", "1"}},
		"cron":          {{"model_drift_guard", "true", "null"}, {"x", "1"}},
		"security":      {{"tirith_enabled", "true"}, {"tirith_path", "x"}, {"tirith_fail_open", "false"}, {"redact_secrets", "true"}},
		"other":         {{"k", "[1, 2]", "{a: 1}"}, {"docker_image", py311}, {"z", "x"}},
		"auxiliary":     {{"vision", "x"}},
		"stt":           {{"provider", "openai", "local", "groq"}, {"model", "base", "whisper-1", "a, b"}},
		"display":       {{"personality", "kawaii", "none", `""`}, {"background_process_notifications", "all", "off"}},
	}
}

// section makes a random section.
func (s *shaper) section(name string, fields [][]string) node {
	of := func(key string, v node) node { return node{keys: []string{key}, vals: []node{v}} }
	n := s.pickKeys(0.6, fields...)
	switch name {
	case "auxiliary":
		if s.maybe(0.6) {
			n.put("compression", s.pickKeys(0.5, []string{"model", `""`, "mine"}, []string{"provider", "auto", "p"}))
		}
	case "stt":
		if s.maybe(0.3) {
			n.put("openai", s.pickKeys(0.5, []string{"model", "w"}, []string{"lang", "de"}))
		}
	case "display":
		if s.maybe(0.4) {
			n.put("tool_progress_overrides", s.pickKeys(0.7, []string{"telegram", "all", "off"}, []string{"a.b", "new"}))
		}
		if s.maybe(0.3) {
			n.put("platforms", of("telegram", s.pickKeys(0.5, []string{"tool_progress", "x"}, []string{"y", "z"})))
		}
	case "plugins":
		return of("enabled", s.names("a", "nemo_relay", "b", "observability/nemo_relay"))
	case "platform_toolsets":
		n = of("cli", s.names("bfl", "web", "file"))
		n.put("web", s.names("hermes-cli", "bfl"))
	case "known_builtin_toolsets":
		return of("cli", s.names("bfl", "web", "connections"))
	case "mcp_servers":
		n = of("a", s.pickKeys(0.6, []string{"disabled", "true", "no", "on"}, []string{"enabled", "true", "false"}, []string{"command", "x"}))
		n.put("b.c", s.pickKeys(0.5, []string{"disabled", "1", "0"}, []string{"url", "http://h"}))
	}
	return n
}

// content is a random config: every section that a step knows, with old defaults, pins and
// now and then something else in its place.
func (s *shaper) content() node {
	n := node{}
	fields := s.fields()
	order := append(slices.Sorted(maps.Keys(fields)), "plugins", "platform_toolsets", "known_builtin_toolsets", "mcp_servers")
	s.r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, name := range order {
		switch {
		case s.maybe(0.45):
		case s.maybe(0.04):
			n.put(name, text(s.pick("x", "null", "", "[]", "{}", "12")))
		default:
			n.put(name, s.section(name, fields[name]))
		}
	}
	return n
}

// randomHome is a home of a seed.
func randomHome(seed uint64) Input {
	r := rand.New(rand.NewPCG(seed, 50))
	s := &shaper{r: r, indent: strings.Repeat(" ", 1+r.IntN(4)), listPad: strings.Repeat(" ", r.IntN(4)), oneLine: []float64{0, 0.2, 0.9}[r.IntN(3)]}
	s.json = s.maybe(0.15)
	n := s.content()
	if !s.maybe(0.15) {
		at := r.IntN(len(n.keys) + 1)
		n.keys = append(n.keys[:at], append([]string{stampKey}, n.keys[at:]...)...)
		n.vals = append(n.vals[:at], append([]node{text(fmt.Sprint(Floor + r.IntN(Latest()-Floor+1)))}, n.vals[at:]...)...)
	}
	config := s.flow(n) + "\n"
	if !s.json && len(n.keys) > 0 {
		var b strings.Builder
		s.block(&b, n, "")
		config = b.String()
	}
	if s.maybe(0.15) {
		config = strings.ReplaceAll(config, "\n", "\r\n")
	}
	if s.maybe(0.1) {
		config = strings.TrimRight(config, "\r\n")
	}
	if s.maybe(0.1) {
		config = "\ufeff" + config
	}
	return plain(config)
}

// checkRandomHome holds what must be true of every home.
func checkRandomHome(t *testing.T, seed uint64) (refused bool) {
	t.Helper()
	in := randomHome(seed)
	p, err := Released().Plan(in, Options{})
	var r *Refusal
	switch {
	case errors.As(err, &r):
		if strings.Contains(r.Msg, "proof failed") || strings.Contains(r.Msg, "broken file") || strings.Contains(r.Msg, "read this differently") {
			t.Errorf("seed %d: %v\n%s", seed, err, in.Config)
		}
		return true
	case err != nil:
		t.Errorf("seed %d: an error that is no refusal: %v\n%s", seed, err, in.Config)
		return true
	}
	out := afterPlan(in, p)
	if again := planOf(t, out, Options{}); again.Pending() {
		t.Errorf("seed %d: the second plan has %q\n%s\nbecame\n%s", seed, changesOf(again.Changes), in.Config, out.Config)
	}
	if json.Valid(in.Config) && !json.Valid(out.Config) {
		t.Errorf("seed %d: no JSON any more:\n%s\nbecame\n%s", seed, in.Config, out.Config)
	}
	if strings.Count(string(in.Config), "\r\n") == strings.Count(string(in.Config), "\n") != (strings.Count(string(out.Config), "\r\n") == strings.Count(string(out.Config), "\n")) {
		t.Errorf("seed %d: mixed line endings:\n%q", seed, out.Config)
	}
	keepsComments(t, p, FileConfig, in.Config, out.Config)
	if !json.Valid(in.Config) { // all on one line
		keepsLines(t, p, in, out)
	}
	if p.From > 0 && seed%10 == 0 {
		chainSame(t, migrated(t, in, Options{To: p.From}), out, p.From)
	}
	if t.Failed() {
		t.Fatalf("seed %d: %q\nbecame %q", seed, in.Config, out.Config)
	}
	return false
}

func TestRandomHomes(t *testing.T) {
	t.Parallel()
	refused := 0
	const seeds = 400
	for seed := range uint64(seeds) {
		if checkRandomHome(t, seed) {
			refused++
		}
	}
	if refused > seeds/20 {
		t.Errorf("%d of %d random homes are refused: the generator is useless", refused, seeds)
	}
}

// FuzzRandomHome goes on where [TestRandomHomes] ends.
func FuzzRandomHome(f *testing.F) {
	f.Add(uint64(1 << 32))
	f.Fuzz(func(t *testing.T, seed uint64) { checkRandomHome(t, seed) })
}
