// SPDX-License-Identifier: MIT

package repotest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMessagesExist looks for each message of docs/troubleshooting.md in the code: a person
// searches for what was printed.
func TestMessagesExist(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, s := range sources(t) {
		if !s.test() {
			code.WriteString(s.text)
		}
	}
	found := regexp.MustCompile("\\*\\*`([^`]+)`").FindAllStringSubmatch(string(doc), -1)
	if len(found) < 20 {
		t.Fatalf("%d messages; the search no longer sees them", len(found))
	}
	for _, m := range found {
		if !strings.Contains(code.String(), m[1]) {
			t.Errorf("no code says %q", m[1])
		}
	}
}
