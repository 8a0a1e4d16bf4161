// SPDX-License-Identifier: MIT

package migrate

func v040() Step {
	return Step{
		To: 40, ID: "40-catalog-minutes",
		Title:  "model_catalog.ttl_hours 1 is unset",
		Detail: "ttl_minutes (default 20) replaces ttl_hours. Only the number 1, which step 25 wrote, is removed, and only where ttl_minutes is absent; any other number is honoured and stays.",
		run: func(w *work) error {
			if w.get("model_catalog", "ttl_minutes").ok {
				return nil
			}
			return w.staleDefault("1 was the copied default; the catalogue is read every 20 minutes now", 1, "", "model_catalog", "ttl_hours")
		},
	}
}
