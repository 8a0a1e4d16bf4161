// SPDX-License-Identifier: MIT

package yamlspan

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMasked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, src, shown, want string }{
		{"values", "a: S1\nb: 'S2'\nc: \"S3\"\n", "", "a: ***\nb: ***\nc: ***\n"},
		{"one is shown", "a: S1\nb: x # S2\n", "b", "a: ***\nb: x # ***\n"},
		{"comments", "# S1\na: 1 # S2\n#S3\n#\n  # S4\n", "a", "# ***\na: 1 # ***\n# ***\n#\n  # ***\n"},
		{"comment behind a bom", bom + "# S1\na: 1\n", "a", bom + "# ***\na: 1\n"},
		{"glued comments", "a: \"S\"# S1\nb: [S]# S2\nc: {d: S}# S3\n", "", "a: ***# ***\nb: [***]# ***\nc: {d: ***}# ***\n"},
		{"hash in a value", "a: x#S\nb: '# S'\n\"c # d\": S\n", "", "a: ***\nb: ***\n\"c # d\": ***\n"},
		{"keys and shape", "t:\n  - S\n  - a: S\n    b: [S, {c: S}]\n", "", "t:\n  - ***\n  - a: ***\n    b: [***, {c: ***}]\n"},
		{"literal", "a: |\n  S1\n\n    S2\n  # S3\nb: 1\n", "b", "a: ***\n  ***\n\n    ***\n  ***\nb: 1\n"},
		{"literal with a header comment", "a: | # S1\n  S2\n", "", "a: ***\n  ***\n"},
		{"literal shown, its header comment not", "a: |- # S1\n  x # y\n", "a", "a: |- # ***\n  x # y\n"},
		{"text over lines", "a: S1\n  S2\n\n  S3 # S4\n", "", "a: ***\n  ***\n\n  *** # ***\n"},
		{"quoted over lines", "a: \"S1\n  S2: S3\n  # S4\"\n", "", "a: ***\n  ***\n  ***\n"},
		{"value below its key", "a: # S1\n  S2\n", "", "a: # ***\n  ***\n"},
		{"anchors and tags of a value", "a: &x !t S\nb: *x\n", "", "a: ***\nb: ***\n"},
		{"section shown is not its keys", "t:\n  a: S\n", "t", "t:\n  a: ***\n"},
		{"nested shown", "t:\n  a: x\n  b: S\n", "t/a", "t:\n  a: x\n  b: ***\n"},
		{"items of a list that is shown", "t: [x, y]\n", "t", "t: [x, y]\n"},
		{"complex key", "? [S1, # S2\n  S3]\n: S4\n", "", "? [***, # ***\n  ***]\n: ***\n"},
		{"key as a literal", "? | # S1\n  k\n: S2\n", "", "? | # ***\n  k\n: ***\n"},
		{"crlf", "a: S1\r\nb: |\r\n  S2\r\n# S3\r\n", "", "a: ***\nb: ***\n  ***\n# ***\n"},
		{"no final newline", "a: S", "", "a: ***\n"},
		{"no content", "# S1\n\n", "", "# ***\n\n"},
		{"root text", "--- S1\nS2\n", "", "--- ***\n***\n"},
		{"markers", "---\na: S # S\n... # S\n", "", "---\na: *** # ***\n... # ***\n"},
		{"empty values", "a:\nb: # S\n", "", "a:\nb: # ***\n"},
		{"unicode break is no line of other programs", "a: S # S\u2028# S\nb: S\n", "", "a: *** # *** # ***\nb: ***\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, _ := parseBoth(t, tt.src)
			shown := func(path []string) bool { return tt.shown != "" && slices.Equal(path, p(tt.shown)) }
			got := strings.Join(d.Masked(shown), "\n") + "\n"
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if strings.Contains(got, "S") {
				t.Errorf("a secret is shown:\n%s", got)
			}
			if lines := strings.Count(strings.TrimSuffix(tt.src, "\n"), "\n") + 1; len(d.Masked(shown)) != lines {
				t.Errorf("lines: got %d, want %d", len(d.Masked(shown)), lines)
			}
		})
	}
}

// TestRandomMasked plants a secret in all values and comments of random documents; it may
// not be shown.
func TestRandomMasked(t *testing.T) {
	t.Parallel()
	docs := 0
	for seed := range uint64(250) {
		g := &gen{r: rand.New(rand.NewPCG(seed, 53)), shared: seed%2 == 0, secret: "SECRET"}
		g.word = func() string { return g.pick("SECRET", "x#SECRET", "SECRET:y") }
		src := g.document()
		d, err := Parse([]byte(src))
		if err != nil || !strings.Contains(src, "SECRET") {
			continue
		}
		docs++
		got := strings.Join(d.Masked(func([]string) bool { return false }), "\n")
		if strings.Contains(got, "SECRET") {
			t.Fatalf("a secret is shown:\n%s\n---- from\n%s", got, src)
		}
	}
	if docs < 200 {
		t.Errorf("got %d documents, want 200 or more", docs)
	}
}
