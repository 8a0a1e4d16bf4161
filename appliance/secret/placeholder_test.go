// SPDX-License-Identifier: MIT

package secret

import "testing"

func TestReportB32Placeholders(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"": true, "***": true, "••••": true, "undefined": true, "[REDACTED]": true, "<redacted>": true, "«redacted»": true, "${API_KEY}": true,
		"changeme": true, " null ": true, "xxxx": true, "...": true,
		"sk-or-v1-abc": false, "nullable-1": false, "x9": false, "hunter2": false, "0": false, "a***b": false,
	} {
		if got := Placeholder(s); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}
