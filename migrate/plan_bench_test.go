// SPDX-License-Identifier: MIT

package migrate

import (
	"fmt"
	"strings"
	"testing"
)

// templateShaped is a config in the shape of upstream's template, about as long: almost all
// of it comments, and a terminal section with a hundred comment lines at column 0 inside.
func templateShaped(size int) []byte {
	var b strings.Builder
	b.WriteString("# Hermes Agent CLI Configuration\n_config_version: 46\n\n")
	section := func(title, body string) {
		rule := "# " + strings.Repeat("=", 77) + "\n"
		b.WriteString("\n" + rule + "# " + title + "\n" + rule + body)
	}
	section("Terminal", "terminal:\n  backend: \"docker\"\n  cwd: \".\"  # \".\" = the current directory\n  timeout: 180\n")
	for n := range 100 {
		fmt.Fprintf(&b, "# OPTION %d: uncomment this section for another place to run commands in\n", n)
	}
	b.WriteString("  docker_image: \"" + py311 + "\"\n  container_cpu: 1\n  vercel_runtime: \"node24\"\n  container_persistent: true\n")
	section("Context compression", "compression:\n  enabled: true\n  threshold_tokens: 256000\n  # half of the window\n  threshold: 0.50\n")
	section("Security", "security:\n  redact_secrets: true\n  tirith_enabled: true\n  tirith_timeout: 5\n")
	for n := 0; b.Len() < size; n++ {
		body := fmt.Sprintf("section_%d:\n  enabled: true  # on\n  level: \"medium\"\n  items:\n    - \"a: %d\"\n    - plain\n", n, n)
		for m := range 30 {
			body += fmt.Sprintf("  # what the setting does, when to change it, and what it was before: line %d\n", m)
		}
		section(fmt.Sprintf("Section %d", n), body)
	}
	return []byte(b.String())
}

// BenchmarkPlan46to50 plans four steps with something to do on a file of template size.
func BenchmarkPlan46to50(b *testing.B) {
	in := Input{Config: templateShaped(126 << 10), Env: []byte("A=1\nTERMINAL_VERCEL_RUNTIME=node24\n")}
	p := planOf(b, in, Options{})
	if len(p.Changes) != 7 {
		b.Fatalf("got changes %q", changesOf(p.Changes))
	}
	b.SetBytes(int64(len(in.Config)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Released().Plan(in, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPlanCurrent is what every start of the service costs.
func BenchmarkPlanCurrent(b *testing.B) {
	in := Input{Config: []byte(strings.Replace(string(templateShaped(126<<10)), "_config_version: 46", "_config_version: 50", 1))}
	in.Config = []byte(strings.ReplaceAll(string(in.Config), "tirith_", "other_"))
	if p := planOf(b, in, Options{}); p.Pending() {
		b.Fatalf("got changes %q", changesOf(p.Changes))
	}
	b.SetBytes(int64(len(in.Config)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Released().Plan(in, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
