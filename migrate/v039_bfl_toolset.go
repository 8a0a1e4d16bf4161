// SPDX-License-Identifier: MIT

package migrate

func v039() Step {
	return Step{
		To: 39, ID: "39-bfl-toolset",
		Title:     "the retired toolset bfl leaves saved lists",
		Detail:    "bfl is taken out of every list below platform_toolsets and known_builtin_toolsets. All other names and their order stay.",
		LegacyKey: true,
		run: func(w *work) error {
			for _, section := range []string{"platform_toolsets", "known_builtin_toolsets"} {
				for _, platform := range w.get(section).keys() {
					if _, ok := w.get(section, platform).list(); !ok {
						continue
					}
					isBFL := func(s string) bool { return s == "bfl" }
					if err := w.dropItems("the toolset does not exist any more", isBFL, section, platform); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}
