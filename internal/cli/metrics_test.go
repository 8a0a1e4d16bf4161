// SPDX-License-Identifier: MIT

package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{
		"config.yaml":               "_config_version: 50\ntelemetry: {shared_metrics: {enabled: true}}\n",
		"profiles/work/config.yaml": "_config_version: 50\n",
		"profiles/odd/config.yaml":  "_config_version: 50\ntelemetry: {shared_metrics: {enabled: perhaps}}\n",
		"metrics/counters.json": `{"schema":1,"counters":[
			{"day":"2026-11-29","name":"hermes.terminal.outcome.count","dims":{"outcome":"ok","backend":"local","command_kind":"git"},"value":12},
			{"day":"2026-11-29","name":"hermes.terminal.outcome.count","dims":{"outcome":"timeout","backend":"local","command_kind":"build"},"value":1}]}`,
	})
	env := map[string]string{"HERMES_HOME": dir, "HERMES_MANAGED_DIR": dir + "/none"}
	code, out, errs := run(t, env, "metrics")
	want := "default counts (its config says so); to stop: hermes-appliance config set telemetry.shared_metrics.enabled false\n\n" +
		"2026-11-29 hermes.terminal.outcome.count\n      12  backend=local command_kind=git outcome=ok\n       1  backend=local command_kind=build outcome=timeout\n"
	if code != exitcode.OK || errs != "" {
		t.Errorf("exit %d, %s", code, errs)
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{
		"work": "work does not count (nobody turned it on); to start: hermes-appliance config set telemetry.shared_metrics.enabled --profile work true\n",
		"odd":  "odd does not count (its config says so); to start: hermes-appliance config set telemetry.shared_metrics.enabled --profile odd true\n",
	} {
		if _, out, _ := run(t, env, "metrics", "--profile", name); out != want {
			t.Errorf("%s: got %q", name, out)
		}
	}
	if _, out, _ := run(t, env, "metrics", "--json", "--profile", "work"); !strings.Contains(out, `"counts": false`) || !strings.Contains(out, `"counters": []`) {
		t.Errorf("got %s", out)
	}
	env["HERMES_SHARED_METRICS"] = "true"
	if _, out, _ := run(t, env, "metrics", "--profile", "work"); !strings.HasPrefix(out, "work counts (HERMES_SHARED_METRICS says so)") {
		t.Errorf("got %s", out)
	}
	testkit.WriteTree(t, dir, map[string]string{"metrics/counters.json": "{"})
	if code, _, errs := run(t, env, "metrics"); code != exitcode.Error || !strings.Contains(errs, "counters.json") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
