// SPDX-License-Identifier: MIT

package migrate

func v035() Step {
	return Step{
		To: 35, ID: "35-notifications",
		Title:  "display.background_process_notifications all becomes concise",
		Detail: "all was the implicit default and dumped whole outputs. result, error, off and every other value stay.",
		run: func(w *work) error {
			path := []string{"display", "background_process_notifications"}
			v := w.get(path...)
			switch {
			case !v.ok:
				return nil
			case v.word("all"):
				return w.set("a finished process is told in one line now; set all to have whole outputs", "concise", path...)
			}
			w.keep(v, "your own value", path...)
			return nil
		},
	}
}
