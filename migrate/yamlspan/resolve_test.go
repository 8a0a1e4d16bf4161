// SPDX-License-Identifier: MIT

package yamlspan

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// TestResolvePlain holds what PyYAML's safe loader, upstream's reader, makes of plain text.
func TestResolvePlain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want any
	}{
		{"256000", int64(256000)},
		{"256_000", int64(256000)},
		{"0x3E800", int64(256000)},
		{"256000.0", 256000.0},
		{"2.56e+5", 256000.0},
		{"2.56e5", "2.56e5"},
		{"256e3", "256e3"},
		{"1,000", "1,000"},
		{"yes", true},
		{"Yes", true},
		{"YES", true},
		{"yEs", "yEs"},
		{"no", false},
		{"No", false},
		{"NO", false},
		{"on", true},
		{"On", true},
		{"ON", true},
		{"off", false},
		{"Off", false},
		{"OFF", false},
		{"true", true},
		{"True", true},
		{"TRUE", true},
		{"tRUE", "tRUE"},
		{"false", false},
		{"False", false},
		{"FALSE", false},
		{"y", "y"},
		{"n", "n"},
		{"Y", "Y"},
		{"N", "N"},
		{"", nil},
		{"~", nil},
		{"null", nil},
		{"Null", nil},
		{"NULL", nil},
		{"nULL", "nULL"},
		{"none", "none"},
		{"None", "None"},
		{"0", int64(0)},
		{"-0", int64(0)},
		{"00", int64(0)},
		{"0_", int64(0)},
		{"017", int64(15)},
		{"0_7", int64(7)},
		{"-017", int64(-15)},
		{"08", "08"},
		{"0o17", "0o17"},
		{"0b101", int64(5)},
		{"-0b11", int64(-3)},
		{"0b2", "0b2"},
		{"0b_", "0b_"},
		{"0x", "0x"},
		{"0x_", "0x_"},
		{"0x1F", int64(31)},
		{"-0x1f", int64(-31)},
		{"+0x1", int64(1)},
		{"0xg", "0xg"},
		{"+12", int64(12)},
		{"-1_0", int64(-10)},
		{"1__0", int64(10)},
		{"1_", int64(1)},
		{"_1", "_1"},
		{"--1", "--1"},
		{"-", "-"},
		{"+", "+"},
		{"1:30", int64(90)},
		{"1:30:00", int64(5400)},
		{"190:20:30", int64(685230)},
		{"-1:30", int64(-90)},
		{"1_0:30", int64(630)},
		{"1:60", "1:60"},
		{"01:30", "01:30"},
		{"0:30", "0:30"},
		{"1:30:", "1:30:"},
		{"1:30.5", 90.5},
		{"20:30.15", 1230.15},
		{"-1:30.", -90.0},
		{"0:30.5", 30.5},
		{"1:60.5", "1:60.5"},
		{".5", 0.5},
		{"-.5", "-.5"},
		{"+.5", "+.5"},
		{"1.", 1.0},
		{"0.", 0.0},
		{"1.5e+3", 1500.0},
		{"1.5E-3", 0.0015},
		{"1.5e3", "1.5e3"},
		{"1_000.5", 1000.5},
		{"5_.5", 5.5},
		{"1_.", 1.0},
		{"._5", "._5"},
		{".", "."},
		{"1.2.3", "1.2.3"},
		{"v1", "v1"},
		{"1e3", "1e3"},
		{".inf", math.Inf(1)},
		{".Inf", math.Inf(1)},
		{"+.INF", math.Inf(1)},
		{"-.inf", math.Inf(-1)},
		{"-.INF", math.Inf(-1)},
		{".iNF", ".iNF"},
		{"inf", "inf"},
		{"9223372036854775807", int64(math.MaxInt64)},
		{"9223372036854775808", 9223372036854775808.0},
		{"-9223372036854775809", -9223372036854775808.0},
		{"99999999999:59:59", "99999999999:59:59"},
		{"node24", "node24"},
		{"docker.io/x:y", "docker.io/x:y"},
		{"é", "é"},
	} {
		n := &Node{Kind: Scalar, Style: Plain, Value: tt.text}
		if got := Resolve(n); got != tt.want {
			t.Errorf("Resolve(%q): got %T %v, want %T %v", tt.text, got, got, tt.want, tt.want)
		}
		for _, style := range []Style{SingleQuoted, DoubleQuoted, Literal, Folded} {
			if got := Resolve(&Node{Kind: Scalar, Style: style, Value: tt.text}); got != tt.text {
				t.Errorf("Resolve(%q) in quotes: got %T %v, want the text", tt.text, got, got)
			}
		}
	}
	for _, s := range []string{".nan", ".NaN", ".NAN"} {
		if v, ok := Resolve(&Node{Kind: Scalar, Style: Plain, Value: s}).(float64); !ok || !math.IsNaN(v) {
			t.Errorf("Resolve(%q): got %v, want not a number", s, v)
		}
	}
}

func TestResolveTags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		tag   string
		style Style
		text  string
		want  any
	}{
		{"!!str", Plain, "5", "5"},
		{"!!int", DoubleQuoted, "5", int64(5)},
		{"!!bool", DoubleQuoted, "yes", true},
		{"!!null", Plain, "", nil},
		{"!!float", SingleQuoted, "1.5", 1.5},
		{"!", Plain, "5", int64(5)},
		{"!", DoubleQuoted, "5", "5"},
	} {
		n := &Node{Kind: Scalar, Style: tt.style, Tag: tt.tag, Value: tt.text}
		if got := Resolve(n); got != tt.want {
			t.Errorf("Resolve(%s %q): got %T %v, want %T %v", tt.tag, tt.text, got, got, tt.want, tt.want)
		}
	}
	for _, n := range []*Node{{Kind: Scalar, Tag: "!secret", Value: "5"}, {Kind: Mapping}, {Kind: Alias, Value: "x"}, nil} {
		if got := Resolve(n); got != any(n) {
			t.Errorf("Resolve(%v): got %v, want the node itself", n, got)
		}
	}
}

func TestIsInt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		v    any
		want bool
	}{
		{int64(24), true}, {24.0, true}, {int64(25), false}, {24.5, false}, {"24", false}, {true, false}, {nil, false}, {math.NaN(), false},
	} {
		if got := IsInt(tt.v, 24); got != tt.want {
			t.Errorf("IsInt(%T %v, 24): got %v, want %v", tt.v, tt.v, got, tt.want)
		}
	}
	if IsInt(true, 1) || IsInt(false, 0) {
		t.Error("IsInt: got true for a boolean, want false")
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"concise", "concise"},
		{"a.b/c_d@e+f-g", "a.b/c_d@e+f-g"},
		{"/usr/bin", "/usr/bin"},
		{"_x", "_x"},
		{"", `""`},
		{" x", `" x"`},
		{"x ", `"x "`},
		{"a b", `"a b"`},
		{"a: b", `"a: b"`},
		{"a:b", `"a:b"`},
		{"a #b", `"a #b"`},
		{"yes", `"yes"`},
		{"On", `"On"`},
		{"n", `"n"`},
		{"Y", `"Y"`},
		{"null", `"null"`},
		{"NULL", `"NULL"`},
		{"~", `"~"`},
		{"tRuE", `"tRuE"`},
		{"256000", `"256000"`},
		{"0x1f", `"0x1f"`},
		{"1:30", `"1:30"`},
		{".inf", `".inf"`},
		{"-x", `"-x"`},
		{"node24", "node24"},
		{"it's", `"it's"`},
		{`say "x"`, `"say \"x\""`},
		{`C:\new`, `"C:\\new"`},
		{"a\nb\tc\r", `"a\nb\tc\r"`},
		{"\x00\x07\x1b\x7f", `"\u0000\u0007\u001b\u007f"`},
		{"\u0085\u009f\u00a0\u2028\u2029\ufeff", `"\u0085\u009f\u00a0\u2028\u2029\ufeff"`},
		{"名前 😀", `"名前 😀"`},
		{"${VAR}", `"${VAR}"`},
		{"<<", `"<<"`},
		{"=", `"="`},
		{"---", `"---"`},
		{"*x", `"*x"`},
		{"[x]", `"[x]"`},
	} {
		if got := Quote(tt.text); got != tt.want {
			t.Errorf("Quote(%q): got %s, want %s", tt.text, got, tt.want)
		}
		quoteReread(t, tt.text)
	}
}

// quoteReread checks that Quote's text is read as the same string by both parsers: as a
// value, as a key and in brackets; and that quotes it uses are JSON.
func quoteReread(t *testing.T, text string) {
	t.Helper()
	q := Quote(text)
	for _, src := range []string{q, "a: " + q + "\n", "- " + q, "a: [x, " + q + "]\n", q + ": 1\n", "{" + q + ": 1}\n"} {
		if strings.Contains(src, q+": ") && utf8.RuneCountInString(q) > maxKey {
			continue
		}
		_, tree := parseBoth(t, src)
		for tree.Kind != Scalar {
			switch {
			case tree.Kind == Mapping && strings.Contains(src, q+": "):
				tree = tree.Keys[0]
			case tree.Kind == Mapping:
				tree = tree.Values[0]
			default:
				tree = tree.Values[len(tree.Values)-1]
			}
		}
		if tree.Text() != text || tree.Scalar != "text "+text {
			t.Errorf("Quote(%q) in %q: got %q, want the same text", text, src, tree.Scalar)
		}
	}
	if q[0] == '"' {
		var got string
		if err := json.Unmarshal([]byte(q), &got); err != nil || got != text {
			t.Errorf("Quote(%q) as JSON: got %q, %v", text, got, err)
		}
	}
}

func TestQuoteRandom(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune("aZ09 .:#-_'\"\\\n\t\r,[]{}&*!|>%@`?~=/\x00\x1b\x7f\u0085\u00a0é\u2028\u2029\ufeff\uffff\ufffd你😀")
	for range 400 {
		text := make([]rune, r.IntN(9))
		for i := range text {
			text[i] = alphabet[r.IntN(len(alphabet))]
		}
		quoteReread(t, string(text))
	}
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "x", "yes", "a: b # c", "\x00\u2028\ufeff", `\"`, "1:30", "\n  x\n", "é😀"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			t.Skip()
		}
		quoteReread(t, text)
	})
}

func TestScalarTree(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"5", "int 5"}, {"5.0", "float 5"}, {`"5"`, "text 5"}, {"yes", "bool true"}, {"", "null"}, {"~", "null"}, {"'x y'", "text x y"}, {"!foo x", "!foo x"}, {"0x10", "int 16"},
	} {
		tree, err := ScalarTree(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, tree.Scalar); diff != "" {
			t.Errorf("ScalarTree(%q) (-want +got):\n%s", tt.text, diff)
		}
	}
	if _, err := ScalarTree(`"x`); err == nil {
		t.Error("ScalarTree of half a quote: got no error")
	}
}
