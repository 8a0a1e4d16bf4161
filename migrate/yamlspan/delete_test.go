// SPDX-License-Identifier: MIT

package yamlspan

import (
	"strings"
	"testing"
)

// deletion is one row: the entry at path goes, and the bytes are exactly after.
type deletion struct{ name, before, path, after string }

func deletions() []deletion {
	return []deletion{
		{"first key", "a: 1\nb: 2\nc: 3\n", "a", "b: 2\nc: 3\n"},
		{"middle key", "a: 1\nb: 2\nc: 3\n", "b", "a: 1\nc: 3\n"},
		{"last key", "a: 1\nb: 2\nc: 3\n", "c", "a: 1\nb: 2\n"},
		{"sole key", "a: 1\n", "a", ""},
		{"sole key and comments", "# c\na: 1\n# d\n", "a", "# c\n# d\n"},
		{"sole key behind a marker", "---\na: 1\n...\n", "a", "---\n...\n"},
		{"sole key before an end marker", "a: 1\n...\n", "a", "{}\n...\n"},
		{"sole key of an anchored root", "--- &x\na: 1\n", "a", "--- &x\n{}\n"},
		{"sole key of a section", "t:\n  a: 1\nu: 2\n", "t/a", "t: {}\nu: 2\n"},
		{"sole key, comment on the section", "t: # c\n  a: 1\n", "t/a", "t: {} # c\n"},
		{"sole key, comments around", "t:\n  # c\n  a: 1\n  # d\n# e\nu: 2\n", "t/a", "t: {}\n  # c\n  # d\n# e\nu: 2\n"},
		{"sole key of an anchored section", "t: &x\n  a: 1\n", "t/a", "t: &x {}\n"},
		{"sole key of a tagged section", "t:\n  !!map\n  a: 1\n", "t/a", "t:\n  !!map {}\n"},
		{"sole key nested", "t:\n  u:\n    a: 1\n  v: 2\n", "t/u/a", "t:\n  u: {}\n  v: 2\n"},
		{"sole key behind an explicit key", "? t\n: a: 1\n", "t/a", "? t\n: {}\n"},
		{"trailing comment", "a: 1\nb: 2 # goes\nc: 3\n", "b", "a: 1\nc: 3\n"},
		{"comment above stays", "t:\n  a: 1\n  # above b\n  b: 2\n  # below b\n  c: 3\n", "t/b", "t:\n  a: 1\n  # above b\n  # below b\n  c: 3\n"},
		{"commented out twin stays", "t:\n  # b: 2\n  b: 2\n  #b: 3\n", "t/b", "t: {}\n  # b: 2\n  #b: 3\n"},
		{"blank lines stay", "a: 1\n\nb: 2\n\nc: 3\n", "b", "a: 1\n\n\nc: 3\n"},
		{"no final newline, last", "a: 1\nb: 2", "b", "a: 1"},
		{"no final newline, first", "a: 1\nb: 2", "a", "b: 2"},
		{"no final newline, sole", "a: 1", "a", ""},
		{"no final newline, sole of a section", "t:\n  a: 1", "t/a", "t: {}"},
		{"no final newline, comment before", "a: 1\n# c\nb: 2", "b", "a: 1\n# c"},
		{"no final newline below a literal", "a: |\n  x\nb: 2", "b", "a: |\n  x\n"},
		{"no final newline below a stripped literal", "a: |-\n  x\nb: 2", "b", "a: |-\n  x"},
		{"crlf", "a: 1\r\nb: 2 # c\r\nc: 3\r\n", "b", "a: 1\r\nc: 3\r\n"},
		{"crlf, no final newline", "a: 1\r\nb: 2", "b", "a: 1"},
		{"crlf, sole of a section", "t:\r\n  a: 1\r\n", "t/a", "t: {}\r\n"},
		{"lone cr", "a: 1\rb: 2\rc: 3\r", "b", "a: 1\rc: 3\r"},
		{"bom, first", bom + "a: 1\nb: 2\n", "a", bom + "b: 2\n"},
		{"bom, sole", bom + "a: 1", "a", bom},
		{"bom and crlf", bom + "# c\r\na: 1\r\nb: 2\r\n", "a", bom + "# c\r\nb: 2\r\n"},
		{"literal", "a: |\n  x\n\n   y\nb: 2\n", "a", "b: 2\n"},
		{"literal, blank lines behind", "a: |\n  x\n\nb: 2\n", "a", "\nb: 2\n"},
		{"kept literal, blank lines go", "a: |+\n  x\n\n\nb: 2\n", "a", "b: 2\n"},
		{"below a kept literal", "a: |+\n  x\nb: 1\n\nc: 2\n", "b", "a: |+\n  x\nc: 2\n"},
		{"below a kept literal with blanks", "a: |+\n  x\n\nb: 1\nc: 2\n", "b", "a: |+\n  x\n\nc: 2\n"},
		{"folded at the end", "a: 1\nb: >-\n  x\n  y", "b", "a: 1"},
		{"literal with a header comment", "a: | # c\n  x\nb: 1\n", "a", "b: 1\n"},
		{"comment below a literal", "a: |\n  x\n # c\nb: 1\n", "a", " # c\nb: 1\n"},
		{"text over lines", "a: one\n  two\n  three # c\nb: 1\n", "a", "b: 1\n"},
		{"quoted over lines", "a: \"one\nb: 2\n  # c\"\nb: 1\n", "a", "b: 1\n"},
		{"value below its key", "a:\n  # c\n  x\nb: 1\n", "a", "b: 1\n"},
		{"empty value", "a: # c\nb: 1\n", "a", "b: 1\n"},
		{"section", "a:\n  b:\n    c: 1\n  # c\n  d: 2\ne: 1\n", "a", "e: 1\n"},
		{"indentless list", "a:\n- x\n# c\n- y\nb: 1\n", "a", "b: 1\n"},
		{"flow over lines", "a: {b: 1,\n  c: 2} # c\nd: 1\n", "a", "d: 1\n"},
		{"explicit key", "? a # c\n: 1\nb: 2\n", "a", "b: 2\n"},
		{"first key behind an explicit one", "? t\n: a: 1\n  b: 2\n", "t/a", "? t\n: b: 2\n"},
		{"explicit key alone", "a: 1\n? b\nc: 2\n", "b", "a: 1\nc: 2\n"},
		{"key with a dot", "m:\n  grok-4.6: 1\n  grok-4: 2\n", "m/grok-4.6", "m:\n  grok-4: 2\n"},
		{"quoted keys", "\"t\":\n  'a': 1\n  \"b\": 2\n", "t/a", "\"t\":\n  \"b\": 2\n"},
		{"blank before the colon", "a : 1\nb: 2\n", "a", "b: 2\n"},
		{"anchored and unused", "a: &x 1\nb: 2\n", "a", "b: 2\n"},
		{"tagged value", "a: !!str 1\nb: 2\n", "a", "b: 2\n"},
		{"double key elsewhere", "a: 1\nb: 2\nb: 3\n", "a", "b: 2\nb: 3\n"},
		{"indented root", "  a: 1\n  b: 2\n", "a", "  b: 2\n"},
		{"last key before an outdented comment", "t:\n  a: 1\n  b: 2\n# c\nu: 1\n", "t/b", "t:\n  a: 1\n# c\nu: 1\n"},
		{"one of three images", "terminal:\n  docker_image: x:y\n  # note\n  modal_image: \"x:y\"\n  cwd: .\n", "terminal/modal_image", "terminal:\n  docker_image: x:y\n  # note\n  cwd: .\n"},
		{"emoji around", "a: 😀\nb: 值 # 注\nc: 你\n", "b", "a: 😀\nc: 你\n"},
		{"blank line with a tab below", "a: x\n  \t\nb: 1\n", "a", "b: 1\n"},
		{"unicode break in the comment", "a: 1 # x\u2028# y\nb: 2\n", "a", "# y\nb: 2\n"},
	}
}

func flowDeletions() []deletion {
	return []deletion{
		{"first", "t: {a: 1, b: 2, c: 3}\n", "t/a", "t: {b: 2, c: 3}\n"},
		{"middle", "t: {a: 1, b: 2, c: 3}\n", "t/b", "t: {a: 1, c: 3}\n"},
		{"last", "t: {a: 1, b: 2, c: 3}\n", "t/c", "t: {a: 1, b: 2}\n"},
		{"last, inner blanks", "t: { a: 1, b: 2 }\n", "t/b", "t: { a: 1 }\n"},
		{"last, trailing comma", "t: {a: 1, b: 2,}\n", "t/b", "t: {a: 1, }\n"},
		{"sole", "t: {a: 1}\n", "t/a", "t: {}\n"},
		{"sole, inner blanks", "t: { a: 1, }\n", "t/a", "t: {}\n"},
		{"sole root", "{a: 1}\n", "a", "{}\n"},
		{"key alone", "t: {a, b: 1}\n", "t/a", "t: {b: 1}\n"},
		{"empty value", "t: {b: 1, a: }\n", "t/a", "t: {b: 1 }\n"},
		{"own lines, first", "t: {\n  a: 1, # goes\n  b: 2\n}\n", "t/a", "t: {\n  b: 2\n}\n"},
		{"own lines, last", "t: {\n  a: 1, # stays\n  b: 2 # goes\n}\n", "t/b", "t: {\n  a: 1 # stays\n}\n"},
		{"own lines, last with comma", "t: {\n  a: 1,\n  # c\n  b: 2,\n  # d\n}\n", "t/b", "t: {\n  a: 1,\n  # c\n  # d\n}\n"},
		{"own lines, sole, comments stay", "t: {\n  # c\n  a: 1 # goes\n  # d\n}\n", "t/a", "t: {\n  # c\n  # d\n}\n"},
		{"shared line, comment stays", "t: {a: 1, # c\n  b: 2}\n", "t/a", "t: { # c\n  b: 2}\n"},
		{"comment before the comma", "t: {a: 1 # c\n  , b: 2}\n", "t/b", "t: {a: 1 # c\n   }\n"},
		{"comma on its own line", "t: {a: 1\n  ,\n  b: 2}\n", "t/a", "t: {b: 2}\n"},
		{"nested", "t: {u: {a: 1, b: 2}, v: 3}\n", "t/u/b", "t: {u: {a: 1}, v: 3}\n"},
		{"nested section goes", "t: {u: {a: 1,\n b: 2}, v: 3}\n", "t/u", "t: {v: 3}\n"},
		{"json on one line", `{"t":{"a":"x","b":2},"u":[1]}`, "t/a", `{"t":{"b":2},"u":[1]}`},
		{"json on one line, sole", `{"t":{"a":"x"},"u":[1]}`, "t/a", `{"t":{},"u":[1]}`},
		{"json on one line, last", `{"t":{"a":"x"},"u":[1]}`, "u", `{"t":{"a":"x"}}`},
		{"json pretty, first", "{\n  \"t\": {\n    \"a\": 1,\n    \"b\": 2\n  }\n}\n", "t/a", "{\n  \"t\": {\n    \"b\": 2\n  }\n}\n"},
		{"json pretty, last", "{\n  \"t\": {\n    \"a\": 1,\n    \"b\": 2\n  }\n}\n", "t/b", "{\n  \"t\": {\n    \"a\": 1\n  }\n}\n"},
		{"json pretty, sole", "{\n  \"t\": {\n    \"a\": 1\n  }\n}\n", "t/a", "{\n  \"t\": {}\n}\n"},
		{"json pretty, section", "{\n  \"t\": {\n    \"a\": 1\n  },\n  \"u\": 1\n}\n", "t", "{\n  \"u\": 1\n}\n"},
		{"json with crlf", "{\r\n\t\"a\": 1,\r\n\t\"b\": 2\r\n}", "b", "{\r\n\t\"a\": 1\r\n}"},
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	for _, tt := range append(deletions(), flowDeletions()...) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, tree := parseBoth(t, tt.before)
			e, err := d.Delete(p(tt.path))
			editedTo(t, tt.before, e, err, tt.after)
			if err := tree.Remove(p(tt.path)...); err != nil {
				t.Fatal(err)
			}
			_, after := parseBoth(t, tt.after)
			if ok, where := tree.Equal(after); !ok {
				t.Errorf("the rest differs at %v", where)
			}
			if _, ok := e.Find(p(tt.path)...); ok {
				t.Errorf("%s is still found", tt.path)
			}
			if string(d.Bytes()) != tt.before {
				t.Error("the first document changed")
			}
		})
	}
}

// TestDeleteSplitSection is upstream's template: a section with comments at column 0 inside.
func TestDeleteSplitSection(t *testing.T) {
	t.Parallel()
	src := template(100)
	for _, tt := range []struct{ path, line string }{
		{"terminal/container_memory", "  container_memory: 5120 # MB\n"},
		{"terminal/container_cpu", "  container_cpu: 1\n"},
		{"terminal/timeout", "  timeout: 180\n"},
		{"terminal/backend", "  backend: \"local\" # or docker\n"},
		{"_config_version", "_config_version: 50\n"},
	} {
		if strings.Count(src, tt.line) != 1 {
			t.Fatalf("%q is not in the template once", tt.line)
		}
		d, _ := parseBoth(t, src)
		e, err := d.Delete(p(tt.path))
		editedTo(t, src, e, err, strings.Replace(src, tt.line, "", 1))
	}
}

func TestDeleteRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, src, path string
		line            int
		why             string
	}{
		{"empty file", "# c\n", "a", 1, "empty"},
		{"no such key", "a: 1\nb:\n  c: 2\n", "b/d", 3, "no such key"},
		{"alias as the value", "x: &x 1\na: *x\n", "a", 2, "alias *x"},
		{"alias as the section", "x: &x\n  b: 1\na: *x\n", "a/b", 3, "alias *x"},
		{"merged key", "x: &x\n  b: 1\na:\n  <<: *x\n  c: 2\n", "a/b", 4, "alias or a merge"},
		{"merge would come up", "x: &x\n  b: 1\na:\n  <<: *x\n  b: 2\n", "a/b", 5, "line 2"},
		{"anchored value, used", "a: &x 1\nb: *x\n", "a", 1, "used again on line 2"},
		{"anchor inside the value, used", "a:\n  b: &x 1\nc: *x\n", "a", 2, "used again on line 3"},
		{"anchored key, used", "&x a: 1\nb: *x\n", "a", 1, "used again on line 2"},
		{"anchored section, used", "a: &x\n  b: 1\n  c: 2\nd: *x\n", "a/b", 1, "used again on line 4"},
		{"double key", "a: 1\nb: 2\na: 3\n", "a", 3, "twice"},
		{"key given three times", "a: 1\na: 2\na: 3\n", "a", 3, "3 times"},
		{"double section", "t:\n  a: 1\nu: 1\nt:\n  a: 2\n", "t/a", 4, "twice"},
		{"double key beside it", "t:\n  a: 1\n  b: 2\n  b: 3\n", "t/a", 4, "twice"},
		{"section is a list", "t:\n- a\n", "t/a", 2, "list, not a section"},
		{"section is text", "t: x\n", "t/a", 1, "scalar, not a section"},
		{"root is a list", "- a\n", "a", 1, "list, not a section"},
		{"comment would become text", "a: |\n  x\nb: 1\n  # c\nd: 1\n", "b", 3, "how a is read"},
		{"comment behind the first key of an explicit one", "? t\n: a: 1 # c\n  b: 2\n", "t/a", 2, "comment stands between"},
		{"key of a key", "? x: 1\n  y: 2\n: z\n", "x", 1, "no such key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, _ := parseBoth(t, tt.src)
			e, err := d.Delete(p(tt.path))
			refused(t, err, tt.line, tt.why)
			if e != nil && err != nil {
				t.Error("got a document with the error, want none")
			}
		})
	}
	d, _ := parseBoth(t, "a: 1\n")
	if _, err := d.Delete(nil); err == nil {
		t.Error("no path: got no error")
	}
}
