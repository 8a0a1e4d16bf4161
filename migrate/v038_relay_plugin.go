// SPDX-License-Identifier: MIT

package migrate

func v038() Step {
	return Step{
		To: 38, ID: "38-relay-plugin",
		Title:     "the retired relay plugin leaves plugins.enabled",
		Detail:    "The names nemo_relay and observability/nemo_relay are taken out of the list; the plugin is part of the program now and is set up by HERMES_NEMO_RELAY_PLUGINS_TOML.",
		LegacyKey: true,
		run: func(w *work) error {
			path := []string{"plugins", "enabled"}
			if _, ok := w.get(path...).list(); !ok {
				return nil
			}
			return w.dropItems("the plugin is part of the program now", func(s string) bool {
				return s == "nemo_relay" || s == "observability/nemo_relay"
			}, path...)
		},
	}
}
