// SPDX-License-Identifier: MIT

package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestParsePatch(t *testing.T) {
	t.Parallel()
	ops, err := parsePatch("thinking…\n*** Begin Patch\n*** Update File: a.go\n@@ func f() @@\n ctx\n-old\n+new\n\n*** End of File\n*** Add File: b\n+one\n+\n+*** End Patch\n" +
		"***Delete File: c d\r\n*** Move File: e -> f g\n*** Update File: h\n*** Move to: i\n@@ -1,2 +1,3 @@ func g\n-x\nlost blank\n*** End Patch\nbye\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []operation{
		{verb: updateFile, path: "a.go", hunks: []hunk{{hint: "func f()", lines: []string{" ctx", "-old", "+new"}, atEnd: true}}, line: 3},
		{verb: addFile, path: "b", text: "one\n\n*** End Patch\n", line: 10},
		{verb: deleteFile, path: "c d", line: 14},
		{verb: moveFile, path: "e", to: "f g", line: 15},
		{verb: updateFile, path: "h", to: "i", hunks: []hunk{{hint: "func g", lines: []string{"-x", " lost blank"}}}, line: 16},
	}
	if diff := cmp.Diff(want, ops, cmp.AllowUnexported(operation{}, hunk{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for patch, say := range map[string]string{
		"":                              "no operation",
		"hello":                         "before the first",
		"*** Update File: a\n":          "no change",
		"*** Update File:\n-x\n":        "without a path",
		"*** Move File: a\n":            "FROM -> TO",
		"*** Add File: a\nx\n":          `start with "+"`,
		"*** Delete File: a\n+x\n":      "nothing follows",
		"*** Update File: a\n*** Foo\n": "not a line of a patch",
	} {
		if _, err := parsePatch(patch); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: got %v, want %q", patch, err, say)
		}
	}
}

func TestHunks(t *testing.T) {
	t.Parallel()
	twice := "func a() {\n\treturn 1\n}\n\nfunc b() {\n\treturn 1\n}\n"
	for _, row := range []struct{ name, text, hunks, want string }{
		{"plain", "a\nb\nc\n", "-b\n+x\n", "a\nx\nc\n"},
		{"delete", "a\nb\nc\n", " a\n-b\n c\n", "a\nc\n"},
		{"only deletions", "a\nb\nc\n", "-b\n", "a\nc\n"},
		{"no newline at the end stays so", "a\nb", "-b\n+x\n", "a\nx"},
		{"hint", twice, "@@ func b() {\n-\treturn 1\n+\treturn 2\n", strings.Replace(twice, "b() {\n\treturn 1", "b() {\n\treturn 2", 1)},
		{"order", twice, "-\treturn 1\n+\treturn 2\n func", ""},
		{"after the hunk above", "x\n1\nx\n2\nx\n3\n", "@@\n x\n-2\n+two\n@@\n-x\n+y\n 3\n", "x\n1\nx\ntwo\ny\n3\n"},
		{"end of file", "x\ny\nx\n", "-x\n+z\n*** End of File\n", "x\ny\nz\n"},
		{"added below a hint", "a\nmark\nb\n", "@@ mark @@\n+new\n", "a\nmark\nnew\nb\n"},
		{"added at the end", "a", "+b\n", "a\nb"},
		{"added to nothing", "", "+b\n", "b\n"},
		{"whole lines only", "ab\nb\n", "-b\n+x\n", "ab\nx\n"},
		{"part of a line is none", "ab\n", "-b\n+x\n", ""},
		{"other indentation", "\tif x:\n\t\ty\n", "-if x:\n+if z:\n \ty\n", "\tif z:\n\t\ty\n"},
		{"made before", "a\nthe new line\n", "-the old line\n+the new line\n", "a\nthe new line\n"},
		{"ambiguous", twice, "-\treturn 1\n+\treturn 2\n", ""},
		{"hint that is not there, place that is", "a\nb\n", "@@ nowhere\n-b\n+x\n", "a\nx\n"},
		{"hint of an addition that is not there", "a\nb\n", "@@ nowhere\n+x\n", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			ops, err := parsePatch("*** Update File: f\n" + row.hunks)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := ops[0].update(row.text)
			if row.want == "" {
				if err == nil {
					t.Errorf("got %q, want an error", got)
				}
				return
			}
			if err != nil || got != row.want {
				t.Errorf("got %q (%v), want %q", got, err, row.want)
			}
		})
	}
}

// makePatch writes two texts as a V4A patch with the whole file as context.
func makePatch(path, was, now string) string {
	a, _ := splitLines(was)
	b, _ := splitLines(now)
	out := "*** Begin Patch\n*** Update File: " + path + "\n@@\n"
	i := 0
	for _, s := range lineSteps(a, b) {
		switch s.kind {
		case same2:
			out += " " + a[i] + "\n"
			i++
		case gone:
			out += "-" + a[i] + "\n"
			i++
		case added:
			out += "+" + s.text + "\n"
		}
	}
	return out + "*** End of File\n*** End Patch\n"
}

// TestPatchRoundTrip: the patch from one random text to another makes the other of the one.
func TestPatchRoundTrip(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	f := New(&Direct{Dir: func() string { return dir }}, Guard{}, Limits{})
	rnd := rand.New(rand.NewPCG(5, 6))
	text := func() string {
		var b strings.Builder
		b.WriteString("first\n")
		for range 1 + rnd.IntN(12) {
			fmt.Fprintf(&b, "%s%c\n", strings.Repeat(" ", rnd.IntN(3)), 'a'+rune(rnd.IntN(6)))
		}
		b.WriteString("last\n")
		return b.String()
	}
	for range 150 {
		was, now := text(), text()
		put(t, filepath.Join(dir, "f"), was)
		r := f.Patch(t.Context(), makePatch("f", was, now), false)
		if got := get(t, filepath.Join(dir, "f")); r.Error != "" || got != now {
			t.Fatalf("from %q\nto   %q\ngot  %q\n%+v", was, now, got, r)
		}
	}
}

const many = `*** Begin Patch
*** Update File: a
@@
-one
+ONE
*** Add File: new/b
+b
*** Delete File: c
*** Move File: d -> new/e
*** Update File: f
*** Move to: g
@@
-six
+SIX
*** End Patch
`

func manyFiles() map[string]string {
	return map[string]string{"a": "one\n", "c": "three", "d": "\x00four", "f": "six\r\nseven\r\n"}
}

func TestPatchMany(t *testing.T) {
	t.Parallel()
	forHosts(t, func(t *testing.T, dir string, h Host) {
		testkit.WriteTree(t, dir, manyFiles())
		if err := os.Chmod(filepath.Join(dir, "d"), 0o751); err != nil {
			t.Fatal(err)
		}
		r := New(h, Guard{}, Limits{}).Patch(t.Context(), many, false)
		if !r.Success || r.Error != "" {
			t.Fatalf("%+v", r)
		}
		want := map[string]string{"a": "ONE\n", "new/b": "b\n", "new/e": "\x00four", "g": "SIX\r\nseven\r\n"}
		if diff := cmp.Diff(want, testkit.ReadTree(t, dir)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if info, err := os.Stat(filepath.Join(dir, "new/e")); err != nil || info.Mode().Perm() != 0o751 {
			t.Errorf("a moved file's mode: %v %v", info.Mode(), err)
		}
		if len(r.Modified) != 1 || len(r.Created) != 3 || len(r.Deleted) != 3 || !strings.Contains(r.Diff, "-one\n+ONE") {
			t.Errorf("%+v", r)
		}
	})
}

// TestPatchAllOrNothing: one operation that does not fit, and no file changes.
func TestPatchAllOrNothing(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]string{
		"no such text":      "*** Update File: a\n-nope nope\n+x\n",
		"exists":            "*** Add File: c\n+x\n",
		"missing":           "*** Delete File: zz\n",
		"move over a file":  "*** Move File: a -> c\n",
		"update a deletion": "*** Delete File: c\n*** Update File: c\n-three\n+x\n",
		"binary":            "*** Update File: d\n-four\n+x\n",
		"directory":         "*** Add File: .\n+x\n",
		"dots":              "*** Update File: x/../a\n-one\n+x\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := tempDir(t)
			testkit.WriteTree(t, dir, manyFiles())
			f := New(&Direct{Dir: func() string { return dir }}, Guard{}, Limits{})
			r := f.Patch(t.Context(), "*** Add File: fresh\n+x\n"+bad, false)
			if r.Error == "" || r.Success {
				t.Errorf("%+v", r)
			}
			if diff := cmp.Diff(manyFiles(), testkit.ReadTree(t, dir)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// failing fails the k-th write or removal, before or after it happened.
type failing struct {
	Host
	n, at int
	after bool
}

var errInjected = errors.New("injected")

func (f *failing) fail(do func() error) error {
	f.n++
	if f.n != f.at {
		return do()
	}
	if f.after {
		if err := do(); err != nil {
			return err
		}
	}
	return errInjected
}

func (f *failing) Write(ctx context.Context, at Place, data []byte, mode fs.FileMode) (now Place, ok bool, err error) {
	err = f.fail(func() error {
		now, ok, err = f.Host.Write(ctx, at, data, mode)
		return err
	})
	return now, ok, err
}

func (f *failing) Remove(ctx context.Context, at Place) error {
	return f.fail(func() error { return f.Host.Remove(ctx, at) })
}

// TestPatchUndo: whichever write fails, every file is as it was.
func TestPatchUndo(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for k := 1; ; k++ {
			dir := tempDir(t)
			testkit.WriteTree(t, dir, manyFiles())
			if err := os.Chmod(filepath.Join(dir, "c"), 0o640); err != nil {
				t.Fatal(err)
			}
			h := &failing{Host: &Direct{Dir: func() string { return dir }}, at: k, after: after}
			r := New(h, Guard{}, Limits{}).Patch(t.Context(), many, false)
			if r.Success {
				if k != 8 { // a, b, e, g written; c, d, f removed
					t.Fatalf("success with the failure at %d", k)
				}
				break
			}
			if !strings.Contains(r.Error, "injected") || !strings.Contains(r.Error, "as it was") {
				t.Errorf("step %d: %s", k, r.Error)
			}
			if diff := cmp.Diff(manyFiles(), testkit.ReadTree(t, dir)); diff != "" {
				t.Errorf("step %d, after=%v (-want +got):\n%s", k, after, diff)
			}
			if info, err := os.Stat(filepath.Join(dir, "c")); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("step %d: mode %v %v", k, info.Mode(), err)
			}
		}
	}
}

// FuzzParsePatch: no text breaks the parser, and what it takes has a path for every file and
// lines that start with their kind.
func FuzzParsePatch(f *testing.F) {
	f.Add(many, "one\n")
	f.Add("*** Update File: x\n@@ -1 +1 @@\n-\n+\n\\ No newline\n*** End of File", "\n")
	f.Add("*** Begin Patch\n*** Add File: a\n+\n@@\n*** End Patch", "")
	f.Fuzz(func(t *testing.T, patch, text string) {
		ops, err := parsePatch(patch)
		if err != nil {
			return
		}
		for _, op := range ops {
			if op.path == "" {
				t.Fatalf("no path: %+v", op)
			}
			for _, h := range op.hunks {
				for _, l := range h.lines {
					if l == "" || !strings.ContainsRune(" -+", rune(l[0])) {
						t.Fatalf("line %q", l)
					}
				}
			}
			_, _, _ = op.update(text)
		}
	})
}
