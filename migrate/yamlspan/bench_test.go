// SPDX-License-Identifier: MIT

package yamlspan

import (
	"fmt"
	"strings"
	"testing"
)

// bigTemplate is as long as upstream's template, 126 KB, and has its shape: almost all
// comments, and about a hundred comment lines at column 0 inside the terminal section.
func bigTemplate() string {
	const size = 126 << 10
	filler := "# =============================================================================\n" +
		"# Option %d. Uncomment to change it; the default is what most people want.\n#\n" +
		"# section_%d:\n#   some_key: \"value\"       # what it does, and when to touch it\n#   other_key: 30\n\n"
	var b strings.Builder
	b.WriteString(template(33))
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, filler, i, i)
		if i%12 == 0 {
			fmt.Fprintf(&b, "section_%d:\n  enabled: true\n  timeout: %d  # seconds\n  # list: []\n  names:\n    - \"a b\"\n    - c\n\n", i, i)
		}
	}
	return b.String()
}

func TestBigTemplate(t *testing.T) {
	t.Parallel()
	src := bigTemplate()
	if comments := strings.Count(src, "\n#"); len(src) < 126<<10 || comments*2 < strings.Count(src, "\n") {
		t.Fatalf("got %d bytes and %d comment lines of %d", len(src), comments, strings.Count(src, "\n"))
	}
	d, _ := parseBoth(t, src)
	path := p("terminal/container_cpu")
	e, err := d.Delete(path)
	editedTo(t, src, e, err, strings.Replace(src, "  container_cpu: 1\n", "", 1))
}

func BenchmarkParse(b *testing.B) {
	src := []byte(bigTemplate())
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		if _, err := Parse(src); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadTree(b *testing.B) {
	src := []byte(bigTemplate())
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		if _, err := ReadTree(src); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDelete(b *testing.B) {
	d, err := Parse([]byte(bigTemplate()))
	if err != nil {
		b.Fatal(err)
	}
	path := p("terminal/container_cpu")
	b.SetBytes(int64(len(d.Bytes())))
	for b.Loop() {
		if _, err := d.Delete(path); err != nil {
			b.Fatal(err)
		}
	}
}
