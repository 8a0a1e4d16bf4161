// SPDX-License-Identifier: MIT

package migrate

func v028() Step {
	return Step{
		To: 28, ID: "28-default-only",
		Title:  "only the version changes",
		Detail: "Upstream changed only a default with this version, which its loader supplies at read time. Nothing is written but the version.",
	}
}
