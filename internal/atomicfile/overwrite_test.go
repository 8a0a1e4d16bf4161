// SPDX-License-Identifier: MIT

package atomicfile

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOverwrite(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long", chunk)
	for _, row := range []struct{ name, old, new string }{{"shorter", long, "x"}, {"longer", "x", long}, {"same length", "abc", "xyz"}, {"to nothing", "abc", ""}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "f")
			put(t, path, row.old)
			before, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := (Writer{}).Overwrite(path, []byte(row.new)); err != nil {
				t.Fatal(err)
			}
			wantFile(t, path, row.new)
			if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("another file now (%v)", err)
			}
		})
	}
	dir := t.TempDir()
	if err := (Writer{}).Overwrite(filepath.Join(dir, "absent"), []byte("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: got %v", err)
	}
	wantNames(t, dir)
}

// TestOverwriteTorn stops an in-place write, and the way back from it, at every step: what is
// left is always torn between the two contents, and writing either of them mends it.
func TestOverwriteTorn(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("aaa\n", chunk), strings.Repeat("bbb\n", chunk-700)
	for _, row := range []struct{ before, after string }{{a, b}, {b, a}} {
		for k := 1; k <= 8; k++ {
			for back := 1; back <= 8; back++ {
				path := filepath.Join(t.TempDir(), "f")
				put(t, path, row.before)
				one := Writer{Before: (&ops{fail: k}).before}.Overwrite(path, []byte(row.after))
				two := Writer{Before: (&ops{fail: back}).before}.Overwrite(path, []byte(row.before))
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if !Torn(data, []byte(row.before), []byte(row.after)) {
					t.Errorf("stopped at %d (%v), back at %d (%v): not torn", k, one, back, two)
				}
			}
		}
	}
}

func TestTorn(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		content, before, after string
		want                   bool
	}{
		{"old", "old", "new", true},
		{"new", "old", "new", true},
		{"ned", "old", "new", true},
		{"olw", "old", "new", true},
		{"newer", "old", "newer", true},
		{"nld", "old", "newer", true},
		{"olxer", "old", "newer", false},
		{"ne", "old", "newer", false},
		{"newerx", "old", "newer", false},
		{"", "", "new", true},
		{"", "old", "new", false},
		{"n", "", "new", true},
		{"x", "", "new", false},
	} {
		if got := Torn([]byte(row.content), []byte(row.before), []byte(row.after)); got != row.want {
			t.Errorf("Torn(%q, %q, %q) = %v", row.content, row.before, row.after, got)
		}
	}
}

// TestTornProperty: every prefix of an in-place write, on every length, is torn; one foreign
// byte is not.
func TestTornProperty(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	text := func() []byte {
		out := make([]byte, r.IntN(40))
		for i := range out {
			out[i] = "abc"[r.IntN(3)]
		}
		return out
	}
	overlay := func(over, with []byte, n int) []byte { // the first n bytes of with written into over
		out := bytes.Clone(over)
		n = min(n, len(with))
		if n > len(out) {
			out = append(out, make([]byte, n-len(out))...)
		}
		copy(out, with[:n])
		return out
	}
	for range 5000 {
		before, after := text(), text()
		content := overlay(before, after, r.IntN(41))
		if r.IntN(2) == 0 { // interrupted on the way back as well
			content = overlay(content, before, r.IntN(41))
		}
		if !Torn(content, before, after) {
			t.Fatalf("seed %d: %q over %q left %q: not torn", seed, after, before, content)
		}
		if len(content) > 0 {
			content[r.IntN(len(content))] = 'X'
			if Torn(content, before, after) {
				t.Fatalf("seed %d: foreign byte in %q taken for ours", seed, content)
			}
		}
		if Torn(append(overlay(before, after, len(after)), bytes.Repeat([]byte("a"), 40)...), before, after) {
			t.Fatalf("seed %d: text behind both ends taken for ours", seed)
		}
	}
}
