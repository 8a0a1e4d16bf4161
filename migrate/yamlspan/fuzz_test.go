// SPDX-License-Identifier: MIT

package yamlspan

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// seeds are documents of every kind that the tables know, and some random ones.
func seeds() []string {
	var out []string
	for _, src := range agreeing() {
		if len(src) < 2000 {
			out = append(out, src)
		}
	}
	for _, tt := range append(deletions(), flowDeletions()...) {
		out = append(out, tt.before)
	}
	for _, tt := range append(blockInsertions(), flowInsertions()...) {
		out = append(out, tt.before)
	}
	for seed := range uint64(30) {
		out = append(out, generate(seed, true))
	}
	return out
}

// fuzzable reads src with both parsers; ok is false if one refuses it. The library takes a
// byte order mark inside the text for one at the start of a line when its buffer happens to
// begin there; that is the one class of text which both accept and may read differently.
// Callers of this package then get an error from Agrees.
func fuzzable(src []byte) (d *Doc, tree *Tree, ok bool) {
	if len(src) > 4000 || bytes.LastIndex(src, []byte(bom)) > 0 {
		return nil, nil, false
	}
	d, err := Parse(src)
	if err != nil {
		return nil, nil, false
	}
	tree, err = ReadTree(src)
	return d, tree, err == nil
}

func FuzzParse(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		d, tree, ok := fuzzable(src)
		if !ok {
			return
		}
		if err := d.Agrees(tree); err != nil {
			t.Fatalf("%v\n%q", err, src)
		}
		spans(t, d)
		if lines := len(d.Masked(func([]string) bool { return false })); lines != bytes.Count(bytes.TrimSuffix(src, []byte("\n")), []byte("\n"))+1 && len(src) > 0 {
			t.Errorf("Masked: got %d lines for %q", lines, src)
		}
		for _, path := range pathsOf(tree, 0) {
			if at := tree.At(path...); at.Kind == Mapping || at.Kind == Scalar {
				if _, found := d.Find(path...); !found && len(path) == 1 {
					t.Errorf("Find(%s): got nothing, the library has it in %q", PathString(path), src)
				}
			}
		}
	})
}

// spans checks that every node lies inside the one above it.
func spans(t *testing.T, d *Doc) {
	t.Helper()
	src := d.Bytes()
	var visit func(n *Node, from, to int)
	visit = func(n *Node, from, to int) {
		if n.Start < from || n.Start > n.Body || n.Body > n.End || n.End > to {
			t.Fatalf("%s %q spans %d, %d, %d, want inside %d to %d in %q", n.Kind, n.Value, n.Start, n.Body, n.End, from, to, src)
		}
		for _, p := range n.Pairs {
			visit(p.Key, n.Start, n.End)
			visit(p.Value, n.Start, n.End)
		}
		for _, it := range n.Items {
			visit(it, n.Start, n.End)
		}
	}
	if d.Root() != nil {
		visit(d.Root(), 0, len(src))
	}
}

func FuzzDelete(f *testing.F) {
	for i, s := range seeds() {
		f.Add([]byte(s), uint8(i))
	}
	f.Fuzz(func(t *testing.T, src []byte, n uint8) {
		d, tree, ok := fuzzable(src)
		if !ok {
			return
		}
		paths := pathsOf(tree, 0)
		if len(paths) < 2 {
			return
		}
		operate(t, string(src), d, tree, deleteOperation(paths[1+int(n)%(len(paths)-1)]))
	})
}

func FuzzInsert(f *testing.F) {
	for i, s := range seeds() {
		f.Add([]byte(s), "new", "50", uint8(i))
	}
	f.Add([]byte("a: 1\n"), "x: y", "'", uint8(200))
	f.Fuzz(func(t *testing.T, src []byte, key, text string, n uint8) {
		d, tree, ok := fuzzable(src)
		if !ok || !utf8.ValidString(key) || !utf8.ValidString(text) {
			return
		}
		path := []string{key}
		if paths := pathsOf(tree, 0); len(paths) > 0 {
			path = append(append([]string{}, paths[int(n)%len(paths)]...), key)
		}
		if n > 128 {
			path = append(path, "deeper")
		}
		v := []Value{Text(text), {List: []string{Quote(text)}}, {Map: []Field{{key, Text(text)}}}}[int(n)%3]
		operate(t, string(src), d, tree, insertOperation(path, v))
	})
}

// FuzzEdit does the other edits, chosen by numbers.
func FuzzEdit(f *testing.F) {
	for i, s := range seeds() {
		f.Add([]byte(s), "new", uint8(i), uint8(i/7))
	}
	f.Fuzz(func(t *testing.T, src []byte, text string, n, kind uint8) {
		d, tree, ok := fuzzable(src)
		if !ok || !utf8.ValidString(text) {
			return
		}
		paths := pathsOf(tree, 0)
		if len(paths) < 2 {
			return
		}
		path := paths[1+int(n)%(len(paths)-1)]
		switch at := tree.At(path...); {
		case kind%3 == 0:
			operate(t, string(src), d, tree, renameOperation(path, text))
		case at.Kind == Sequence && kind%3 == 1:
			operate(t, string(src), d, tree, appendOperation(path, Quote(text)))
		case at.Kind == Sequence:
			operate(t, string(src), d, tree, dropOperation(path))
		default:
			operate(t, string(src), d, tree, setOperation(path, Quote(text)))
		}
	})
}

// TestRandomTokens makes small documents of tokens in any order. Most make no sense, and
// those that both parsers read must be read alike and edited right.
func TestRandomTokens(t *testing.T) {
	t.Parallel()
	tokens := []string{
		"a", "b: ", "key: 1", "k: ", "- ", "-", "? ", ": ", ":", "{", "}", "[", "]", ",", ", ", "'x'", `"y z"`, "# c", " # c", "#", "\n", "\n", "\n", "\n  ",
		"\n    ", "\n ", "\n- ", "\n  - ", "|", "|-", ">", "|+\n  t\n", "|2\n", "&a ", "*a", "!!str ", "!t ", "\t", `\`, "---\n", "--- ", "...\n", "%YAML 1.1\n", "<<: *a",
		"\r\n", "é", "\u2028", "\u0085", "'", `"`, "\"q\\n\\\n  z\"", "null", "~", "http://x.y:80/?q", "@", "yes", "  ",
	}
	r := rand.New(rand.NewPCG(5, 7))
	docs, edits := 0, 0
	for range 10000 {
		var b strings.Builder
		for range 1 + r.IntN(10) {
			b.WriteString(tokens[r.IntN(len(tokens))])
		}
		src := b.String()
		d, tree, ok := fuzzable([]byte(src))
		if !ok {
			continue
		}
		docs++
		if err := d.Agrees(tree); err != nil {
			t.Fatalf("%v\n%q", err, src)
		}
		if op, ok := randomOperation(r, tree); ok && operate(t, src, d, tree, op) != nil {
			edits++
		}
	}
	t.Logf("%d documents, %d edits", docs, edits)
	if docs < 2500 || edits < 300 {
		t.Errorf("got %d documents and %d edits, want 2500 and 300", docs, edits)
	}
}
