// SPDX-License-Identifier: MIT

package yamlspan

import (
	"strings"
	"testing"
)

// insertion is one row: the value comes to path, and the bytes are exactly after.
type insertion struct {
	name, before, path string
	v                  Value
	after              string
}

func scalar(text string) Value { return Value{Scalar: text} }

func blockInsertions() []insertion {
	deep := Value{Map: []Field{{"x", scalar("1")}, {"k", Value{List: []string{"p", "q"}}}, {"z", Value{Map: []Field{}}}, {"w", Value{List: []string{}}}}}
	return []insertion{
		{"into an empty file", "", "a", scalar("1"), "a: 1\n"},
		{"into comments", "# c\n", "a", scalar("1"), "# c\na: 1\n"},
		{"into comments, no final newline", "# c", "a", scalar("1"), "# c\na: 1"},
		{"into comments, crlf", "# c\r\n", "a", scalar("1"), "# c\r\na: 1\r\n"},
		{"into a bom", bom, "a", scalar("1"), bom + "a: 1\n"},
		{"into a bom and comments", bom + "# c\n", "a", scalar("1"), bom + "# c\na: 1\n"},
		{"behind a marker", "---\n# c\n", "a", scalar("1"), "---\n# c\na: 1\n"},
		{"between markers", "---\n# c\n...\n# d\n", "a", scalar("1"), "---\n# c\na: 1\n...\n# d\n"},
		{"before the end marker", "a: 1\n...\n", "b", scalar("2"), "a: 1\nb: 2\n...\n"},
		{"top level", "a: 1\n", "b", scalar("2"), "a: 1\nb: 2\n"},
		{"top level, no final newline", "a: 1", "b", scalar("2"), "a: 1\nb: 2"},
		{"top level, crlf, no final newline", "a: 1\r\nb: 2", "c", scalar("3"), "a: 1\r\nb: 2\r\nc: 3"},
		{"top level, comments behind stay behind", "a: 1\n# c\n\n# d\n", "b", scalar("2"), "a: 1\nb: 2\n# c\n\n# d\n"},
		{"top level, indented comments belong to the last", "t:\n  a: 1\n  # c\n\n    # d\n# e\n", "b", scalar("2"), "t:\n  a: 1\n  # c\n\n    # d\nb: 2\n# e\n"},
		{"top level, behind a section and blank lines", "t:\n  a: 1\n\n\n", "b", scalar("2"), "t:\n  a: 1\nb: 2\n\n\n"},
		{"nested creation", "a: 1\n", "t/u/v", scalar("2"), "a: 1\nt:\n  u:\n    v: 2\n"},
		{"nested creation in a section", "t:\n  a: 1\n# c\nu: 1\n", "t/b/c", scalar("2"), "t:\n  a: 1\n  b:\n    c: 2\n# c\nu: 1\n"},
		{"section's own step", "t:\n    a: 1\n", "t/b/c", scalar("2"), "t:\n    a: 1\n    b:\n        c: 2\n"},
		{"section's own indentation", "t:\n  u:\n       a: 1\n", "t/u/b", scalar("2"), "t:\n  u:\n       a: 1\n       b: 2\n"},
		{"indented root", "  a: 1\n", "b", scalar("2"), "  a: 1\n  b: 2\n"},
		{"into an empty value", "t:\nb: 1\n", "t/a", scalar("2"), "t:\n  a: 2\nb: 1\n"},
		{"into an empty value with a comment", "t: # c\n  # d\nb: 1\n", "t/a", scalar("2"), "t: # c\n  a: 2\n  # d\nb: 1\n"},
		{"into an empty value at the end", "t:", "t/a", scalar("2"), "t:\n  a: 2"},
		{"into null", "t: null\nb: 1\n", "t/a", scalar("2"), "t:\n  a: 2\nb: 1\n"},
		{"into null with a comment", "t: ~ # c\nb: 1\n", "t/a", scalar("2"), "t: # c\n  a: 2\nb: 1\n"},
		{"into null below its key", "t: # c\n  null\nb: 1\n", "t/a", scalar("2"), "t: # c\n  a: 2\nb: 1\n"},
		{"into null below its key with a comment", "t: # c\n  null # d\nb: 1\n", "t/a", scalar("2"), "t: # c\n  # d\n  a: 2\nb: 1\n"},
		{"into null with a tab before its comment", "t:\n  ~\t# d\nb: 1\n", "t/a", scalar("2"), "t:\n  # d\n  a: 2\nb: 1\n"},
		{"into null, nested", "t:\n  u: null\n", "t/u/v", scalar("2"), "t:\n  u:\n    v: 2\n"},
		{"into null, crlf", "t: null\r\nb: 1\r\n", "t/a", scalar("2"), "t:\r\n  a: 2\r\nb: 1\r\n"},
		{"behind an explicit key", "? t\n:\nb: 1\n", "t/a", scalar("2"), "? t\n:\n  a: 2\nb: 1\n"},
		{"behind a literal", "t:\n  a: |\n    x\n\nb: 1\n", "t/c", scalar("2"), "t:\n  a: |\n    x\n  c: 2\n\nb: 1\n"},
		{"behind a kept literal", "t:\n  a: |+\n    x\n\n\nb: 1\n", "t/c", scalar("2"), "t:\n  a: |+\n    x\n\n\n  c: 2\nb: 1\n"},
		{"behind a literal and a shallow comment", "t:\n  a: |\n      x\n    # c\nb: 1\n", "t/c", scalar("2"), "t:\n  a: |\n      x\n    # c\n  c: 2\nb: 1\n"},
		{"behind a list", "t:\n  a:\n  - x\n  -\nb: 1\n", "t/c", scalar("2"), "t:\n  a:\n  - x\n  -\n  c: 2\nb: 1\n"},
		{"behind an explicit key alone", "? a\n", "b", scalar("2"), "? a\nb: 2\n"},
		{"behind text over lines", "a: one\n  two # c\n", "b", scalar("2"), "a: one\n  two # c\nb: 2\n"},
		{"behind a flow over lines", "a: {x: 1,\n  y: 2} # c\n", "b", scalar("2"), "a: {x: 1,\n  y: 2} # c\nb: 2\n"},
		{"a mapping", "a: 1\n", "t", deep, "a: 1\nt:\n  x: 1\n  k:\n    - p\n    - q\n  z: {}\n  w: []\n"},
		{"a list", "a: 1\n", "l", Value{List: []string{"x", `"y"`}}, "a: 1\nl:\n  - x\n  - \"y\"\n"},
		{"a list, crlf", "a: 1\r\n", "l", Value{List: []string{"x"}}, "a: 1\r\nl:\r\n  - x\r\n"},
		{"an empty mapping", "a: 1\n", "t", Value{Map: []Field{}}, "a: 1\nt: {}\n"},
		{"nothing", "a: 1\n", "t", Value{}, "a: 1\nt:\n"},
		{"a bracketed value", "a: 1\n", "t", scalar("{x: [1, 2]}"), "a: 1\nt: {x: [1, 2]}\n"},
		{"odd key names", "a: 1\n", "grok-4.6/x y", Text("a: b"), "a: 1\ngrok-4.6:\n  \"x y\": \"a: b\"\n"},
		{"below the template's comments", template(2), "terminal/vercel_image", scalar("v"), strings.Replace(template(2), "5120 # MB\n", "5120 # MB\n  vercel_image: v\n", 1)},
		{"double key elsewhere", "a: 1\na: 2\n", "b", scalar("3"), "a: 1\na: 2\nb: 3\n"},
		{"anchored and unused", "t: &x\n  a: 1\n", "t/b", scalar("2"), "t: &x\n  a: 1\n  b: 2\n"},
		{"blank line with a tab below", "a: 2\n  \t\n", "b", scalar(`"x"`), "a: 2\n  \t\nb: \"x\"\n"},
		{"beside a merge", "x: &x {a: 1}\nt:\n  <<: *x\n", "t/b", scalar("2"), "x: &x {a: 1}\nt:\n  <<: *x\n  b: 2\n"},
	}
}

func flowInsertions() []insertion {
	deep := Value{Map: []Field{{"x", scalar("y")}, {"l", Value{List: []string{"p", "1"}}}, {"m", Value{Map: []Field{}}}}}
	return []insertion{
		{"into {}", "t: {}\nb: 1\n", "t/a", scalar("2"), "t: {a: 2}\nb: 1\n"},
		{"into {} with blanks", "t: { }\n", "t/a", scalar("2"), "t: {a: 2 }\n"},
		{"into {} with a comment", "t: { # c\n}\n", "t/a", scalar("2"), "t: {a: 2 # c\n}\n"},
		{"into {} with a glued comment", "t: {# c\n}\n", "t/a", scalar("2"), "t: {a: 2 # c\n}\n"},
		{"into {} nested", "t: {}\n", "t/u/v", scalar("2"), "t: {u: {v: 2}}\n"},
		{"root", "{}\n", "a", scalar("2"), "{\"a\": 2}\n"},
		{"one line", "t: {a: 1} # c\n", "t/b", scalar("2"), "t: {a: 1, b: 2} # c\n"},
		{"one line, trailing comma", "t: {a: 1,}\n", "t/b", scalar("2"), "t: {a: 1, b: 2,}\n"},
		{"one line, inner blanks", "t: { a: 1 }\n", "t/b", scalar("2"), "t: { a: 1, b: 2 }\n"},
		{"last one empty", "t: {a: }\n", "t/b", scalar("2"), "t: {a: , b: 2 }\n"},
		{"last one a key alone", "t: {a}\n", "t/b", scalar("2"), "t: {a, b: 2}\n"},
		{"last one with a comment", "t: {a: 1 # c\n  }\n", "t/b", scalar("2"), "t: {a: 1, b: 2 # c\n  }\n"},
		{"last one with a glued comment", "t: {a: 'x'# c\n  }\n", "t/b", scalar("2"), "t: {a: 'x', b: 2 # c\n  }\n"},
		{"own lines", "t: {\n  a: 1 # c\n}\n", "t/b", scalar("2"), "t: {\n  a: 1, # c\n  b: 2\n}\n"},
		{"own lines, trailing comma", "t: {\n  a: 1, # c\n  # d\n}\n", "t/b", scalar("2"), "t: {\n  a: 1, # c\n  b: 2,\n  # d\n}\n"},
		{"null in a flow", "t: {u: null, v: 1}\n", "t/u/a", scalar("2"), "t: {u: {a: 2}, v: 1}\n"},
		{"empty value in a flow", "t: {u: , v: 1}\n", "t/u/a", scalar("2"), "t: {u: {a: 2} , v: 1}\n"},
		{"null below its key in a flow", "t: {u: # c\n  ~}\n", "t/u/a", scalar("2"), "t: {u: # c\n  {a: 2}}\n"},
		{"a mapping", "t: {a: 1}\n", "t/b", deep, "t: {a: 1, b: {x: y, l: [p, 1], m: {}}}\n"},
		{"json", `{"a":1}`, "b/c", deep, `{"a":1, "b": {"c": {"x": "y", "l": ["p", 1], "m": {}}}}`},
		{"json null", `{"t":null}`, "t/a", scalar("x"), `{"t":{"a": "x"}}`},
		{"json empty", `{"t":{}}`, "t/a", scalar("'x'"), `{"t":{"a": "x"}}`},
		{"json nothing", `{"a":1}`, "b", Value{}, `{"a":1, "b": null}`},
		{"json key", `{"a":1}`, "x\ty", scalar("~"), `{"a":1, "x\ty": null}`},
		{"json pretty", "{\n  \"t\": {\n    \"a\": 1\n  }\n}\n", "t/b", scalar("no"), "{\n  \"t\": {\n    \"a\": 1,\n    \"b\": false\n  }\n}\n"},
		{"json pretty, top", "{\n\t\"a\": 1\n}", "b", scalar("2"), "{\n\t\"a\": 1,\n\t\"b\": 2\n}"},
		{"json pretty, crlf", "{\r\n  \"a\": 1\r\n}\r\n", "b", scalar("2"), "{\r\n  \"a\": 1,\r\n  \"b\": 2\r\n}\r\n"},
	}
}

func TestInsert(t *testing.T) {
	t.Parallel()
	for _, tt := range append(blockInsertions(), flowInsertions()...) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, tree := parseBoth(t, tt.before)
			e, err := d.Insert(p(tt.path), tt.v)
			editedTo(t, tt.before, e, err, tt.after)
			v, err := tt.v.Tree()
			if err != nil {
				t.Fatal(err)
			}
			if tree == nil {
				tree = &Tree{Kind: Mapping}
			}
			tree.Put(v, p(tt.path)...)
			_, after := parseBoth(t, tt.after)
			if ok, where := tree.Equal(after); !ok {
				t.Errorf("the rest differs at %v", where)
			}
			if string(d.Bytes()) != tt.before {
				t.Error("the first document changed")
			}
		})
	}
}

func TestInsertRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, src, path, text string
		line                  int
		why                   string
	}{
		{"there already", "b: 1\na: 1\n", "a", "2", 2, "there already"},
		{"there already as null", "a:\n", "a", "2", 1, "there already"},
		{"there already in a section", "t:\n  a: 1\n", "t/a", "2", 2, "there already"},
		{"section is text", "a: 1\nt: x\n", "t/a", "2", 2, "not a section"},
		{"section is quoted null", "t: \"null\"\n", "t/a", "2", 1, "not a section"},
		{"section is a list", "t:\n- a\n", "t/a", "2", 2, "not a section"},
		{"root is a list", "- a\n", "a", "2", 1, "not a section"},
		{"root is text", "# c\nx\n", "a", "2", 2, "not a section"},
		{"root is null", "# c\nnull\n", "a", "2", 2, "single value null"},
		{"section is an alias", "x: &x {b: 1}\nt: *x\n", "t/a", "2", 2, "alias *x"},
		{"section is anchored and used", "t: &x {b: 1}\nu: *x\n", "t/a", "2", 1, "used again"},
		{"key comes from a merge", "x: &x {a: 1}\nt:\n  <<: *x\n", "t/a", "2", 3, "alias or a merge"},
		{"section comes from a merge", "x: &x\n  u: {a: 1}\nt:\n  <<: *x\n", "t/u/b", "2", 4, "alias or a merge"},
		{"double section", "t:\n  a: 1\nt:\n  b: 1\n", "t/c", "2", 3, "twice"},
		{"double key in the section", "t:\n  a: 1\n  a: 2\n", "t/c", "2", 3, "twice"},
		{"anchor without a value", "t: &x\nu: 1\n", "t/a", "2", 1, "anchor"},
		{"tag without a value", "t: !!map\nu: 1\n", "t/a", "2", 1, "not a section"},
		{"explicit key alone", "a: 1\n? t\n", "t/a", "2", 2, "no colon"},
		{"literal that ends the file", "a: |\n  x", "b", "2", 1, "how a is read"},
		{"text that is no yaml", "t:\n  a: 1\n", "t/b", `"`, 2, "unexpected end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, _ := parseBoth(t, tt.src)
			_, err := d.Insert(p(tt.path), scalar(tt.text))
			refused(t, err, tt.line, tt.why)
		})
	}
	d, _ := parseBoth(t, "a: 1\n")
	_, err := d.Insert(nil, scalar("1"))
	refused(t, err, 1, "no path")
	_, err = d.Insert([]string{strings.Repeat("k", maxKey+1)}, scalar("1"))
	refused(t, err, 1, "longer than readers allow")
}
