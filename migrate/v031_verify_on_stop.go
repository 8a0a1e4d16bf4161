// SPDX-License-Identifier: MIT

package migrate

func v031() Step {
	return Step{
		To: 31, ID: "31-verify-on-stop",
		Title:  "agent.verify_on_stop is switched off where nobody chose",
		Detail: "Where the key is absent, null or auto it becomes false, once. true and false are your own choice and stay (but see step 32).",
		run: func(w *work) error {
			path := []string{"agent", "verify_on_stop"}
			v := w.get(path...)
			if v.ok && !v.isNull() && !v.word("auto") {
				w.keep(v, "your own value", path...)
				return nil
			}
			if !v.ok && !w.sectionFree(path[:1], "verify_on_stop: false") {
				return nil
			}
			return w.put("off is the new behaviour; set it to true to have it back", "false", path...)
		},
	}
}
