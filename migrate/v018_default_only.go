// SPDX-License-Identifier: MIT

package migrate

func v018() Step {
	return Step{
		To: 18, ID: "18-default-only",
		Title:  "only the version changes",
		Detail: "Upstream changed only a default with this version, which its loader supplies at read time. Nothing is written but the version.",
	}
}
