// SPDX-License-Identifier: MIT

package migrate

func v043() Step {
	return Step{
		To: 43, ID: "43-multiplex-allowlist",
		Title:     "gateway.multiplex_profile_allowlist is removed",
		Detail:    "A gateway that serves profiles serves every live one, so the list decides nothing, whatever it holds. gateway.multiplex_profiles stays.",
		LegacyKey: true,
		run: func(w *work) error {
			if !w.get("gateway", "multiplex_profile_allowlist").ok {
				return nil
			}
			return w.remove("the gateway serves every live profile; delete or archive one that it must not serve", "gateway", "multiplex_profile_allowlist")
		},
	}
}
