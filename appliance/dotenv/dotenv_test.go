// SPDX-License-Identifier: MIT

package dotenv

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

const bom = "\xef\xbb\xbf"

// shapes are files and what is read from them.
func shapes() []struct {
	name, src string
	want      []Assignment
} {
	kv := func(key, value string) []Assignment { return []Assignment{{Key: key, Value: value, Line: 1}} }
	return []struct {
		name, src string
		want      []Assignment
	}{
		{"plain", "KEY=v\n", kv("KEY", "v")},
		{"no final newline", "KEY=v", kv("KEY", "v")},
		{"empty value", "KEY=\n", kv("KEY", "")},
		{"empty quotes", "KEY=\"\"\n", kv("KEY", "")},
		{"empty file", "", nil},
		{"blank lines", "\n \n\t\n", nil},
		{"spaces", "  KEY  =  v w  \n", kv("KEY", "v w")},
		{"tabs", "\tKEY\t=\tv\t\n", kv("KEY", "v")},
		{"no-break spaces", "\u00a0KEY\u00a0=\u00a0v\u00a0\n", kv("KEY", "v")},
		{"separators of upstream's language", "\x1cKEY=v\x1f\n", kv("KEY", "v")},
		{"export", "export KEY=v\n", kv("KEY", "v")},
		{"export, more blanks", "  export \t KEY = v\n", kv("KEY", "v")},
		{"export is a key too", "export=v\n", kv("export", "v")},
		{"export of nothing", "export =v\n", nil},
		{"exported", "exportKEY=v\n", kv("exportKEY", "v")},
		{"export twice", "export export KEY=v\n", kv("export KEY", "v")},
		{"no key", "=v\n", nil},
		{"no equals sign", "KEY\nexport KEY\n", nil},
		{"equals signs in the value", "KEY=a=b==\n", kv("KEY", "a=b==")},
		{"comment", "# KEY=v\n   #KEY=v\n#\n", nil},
		{"comment behind", "KEY=v # c\n", kv("KEY", "v")},
		{"comment behind a tab", "KEY=v\t#c\n", kv("KEY", "v")},
		{"comment behind a no-break space", "KEY=v\u00a0#c\n", kv("KEY", "v")},
		{"first comment counts", "KEY=a b # c # d\n", kv("KEY", "a b")},
		{"hash inside", "KEY=a#b\n", kv("KEY", "a#b")},
		{"hash inside, then a comment", "KEY=a#b #c\n", kv("KEY", "a#b")},
		{"hash at the start", "KEY=#v\n", kv("KEY", "#v")},
		{"hash at the start, blank before", "KEY= #v\n", kv("KEY", "#v")},
		{"double quotes", "KEY=\"v w\"\n", kv("KEY", "v w")},
		{"double quotes keep blanks", "KEY=\" v \"\n", kv("KEY", " v ")},
		{"single quotes", "KEY='v w'\n", kv("KEY", "v w")},
		{"quotes and spaces", "KEY = \"v\" \n", kv("KEY", "v")},
		{"quotes and a comment", "KEY=\"v\" # c\n", kv("KEY", "v")},
		{"quotes and a glued comment", "KEY=\"v\"#c\n", kv("KEY", "v")},
		{"single quotes and a comment", "KEY='v' # it's\n", kv("KEY", "v")},
		{"hash in quotes", "KEY=\"a # b\"\n", kv("KEY", "a # b")},
		{"hash in quotes and a comment", "KEY='a # b' # \"c\"\n", kv("KEY", "a # b")},
		{"quotes inside", "KEY=a\"b\"\n", kv("KEY", "a\"b\"")},
		{"other quotes inside", "KEY=\"it's\"\n", kv("KEY", "it's")},
		{"escapes", `KEY="a\"b\\c\nd"` + "\n", kv("KEY", `a"b\c\nd`)},
		{"escaped backslash before the quote", `KEY="a\\"` + "\n", kv("KEY", `a\`)},
		{"escaped quote before the end", `KEY="a\"` + "\n", kv("KEY", `"a\"`)},
		{"no escapes in single quotes", `KEY='a\'` + "\n", kv("KEY", `a\`)},
		{"backslash", `KEY=C:\new` + "\n", kv("KEY", `C:\new`)},
		{"unterminated", "KEY=\"v\n", kv("KEY", "\"v")},
		{"unterminated with a hash", "KEY='v # c\n", kv("KEY", "'v # c")},
		{"lone quote", "KEY=\"\n", kv("KEY", "\"")},
		{"text behind the quote", "KEY=\"v\" w\n", kv("KEY", "\"v\" w")},
		{"text glued to the quote", "KEY='v'w\n", kv("KEY", "'v'w")},
		{"quotes twice", "KEY=\"v\" \"w\"\n", kv("KEY", "\"v\" \"w\"")},
		{"variables stay", "KEY=${HOME}/$X\n", kv("KEY", "${HOME}/$X")},
		{"crlf", "KEY=v\r\nB=w\r\n", []Assignment{{Key: "KEY", Value: "v", Line: 1}, {Key: "B", Value: "w", Line: 2}}},
		{"crlf and quotes", "KEY=\"v\"\r\n", kv("KEY", "v")},
		{"lone cr", "KEY=v\rB=w\r\r\nC=x", []Assignment{{Key: "KEY", Value: "v", Line: 1}, {Key: "B", Value: "w", Line: 2}, {Key: "C", Value: "x", Line: 4}}},
		{"bom", bom + "KEY=v\n", kv("KEY", "v")},
		{"bom and a comment", bom + "# KEY=v\nB=w\n", []Assignment{{Key: "B", Value: "w", Line: 2}}},
		{"bom only", bom, nil},
		{"second bom is part of the key", bom + bom + "KEY=v\n", kv(bom+"KEY", "v")},
		{"unicode", "KEY=值 😀 # 注\n名前=ü\n", []Assignment{{Key: "KEY", Value: "值 😀", Line: 1}, {Key: "名前", Value: "ü", Line: 2}}},
		{"latin-1", "KEY=caf\xe9 # \xfc\nB=\"\xe9\"\n", []Assignment{{Key: "KEY", Value: "caf\xe9", Line: 1}, {Key: "B", Value: "\xe9", Line: 2}}},
		{"duplicates", "KEY=a\nB=x\nKEY=b\n", []Assignment{{Key: "KEY", Value: "a", Line: 1}, {Key: "B", Value: "x", Line: 2}, {Key: "KEY", Value: "b", Line: 3}}},
		{"case matters", "key=a\nKEY=b\n", []Assignment{{Key: "key", Value: "a", Line: 1}, {Key: "KEY", Value: "b", Line: 2}}},
		{"one line at a time", "KEY=\"a\nb\"\n", []Assignment{{Key: "KEY", Value: "\"a", Line: 1}}},
		{"blank in the key", "MY KEY=v\n", kv("MY KEY", "v")},
		{"dots and dashes in the key", "my.key-1=v\n", kv("my.key-1", "v")},
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range shapes() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, err := Parse([]byte(tt.src))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, f.All(), cmpopts.IgnoreUnexported(Assignment{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := string(f.Bytes()); got != tt.src {
				t.Errorf("Bytes: got %q, want %q", got, tt.src)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"utf-16 little-endian": "\xff\xfeK\x00=\x00v\x00",
		"utf-16 big-endian":    "\xfe\xff\x00K\x00=\x00v",
		"utf-16 without a bom": "K\x00=\x00v\x00\n\x00",
		"utf-32 little-endian": "\xff\xfe\x00\x00K\x00\x00\x00",
		"utf-32 big-endian":    "\x00\x00\xfe\xff\x00\x00\x00K",
		"utf-16 bom alone":     "\xff\xfe",
		"padded with nul":      "KEY=v\n\x00\x00\x00",
		"nul inside":           "KEY=a\x00b\n",
	} {
		if f, err := Parse([]byte(src)); !errors.Is(err, ErrNotText) || f != nil {
			t.Errorf("%s: got %v, %v, want ErrNotText", name, f, err)
		}
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte("Z=0\nA=1\nB=\nA=2\n# C=3\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		key, want string
		ok        bool
	}{{"Z", "0", true}, {"A", "2", true}, {"B", "", true}, {"C", "", false}, {"a", "", false}} {
		if got, ok := f.Lookup(tt.key); got != tt.want || ok != tt.ok {
			t.Errorf("Lookup(%s): got %q, %v, want %q, %v", tt.key, got, ok, tt.want, tt.ok)
		}
	}
	f.All()[0].Key = "X"
	if f.All()[0].Key != "Z" {
		t.Error("All: the caller's change reached the file")
	}
}

func byKey(key string) func(Assignment) bool {
	return func(a Assignment) bool { return a.Key == key }
}

func TestRemove(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, before, after string }{
		{"first", "K=v\nA=1\n", "A=1\n"},
		{"middle", "A=1\nK=v\nB=2\n", "A=1\nB=2\n"},
		{"last", "A=1\nK=v\n", "A=1\n"},
		{"sole", "K=v\n", ""},
		{"no final newline, last", "A=1\nK=v", "A=1"},
		{"no final newline, first", "K=v\nA=1", "A=1"},
		{"no final newline, sole", "K=v", ""},
		{"no final newline, last two", "A=1\nK=v\nK=w", "A=1"},
		{"no final newline, all", "K=v\nK=w", ""},
		{"no final newline, comment before", "# c\nK=v", "# c"},
		{"all duplicates", "K=1\nA=1\nexport K = \"2\"\nK=\n", "A=1\n"},
		{"comments stay", "# K=v\n#K=v\nK=v # goes\n# after\n", "# K=v\n#K=v\n# after\n"},
		{"blank lines stay", "A=1\n\nK=v\n\nB=2\n", "A=1\n\n\nB=2\n"},
		{"like keys stay", "KK=1\nk=2\nMY K=3\nK\nK=v\n", "KK=1\nk=2\nMY K=3\nK\n"},
		{"crlf", "A=1\r\nK=v\r\nB=2\r\n", "A=1\r\nB=2\r\n"},
		{"crlf, no final newline", "A=1\r\nK=v", "A=1"},
		{"lone cr", "A=1\rK=v\rB=2", "A=1\rB=2"},
		{"lone cr, no final newline", "A=1\rK=v", "A=1"},
		{"mixed", "A=1\nK=v\r\nB=2\rK=w\nC=3", "A=1\nB=2\rC=3"},
		{"bom", bom + "K=v\nA=1\n", bom + "A=1\n"},
		{"bom, sole", bom + "K=v", bom},
		{"bytes of other encodings stay", "A=caf\xe9\nK=\xe9\nB=\xff\n", "A=caf\xe9\nB=\xff\n"},
		{"odd lines stay", "what is this\n  A = ' 1\nK=v\n=x\n", "what is this\n  A = ' 1\n=x\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, err := Parse([]byte(tt.before))
			if err != nil {
				t.Fatal(err)
			}
			g, hit, err := f.Remove(byKey("K"))
			if err != nil || len(hit) == 0 {
				t.Fatalf("got %v, %v, want a hit", hit, err)
			}
			if got := string(g.Bytes()); got != tt.after {
				t.Errorf("got %q, want %q", got, tt.after)
			}
			if _, ok := g.Lookup("K"); ok {
				t.Error("K is still there")
			}
			again, hit, err := g.Remove(byKey("K"))
			if err != nil || len(hit) != 0 || again != g {
				t.Errorf("second time: got %v, %v, want nothing and the same file", hit, err)
			}
			if string(f.Bytes()) != tt.before {
				t.Error("the first file changed")
			}
		})
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, before, after string }{
		{"plain", "A=1\nK=v\nB=2\n", "A=1\nK=\nB=2\n"},
		{"quotes", "K=\"v\"\n", "K=\n"},
		{"spaces stay", "  export K = v  \n", "  export K =   \n"},
		{"comment goes with the value", "K=v # c\n", "K=\n"},
		{"unterminated", "K=\"v # c\n", "K=\n"},
		{"no final newline", "A=1\nK=v", "A=1\nK="},
		{"crlf", "K=v\r\nA=1\r\n", "K=\r\nA=1\r\n"},
		{"bom", bom + "K=v\n", bom + "K=\n"},
		{"duplicates", "K=1\nK=2\n", "K=\nK=\n"},
		{"empty already", "K=\nA=1\n", "K=\nA=1\n"},
		{"latin-1", "K=caf\xe9\nA=\xe9\n", "K=\nA=\xe9\n"},
		{"no-break spaces", "K=\u00a0v\u00a0\n", "K=\u00a0\u00a0\n"},
		{"comment line stays", "# K=v\nK=v\n", "# K=v\nK=\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, err := Parse([]byte(tt.before))
			if err != nil {
				t.Fatal(err)
			}
			g, hit, err := f.Empty(byKey("K"))
			if err != nil || len(hit) == 0 {
				t.Fatalf("got %v, %v, want a hit", hit, err)
			}
			if got := string(g.Bytes()); got != tt.after {
				t.Errorf("got %q, want %q", got, tt.after)
			}
			for _, a := range g.All() {
				if a.Key == "K" && a.Value != "" {
					t.Errorf("got value %q, want none", a.Value)
				}
			}
			if len(g.All()) != len(f.All()) {
				t.Errorf("got %d assignments, want %d", len(g.All()), len(f.All()))
			}
		})
	}
}

// TestRemoveByValue is how the ladder uses it: of mixed duplicates only those with the value.
func TestRemoveByValue(t *testing.T) {
	t.Parallel()
	src := "R=python3.13\nexport R = \"node24\" # c\n# R=node24\nR='node24'\nR=node24 x\nR=node24\n"
	f, err := Parse([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	g, hit, err := f.Remove(func(a Assignment) bool { return a.Key == "R" && a.Value == "node24" })
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(g.Bytes()), "R=python3.13\n# R=node24\nR=node24 x\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var lines []int
	for _, a := range hit {
		lines = append(lines, a.Line)
	}
	if diff := cmp.Diff([]int{2, 4, 6}, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestCorpus(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(testkit.Corpus(t), "*", ".env"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files, %v, want some", len(files), err)
	}
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Parse(src)
		if err != nil || len(f.All()) == 0 {
			t.Fatalf("%s: got %v, %v, want assignments", path, f, err)
		}
		agrees(t, string(src))
		for _, a := range f.All() {
			removes(t, string(src), a.Key)
			if strings.ContainsAny(a.Value, "\r\n") {
				t.Errorf("%s line %d: a value holds a line break", path, a.Line)
			}
		}
	}
}
