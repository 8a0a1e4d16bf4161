// SPDX-License-Identifier: MIT

package migrate

import (
	"errors"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// TestOrigin: a line of the edited file leads to the line of the original, text that was
// added to none.
func TestOrigin(t *testing.T) {
	t.Parallel()
	for _, eol := range []string{"\n", "\r\n", "\r"} {
		w := &work{in: plain(strings.ReplaceAll("a: 1\nb:\n  c: 2\n  d: 3\ne: 4\nf: 5\n", "\n", eol)), plan: &Plan{}}
		if err := w.open(); err != nil {
			t.Fatal(err)
		}
		w.model = &yamlspan.Tree{Kind: yamlspan.Mapping}
		edit := func(doc *yamlspan.Doc, err error) {
			if err != nil {
				t.Fatal(err)
			}
			w.doc = doc
		}
		edit(w.doc.Delete([]string{"a"}))
		edit(w.doc.Delete([]string{"b", "c"}))
		edit(w.doc.Insert([]string{"b", "n"}, yamlspan.Value{Map: []yamlspan.Field{{Key: "m", Value: yamlspan.Text("x")}}}))
		edit(w.doc.SetScalar([]string{"e"}, "44"))
		for _, r := range []struct {
			path []string
			want int
		}{{[]string{"b"}, 2}, {[]string{"b", "d"}, 4}, {[]string{"b", "n"}, 0}, {[]string{"b", "n", "m"}, 0}, {[]string{"e"}, 5}, {[]string{"f"}, 6}} {
			v := w.get(r.path...)
			f, ok := w.doc.Find(r.path...)
			if !ok || v.line != r.want || w.originLine(f.Line) != r.want {
				t.Errorf("%q, %q: got line %d, and %d for line %d; want %d", eol, r.path, v.line, w.originLine(f.Line), f.Line, r.want)
			}
		}
	}
}

// TestProve plays an editor that does not do what the plan says: nothing of it may reach a
// file.
func TestProve(t *testing.T) {
	t.Parallel()
	const config = "a: 1\nb:\n  c: 2\n  d: 3\n"
	begin := func() *work {
		w := &work{in: plain(config), plan: &Plan{}}
		w.in.Name = FileConfig
		if err := w.open(); err != nil {
			t.Fatal(err)
		}
		tree, err := yamlspan.ReadTree(w.in.Config)
		if err != nil {
			t.Fatal(err)
		}
		w.before, w.model = tree, tree.Clone()
		return w
	}
	cut := func(w *work, path ...string) {
		doc, err := w.doc.Delete(path)
		if err != nil {
			t.Fatal(err)
		}
		w.doc = doc
	}
	forget := func(w *work, path ...string) {
		if err := w.model.Remove(path...); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []struct {
		name string
		do   func(w *work)
		want string // "" = proven
		line int
	}{
		{"nothing done", func(*work) {}, "", 0},
		{"as planned", func(w *work) { cut(w, "b", "c"); forget(w, "b", "c"); w.touched = [][]string{{"b", "c"}} }, "", 0},
		{"cut and not planned", func(w *work) { cut(w, "b", "c"); w.touched = [][]string{{"b", "c"}} }, "would not mean what the plan says", 0},
		{"planned and not cut", func(w *work) { forget(w, "b", "c"); w.touched = [][]string{{"b", "c"}} }, "would not mean what the plan says", 0},
		{"another one cut", func(w *work) { cut(w, "b", "d"); forget(w, "b", "c"); w.touched = [][]string{{"b", "c"}} }, "would not mean what the plan says", 0},
		{"on lines of no planned key", func(w *work) { cut(w, "b", "d"); forget(w, "b", "d"); w.touched = [][]string{{"b", "c"}} }, "leave the lines of the planned keys", 4},
		{"more than planned", func(w *work) { cut(w, "b"); forget(w, "b"); w.touched = [][]string{{"b", "c"}} }, "leave the lines of the planned keys", 2},
	} {
		w := begin()
		r.do(w)
		err := w.prove()
		var refusal *Refusal
		switch {
		case r.want == "" && err != nil:
			t.Errorf("%s: got %v", r.name, err)
		case r.want != "" && (!errors.As(err, &refusal) || !errors.Is(err, ErrAmbiguous)):
			t.Errorf("%s: got %v, want a refusal", r.name, err)
		case r.want != "" && (!strings.Contains(refusal.Msg, r.want) || refusal.Line != r.line):
			t.Errorf("%s: got line %d: %s; want line %d: %s", r.name, refusal.Line, refusal.Msg, r.line, r.want)
		}
	}
}
