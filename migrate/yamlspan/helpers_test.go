// SPDX-License-Identifier: MIT

package yamlspan

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// p is a path written as "a/b/c".
func p(path string) []string { return strings.Split(path, "/") }

// parseBoth reads src with both parsers, which must agree.
func parseBoth(t testing.TB, src string) (*Doc, *Tree) {
	t.Helper()
	d, err := Parse([]byte(src))
	if err != nil {
		t.Fatalf("Parse: got %v, want no error, for\n%s", err, src)
	}
	tree, err := ReadTree([]byte(src))
	if err != nil {
		t.Fatalf("ReadTree: got %v, want no error, for\n%s", err, src)
	}
	if err := d.Agrees(tree); err != nil {
		t.Fatalf("Agrees: got %v, want no error, for\n%s", err, src)
	}
	return d, tree
}

// editedTo checks the result of an edit: its bytes, that both parsers agree on it, and that
// its Edits, put into the first bytes, give it.
func editedTo(t testing.TB, before string, d *Doc, err error, want string) {
	t.Helper()
	if err != nil {
		t.Fatalf("got error %v, want\n%s", err, want)
	}
	if got := string(d.Bytes()); got != want {
		t.Fatalf("bytes differ (-want +got):\n%s\ngot %q\nwant %q", cmp.Diff(want, got), got, want)
	}
	parseBoth(t, want)
	replayed(t, before, d)
}

// replayed checks that d's Edits lead from the first bytes to d's.
func replayed(t testing.TB, before string, d *Doc) {
	t.Helper()
	var out []byte
	at := 0
	for _, e := range d.Edits(len(before)) {
		if e.From < at || e.To < e.From || e.To > len(before) {
			t.Fatalf("edit %+v: got a range out of order or out of bounds, want ascending ranges", e)
		}
		out = append(append(out, before[at:e.From]...), e.Text...)
		at = e.To
	}
	out = append(out, before[at:]...)
	if !bytes.Equal(out, d.Bytes()) {
		t.Fatalf("replayed edits: got\n%s\nwant\n%s", out, d.Bytes())
	}
}

// refused checks that err is an *EditError at a line with a message that says why.
func refused(t testing.TB, err error, line int, why string) {
	t.Helper()
	var ee *EditError
	if !errors.As(err, &ee) {
		t.Fatalf("got %v, want an *EditError at line %d", err, line)
	}
	if ee.Line != line || !strings.Contains(ee.Error(), why) {
		t.Errorf("got %q, want line %d and %q", ee.Error(), line, why)
	}
}

// crlf is text with Windows line endings.
func crlf(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
