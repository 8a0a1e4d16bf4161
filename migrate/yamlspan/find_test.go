// SPDX-License-Identifier: MIT

package yamlspan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, src, path string
		want            any // the resolved value; a Kind for what is no scalar
		line, shared    int
	}{
		{"top", "# c\na: 5\n", "a", int64(5), 2, 0},
		{"nested", "t:\n  u:\n    a: x\n", "t/u/a", "x", 3, 0},
		{"section", "t:\n  a: 1\n", "t", Mapping, 1, 0},
		{"list", "t: [1]\n", "t", Sequence, 1, 0},
		{"empty value", "a:\n", "a", nil, 1, 0},
		{"last of two counts", "a: 1\na: 2\n", "a", int64(2), 2, 0},
		{"last of two sections", "t: {a: 1}\nt: {b: 2}\n", "t/b", int64(2), 2, 0},
		{"key with a dot", "m:\n  grok-4.6: 1\n", "m/grok-4.6", int64(1), 2, 0},
		{"quoted key", "'a b': 1\n", "a b", int64(1), 1, 0},
		{"key that is a number", "5: x\n", "5", "x", 1, 0},
		{"explicit key", "? a\n: 1\n", "a", int64(1), 1, 0},
		{"alias", "x: &x 5\na: *x\n", "a", int64(5), 2, 2},
		{"alias of a section", "x: &x\n  b: 5\na: *x\n", "a/b", int64(5), 2, 3},
		{"alias of an alias's value", "x: &x {b: 5}\ny: &y {z: *x}\na: *y\n", "a/z/b", int64(5), 1, 3},
		{"anchor given twice", "x: &x 1\na: *x\ny: &x 2\nb: *x\n", "a", int64(1), 2, 2},
		{"anchor given twice, later", "x: &x 1\na: *x\ny: &x 2\nb: *x\n", "b", int64(2), 4, 4},
		{"merge", "x: &x {b: 5}\na:\n  c: 1\n  <<: *x\n", "a/b", int64(5), 1, 4},
		{"merge loses to the key", "x: &x {b: 5}\na:\n  b: 6\n  <<: *x\n", "a/b", int64(6), 3, 0},
		{"merge list, first wins", "x: &x {b: 5}\ny: &y {b: 6, c: 7}\na:\n  <<: [*x, *y]\n", "a/b", int64(5), 1, 4},
		{"merge list, second has it", "x: &x {b: 5}\ny: &y {b: 6, c: 7}\na:\n  <<: [*x, *y]\n", "a/c", int64(7), 2, 4},
		{"merge of a merge", "x: &x {b: 5}\ny: &y\n  <<: *x\na:\n  <<: *y\n", "a/b", int64(5), 1, 5},
		{"merge of a mapping written out", "a:\n  <<: {b: 5}\n", "a/b", int64(5), 2, 2},
		{"below a merge", "x: &x\n  t: {b: 5}\na:\n  <<: *x\n", "a/t/b", int64(5), 2, 4},
		{"quoted << is no merge", "x: &x {b: 5}\na:\n  \"<<\": *x\n", "a/<<", Mapping, 3, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, _ := parseBoth(t, tt.src)
			f, ok := d.Find(p(tt.path)...)
			if !ok {
				t.Fatal("not found")
			}
			got := Resolve(f.Node)
			if f.Node.Kind != Scalar {
				got = f.Node.Kind
			}
			if got != tt.want || f.Line != tt.line || f.Shared != tt.shared {
				t.Errorf("got %v, line %d, shared %d; want %v, line %d, shared %d", got, f.Line, f.Shared, tt.want, tt.line, tt.shared)
			}
		})
	}
}

func TestFindNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ src, path string }{
		{"", "a"},
		{"a: 1\n", "b"},
		{"a: 1\n", "a/b"},
		{"- a\n", "a"},
		{"t: [a]\n", "t/a"},
		{"x: &x [1]\na: {<<: *x}\n", "a/b"},
		{"x: &x {b: 1}\na:\n  \"<<\": *x\n", "a/b"},
		{"a: &x\n  <<: *x\n", "a/b"},
		{"a: &x\n  <<: [*x, *x]\n  c: *x\n", "a/c/c/b"},
	} {
		d, _ := parseBoth(t, tt.src)
		if f, ok := d.Find(p(tt.path)...); ok {
			t.Errorf("Find(%s) in %q: got %+v, want nothing", tt.path, tt.src, f)
		}
	}
	d, err := Parse([]byte("a: *x\nb:\n  <<: *x\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"a", "a/c", "b/c"} {
		if f, ok := d.Find(p(path)...); ok {
			t.Errorf("Find(%s) behind an alias of nothing: got %+v, want nothing", path, f)
		}
	}
	d, _ = parseBoth(t, "a: 1\n")
	if f, ok := d.Find(); !ok || f.Node != d.Root() || f.Line != 1 {
		t.Errorf("Find without a path: got %+v, %v, want the root", f, ok)
	}
}

// TestFindFanOut is a merge that doubles at each level: following every way takes 2^60 steps.
func TestFindFanOut(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("a0: &a0 {x: 1}\n")
	for i := range 60 {
		from, to := string(rune('A'+i%26))+string(rune('a'+i/26)), string(rune('A'+(i+1)%26))+string(rune('a'+(i+1)/26))
		if i == 0 {
			from = "a0"
		}
		b.WriteString(to + ": &" + to + " {<<: [*" + from + ", *" + from + "]}\n")
	}
	d, _ := parseBoth(t, b.String())
	last := d.Root().Pairs[60].Key.Value
	if f, ok := d.Find(last, "x"); !ok || Resolve(f.Node) != int64(1) {
		t.Errorf("got %v, %v, want 1", f.Node, ok)
	}
	if _, ok := d.Find(last, "y"); ok {
		t.Error("y: got a value, want none")
	}
}

func TestPathString(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path []string
		want string
	}{
		{nil, "(top level)"},
		{[]string{"a"}, "a"},
		{[]string{"a", "b_c-d"}, "a.b_c-d"},
		{[]string{"m", "grok-4.6"}, `m."grok-4.6"`},
		{[]string{""}, `""`},
		{[]string{"a b", "c:d", "e#f"}, `"a b"."c:d"."e#f"`},
		{[]string{"a\nb"}, `"a\nb"`},
		{[]string{"名前"}, "名前"},
	} {
		if got := PathString(tt.path); got != tt.want {
			t.Errorf("PathString(%q): got %s, want %s", tt.path, got, tt.want)
		}
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	src := "a: 1\r\nb: 2\rc: 3\n\u2028d: 4\n"
	d, err := Parse([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"a": 1, "b": 2, "c": 3, "d": 5} {
		if got := d.Line(strings.Index(src, key+":")); got != want {
			t.Errorf("Line of %s: got %d, want %d", key, got, want)
		}
	}
	if got := d.Line(len(src) + 10); got != 6 {
		t.Errorf("Line behind the end: got %d, want 6", got)
	}
}

func TestAgreesNot(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, src, other string
		line             int
		why              string
	}{
		{"value", "a: 1\nb: 2\n", "a: 1\nb: 3\n", 2, "b"},
		{"type", "a: 1\nb: 2\n", "a: 1\nb: \"2\"\n", 2, "b"},
		{"nested", "a: 1\nb:\n  c: 2\n  d: 3\n", "a: 1\nb:\n  c: 2\n  d: 4\n", 4, "b.d"},
		{"in a list", "a:\n- x\n- y: 1\n", "a:\n- x\n- y: 2\n", 3, "a.1.y"},
		{"key", "a: 1\nb: 2\n", "a: 1\nc: 2\n", 2, "b"},
		{"kind", "a: 1\nb: [1]\n", "a: 1\nb: {}\n", 2, "b"},
		{"order", "a: 1\nb: 2\n", "b: 2\na: 1\n", 1, "a"},
		{"missing", "a: 1\n", "a: 1\nb: 2\n", 1, "top level"},
		{"anchor", "a: 1\n", "a: &x 1\n", 1, "a"},
		{"alias", "a: &x 1\nb: *x\n", "a: &x 1\nb: 1\n", 2, "b"},
		{"tag of a mapping", "a: !x {}\n", "a: !y {}\n", 1, "a"},
		{"tag of a list", "a: []\n", "a: !y []\n", 1, "a"},
		{"tag of text", "a: !x b\n", "a: b\n", 1, "a"},
		{"nothing there", "a: 1\n", "", 1, "top level"},
		{"something there", "", "a: 1\n", 1, "top level"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, _ := parseBoth(t, tt.src)
			_, other := parseBoth(t, tt.other)
			refused(t, d.Agrees(other), tt.line, tt.why)
		})
	}
}

func TestTreeEqualNothing(t *testing.T) {
	t.Parallel()
	_, none := parseBoth(t, "# c\n")
	_, empty := parseBoth(t, "{}\n")
	_, full := parseBoth(t, "a: 1\n")
	if ok, _ := none.Equal(empty); !ok {
		t.Error("no content and {}: got different, want equal: both say nothing")
	}
	if ok, _ := empty.Equal(full); ok {
		t.Error("{} and a: 1: got equal")
	}
	_, null := parseBoth(t, "a:\n")
	_, section := parseBoth(t, "a: {}\n")
	if ok, where := null.Equal(section); ok || cmp.Diff([]string{"a"}, where) != "" {
		t.Errorf("null and {} at a key: got equal %v at %v, want different at a", ok, where)
	}
}

func TestReadTreeErrors(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"a: b: c\n", "a: 1\n---\nb: 2\n", "a: 1\n---\n[\n", "a: *x\n", "%YAML 1.2\n---\na: 1\n", "a: \"\\/\"\n"} {
		if tree, err := ReadTree([]byte(src)); err == nil {
			t.Errorf("ReadTree(%q): got %v, want an error", src, tree)
		}
	}
}

func TestLineIndex(t *testing.T) {
	t.Parallel()
	src := "# c\na: 1\n\nt:\n  # c\n  b: |\n    x\n\n  c: {d: 1,\n    e: 2}\n# d\nl:\n- f: 1\n- g: 2\nz: 3\n# end\n"
	_, tree := parseBoth(t, src)
	x := tree.Lines()
	for _, tt := range []struct {
		path        string
		first, last int
	}{
		{"a", 2, 3}, {"t", 4, 11}, {"t/b", 6, 8}, {"t/c", 9, 11}, {"t/c/d", 9, 10}, {"t/c/e", 10, 11}, {"l", 12, 14}, {"l/f", 12, 14}, {"no", 0, -1}, {"t/no", 0, -1},
	} {
		if first, last := x.Of(p(tt.path)); first != tt.first || last != tt.last {
			t.Errorf("Of(%s): got %d to %d, want %d to %d", tt.path, first, last, tt.first, tt.last)
		}
	}
	if first, last := x.Of(p("z")); first != 15 || last < 16 {
		t.Errorf("Of(z): got %d to %d, want 15 to the end", first, last)
	}
}
