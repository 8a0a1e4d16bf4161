// SPDX-License-Identifier: MIT

package migrate

func v026() Step {
	return Step{
		To: 26, ID: "26-default-only",
		Title:  "only the version changes",
		Detail: "Upstream changed only a default with this version, which its loader supplies at read time. Nothing is written but the version.",
	}
}
