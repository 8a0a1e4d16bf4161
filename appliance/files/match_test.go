// SPDX-License-Identifier: MIT

package files

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func sub(t *testing.T, text, old, with string, all bool) (string, strategy, error) {
	t.Helper()
	return substitute(text, form{}, ReplaceRequest{Old: old, New: with, All: all})
}

func TestLadder(t *testing.T) {
	t.Parallel()
	code := "def f():\n    if x:\n        return “one”\n    return 2  \n\n\tend\n"
	for _, row := range []struct {
		name, text, old, with, want string
		how                         strategy
	}{
		{"exact", "a b c", "b", "X", "a X c", exact},
		{"exact inside a line, to nothing", "a b c", " b", "", "a c", exact},
		{"blanks at the ends of lines", code, "    return 2\n\n\tend", "    return 3\n\n\tend", strings.Replace(code, "return 2  ", "return 3", 1), indented},
		{"other indentation", code, "if x:\n    return “one”", "if x:\n    y()\n    return “one”", "def f():\n    if x:\n        y()\n        return “one”\n    return 2  \n\n\tend\n", indented},
		{"the place with the right indentation", "if a {\n  x\n    y\n}\nif a {\n  x\n  y\n}\n", "  x\n  y\n} ", "  z\n}", "if a {\n  x\n    y\n}\nif a {\n  z\n}\n", indented},
		{"tabs for blanks", "\tif x {\n\t\ty()\n\t}\n", "    if x {\n        y()\n    }", "    if x {\n        z()\n    }", "\tif x {\n\t\tz()\n\t}\n", trimmed},
		{"blanks inside a line", "x  =   f( 1 )\n", "x = f( 1 )", "x = f( 2 )", "x  =   f( 2 )\n", spaced},
		{"part of a line with other blanks", "let a  =\t1; let b = 2;\n", "a = 1;", "a = 3;", "let a  =\t3; let b = 2;\n", spaced},
		{"typographic quotes stay", "say “hello” – now…\n", `say "hello" - now...`, `say "goodbye" - now...`, "say “goodbye” – now…\n", unicoded},
		{"no-break spaces stay", "prix : 10\u00a0000\u202f€\n", "prix : 10 000 €", "prix : 20 000 €", "prix : 20\u00a0000\u202f€\n", unicoded},
		{"newline written as an escape", "a\nb\n", `a\nb`, `a\nc`, "a\nc\n", unescaped},
		{"quote written as an escape", `say "x"`, `say \"x\"`, `say \"y\"`, `say "y"`, unescaped},
		{"anchors", "begin {\n  one = compute(1, 2)\n  two = compute(3, 4)\n} end\n", "begin {\n  one = compute(1, 2);\n  two = compute(3, 4);\n} end", "begin {\n} end", "begin {\n} end\n", anchored},
		{"CR LF in a file with both", "a\r\nb\r\nc\n", "a\nb", "a\nx\nb", "a\r\nx\r\nb\r\nc\n", indented},
		{"newline at the end of old", "a\n b \nc\n", "b\n", "x\n", "a\n x\nc\n", trimmed},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, how, err := sub(t, row.text, row.old, row.with, false)
			if err != nil || got != row.want {
				t.Fatalf("got %q (%v)\nwant %q", got, err, row.want)
			}
			if how != row.how && row.name != "newline at the end of old" {
				t.Errorf("found by %s, want %s", how, row.how)
			}
		})
	}
}

// TestAmbiguous: no strategy guesses; the lines are named.
func TestAmbiguous(t *testing.T) {
	t.Parallel()
	block := "if a {\n  one(1)\n  two(2)\n}\n"
	for _, row := range []struct {
		name, text, old string
		lines           []int
	}{
		{"exact", "x\ny\nx\n", "x", []int{1, 3}},
		{"trimmed", "  x = 1  \ny\n\tx = 1\n", "x = 1 \n", []int{1, 3}},
		{"spaces", "a  b\na   b\n", "a b", []int{1, 2}},
		{"typography", "“a”\n„a”\n", `"a"`, []int{1, 2}},
		{"anchors", block + block, "if a {\n  one(1);\n  two(2);\n}", []int{1, 5}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := sub(t, row.text, row.old, "new text", false)
			var a *AmbiguousError
			if !errors.As(err, &a) || !slices.Equal(a.Lines, row.lines) {
				t.Fatalf("got %v, want lines %v", err, row.lines)
			}
			if !strings.Contains(err.Error(), "line ") {
				t.Errorf("no line in %q", err)
			}
		})
	}
	if _, _, err := sub(t, block+block, "if a {\n  one(1);\n  two(2);\n}", "x", true); err == nil {
		t.Error("replace_all took places that only look alike")
	}
	if got, _, err := sub(t, "x\ny\nx\n", "x", "z", true); err != nil || got != "z\ny\nz\n" {
		t.Errorf("replace_all: %q %v", got, err)
	}
}

func TestSubstituteRefuses(t *testing.T) {
	t.Parallel()
	text := "alpha := compute(1)\nbeta := \"it's\"\n"
	for name, row := range map[string]struct{ old, with, say string }{
		"empty":        {"", "x", "empty"},
		"blank":        {" \n ", "x", "blank"},
		"same":         {"nothing like it", "nothing like it", "same"},
		"not there":    {"alpha := compute(2)", "x", "line 1: alpha"},
		"quotes drift": {"beta :=  \"it\\'s\"", "gamma := \"it\\'s\"", ""},
	} {
		got, _, err := sub(t, text, row.old, row.with, false)
		if err == nil && name == "quotes drift" && got == "alpha := compute(1)\ngamma := \"it's\"\n" {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), row.say) {
			t.Errorf("%s: got %q, %v, want an error with %q", name, got, err, row.say)
		}
	}
	if got, _, err := sub(t, "the new value is here\n", "the old value", "the new value is here", false); err != nil || got != "the new value is here\n" {
		t.Errorf("an edit that was made before: %q %v", got, err)
	}
}

// TestReplaceTouchesOnlyThePlace: around the place, every byte stays, whatever it is.
func TestReplaceTouchesOnlyThePlace(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	alphabet := []string{"a", "b", " ", "  ", "\t", "\n", "\r\n", "“", "’", "é", "\xff", "x = 1;\n", "    return\n", "\u00a0"}
	random := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(alphabet[rnd.IntN(len(alphabet))])
		}
		return b.String()
	}
	for range 1000 {
		before, after := random(rnd.IntN(40)), random(rnd.IntN(40))
		old, with := "UNIQUE"+random(rnd.IntN(10))+"MARK", random(rnd.IntN(10))+"new"
		got, how, err := sub(t, before+old+after, old, with, false)
		if err != nil || how != exact || got != before+with+after {
			t.Fatalf("%q in %q: got %q by %s (%v)", old, before+old+after, got, how, err)
		}
		// The same through a stricter reader of blanks: only lines of the place may change.
		lines := before + "\n  UNIQUE one\n\tUNIQUE two  \n" + after
		got, _, err = sub(t, lines, "UNIQUE one\nUNIQUE two\n", "UNIQUE one\nUNIQUE three\n", false)
		if err != nil || !strings.HasPrefix(got, before+"\n  UNIQUE one\n") || !strings.HasSuffix(got, "UNIQUE three\n"+after) {
			t.Fatalf("in %q: got %q (%v)", lines, got, err)
		}
	}
}

// FuzzFind: no text makes the ladder fail otherwise than with an error, and an edit is the
// file with the places cut out and the new text put in.
func FuzzFind(f *testing.F) {
	f.Add("a\n b\nc", "b", "x", false)
	f.Add("“q”…\u00a0", `"q"... `, "z", true)
	f.Add("{\n a\n b\n}", "{\n c\n b\n}", "", false)
	f.Add("\xff\n\x00", "\xff", "\n", false)
	f.Fuzz(func(t *testing.T, text, old, with string, all bool) {
		edits, err := find(text, old, with, all, nil)
		if err != nil {
			return
		}
		last, size := 0, len(text)
		for _, e := range edits {
			if e.at.from < last || e.at.to < e.at.from || e.at.to > len(text) {
				t.Fatalf("places out of order: %+v", edits)
			}
			last = e.at.to
			size += len(e.text) - (e.at.to - e.at.from)
		}
		if got := apply(text, edits); len(got) != size {
			t.Fatalf("%d bytes, want %d", len(got), size)
		}
		if !all && len(edits) != 1 {
			t.Fatalf("%d edits", len(edits))
		}
	})
}

// FuzzForm: what decodes encodes to the same bytes.
func FuzzForm(f *testing.F) {
	for _, s := range []string{"", "a\r\nb\r\n", "\ufeffa\n", "\xff\xfea\x00\n\x00", "\xfe\xff\x00a", "a\x00b\x00", "a\rb\r\n", "a\r\r\n", "\xff\xfe\x00\xd8"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, form, err := decode(data)
		if err != nil {
			return
		}
		if got := form.encode(text); string(got) != string(data) {
			t.Fatalf("%q became %q (%s)", data, got, form)
		}
	})
}
