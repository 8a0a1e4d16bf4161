// SPDX-License-Identifier: MIT

package dotenv

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The reference: the same format, read with regular expressions.
const space = `[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]`

var (
	reFinal  = regexp.MustCompile(`(?:\r\n|\r|\n)\z`)
	reBreak  = regexp.MustCompile(`\r\n|\r|\n`)
	reAssign = regexp.MustCompile(`(?s)\A` + space + `*(?:export` + space + `+)?` + space + `*([^=]*?)` + space + `*=` + space + `*(.*?)` + space + `*\z`)
	reDouble = regexp.MustCompile(`(?s)\A"((?:[^"\\]|\\.)*)"` + space + `*(?:#.*)?\z`)
	reSingle = regexp.MustCompile(`(?s)\A'([^']*)'` + space + `*(?:#.*)?\z`)
	reTail   = regexp.MustCompile(`(?s)` + space + `+#.*\z`)
	reEscape = regexp.MustCompile(`\\(["\\])`)
	reNote   = regexp.MustCompile(`\A` + space + `*#`)
)

type pair struct {
	Key, Value string
	Line       int
}

// splitLines returns the lines with their breaks, the byte order mark before the first.
func splitLines(src string) (mark string, lines []string) {
	if rest, ok := strings.CutPrefix(src, bom); ok {
		mark, src = bom, rest
	}
	at := 0
	for _, b := range reBreak.FindAllStringIndex(src, -1) {
		lines = append(lines, src[at:b[1]])
		at = b[1]
	}
	if at < len(src) {
		lines = append(lines, src[at:])
	}
	return mark, lines
}

func referenceLine(line string) (pair, bool) {
	line = reBreak.ReplaceAllString(line, "")
	m := reAssign.FindStringSubmatch(line)
	if m == nil || m[1] == "" || reNote.MatchString(line) {
		return pair{}, false
	}
	value := m[2]
	switch d, s := reDouble.FindStringSubmatch(value), reSingle.FindStringSubmatch(value); {
	case d != nil:
		value = reEscape.ReplaceAllString(d[1], "$1")
	case s != nil:
		value = s[1]
	case !strings.HasPrefix(value, `"`) && !strings.HasPrefix(value, "'"):
		value = reTail.ReplaceAllString(value, "")
	}
	return pair{Key: m[1], Value: value}, true
}

func reference(src string) (out []pair) {
	_, lines := splitLines(src)
	for i, line := range lines {
		if p, ok := referenceLine(line); ok {
			p.Line = i + 1
			out = append(out, p)
		}
	}
	return out
}

// agrees checks that Parse reads what the reference reads.
func agrees(t *testing.T, src string) {
	t.Helper()
	f, err := Parse([]byte(src))
	if err != nil {
		t.Fatalf("%v for %q", err, src)
	}
	var got []pair
	for _, a := range f.All() {
		got = append(got, pair{a.Key, a.Value, a.Line})
	}
	if diff := cmp.Diff(reference(src), got); diff != "" {
		t.Fatalf("%q (-want +got):\n%s", src, diff)
	}
}

// removes checks that Remove takes out exactly the lines of a key, and Empty exactly their
// values. A byte order mark that starts a later line would become the file's own.
func removes(t *testing.T, src, key string) {
	t.Helper()
	if strings.LastIndex(src, bom) > 0 {
		return
	}
	f, err := Parse([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	mark, lines := splitLines(src)
	want, n := mark, 0
	last := false
	for _, line := range lines {
		p, ok := referenceLine(line)
		if last = ok && p.Key == key; last {
			n++
			continue
		}
		want += line
	}
	if last && !reFinal.MatchString(src) {
		want = reFinal.ReplaceAllString(want, "")
	}
	g, hit, err := f.Remove(byKey(key))
	if other := strings.HasPrefix(want, "\xff\xfe") || strings.HasPrefix(want, "\xfe\xff"); other {
		if !errors.Is(err, ErrNotText) || g != nil || hit != nil {
			t.Fatalf("Remove(%q) of %q: got %v, %v, want ErrNotText alone", key, src, g, err)
		}
		return
	}
	if err != nil || len(hit) != n || string(g.Bytes()) != want {
		t.Fatalf("Remove(%q) of %q: got %q, %d hits, %v; want %q, %d hits", key, src, g.Bytes(), len(hit), err, want, n)
	}
	again, hit, err := g.Remove(byKey(key))
	if err != nil || len(hit) > 0 || again != g {
		t.Fatalf("Remove(%q) again: got %q, %d hits, %v, want the same file", key, again.Bytes(), len(hit), err)
	}
	e, hit, err := f.Empty(byKey(key))
	if err != nil || len(hit) != n {
		t.Fatalf("Empty(%q) of %q: got %d hits, %v, want %d", key, src, len(hit), err, n)
	}
	_, emptied := splitLines(string(e.Bytes()))
	if len(emptied) != len(lines) {
		t.Fatalf("Empty(%q) of %q: got %q, want as many lines", key, src, e.Bytes())
	}
	for i, line := range lines {
		p, ok := referenceLine(line)
		switch q, stays := referenceLine(emptied[i]); {
		case !ok || p.Key != key:
			if line != emptied[i] {
				t.Fatalf("Empty(%q): got line %q, want %q", key, emptied[i], line)
			}
		case !stays || q.Key != key || q.Value != "" || !strings.HasPrefix(line, emptied[i][:strings.IndexByte(line, '=')+1]):
			t.Fatalf("Empty(%q): got line %q from %q, want the key without a value", key, emptied[i], line)
		}
	}
}

func TestReference(t *testing.T) {
	t.Parallel()
	for _, tt := range shapes() {
		agrees(t, tt.src)
		removes(t, tt.src, "KEY")
	}
	removes(t, "KEY=v\n\xff\xfe\n", "KEY")
}

func TestRandom(t *testing.T) {
	t.Parallel()
	tokens := []string{
		"K", "KEY", "A", "B_1", "=", "=", "=", " ", "  ", "\t", "\n", "\n", "\n", "\r\n", "\r", "export ", "export", `"`, `"`, "'", "'", `\`, `\"`, `\\`,
		"#", " #", "# c", "v", "a b", "值", "\xe9", "\u00a0", "\x1f", "$X", "K=v\n", "K=\"v\" # c\r\n", "export K='v'\n", "KEY=v", bom,
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 4000 {
		var b strings.Builder
		for range r.IntN(14) {
			b.WriteString(tokens[r.IntN(len(tokens))])
		}
		agrees(t, b.String())
		removes(t, b.String(), []string{"K", "KEY", "A"}[r.IntN(3)])
	}
}

func FuzzParse(f *testing.F) {
	for _, tt := range shapes() {
		f.Add(tt.src, "KEY")
	}
	f.Add("\xff\xfeK", "K")
	f.Add("K=v\n\x00", "K")
	f.Fuzz(func(t *testing.T, src, key string) {
		if _, err := Parse([]byte(src)); err != nil {
			if !strings.Contains(src, "\x00") && !strings.HasPrefix(src, "\xff\xfe") && !strings.HasPrefix(src, "\xfe\xff") {
				t.Fatalf("got %v for %q", err, src)
			}
			return
		}
		agrees(t, src)
		removes(t, src, key)
		for _, p := range reference(src) {
			removes(t, src, p.Key)
		}
	})
}
