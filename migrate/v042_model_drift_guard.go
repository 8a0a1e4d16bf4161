// SPDX-License-Identifier: MIT

package migrate

func v042() Step {
	return Step{
		To: 42, ID: "42-model-drift-guard",
		Title:     "cron.model_drift_guard is removed",
		Detail:    "Jobs keep the model they were made with, so the switch guards nothing. A null is left: it says nothing.",
		LegacyKey: true,
		run: func(w *work) error {
			if v := w.get("cron", "model_drift_guard"); !v.ok || v.isNull() {
				return nil
			}
			return w.remove("jobs keep the model they were made with; pin a job or set cron.model to move it", "cron", "model_drift_guard")
		},
	}
}
