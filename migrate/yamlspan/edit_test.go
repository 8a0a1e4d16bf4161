// SPDX-License-Identifier: MIT

package yamlspan

import (
	"testing"
)

// setting is one row: the scalar at path becomes text, and the bytes are exactly after.
type setting struct{ name, before, path, text, after string }

func settings() []setting {
	return []setting{
		{"number", "a: 1\nb: 2\n", "a", "50", "a: 50\nb: 2\n"},
		{"comment stays", "a: 1 # c\n", "a", "50", "a: 50 # c\n"},
		{"blanks stay", "a:   1   \n", "a", "50", "a:   50   \n"},
		{"single quotes go", "a: 'x' # c\n", "a", "y", "a: y # c\n"},
		{"double quotes come", "a: x\n", "a", `"y: z"`, "a: \"y: z\"\n"},
		{"comment glued to quotes", "a: \"x\"# c\n", "a", "y", "a: y # c\n"},
		{"empty value", "a:\nb: 1\n", "a", "2", "a: 2\nb: 1\n"},
		{"empty value and comment", "a: # c\n", "a", "2", "a: 2 # c\n"},
		{"empty value glued to nothing", "a:", "a", "2", "a: 2"},
		{"null", "a: null\nb: ~\n", "b", "false", "a: null\nb: false\n"},
		{"to empty", "a: x\nb: 1\n", "a", `""`, "a: \"\"\nb: 1\n"},
		{"value below its key", "a:\n  # c\n  x\nb: 1\n", "a", "y", "a:\n  # c\n  y\nb: 1\n"},
		{"text over lines", "a: one\n  two\n\n  three # c\nb: 1\n", "a", "y", "a: y # c\nb: 1\n"},
		{"quoted over lines", "a: \"one\n  b: 2\"\nb: 1\n", "a", "y", "a: y\nb: 1\n"},
		{"literal", "a: |\n  x\n  y\nb: 1\n", "a", "z", "a: z\nb: 1\n"},
		{"literal, blank lines stay", "a: |\n  x\n\n\nb: 1\n", "a", "z", "a: z\n\n\nb: 1\n"},
		{"kept literal, blank lines go", "a: |+\n  x\n\n\nb: 1\n", "a", "z", "a: z\nb: 1\n"},
		{"literal with a header comment", "a: |-  # c\n  x\nb: 1\n", "a", "z", "a: z  # c\nb: 1\n"},
		{"empty literal with a header comment", "a: | # c\nb: 1\n", "a", "z", "a: z # c\nb: 1\n"},
		{"folded, no final newline", "a: >\n  x", "a", "z", "a: z"},
		{"anchor kept", "a: &x 1\n", "a", "2", "a: &x 2\n"},
		{"anchor of an empty value", "a: &x\nb: 1\n", "a", "2", "a: &x 2\nb: 1\n"},
		{"nested", "t:\n  u:\n    a: 1 # c\n", "t/u/a", "2", "t:\n  u:\n    a: 2 # c\n"},
		{"crlf", "a: 1\r\nb: 2\r\n", "a", "3", "a: 3\r\nb: 2\r\n"},
		{"bom", bom + "a: 1\n", "a", "3", bom + "a: 3\n"},
		{"no final newline", "a: 1", "a", "3", "a: 3"},
		{"key with a dot", "grok-4.6: 1\n", "grok-4.6", "2", "grok-4.6: 2\n"},
		{"quoted key", "'a b': 1\n", "a b", "2", "'a b': 2\n"},
		{"explicit key", "? a\n: 1\n", "a", "2", "? a\n: 2\n"},
		{"explicit key alone", "? a # c\nb: 1\n", "a", "2", "? a # c\n: 2\nb: 1\n"},
		{"flow", "t: {a: 1, b: 2} # c\n", "t/a", "x", "t: {a: x, b: 2} # c\n"},
		{"flow, empty value", "t: {a: , b: 2}\n", "t/a", "x", "t: {a: x , b: 2}\n"},
		{"flow, key alone", "t: {a, b: 2}\n", "t/a", "x", "t: {a: x, b: 2}\n"},
		{"flow, key alone over lines", "t: {a\n  }\n", "t/a", "x", "t: {a: x\n  }\n"},
		{"flow, glued comment", "t: {a: 'x'# c\n}\n", "t/a", "y", "t: {a: y # c\n}\n"},
		{"json text gets quotes", `{"a":"all","b":1}`, "a", "concise", `{"a":"concise","b":1}`},
		{"json single quotes", `{"a":"all"}`, "a", `'it''s'`, `{"a":"it's"}`},
		{"json number stays", `{"a":3}`, "a", "10", `{"a":10}`},
		{"json yaml number", `{"a":3}`, "a", "0x10", `{"a":16}`},
		{"json float", `{"a":3}`, "a", "1_000.5", `{"a":1000.5}`},
		{"json word", `{"a":3}`, "a", "yes", `{"a":true}`},
		{"json null", `{"a":3}`, "a", "~", `{"a":null}`},
		{"json nothing", `{"a":3}`, "a", "", `{"a":null}`},
		{"json pretty", "{\n  \"t\": {\n    \"a\": \"x\"\n  }\n}\n", "t/a", "y", "{\n  \"t\": {\n    \"a\": \"y\"\n  }\n}\n"},
		{"unicode break in another value", "a: \"x\u2028y\"\nb: 1\n", "b", "2", "a: \"x\u2028y\"\nb: 2\n"},
	}
}

func TestSetScalar(t *testing.T) {
	t.Parallel()
	for _, tt := range settings() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, tree := parseBoth(t, tt.before)
			e, err := d.SetScalar(p(tt.path), tt.text)
			editedTo(t, tt.before, e, err, tt.after)
			v, err := ScalarTree(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			tree.Put(v, p(tt.path)...)
			_, after := parseBoth(t, tt.after)
			if ok, where := tree.Equal(after); !ok {
				t.Errorf("the rest differs at %v", where)
			}
		})
	}
}

func TestSetScalarRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, src, path, text string
		line                  int
		why                   string
	}{
		{"no such key", "a: 1\n", "b", "x", 1, "no such key"},
		{"a section", "a: 1\nt:\n  a: 1\n", "t", "x", 3, "is a mapping"},
		{"a list", "t:\n\n- a\n", "t", "x", 3, "is a list"},
		{"a tag", "a: 1\nb: !!int 1\n", "b", "x", 2, "tag !!int"},
		{"an alias", "x: &x 1\na: *x\n", "a", "2", 2, "alias *x"},
		{"an anchor in use", "a: &x 1\nb: *x\n", "a", "2", 1, "used again"},
		{"a merged key", "x: &x {a: 1}\nt:\n  <<: *x\n", "t/a", "2", 3, "alias or a merge"},
		{"a double key", "a: 1\na: 2\n", "a", "3", 2, "twice"},
		{"double key beside it", "t:\n  a: 1\n  b: 2\n  b: 3\n", "t/a", "3", 4, "twice"},
		{"section is text", "t: x\n", "t/a", "y", 1, "not a section"},
		{"text that is two keys", "a: 1\n", "a", "x: y", 1, "not a single value"},
		{"text that is a list", "a: 1\n", "a", "[x]", 1, "not a single value"},
		{"text with a comment that would hide more", "t: {a: 1, b: 2}\n", "t/a", "x # y", 1, "broken"},
		{"text that is no yaml", "a: 1\n\nb: 2\n", "b", `"x`, 3, "no end"},
		{"text that reads on", "t: {a: 1, b: 2}\n", "t/a", "x, y", 1, "how t"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, _ := parseBoth(t, tt.src)
			_, err := d.SetScalar(p(tt.path), tt.text)
			refused(t, err, tt.line, tt.why)
		})
	}
}

func renamings() []setting {
	return []setting{
		{"plain", "a: 1 # c\nb: 2\n", "a", "x", "x: 1 # c\nb: 2\n"},
		{"nested", "t:\n  a: 1\n", "t/a", "x", "t:\n  x: 1\n"},
		{"double quotes stay", "\"a\": 1\n", "a", "x", "\"x\": 1\n"},
		{"double quotes, escapes", "\"a\": 1\n", "a", "x\"\ty", "\"x\\\"\\ty\": 1\n"},
		{"single quotes stay", "'a': 1\n", "a", "x.y", "'x.y': 1\n"},
		{"single quotes cannot hold it", "'a': 1\n", "a", "it's", "\"it's\": 1\n"},
		{"single quotes cannot hold a control character", "'a': 1\n", "a", "x\x07", "\"x\\u0007\": 1\n"},
		{"quotes come", "a: 1\n", "a", "x: y", "\"x: y\": 1\n"},
		{"a word that is no text", "a: 1\n", "a", "yes", "\"yes\": 1\n"},
		{"a number", "a: 1\n", "a", "12", "\"12\": 1\n"},
		{"blank before the colon", "a : 1\n", "a", "x", "x : 1\n"},
		{"explicit", "? a # c\n: 1\n", "a", "x", "? x # c\n: 1\n"},
		{"anchor stays", "&k a: 1\n", "a", "x", "&k x: 1\n"},
		{"flow", "t: {a: 1, b: 2}\n", "t/a", "x", "t: {x: 1, b: 2}\n"},
		{"flow, key alone", "t: {a, b: 2}\n", "t/a", "x", "t: {x, b: 2}\n"},
		{"json", `{"a":1}`, "a", "x y", `{"x y":1}`},
		{"crlf and bom", bom + "a: 1\r\n", "a", "x", bom + "x: 1\r\n"},
		{"section with everything in it", "t: # c\n  a: |\n    x\n  # d\nu: 1\n", "t", "s", "s: # c\n  a: |\n    x\n  # d\nu: 1\n"},
	}
}

func TestRenameKey(t *testing.T) {
	t.Parallel()
	for _, tt := range renamings() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, tree := parseBoth(t, tt.before)
			e, err := d.RenameKey(p(tt.path), tt.text)
			editedTo(t, tt.before, e, err, tt.after)
			if err := tree.Rename(tt.text, p(tt.path)...); err != nil {
				t.Fatal(err)
			}
			_, after := parseBoth(t, tt.after)
			if ok, where := tree.Equal(after); !ok {
				t.Errorf("the rest differs at %v", where)
			}
		})
	}
}

func TestRenameKeyRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, src, path, to string
		line                int
		why                 string
	}{
		{"no such key", "a: 1\n", "b", "x", 1, "no such key"},
		{"taken", "a: 1\nb: 2\n", "b", "a", 2, "stands beside"},
		{"its own name", "a: 1\nb: 2\n", "b", "b", 2, "stands beside"},
		{"a merge has the new name", "x: &x {b: 1}\nt:\n  <<: *x\n  a: 1\n", "t/a", "b", 4, "line 1"},
		{"a merge has the old name", "x: &x {a: 1}\nt:\n  <<: *x\n  a: 1\n", "t/a", "c", 4, "line 1"},
		{"anchored key in use", "&k a: 1\nb: *k\n", "a", "c", 1, "used again on line 2"},
		{"double", "a: 1\na: 2\n", "a", "c", 2, "twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, _ := parseBoth(t, tt.src)
			e, err := d.RenameKey(p(tt.path), tt.to)
			refused(t, err, tt.line, tt.why)
			if e != nil {
				t.Error("got a document with the error, want none")
			}
		})
	}
}
