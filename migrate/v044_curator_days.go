// SPDX-License-Identifier: MIT

package migrate

import "errors"

func v044() Step {
	return Step{
		To: 44, ID: "44-curator-days",
		Title:  "curator.stale_after_days 30 becomes 14, archive_after_days 90 becomes 30",
		Detail: "Each of the two is rewritten only while it holds its old default; any other number is your own and stays.",
		run: func(w *work) error {
			return errors.Join(
				w.staleDefault("30 was the copied default; unused skills count as stale after two weeks", 30, "14", "curator", "stale_after_days"),
				w.staleDefault("90 was the copied default; skills unused for a month are archived and can be restored", 90, "30", "curator", "archive_after_days"),
			)
		},
	}
}
