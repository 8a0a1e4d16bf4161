// SPDX-License-Identifier: MIT

package yamlspan

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// agreeing are documents that both parsers must read, and read alike. They also seed the
// fuzz targets.
func agreeing() map[string]string {
	return map[string]string{
		"empty file":                 "",
		"blank lines":                "\n\n  \n",
		"comments only":              "# one\n  # two\n#three",
		"empty mapping":              "{}\n",
		"empty list":                 "[]\n",
		"null root":                  "null\n",
		"tilde root":                 "~\n",
		"scalar root":                "just text\n",
		"root over lines":            "one\ntwo\n\nthree\n",
		"anchored null root":         "&a\n",
		"tagged root":                "!!map\na: 1\n",
		"non-specific tag":           "! 12\n",
		"plain":                      "a: b\nc: d e  f\ng: x#y\nh: x #y\ni: -1\nj: -x\nk: a:b\nl: ?x\nm: :x\n",
		"plain folded":               "a: one\n  two\n   three\n\n  four\n\n\n  five\nb: 1\n",
		"plain with comment after":   "a: one\n  two # c\nb: 1\n",
		"plain ends at comment":      "a: one\n  # c\nb: 1\n",
		"plain below its key":        "a:\n  one\n  two\nb:\n # c\n one\n",
		"urls and paths":             "a: http://x.y:80/z?q=1&r=2#f\nb: C:\\Users\\x\\n\nc: ~/x\nd: a@b.c\ne: /x/*.y\n",
		"windows paths":              "a: \"C:\\\\Users\\\\me\\\\new\"\nb: 'C:\\Users\\me'\nc: D:\\x\\y\n",
		"single quoted":              "a: 'it''s'\nb: ''\nc: 'a: b # c'\nd: '  x  '\ne: ''''\n",
		"single quoted over lines":   "a: 'one\n  two\n\n  three: 3\n  # no comment\n  '\nb: 1\n",
		"double quoted":              "a: \"x\\ty\\u00e9\\x41\\U0001F600\\e\\0\\N\\_\\L\\P\\\\\\\"\"\nb: \"\"\nc: \"a: b # c\"\n",
		"double quoted over lines":   "a: \"one\n  two \\\n  three\\\n\n  four\\\n  \\ five\n\n  six\"\nb: 1\n",
		"quoted with key lookalikes": "a: \"x\nb: 1\n  c: 2\n- d\n\"\ne: 1\n",
		"quoted then comment":        "a: \"x\"# c\nb: 'y'# c\nc: [1]# c\nd: {e: 1}# c\n",
		"literal":                    "a: |\n  one\n   two\n\n  three\nb: 1\n",
		"literal strip and keep":     "a: |-\n  x\n\n\nb: |+\n  x\n\n\nc: |\n  x\n\n\nd: 1\n",
		"literal indentation":        "a: |2\n    x\n   y\nb: |1-\n  x\nc: |+2\n   x\n\nd: >1\n  x\n y\n",
		"literal of blank lines":     "a: |\n\n\nb: |+\n\n\nc: |-\n\n\nd: |\ne: 1\n",
		"literal deep blank lines":   "a: |\n   \n  \n    x\nb: >\n \n  \n   \n # c\n",
		"literal with header":        "a: | # c\n  x\nb: >- # d\n  y\nc: |# e\n  z\n",
		"literal then comments":      "a:\n  b: |\n    x\n    # text\n   # c\n # d\n# e\n  c: 1\n",
		"literal no newline":         "a: |\n  x",
		"literal keep no newline":    "a: |+\n  x\n\n  ",
		"literal in list":            "- |\n  x\n- >\n y\n\n z\n-\n  |\n  q\n",
		"literal at root":            "--- |\n x\n  y\n",
		"literal with keys in it":    "a: |\n  b: 1\n  - c\n  {\n  \"\nd: 1\n",
		"folded":                     "a: >\n  one\n  two\n\n  three\n   four\n   five\n  six\n\n\n  seven\nb: >-\n  x\n  y\n",
		"folded starts blank":        "a: >\n\n  x\n\n    y\n  z\n",
		"tabs in text":               "a: x\ty\nb: \"x\ty\"\nc: |\n  x\n  \ty\nd: x\t# c\n",
		"tabs on blank lines":        "a: x\n  \t\nb:\n  c: y\n   \t\n   \t# c\nd: [\n\t1,\n\t# c\n]\ne: \"\n\tx\"\n? f\n:\t# c\n  g\n",
		"tabs in comments":           "a: 1 #\tx\n#\ty\nb: 2\t#z\n",
		"trailing blanks":            "a: 1   \nb:  \n  c: 2 \t\n  d:\t3\ne:  \n  -  \n",
		"no final newline":           "a: 1\nb:\n  c: 2",
		"crlf":                       crlf("a: 1 # c\n\nb:\n  - x\n  - \"y\n    z\"\nc: |\n  t\n  u\n\nd: >\n  v\n  w\n"),
		"lone cr":                    "a: 1\rb: 2\r",
		"mixed line ends":            "a: 1\r\nb: 2\nc: 3\rd: 4\n",
		"unicode breaks":             "a: \"x\u2028y\"\nb: x\u0085  y\nc: |\n  x\u2028  y\u0085  z\n# c\u2029d: 1\n",
		"bom":                        bom + "a: 1\nb: 2\n",
		"bom and comment":            bom + "# c\na: 1\n",
		"bom only":                   bom,
		"emoji and cjk":              "a: 你好 😀\n名前: \"値\"\n\"🔑\": '🔒'\nb: # 注释\n  c: ü\n",
		"nbsp":                       "a:\u00a0b: c\nd: \u00a0x\u00a0\n",
		"markers":                    "---\na: 1\n...\n",
		"marker with comment":        "--- # c\na: 1\n... # d\n# e\n...\n",
		"marker with flow":           "--- {a: 1}\n",
		"marker with text":           "--- text\nmore\n",
		"marker lookalikes":          "a: ---\nb: ...\n---x: 1\n....: 2\n",
		"directive":                  "%YAML 1.1\n# c\n---\na: 1\n",
		"marker alone":               "---\n",
		"marker and comments":        "# a\n---\n# b\n",
		"empty values":               "a:\nb: \nc: # c\nd:\n\n  # x\ne:\n",
		"empty values in flow":       "a: {b: , c, \"d\":, 'e': }\n",
		"duplicate keys":             "a: 1\nb: 2\na: 3\nc: {d: 1, d: 2}\n",
		"colon keys":                 "a:b: 1\n\"c:d\": 2\n'e: f': 3\ng : 4\n\"h\" : 5\n",
		"odd keys":                   "1: a\ntrue: b\nnull: c\n~: d\n1.5: e\n-x: g\n?y: h\n",
		"dotted and slashed keys":    "grok-4.6: 1\na/b: 2\n",
		"nested":                     "a:\n  b:\n    c:\n      d: 1\n  e: 2\nf: 3\n",
		"deep indent":                "a:\n          b: 1\n          c:\n           d: 1\n",
		"indented root":              "  a: 1\n  b:\n    c: 2\n",
		"lists":                      "a:\n  - x\n  - y\nb:\n- x\n- y\nc:\n-  x\n-\n- \n-   y\n",
		"indentless list nested":     "a:\n  b:\n  - x\n  - c: 1\n    d: 2\n  e:\n  - y\nf: 1\n",
		"compact nesting":            "- - a\n  - b\n- - - c\n- a: 1\n  b: 2\n- ? c\n  : d\n-   a: 1\n    b:\n    - x\n",
		"list of maps":               "a:\n- name: x\n  url: y\n-\n  name: z\n- {name: q}\n- &r\n  name: s\n",
		"comments everywhere": "# a\na: # b\n# c\n    # d\n  # e\n  - x # f\n  # g\n  -   # h\n    y\n # i\n  - # j\n    z: 1\n\n# k\n" +
			"b: {  # l\n  # m\n  c: 1, # n\n  # o\n  d: 2 # p\n  # q\n} # r\n# s\n",
		"column 0 comments in section": "a:\n  b: 1\n# c\n#   d: 2\n\n# e\n  f: 3\n#\ng: 1\n",
		"anchors":                      "a: &x\n  b: 1\nc: *x\nd: &y [1, *x]\ne: &z text\nf: [*z, *y]\n? *z\n: g\n",
		"anchor used twice":            "a: &x 1\nb: *x\nc: &x 2\nd: *x\n",
		"anchor forms":                 "a: &x !!str 1\nb: !!str &y 1\nc: &z\n  - 1\nd: &q\n- 1\ne: &r |\n  x\nf: &s\ng: &t # c\nh:\n  &u\n  - 1\ni:\n &v\n- 1\n",
		"merge":                        "a: &x {b: 1}\nc:\n  <<: *x\n  d: 2\ne:\n  <<: [*x, {f: 1}]\n",
		"anchored keys":                "&a k: 1\n&b \"l\": *a\n!!str m: 2\n&c : 3\n",
		"self reference":               "a: &x\n  b: *x\n",
		"tags":                         "a: !!str 1\nb: !!int \"2\"\nc: !foo x\nd: !!map {e: 1}\nf: !bar\n  g: 1\nh: !!null\ni: !!float 1\nj: !!set {k, l}\n",
		"explicit keys":                "? a\n: 1\n? b\n? |\n  c\n: - 1\n  - 2\n? - d\n  - e\n: f: 1\n  g: 2\n? h\n:\n  i\n? [x, y]\n: 1\n? {x: 1}\n: 2\n",
		"explicit key lists":           "?\n- a\n- b\n:\n- c\n- d\n",
		"flow":                         "a: {b: 1, \"c\":2, 'd':'e', f: [g, {h: i}], j: {}, k: []}\nl: [a, b: c, ? d : e, ? f]\n",
		"flow over lines":              "a: {\n  b: 1,\n  c: [\n    x, # c\n    y,\n  ], # d\n  # e\n  d: 'q\n    r',\n}\nb: [\nx\n,\ny]\nc: 1\n",
		"flow text":                    "a: [x y, x:y, x#y, -1, -x]\nb: {a: x y\n z, b: x:y}\n",
		"flow as key":                  "{a: 1}: b\n[c, d]: e\n",
		"flow at column 0":             "a:\n  {\nb: 1\n}\n",
		"json":                         `{"a":{"b":"x\u0041\ty","c":[1,2.5,true,null,-3e2],"d":{}},"e":[{"f":1},{"g":"h"}]}`,
		"json pretty":                  "{\n  \"a\": {\n    \"b\": \"x\",\n    \"c\": [\n      1,\n      2\n    ],\n    \"d\": {}\n  },\n  \"e\": []\n}\n",
		"json with tabs":               "{\n\t\"a\": 1,\n\t\"b\": [\n\t\t2\n\t]\n}\n",
		"long scalars":                 "a: " + strings.Repeat("x y ", 2000) + "\nb: \"" + strings.Repeat("\\u00e9 ", 3000) + "\"\nc: >\n  " + strings.Repeat("w", 5000) + "\n",
		"long key":                     strings.Repeat("é", maxKey) + ": 1\n? " + strings.Repeat("k", 3000) + "\n: 2\n",
		"long key in flow":             "{" + strings.Repeat("k", maxKey) + ": 1}\n",
		"template shape":               template(3),
	}
}

// template is a file shaped like upstream's: almost all comments, and a section split by
// comments at column 0. n is how many lines of them there are.
func template(n int) string {
	return "# Hermes Agent\n_config_version: 50\n\n# ====\n# Terminal\nterminal:\n  backend: \"local\" # or docker\n  cwd: \".\"\n  timeout: 180\n" +
		strings.Repeat("# --- Docker ---\n# terminal:\n#   docker_image: \"x/y:z\"\n\n", n) +
		"  container_cpu: 1\n  container_memory: 5120 # MB\n\n# Browser\nbrowser:\n  inactivity_timeout: 120\n"
}

func TestParseAgrees(t *testing.T) {
	t.Parallel()
	for name, src := range agreeing() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := parseBoth(t, src)
			if got := string(d.Bytes()); got != src {
				t.Errorf("Bytes: got %q, want %q", got, src)
			}
			parseBoth(t, strings.TrimRight(src, "\n"))
		})
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, src string
		line      int
	}{
		{"unclosed double quote", "a: 1\nb: \"x\nc: 2\n", 2},
		{"unclosed single quote", "a: 1\n\nb: 'x\n", 3},
		{"unclosed quoted key", "a: 1\n\"b: 2\n", 2},
		{"unclosed bracket", "a: 1\nb: [1,\nc: 2\n", 2},
		{"unclosed brace", "a: 1\nb: {c: 1,\n  d: 2\n", 2},
		{"unclosed at a marker", "a: [1\n---\n", 1},
		{"wrong bracket", "a: 1\nb: [1}\n", 2},
		{"missing comma", "a: {b: 1\n  c: 2}\n", 2},
		{"stray bracket", "a: 1\nb: ]\n", 2},
		{"stray brace behind a value", "a: [1]]\n", 1},
		{"text behind quotes", "a: 1\nb: \"x\" y\n", 2},
		{"deeper key", "a: 1\nb: x\n   c: 2\n", 3},
		{"shallower key", "a:\n    b: 1\n  c: 2\n", 3},
		{"deeper item", "a:\n  - x\n    - y: 1\n", 3},
		{"list after a key", "a: 1\n- b\n", 2},
		{"tab indentation", "a:\n\tb: 1\n", 2},
		{"tab between keys", "a: 1\n\tb: 2\n", 2},
		{"tab at the start", "\ta: 1\n", 1},
		{"tab on a blank line", "a: \"x\"\n\t\nb: 1\n", 2},
		{"tab before a comment", "a: {}\n  \t# c\n", 2},
		{"tab behind a dash", "- a\n-\tb\n", 2},
		{"tab in a literal", "a: |\n\tx\n", 2},
		{"two documents", "a: 1\n---\nb: 2\n", 2},
		{"two documents, nulls", "---\n---\n", 2},
		{"text behind the end marker", "a: 1\n...\nb: 2\n", 3},
		{"end marker alone", "# c\n...\n", 2},
		{"second colon", "a: b: c\n", 1},
		{"second colon quoted", "x: 1\na: 'b': c\n", 2},
		{"key on the marker line", "--- a: 1\n", 1},
		{"no colon", "a: 1\nb\nc: 2\n", 2},
		{"no blank behind the colon", "a:1\nb: 2\n", 2},
		{"invalid utf-8", "a: 1\nb: \xff\n", 2},
		{"latin-1", "a: caf\xe9\n", 1},
		{"nul", "a: 1\nb: x\x00y\n", 2},
		{"escape character", "a: 1\n# \x1b[0m\n", 2},
		{"c1 control", "a: x\u0086y\n", 1},
		{"noncharacter", "a: 1\n\nb: \uffff\n", 3},
		{"utf-16", "\xff\xfea\x00:\x00", 1},
		{"second bom", bom + bom + "a: 1\n", 1},
		{"bad escape", "a: 1\nb: \"\\d\"\n", 2},
		{"bad hex", "a: \"\\xg1\"\n", 1},
		{"short hex", "a: 1\nb: \"\\u00\n", 2},
		{"surrogate", "a: \"\\ud83d\\ude00\"\n", 1},
		{"marker in quotes", "a: \"x\n--- y\n\"\n", 2},
		{"reserved character", "a: 1\nb: @x\n", 2},
		{"backtick", "a: `x`\n", 1},
		{"percent", "a: 1\nb: %x\n", 2},
		{"alias without a name", "a: *\n", 1},
		{"anchor without a name", "a: & b\n", 1},
		{"text behind an alias", "a: &x 1\nb: *x y\n", 2},
		{"text behind an anchor", "a: 1\nb: &x!y z\n", 2},
		{"two anchors", "a: &x &y 1\n", 1},
		{"two anchors over lines", "a: &x\n  &y z\n", 2},
		{"anchored alias", "a: &x 1\nb: &y\n  *x\n", 3},
		{"tag directive", "%TAG ! x:\n---\na: 1\n", 1},
		{"directive without a document", "%YAML 1.1\n", 2},
		{"verbatim tag", "a: 1\nb: !<x> y\n", 2},
		{"tag and comma", "a: [!!str, b]\n", 1},
		{"text behind a literal header", "a: | x\n  y\n", 1},
		{"key over lines", "a: 1\n\"b\n c\": 2\n", 2},
		{"flow key over lines", "{a: 1, b\n  c: 2}\n", 1},
		{"long key", "a: 1\n" + strings.Repeat("k", maxKey+1) + ": 1\n", 2},
		{"long flow key", "{" + strings.Repeat("k", maxKey+1) + ": 1}\n", 1},
		{"colon and bracket", "a: [x:]\n", 1},
		{"nested too deep", strings.Repeat("[", maxDepth+1), 1},
		{"nested too deep in blocks", strings.Repeat("- ", maxDepth+1) + "x\n", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(tt.src))
			var se *SyntaxError
			if !errors.As(err, &se) {
				t.Fatalf("got %v, want a *SyntaxError for %q", err, tt.src)
			}
			if se.Line != tt.line || se.Column < 1 || se.Msg == "" {
				t.Errorf("got %v, want line %d", se, tt.line)
			}
		})
	}
}

// configs returns the real configs of the corpus.
func configs(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	dir := testkit.Corpus(t)
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		out[rel] = string(data)
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("got %d configs, error %v, want some", len(out), err)
	}
	return out
}

func TestParseCorpus(t *testing.T) {
	t.Parallel()
	for name, src := range configs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parseBoth(t, src)
			parseBoth(t, crlf(strings.ReplaceAll(src, "\r\n", "\n")))
		})
	}
}
