// SPDX-License-Identifier: MIT

package config

import (
	"strings"
	"testing"
)

// TestReportB33IgnoredKeyIsNamed (PicoClaw #2742): a key that is one slip away from one that
// counts is named with its line; upstream's own keys are nobody's business.
func TestReportB33IgnoredKeyIsNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"platform:\n  api_server: {enabled: true}\n":                   "line 1 platform: did you mean platforms?",
		"a: 1\nterminl: {backend: docker}\n":                           "line 2 terminl: did you mean terminal?",
		"model:\n  provider: custom\n  defalt: x\n":                    "line 3 model.defalt: did you mean default?",
		"mcp_servers:\n  git:\n    comand: x\n":                        "line 3 mcp_servers.git.comand: did you mean command?",
		"platforms: {webhook: {extra: {route: {}}}}\n":                 "line 1 platforms.webhook.extra.route: did you mean routes?",
		"terminal: {backend: local}\nterminl: {backend: docker}\n":     "", // both are there: the second is somebody's own
		"providers: {mine: {models: {a: {}}, request_timeout: 3}}\n":   "",
		"curator: {enabled: true}\nstt: {}\ntts: {}\nbrowser: {}\n":    "",
		"mcp_servers: {comand: {command: x}}\nplatform_toolsets: {}\n": "",
	} {
		got := ""
		for _, p := range Check(CheckInput{User: File{Path: "config.yaml", Data: []byte(text + "_config_version: 50\n")}}) {
			if p.Msg == "means nothing here" {
				got = "line " + string(rune('0'+p.Line)) + " " + strings.Join(p.Path, ".") + ": " + p.Fix
			}
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
