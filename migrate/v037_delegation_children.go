// SPDX-License-Identifier: MIT

package migrate

func v037() Step {
	return Step{
		To: 37, ID: "37-delegation-children",
		Title:  "delegation.max_concurrent_children 3 becomes 10",
		Detail: "Only the old default 3 is rewritten; any other number is your own and stays. More children use more tokens at a time.",
		run: func(w *work) error {
			return w.staleDefault("3 was the copied default; set it to 3 again to have the old limit", 3, "10", "delegation", "max_concurrent_children")
		},
	}
}
