// SPDX-License-Identifier: MIT

package migrate

func v025() Step {
	return Step{
		To: 25, ID: "25-catalog-ttl",
		Title:  "model_catalog.ttl_hours 24 becomes 1",
		Detail: "Only the old default 24 is rewritten; any other number is your own and stays.",
		run: func(w *work) error {
			return w.staleDefault("24 was the copied default; the catalogue is read hourly now", 24, "1", "model_catalog", "ttl_hours")
		},
	}
}
