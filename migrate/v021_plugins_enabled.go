// SPDX-License-Identifier: MIT

package migrate

import (
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

func v021() Step {
	return Step{
		To: 21, ID: "21-plugins-enabled",
		Title: "plugins.enabled lists the plugins that ran before plugins were opt-in",
		Detail: "From this version on a plugin runs only if plugins.enabled names it. Where that key is absent and plugins are " +
			"installed in the home, it is written with their names, without those in plugins.disabled, so that what ran keeps running. " +
			"With no plugin installed nothing is written.",
		run: func(w *work) error {
			if w.get("plugins", "enabled").ok {
				return nil
			}
			if w.in.ConfigOnly {
				w.advise("plugins.enabled is not set: on the home itself this step lists the installed plugins, so that they keep running")
				return nil
			}
			if w.in.Plugins == nil {
				return nil
			}
			names, err := w.in.Plugins()
			if err != nil {
				return err
			}
			disabled, _ := w.get("plugins", "disabled").list()
			off := map[string]bool{}
			for _, n := range disabled {
				off[strings.TrimSpace(n)] = true
			}
			names = slices.DeleteFunc(slices.Clone(names), func(n string) bool {
				seen := off[n] // switched off, or a second plugin of the same name
				off[n] = true
				return seen
			})
			if len(names) == 0 || !w.sectionFree([]string{"plugins"}, "the list of plugins") {
				return nil
			}
			items := make([]string, len(names))
			var shown strings.Builder
			for i, n := range names {
				items[i] = yamlspan.Quote(n)
				shown.WriteString(", " + n)
			}
			return w.add("these plugins are installed and ran without being listed", shown.String()[2:], yamlspan.Value{List: items}, "plugins", "enabled")
		},
	}
}
