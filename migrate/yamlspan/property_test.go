// SPDX-License-Identifier: MIT

package yamlspan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// operation is one edit, and the same change of the tree that the library reads.
type operation struct {
	name  string
	path  []string
	run   func(*Doc) (*Doc, error)
	model func(*Tree) error
	gone  func(*Doc) (from, to int) // where comments may go; nil = nowhere
}

// pathsOf returns the paths to all entries of t that can be named without doubt.
func pathsOf(t *Tree, kind Kind) (out [][]string) {
	var visit func(t *Tree, path []string)
	visit = func(t *Tree, path []string) {
		if t == nil {
			return
		}
		if t.Kind == kind || kind == 0 {
			out = append(out, path)
		}
		if t.Kind != Mapping {
			return
		}
		for i, k := range t.Keys {
			if k.Kind == Scalar && t.index(k.text) == i {
				visit(t.Values[i], append(slices.Clone(path), k.text))
			}
		}
	}
	visit(t, nil)
	return out
}

// randomOperation makes one edit for a document.
func randomOperation(r *rand.Rand, t *Tree) (operation, bool) {
	pickPath := func(kind Kind, least int) []string {
		paths := slices.DeleteFunc(pathsOf(t, kind), func(p []string) bool { return len(p) < least })
		if len(paths) == 0 {
			return nil
		}
		return paths[r.IntN(len(paths))]
	}
	texts := []string{"50", "false", "x-y", `"a: b # c"`, "'it''s'", "~", `""`, "0x1F", "concise"}
	text := texts[r.IntN(len(texts))]
	switch r.IntN(7) {
	case 0, 1:
		path := pickPath(0, 1)
		return deleteOperation(path), path != nil
	case 2:
		path := pickPath(Scalar, 1)
		return setOperation(path, text), path != nil
	case 3:
		path := pickPath(0, 1)
		return renameOperation(path, []string{"new", "a.b", "x: y", "yes"}[r.IntN(4)]), path != nil
	case 4:
		path := pickPath(Sequence, 1)
		return appendOperation(path, text), path != nil
	case 5:
		path := pickPath(Sequence, 1)
		return dropOperation(path), path != nil
	}
	under := pickPath([]Kind{Mapping, Mapping, Scalar}[r.IntN(3)], 0)
	if at := t.At(under...); at != nil && at.Kind == Scalar && at.Scalar != "null" && r.IntN(10) > 0 {
		return operation{}, false // refused, once in a while is enough
	}
	path := append(slices.Clone(under), [][]string{{"new"}, {"new", "er"}, {"a.b", "c d", "5"}}[r.IntN(3)]...)
	v := []Value{{Scalar: text}, {List: []string{text, "z"}}, {Map: []Field{{"f", Value{Scalar: text}}, {"g", Value{List: []string{}}}}}}[r.IntN(3)]
	return insertOperation(path, v), true
}

func deleteOperation(path []string) operation {
	return operation{
		"delete", path,
		func(d *Doc) (*Doc, error) { return d.Delete(path) },
		func(t *Tree) error { return t.Remove(path...) },
		func(d *Doc) (int, int) {
			t, _ := d.locate(path)
			return d.lineStart(t.pair().start), d.lineEnd(t.pair().end())
		},
	}
}

func setOperation(path []string, text string) operation {
	return operation{
		"set " + text, path,
		func(d *Doc) (*Doc, error) { return d.SetScalar(path, text) },
		func(t *Tree) error {
			v, err := ScalarTree(text)
			t.Put(v, path...)
			return err
		},
		func(d *Doc) (int, int) {
			t, _ := d.locate(path)
			n := t.pair().Value
			return d.afterLine(n.Body), n.End // lines of text that look like comments
		},
	}
}

func renameOperation(path []string, name string) operation {
	return operation{
		"rename to " + name, path,
		func(d *Doc) (*Doc, error) { return d.RenameKey(path, name) },
		func(t *Tree) error { return t.Rename(name, path...) },
		nil,
	}
}

func appendOperation(path []string, text string) operation {
	return operation{
		"append " + text, path,
		func(d *Doc) (*Doc, error) { return d.AppendItem(path, text) },
		func(t *Tree) error {
			v, err := ScalarTree(text)
			l := t.At(path...)
			l.Values = append(l.Values, v)
			return err
		},
		nil,
	}
}

func dropOperation(path []string) operation {
	odd := func(s string) bool { return len(s)%2 == 1 }
	return operation{
		"drop items", path,
		func(d *Doc) (*Doc, error) {
			e, _, err := d.RemoveItems(path, odd)
			return e, err
		},
		func(t *Tree) error {
			l := t.At(path...)
			l.Values = slices.DeleteFunc(l.Values, func(v *Tree) bool { return v.Kind == Scalar && odd(v.text) })
			return nil
		},
		func(d *Doc) (int, int) {
			t, _ := d.locate(path)
			n := t.pair().Value
			return d.lineStart(n.Start), d.lineEnd(n.End)
		},
	}
}

func insertOperation(path []string, v Value) operation {
	return operation{
		fmt.Sprintf("insert %+v", v), path,
		func(d *Doc) (*Doc, error) { return d.Insert(path, v) },
		func(t *Tree) error {
			c, err := v.Tree()
			t.Put(c, path...)
			return err
		},
		nil,
	}
}

var reComment = regexp.MustCompile(`# c[0-9]+ `)

// commentsKept checks that no comment of before is missing in after, but for those between
// from and to.
func commentsKept(t *testing.T, before, after string, from, to int) {
	t.Helper()
	for _, at := range reComment.FindAllStringIndex(before, -1) {
		c := before[at[0]:at[1]]
		if n := strings.Count(after, c); n != 1 && (n > 1 || at[0] < from || at[0] >= to) {
			t.Fatalf("comment %q stands there %d times, want once\n%s\n---- from\n%s", c, n, after, before)
		}
	}
}

// inside checks that the text that e took away stood on lines of the key at path, or of the
// section that a new key came to, as the library counts lines.
func inside(t *testing.T, src string, e *Doc, tree *Tree, path []string) {
	t.Helper()
	for tree.At(path...) == nil && len(path) > 0 {
		path = path[:len(path)-1]
	}
	if len(path) == 0 {
		return
	}
	first, last := tree.Lines().Of(path)
	for _, ed := range e.Edits(len(src)) {
		line := 1 + strings.Count(src[:ed.From], "\n")
		for part := range strings.SplitAfterSeq(src[ed.From:ed.To], "\n") {
			if strings.Trim(part, " \t,\r\n") != "" && (line < first || line > last) {
				t.Fatalf("%s stands on lines %d to %d, and line %d was changed\n%s\n---- from\n%s", PathString(path), first, last, line, e.Bytes(), src)
			}
			line += strings.Count(part, "\n")
		}
	}
}

// operate does one edit and checks everything that must hold. It returns the edited
// document, nil if the edit was refused.
func operate(t *testing.T, src string, d *Doc, tree *Tree, op operation) *Doc {
	t.Helper()
	e, err := op.run(d)
	if string(d.Bytes()) != src {
		t.Fatalf("%s: the first document changed", op.name)
	}
	if err != nil {
		var ee *EditError
		lines, _ := position([]byte(src), len(src))
		if !errors.As(err, &ee) || ee.Line < 1 || ee.Line > lines || e != nil {
			t.Fatalf("%s %s: got %v and a document %v, want an *EditError with a line of the file\n%s", op.name, PathString(op.path), err, e != nil, src)
		}
		return nil
	}
	want := tree.Clone()
	if want == nil {
		want = &Tree{Kind: Mapping}
	}
	if err := op.model(want); err != nil {
		t.Fatalf("%s %s: %v\n%s", op.name, PathString(op.path), err, src)
	}
	got, err := ReadTree(e.Bytes())
	if err != nil {
		t.Fatalf("%s %s: the library refuses the result: %v\n%s\n---- from\n%s", op.name, PathString(op.path), err, e.Bytes(), src)
	}
	if ok, where := want.Equal(got); !ok {
		t.Fatalf("%s %s: the result differs at %v\n%s\n---- from\n%s", op.name, PathString(op.path), where, e.Bytes(), src)
	}
	if err := e.Agrees(got); err != nil {
		t.Fatalf("%s %s: %v\n%s\n---- from\n%s", op.name, PathString(op.path), err, e.Bytes(), src)
	}
	replayed(t, src, e)
	return e
}

// operateNeatly does one edit and checks as well that it touches nothing but its key, for a
// document whose comments have numbers.
func operateNeatly(t *testing.T, src string, d *Doc, tree *Tree, op operation) *Doc {
	t.Helper()
	e := operate(t, src, d, tree, op)
	if e == nil {
		return nil
	}
	inside(t, src, e, tree, op.path)
	from, to := 0, 0
	if op.gone != nil {
		from, to = op.gone(d)
	}
	commentsKept(t, src, string(e.Bytes()), from, to)
	return e
}

// TestRandomEdits edits random documents. Refusals are right only where something is
// shared, so that without anchors and double keys there are few.
func TestRandomEdits(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %v", shared), func(t *testing.T) {
			t.Parallel()
			docs, done, refused := 0, 0, 0
			for seed := range uint64(300) {
				src := generate(seed, shared)
				tree, err := ReadTree([]byte(src))
				if err != nil {
					continue
				}
				docs++
				d, _ := parseBoth(t, src)
				r := rand.New(rand.NewPCG(seed, 11))
				for range 6 {
					op, ok := randomOperation(r, tree)
					if !ok {
						continue
					}
					if operateNeatly(t, src, d, tree, op) != nil {
						done++
					} else {
						refused++
					}
				}
			}
			t.Logf("%d documents, %d edits, %d refusals", docs, done, refused)
			if docs < 280 {
				t.Errorf("documents that the library reads: got %d of 300, want 280 or more", docs)
			}
			if !shared && refused > done/50 {
				t.Errorf("got %d refusals for %d edits, want one in fifty at most", refused, done)
			}
		})
	}
}

// TestRandomInverse edits random documents and takes the edit back.
func TestRandomInverse(t *testing.T) {
	t.Parallel()
	undone := map[string]int{}
	for seed := range uint64(200) {
		src := generate(seed, seed%2 == 0)
		tree, err := ReadTree([]byte(src))
		if err != nil {
			continue
		}
		d, _ := parseBoth(t, src)
		r := rand.New(rand.NewPCG(seed, 13))
		back := func(name string, same bool, e *Doc, err error, undo func(*Doc) (*Doc, error)) {
			t.Helper()
			if err != nil {
				return
			}
			f, err := undo(e)
			if err != nil {
				t.Fatalf("%s and back: %v\n%s\n---- from\n%s", name, err, e.Bytes(), src)
			}
			if got := string(f.Bytes()); same && got != src {
				t.Fatalf("%s and back: got\n%s\n---- from\n%s\n---- over\n%s", name, got, src, e.Bytes())
			}
			_, got := parseBoth(t, string(f.Bytes()))
			if ok, where := tree.Equal(got); !ok {
				t.Fatalf("%s and back: the result differs at %v\n%s\n---- from\n%s", name, where, f.Bytes(), src)
			}
			if same {
				if edits := f.Edits(len(src)); len(strings.TrimSpace(src)) > 0 && slices.ContainsFunc(edits, func(e Edit) bool { return e.Text != src[e.From:e.To] }) {
					t.Fatalf("%s and back: got edits %+v, want none that change a byte", name, edits)
				}
			}
			undone[strings.Fields(name)[0]]++
		}
		if paths := pathsOf(tree, Mapping); len(paths) > 0 {
			path := append(slices.Clone(paths[r.IntN(len(paths))]), "brand new")
			e, err := d.Insert(path, Value{List: []string{"x"}})
			f, _ := d.Find(path[:len(path)-1]...)
			back("insert", f.Node != nil && f.Node.Style == Block, e, err, func(e *Doc) (*Doc, error) { return e.Delete(path) })
		}
		if paths := pathsOf(tree, Scalar); len(paths) > 0 && len(paths[0]) > 0 {
			path := paths[r.IntN(len(paths))]
			e, err := d.SetScalar(path, "other")
			f, ok := d.Find(path...)
			if !ok {
				continue // below the first of two twins; the last one counts
			}
			old := src[f.Node.Body:f.Node.End]
			if !f.Node.Empty() && f.Node.Style <= DoubleQuoted && !strings.ContainsAny(old, "\r\n") {
				back("set", true, e, err, func(e *Doc) (*Doc, error) { return e.SetScalar(path, old) })
			}
		}
		if paths := pathsOf(tree, 0); len(paths) > 1 {
			path := paths[1+r.IntN(len(paths)-1)]
			e, err := d.RenameKey(path, "brand new")
			last := len(path) - 1
			again := append(slices.Clone(path[:last]), "brand new")
			back("rename", false, e, err, func(e *Doc) (*Doc, error) { return e.RenameKey(again, path[last]) })
		}
		if paths := pathsOf(tree, Sequence); len(paths) > 0 && len(paths[0]) > 0 {
			path := paths[r.IntN(len(paths))]
			e, err := d.AppendItem(path, "brand-new")
			f, ok := d.Find(path...)
			back("append", ok && f.Node.Style == Block, e, err, func(e *Doc) (*Doc, error) {
				e, _, err := e.RemoveItems(path, func(s string) bool { return s == "brand-new" })
				return e, err
			})
		}
	}
	t.Log(undone)
	for _, name := range []string{"insert", "set", "rename", "append"} {
		if undone[name] < 80 {
			t.Errorf("%s: undone %d times, want 80 or more", name, undone[name])
		}
	}
}

// TestReadsIsEqual: the shortcut that compares a node with a tree says what the comparison
// of two trees says, for every pair of our documents.
func TestReadsIsEqual(t *testing.T) {
	t.Parallel()
	texts := []string{
		"", "{}", "a: 1", "a: !!str 1", "a: '1'", "a: \"1\"", "a: one", "a: 'one'", "a: ~", "a:", "a: null", "a: &x 1", "a: !t 1", "!t {a: 1}",
		"a: [1]", "a: [1, 2]", "a: !t [1]", "a: {b: 1}", "b: 1", "a: 1\nb: 2", "b: 2\na: 1", "a: &x 1\nb: *x", "- 1", "a: |\n  one", "a: 0x1", "a: 1.0", "a: yes", "a: true",
	}
	for _, x := range texts {
		for _, y := range texts {
			dx, err := Parse([]byte(x))
			if err != nil {
				t.Fatal(err)
			}
			dy, err := Parse([]byte(y))
			if err != nil {
				t.Fatal(err)
			}
			want, _ := dx.tree().Equal(dy.tree())
			if got, _ := dx.tree().reads(dy.root); got != want {
				t.Errorf("%q reads %q: got %t, want %t", x, y, got, want)
			}
		}
	}
}
