// SPDX-License-Identifier: MIT

package appliance

import (
	"strings"
	"testing"
)

func TestTidyTitle(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Fix the build":                 "Fix the build",
		" \"Fix the build.\"\n":         "Fix the build",
		"Title: Fix  the\tbuild":        "Fix the build",
		"**TITLE: „Fix the build“**":    "Fix the build",
		"\n\n# Fix the build\nand more": "Fix the build",
		"Größe ändern":                  "Größe ändern",
		"a\x1b[2Jb\u202ec\x00":          "a[2Jbc",
		"":                              "",
		"\n \"\" \n.":                   "",
		"title:":                        "",
		strings.Repeat("ä", 80):         strings.Repeat("ä", titleMost-1) + "…",
		"\u0130title: x":                "\u0130title: x",
	} {
		if got := tidyTitle(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
