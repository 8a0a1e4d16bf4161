// SPDX-License-Identifier: MIT

package migrate

func v032() Step {
	return Step{
		To: 32, ID: "32-verify-on-stop-baked",
		Title:  "agent.verify_on_stop true becomes false, once",
		Detail: "Version 30 wrote true into files as a default (PR#54740), so a true from before 32 was never a choice. A true set later stays.",
		run: func(w *work) error {
			if v := w.get("agent", "verify_on_stop"); !v.ok || v.v != true {
				return nil
			}
			return w.set("version 30 had copied true into the file; set it to true again to have it back", "false", "agent", "verify_on_stop")
		},
	}
}
