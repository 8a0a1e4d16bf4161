// SPDX-License-Identifier: MIT

package migrate

func v023() Step {
	return Step{
		To: 23, ID: "23-curator-defaults",
		Title:  "the curator section got defaults; only the version changes",
		Detail: "Upstream copied missing curator.* and auxiliary.curator.* defaults into the file and made logs/curator. Copied defaults hide later ones (PR#55715), so nothing is written but the version.",
	}
}
