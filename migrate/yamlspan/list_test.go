// SPDX-License-Identifier: MIT

package yamlspan

import (
	"slices"
	"testing"
)

func TestAppendItem(t *testing.T) {
	t.Parallel()
	for _, tt := range []setting{
		{"block", "l:\n  - x\n  - y\nb: 1\n", "l", "z", "l:\n  - x\n  - y\n  - z\nb: 1\n"},
		{"indentless", "l:\n- x\nb: 1\n", "l", "z", "l:\n- x\n- z\nb: 1\n"},
		{"comment of the last item", "l:\n- x # c\n  # d\n# e\nb: 1\n", "l", "z", "l:\n- x # c\n  # d\n- z\n# e\nb: 1\n"},
		{"no final newline", "l:\n  - x", "l", "z", "l:\n  - x\n  - z"},
		{"crlf", "l:\r\n- x\r\n", "l", "z", "l:\r\n- x\r\n- z\r\n"},
		{"crlf, no final newline", "l:\r\n- x", "l", "z", "l:\r\n- x\r\n- z"},
		{"behind an empty item", "l:\n-\n", "l", "z", "l:\n-\n- z\n"},
		{"behind a mapping", "l:\n- a: 1\n  b: 2\nc: 1\n", "l", "z", "l:\n- a: 1\n  b: 2\n- z\nc: 1\n"},
		{"behind a literal", "l:\n- |\n  x\n\nb: 1\n", "l", "z", "l:\n- |\n  x\n- z\n\nb: 1\n"},
		{"nested", "t:\n  l:\n  - x\n  m: 1\n", "t/l", "z", "t:\n  l:\n  - x\n  - z\n  m: 1\n"},
		{"flow", "l: [x, y] # c\n", "l", "z", "l: [x, y, z] # c\n"},
		{"empty flow", "l: []\n", "l", "z", "l: [z]\n"},
		{"flow, trailing comma", "l: [x,]\n", "l", "z", "l: [x, z,]\n"},
		{"flow on own lines", "l: [\n  x, # c\n  y # d\n]\n", "l", "z", "l: [\n  x, # c\n  y, # d\n  z\n]\n"},
		{"json", `{"l":["x"]}`, "l", "z", `{"l":["x", "z"]}`},
		{"json, empty", `{"l":[]}`, "l", "z", `{"l":["z"]}`},
		{"json pretty", "{\n  \"l\": [\n    \"x\"\n  ]\n}\n", "l", "z", "{\n  \"l\": [\n    \"x\",\n    \"z\"\n  ]\n}\n"},
		{"quoted item", "l:\n- x\n", "l", `"y: z"`, "l:\n- x\n- \"y: z\"\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, tree := parseBoth(t, tt.before)
			e, err := d.AppendItem(p(tt.path), tt.text)
			editedTo(t, tt.before, e, err, tt.after)
			v, err := ScalarTree(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			list := tree.At(p(tt.path)...)
			list.Values = append(list.Values, v)
			_, after := parseBoth(t, tt.after)
			if ok, where := tree.Equal(after); !ok {
				t.Errorf("the rest differs at %v", where)
			}
		})
	}
}

func TestRemoveItems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, before, path string
		gone               []string
		n                  int
		after              string
	}{
		{"first", "l:\n- x\n- y\n", "l", []string{"x"}, 1, "l:\n- y\n"},
		{"last", "l:\n- x\n- y\nb: 1\n", "l", []string{"y"}, 1, "l:\n- x\nb: 1\n"},
		{"several", "l:\n- x\n- y\n- x\n- z\n", "l", []string{"x", "z"}, 3, "l:\n- y\n"},
		{"all", "l: # c\n  - x # goes\n  # d\n  - y\n", "l", []string{"x", "y"}, 2, "l: [] # c\n  # d\n"},
		{"all, no final newline", "l:\n- x", "l", []string{"x"}, 1, "l: []"},
		{"all, crlf", "l:\r\n- x\r\nb: 1\r\n", "l", []string{"x"}, 1, "l: []\r\nb: 1\r\n"},
		{"all, anchored list", "l: &q\n- x\n", "l", []string{"x"}, 1, "l: &q []\n"},
		{"none", "l:\n- x\n", "l", []string{"y"}, 0, "l:\n- x\n"},
		{"no final newline", "l:\n- x\n- y", "l", []string{"y"}, 1, "l:\n- x"},
		{"comments stay", "l:\n# c\n- x # goes\n# d\n- y\n", "l", []string{"x"}, 1, "l:\n# c\n# d\n- y\n"},
		{"quotes do not matter", "l:\n- 'x'\n- \"x\"\n- y\n", "l", []string{"x"}, 2, "l:\n- y\n"},
		{"below a literal, no final newline", "l:\n- |\n  t\n- x", "l", []string{"x"}, 1, "l:\n- |\n  t\n"},
		{"mappings stay", "l:\n- x: 1\n- x\n", "l", []string{"x"}, 1, "l:\n- x: 1\n"},
		{"empty items are empty text", "l:\n-\n- x\n", "l", []string{""}, 1, "l:\n- x\n"},
		{"flow", "l: [x, y, z]\n", "l", []string{"y"}, 1, "l: [x, z]\n"},
		{"flow, all", "l: [x, y]\n", "l", []string{"x", "y"}, 2, "l: []\n"},
		{"flow on own lines", "l: [\n  x, # c\n  y # goes\n]\n", "l", []string{"y"}, 1, "l: [\n  x # c\n]\n"},
		{"json", `{"l":["x","y"]}`, "l", []string{"x"}, 1, `{"l":["y"]}`},
		{"in a section", "t:\n  l:\n    - x\n    - y\n  m: 1\n", "t/l", []string{"x"}, 1, "t:\n  l:\n    - y\n  m: 1\n"},
		{"behind an explicit key, all", "? l\n: - x\n", "l", []string{"x"}, 1, "? l\n: []\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, tree := parseBoth(t, tt.before)
			gone := func(s string) bool { return slices.Contains(tt.gone, s) }
			e, n, err := d.RemoveItems(p(tt.path), gone)
			editedTo(t, tt.before, e, err, tt.after)
			if n != tt.n {
				t.Errorf("removed: got %d, want %d", n, tt.n)
			}
			list := tree.At(p(tt.path)...)
			list.Values = slices.DeleteFunc(list.Values, func(v *Tree) bool { return v.Kind == Scalar && gone(v.Text()) })
			_, after := parseBoth(t, tt.after)
			if ok, where := tree.Equal(after); !ok {
				t.Errorf("the rest differs at %v", where)
			}
		})
	}
}

func TestListRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, src string
		line      int
		why       string
	}{
		{"no such key", "a: 1\n", 1, "no such key"},
		{"text", "a: 1\nl: x\n", 2, "is a scalar"},
		{"empty", "l:\n", 1, "is a scalar"},
		{"mapping", "l:\n  a: 1\n", 2, "is a mapping"},
		{"alias", "x: &x [x]\nl: *x\n", 2, "alias *x"},
		{"anchored and used", "l: &x [x]\nm: *x\n", 1, "used again"},
		{"anchored item, used", "l:\n- &x x\nm: *x\n", 2, "used again"},
		{"double", "l: [x]\nl: [x]\n", 2, "twice"},
		{"shares its line", "? l\n: - x\n  - y\n", 2, "shares its line"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, _ := parseBoth(t, tt.src)
			_, n, err := d.RemoveItems(p("l"), func(s string) bool { return s == "x" })
			refused(t, err, tt.line, tt.why)
			if n != 0 {
				t.Errorf("removed: got %d with the error, want 0", n)
			}
			if tt.name != "shares its line" {
				_, err = d.AppendItem(p("l"), "z")
				refused(t, err, tt.line, tt.why)
			}
		})
	}
	d, _ := parseBoth(t, "l:\n- x\nm:\n  - |\n    y")
	_, err := d.AppendItem(p("l"), "a: b")
	refused(t, err, 2, "not a single value")
	_, err = d.AppendItem(p("m"), "z")
	refused(t, err, 4, "how m.0 is read")
}

func TestListToMap(t *testing.T) {
	t.Parallel()
	api := map[string]string{"base_url": "api"}
	for _, tt := range []struct {
		name, before string
		lifts        []Lift
		after        string
	}{
		{"one, place before the list", "a: 1\nl:\n- name: x\n  base_url: u\nb: 1\n", []Lift{{0, "x", api, nil}}, "a: 1\nm:\n  x:\n    name: x\n    api: u\nb: 1\n"},
		{
			"comments and quotes", "# top\nl:  # gone with the key\n  # about x\n  - name: \"x\"  # its name\n    # inside\n    base_url: 'u' # c\n  # about y\n  - name: y\n# after\n",
			[]Lift{{0, "x", api, nil}, {1, "z", nil, nil}},
			"# top\nm:\n  # about x\n  x:\n    name: \"x\"  # its name\n    # inside\n    api: 'u' # c\n  # about y\n  z:\n    name: y\n# after\n",
		},
		{"some stay", "l:\n- name: x\n# bad\n- text\n# y\n- name: y\nb: 1\n", []Lift{{0, "x", nil, nil}, {2, "z", nil, nil}}, "m:\n  x:\n    name: x\n  # y\n  z:\n    name: y\nl:\n# bad\n- text\nb: 1\n"},
		{"drop a key", "l:\n- name: x\n  api_key: none # goes\n  model: q\n", []Lift{{0, "x", nil, []string{"api_key"}}}, "m:\n  x:\n    name: x\n    model: q\n"},
		{"drop the first key", "l:\n- api_key: none\n  name: x\n", []Lift{{0, "x", nil, []string{"api_key"}}}, "m:\n  x:\n    name: x\n"},
		{"anchors and tags stay", "l:\n- &q !!map\n  name: &r x\n- &s {name: z}\n", []Lift{{0, "x", nil, nil}, {1, "z", nil, nil}}, "m:\n  x: &q !!map\n    name: &r x\n  z: &s {name: z}\n"},
		{"drop behind a literal", "l:\n- name: |\n    x\n  api_key: none\n", []Lift{{0, "x", nil, []string{"api_key"}}}, "m:\n  x:\n    name: |\n      x\n"},
		{"literal with blank content", "l:\n    - text: |\n        x\n          \n        y\n\n      n: 1\n", []Lift{{0, "x", nil, nil}}, "m:\n  x:\n    text: |\n      x\n        \n      y\n\n    n: 1\n"},
		{"nested and compact", "l:\n-   name: x\n    models:\n      a: {b: 1}\n      c:\n      - d\n", []Lift{{0, "x", nil, nil}}, "m:\n  x:\n    name: x\n    models:\n      a: {b: 1}\n      c:\n      - d\n"},
		{"item below its dash", "l:\n  -\n    name: x\n    url: u\n", []Lift{{0, "x", nil, nil}}, "m:\n  x:\n    name: x\n    url: u\n"},
		{"into a section", "m:\n  old: 1\nl:\n- name: x\n", []Lift{{0, "x", nil, nil}}, "m:\n  old: 1\n  x:\n    name: x\n"},
		{"into a section after it", "l:\n- name: x\nm:\n    old: 1\n    # c\n", []Lift{{0, "x", nil, nil}}, "m:\n    old: 1\n    x:\n        name: x\n    # c\n"},
		{"into an empty section", "m: # c\nl:\n- name: x\n", []Lift{{0, "x", nil, nil}}, "m: # c\n  x:\n    name: x\n"},
		{"into null", "m: null # c\nl:\n- name: x\n", []Lift{{0, "x", nil, nil}}, "m: # c\n  x:\n    name: x\n"},
		{"into {}", "m: {} # c\nl:\n- name: x\n", []Lift{{0, "x", nil, nil}}, "m: # c\n  x:\n    name: x\n"},
		{"indented root", "  a: 1\n  l:\n  - name: x\n", []Lift{{0, "x", nil, nil}}, "  a: 1\n  m:\n    x:\n      name: x\n"},
		{"odd key", "l:\n- name: x\n", []Lift{{0, "a: b", nil, nil}}, "m:\n  \"a: b\":\n    name: x\n"},
		{"no final newline", "a: 1\nl:\n- name: x\n  url: u", []Lift{{0, "x", nil, nil}}, "a: 1\nm:\n  x:\n    name: x\n    url: u"},
		{"crlf", "l:\r\n# c\r\n- name: x\r\n  url: u\r\nb: 1\r\n", []Lift{{0, "x", nil, nil}}, "m:\r\n  # c\r\n  x:\r\n    name: x\r\n    url: u\r\nb: 1\r\n"},
		{"bom", bom + "l:\n- name: x\n", []Lift{{0, "x", nil, nil}}, bom + "m:\n  x:\n    name: x\n"},
		{"bracketed items", "l:\n- {name: x, base_url: u} # goes\n- {name: z}\nb: 1\n", []Lift{{0, "x", api, nil}, {1, "z", nil, nil}}, "b: 1\nm:\n  x: {name: x, api: u}\n  z: {name: z}\n"},
		{"bracketed item with a comment above", "l:\n# about x\n- {name: x}\nb: 1\n", []Lift{{0, "x", nil, nil}}, "# about x\nb: 1\nm:\n  x: {name: x}\n"},
		{"bracketed list", "l: [{name: x, k: 1}, {name: y}]\n", []Lift{{0, "x", nil, []string{"k"}}}, "l: [{name: y}]\nm:\n  x: {name: x}\n"},
		{"json", `{"l":[{"name":"x","base_url":"u"}],"b":1}`, []Lift{{0, "x", api, nil}}, `{"b":1, "m": {"x": {"name":"x","api":"u"}}}`},
		{"json into a section", `{"l":[{"name":"x"}],"m":{"y":{}}}`, []Lift{{0, "x", nil, nil}}, `{"m":{"y":{}, "x": {"name":"x"}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, _ := parseBoth(t, tt.before)
			e, err := d.ListToMap("l", "m", tt.lifts)
			editedTo(t, tt.before, e, err, tt.after)
			if string(d.Bytes()) != tt.before {
				t.Error("the first document changed")
			}
		})
	}
}

func TestListToMapRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, src string
		lift      Lift
		line      int
		why       string
	}{
		{"no list", "a: 1\nl: x\n", Lift{}, 2, "is a scalar"},
		{"no such key", "a: 1\n", Lift{}, 1, "no such key"},
		{"no such item", "l: [{a: 1}]\n", Lift{Index: 1}, 1, "no such item"},
		{"item is text", "l:\n- {a: 1}\n- x\n", Lift{Index: 1, Key: "k"}, 3, "is a scalar"},
		{"anchored item, used", "l:\n- &x\n  a: 1\nb: *x\n", Lift{Key: "k"}, 2, "used again"},
		{"item without keys", "l:\n- a: 1\n", Lift{Key: "k", Drop: []string{"a"}}, 2, "no key of this item"},
		{"section is a list", "l:\n- a: 1\nm: [x]\n", Lift{Key: "k"}, 3, "keys on lines"},
		{"section in brackets", "l:\n- a: 1\nm: {x: 1}\n", Lift{Key: "k"}, 3, "keys on lines"},
		{"section twice", "l:\n- a: 1\nm: {}\nm: {}\n", Lift{Key: "k"}, 4, "twice"},
		{"key to drop is not there", "l:\n- a: 1\n", Lift{Key: "k", Drop: []string{"b"}}, 2, "not in the file"},
		{"key to rename is not there", "l:\n- a: 1\n", Lift{Key: "k", Rename: map[string]string{"b": "c"}}, 2, "not in the file"},
		{"key taken", "m:\n  k: 1\nl:\n- a: 1\n", Lift{Key: "k"}, 3, "how m is read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, _ := parseBoth(t, tt.src)
			e, err := d.ListToMap("l", "m", []Lift{tt.lift})
			refused(t, err, tt.line, tt.why)
			if e != nil {
				t.Error("got a document with the error, want none")
			}
		})
	}
}
