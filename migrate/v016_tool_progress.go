// SPDX-License-Identifier: MIT

package migrate

import "github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"

func v016() Step {
	return Step{
		To: 16, ID: "16-tool-progress",
		Title: "display.tool_progress_overrides is copied below display.platforms",
		Detail: "Each override becomes display.platforms.<platform>.tool_progress. A value that is there already wins. " +
			"The old key stays where it is: nothing reads it, and it shows where the values came from.",
		LegacyKey: true,
		run: func(w *work) error {
			old := w.get("display", "tool_progress_overrides")
			for _, platform := range old.keys() {
				target := []string{"display", "platforms", platform, "tool_progress"}
				mode := w.get("display", "tool_progress_overrides", platform)
				if w.get(target...).ok || !mode.ok {
					continue
				}
				if mode.node.Kind != yamlspan.Scalar {
					w.advise("config.yaml line %d: tool_progress_overrides.%s is no single value; it was left", mode.line, platform)
					continue
				}
				if !w.sectionFree(target[:3], "its tool_progress") {
					continue
				}
				if err := w.add("overrides are per platform now", mode.shown(), yamlspan.Value{Scalar: w.lifted(mode)}, target...); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
