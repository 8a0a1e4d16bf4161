// SPDX-License-Identifier: MIT

package migrate

func v030() Step {
	return Step{
		To: 30, ID: "30-curator-consolidate",
		Title:  "curator.consolidate got the default false; only the version changes",
		Detail: "Upstream changed only a default with this version, which its loader supplies at read time. Nothing is written but the version.",
	}
}
