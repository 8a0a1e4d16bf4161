// SPDX-License-Identifier: MIT

package migrate

func v047() Step {
	return Step{
		To: 47, ID: "47-threshold-tokens",
		Title: "compression.threshold_tokens 256000 is unset",
		Detail: "The template and doctor --fix had copied this cap into files; it compacts models with a large window far too early. " +
			"Only the number 256000, in any spelling of that number, is removed: the ratio compression.threshold decides then. Any other " +
			"number, the text \"256000\" and an explicit null are your own and stay.",
		run: func(w *work) error {
			path := []string{"compression", "threshold_tokens"}
			if v := w.get(path...); v.isNull() {
				w.keep(v, "an explicit null is your own choice", path...)
				return nil
			}
			return w.staleDefault("256000 was the copied default; compression.threshold decides now", 256000, "", path...)
		},
	}
}
