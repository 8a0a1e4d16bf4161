// SPDX-License-Identifier: MIT

package migrate

func v036() Step {
	return Step{
		To: 36, ID: "36-delegation-iterations",
		Title:  "delegation.max_iterations 50 becomes 250",
		Detail: "Only the old default 50 is rewritten; any other number is your own and stays.",
		run: func(w *work) error {
			return w.staleDefault("50 was the copied default and cut long work short", 50, "250", "delegation", "max_iterations")
		},
	}
}
