// SPDX-License-Identifier: MIT

package files

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func tree() map[string]string {
	return map[string]string{
		"a.go": "package a\n\nfunc One() {}\n", "b.py": "def one():\n    return 1\n", "sub/c.go": "func two() {}\n// func three\n", "sub/deep/d.txt": "one\r\ntwo\r\nthree\r\n",
		".hidden/x.go": "func hidden() {}\n", ".dot": "func dot\n", "node_modules/m/i.js": "func module\n", "bin": "func\x00binary\n", "odd\nname-3-x.txt": "func odd\n", "we ird:1:x": "func weird\n",
		"ünï.txt": "func ümläut\n",
	}
}

func rel(dir string, r SearchResult) []string {
	var out []string
	for _, m := range r.Matches {
		out = append(out, fmt.Sprintf("%s:%d:%s", strings.TrimPrefix(m.Path, dir+"/"), m.Line, m.Content))
	}
	for _, f := range r.Files {
		out = append(out, strings.TrimPrefix(f, dir+"/"))
	}
	for f, n := range r.Counts {
		out = append(out, fmt.Sprintf("%s=%d", strings.TrimPrefix(f, dir+"/"), n))
	}
	slices.Sort(out)
	return out
}

// TestSearch: every host finds the same, with any of the tools that it has.
func TestSearch(t *testing.T) {
	t.Parallel()
	forHosts(t, func(t *testing.T, dir string, h Host) {
		testkit.WriteTree(t, dir, tree())
		f := New(h, Guard{}, Limits{})
		for _, row := range []struct {
			q    SearchRequest
			want []string
		}{
			{SearchRequest{Pattern: `func \w+\(\)`}, []string{"a.go:3:func One() {}", "sub/c.go:1:func two() {}"}},
			{SearchRequest{Pattern: `^func (odd|weird|ü)`}, []string{"odd\nname-3-x.txt:1:func odd", "we ird:1:x:1:func weird", "ünï.txt:1:func ümläut"}},
			{SearchRequest{Pattern: `return \d$`}, []string{"b.py:2:    return 1"}},
			{SearchRequest{Pattern: "two$"}, []string{"sub/deep/d.txt:2:two"}},
			{SearchRequest{Pattern: "two", Glob: "*.txt"}, []string{"sub/deep/d.txt:2:two"}},
			{SearchRequest{Pattern: "two", Glob: "*.{go,py}"}, []string{"sub/c.go:1:func two() {}"}},
			{SearchRequest{Pattern: "two", Glob: "sub/*.go"}, []string{"sub/c.go:1:func two() {}"}},
			{SearchRequest{Pattern: "(?i)ONE", Mode: "files_only"}, []string{"a.go", "b.py", "sub/deep/d.txt"}},
			{SearchRequest{Pattern: "func", Path: "sub", Mode: "count"}, []string{"sub/c.go=2"}},
			{SearchRequest{Pattern: "func", Path: "sub/c.go"}, []string{"sub/c.go:1:func two() {}", "sub/c.go:2:// func three"}},
			{SearchRequest{Pattern: "two", Path: "sub/deep", Context: 1}, []string{"sub/deep/d.txt:1:one", "sub/deep/d.txt:2:two", "sub/deep/d.txt:3:three"}},
			{SearchRequest{Pattern: "func", Path: ".hidden"}, []string{".hidden/x.go:1:func hidden() {}"}},
			{SearchRequest{Pattern: "nothing at all"}, nil},
			{SearchRequest{Pattern: "*.go", Files: true}, []string{"a.go", "sub/c.go"}},
			{SearchRequest{Pattern: "*", Files: true, Path: "sub"}, []string{"sub/c.go", "sub/deep/d.txt"}},
			{SearchRequest{Pattern: "deep/*.txt", Files: true}, []string{"sub/deep/d.txt"}},
			{SearchRequest{Pattern: "*name*", Files: true}, []string{"odd\nname-3-x.txt"}},
		} {
			r := f.Search(t.Context(), row.q)
			if diff := cmp.Diff(row.want, rel(dir, r)); diff != "" || r.Error != "" {
				t.Errorf("%+v: %s (-want +got):\n%s", row.q, r.Error, diff)
			}
		}
		for pattern, say := range map[string]string{"": "empty", "f(": "regular expression"} {
			if r := f.Search(t.Context(), SearchRequest{Pattern: pattern}); !strings.Contains(r.Error, say) {
				t.Errorf("%q: %+v", pattern, r)
			}
		}
		if r := f.Search(t.Context(), SearchRequest{Pattern: "x", Path: "nope"}); !strings.Contains(r.Error, "not found") {
			t.Errorf("%+v", r)
		}
	})
}

func TestSearchPages(t *testing.T) {
	t.Parallel()
	forHosts(t, func(t *testing.T, dir string, h Host) {
		f := New(h, Guard{}, Limits{})
		for i := range 7 {
			path := filepath.Join(dir, fmt.Sprintf("f%d.txt", i))
			put(t, path, "hit 1\nhit 2\n")
			when := time.Unix(1_700_000_000+int64(i)*100, 0)
			if err := os.Chtimes(path, when, when); err != nil {
				t.Fatal(err)
			}
		}
		r := f.Search(t.Context(), SearchRequest{Pattern: "hit", Limit: 3, Offset: 3})
		want := []string{"f1.txt:2:hit 2", "f2.txt:1:hit 1", "f2.txt:2:hit 2"}
		if diff := cmp.Diff(want, rel(dir, r)); diff != "" || r.Total != 14 || !r.Truncated || !strings.Contains(r.Hint, "offset=6") {
			t.Errorf("%+v (-want +got):\n%s", r, diff)
		}
		r = f.Search(t.Context(), SearchRequest{Pattern: "hit", Limit: 50})
		if r.Total != 14 || r.Truncated || !strings.Contains(r.Text, "f0.txt\n  1: hit 1\n  2: hit 2\n") {
			t.Errorf("%+v", r)
		}
		r = f.Search(t.Context(), SearchRequest{Pattern: "*.txt", Files: true, Limit: 2})
		if len(r.Files) != 2 || !strings.HasSuffix(r.Files[0], "f6.txt") || !strings.HasSuffix(r.Files[1], "f5.txt") || r.Total != 7 {
			t.Errorf("newest first: %+v", r)
		}
	})
}

// TestIgnoreAsGit compares with git itself, on random rules and trees.
func TestIgnoreAsGit(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	testkit.Need(t, "git", err == nil, "no git here")
	rnd := rand.New(rand.NewPCG(7, 8))
	names := []string{"a", "b", "build", "x.log", "y.log", "keep.log", "sp ace"}
	rules := []string{"*.log", "!keep.log", "build/", "/a", "a/b", "**/b/x.log", "b/**", "x.*", "[ab]", "!/a/keep.log", "# comment", `\!x`, "a/", "sp ace", "*.{log,txt}", "[!a]*.log", "?.log", "/b/*", "!b/build/"}
	for range 60 {
		dir := tempDir(t)
		files := map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/objects/": "", ".git/refs/": ""}
		random := func(n int) string {
			var b strings.Builder
			for range n {
				b.WriteString(rules[rnd.IntN(len(rules))] + "\n")
			}
			return b.String()
		}
		for range 14 {
			parts := []string{}
			for range 1 + rnd.IntN(3) {
				parts = append(parts, names[rnd.IntN(len(names))])
			}
			p := strings.Join(parts, "/")
			clash := false
			for have := range files {
				if strings.HasPrefix(have, p+"/") || strings.HasPrefix(p, have+"/") || have == p {
					clash = true
				}
			}
			if !clash {
				files[p] = "text\n"
			}
		}
		files[".gitignore"] = random(4)
		testkit.WriteTree(t, dir, files)
		for _, sub := range []string{"a", "b"} {
			if info, err := os.Stat(filepath.Join(dir, sub)); err == nil && info.IsDir() && rnd.IntN(2) == 0 {
				put(t, filepath.Join(dir, sub, ".gitignore"), random(2))
			}
		}
		cmd := exec.CommandContext(t.Context(), git, "-C", dir, "ls-files", "-z", "--others", "--exclude-standard")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for p := range strings.SplitSeq(string(out), "\x00") {
			if p != "" && !strings.HasPrefix(filepath.Base(p), ".") {
				want = append(want, p)
			}
		}
		slices.Sort(want)
		r := direct(dir).Search(t.Context(), SearchRequest{Pattern: "*", Files: true, Limit: 1000})
		if got := rel(dir, r); !slices.Equal(got, want) {
			rules := testkit.ReadTree(t, dir)
			t.Fatalf("rules %q, %q, %q:\n got %q\nwant %q", rules[".gitignore"], rules["a/.gitignore"], rules["b/.gitignore"], got, want)
		}
	}
}

// FuzzIgnore: no rule breaks the matcher.
func FuzzIgnore(f *testing.F) {
	f.Add("*.log\n!keep\n/a/**/b\n[", "a/x/b")
	f.Fuzz(func(t *testing.T, text, p string) {
		g := &ignores{dir: "/r", rules: parseIgnore(text)}
		_ = g.ignored("/r/"+p, false)
	})
}

// FuzzAnswer: whatever a backend prints, it is an answer or an error.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("hi\nFENCE\nbYQAw\nFENCE\n"))
	f.Add([]byte("FENCE\nx 61 00 30\nFENCE"))
	f.Fuzz(func(t *testing.T, out []byte) {
		payload, _, err := answer(out, "FENCE")
		if err == nil {
			_ = fields(append(payload, 0))
			_ = parseGrep(payload, 10)
			_ = parseRipgrep(payload, 10)
		}
	})
}

func benchTree(b *testing.B, n int) string {
	b.Helper()
	dir := tempDir(b)
	body := strings.Repeat("some ordinary line of text, with a few words in it\n", 40)
	for i := range n {
		text := body
		if i%100 == 0 {
			text += "the needle is here\n"
		}
		put(b, filepath.Join(dir, fmt.Sprintf("d%03d", i/100), fmt.Sprintf("f%d.txt", i)), text)
	}
	return dir
}

// BenchmarkSearch10k looks for a word in 10,000 files of 2 KB.
func BenchmarkSearch10k(b *testing.B) {
	dir := benchTree(b, 10_000)
	all := hosts(b, dir)
	for _, name := range []string{"direct", "bash", "dash without rg", "busybox"} {
		h := all[name]
		if h == nil {
			continue
		}
		for _, q := range []SearchRequest{{Pattern: "needle is"}, {Pattern: "*77*.txt", Files: true}} {
			kind := "content"
			if q.Files {
				kind = "files"
			}
			b.Run(name+"/"+kind, func(b *testing.B) {
				f := New(h, Guard{}, Limits{})
				for b.Loop() {
					if r := f.Search(b.Context(), q); r.Error != "" || r.Total == 0 {
						b.Fatalf("%+v", r)
					}
				}
			})
		}
	}
}

// BenchmarkPatch1MB replaces one line of a file of 1 MB, found exactly and by its words only.
func BenchmarkPatch1MB(b *testing.B) {
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "\tvalue_%05d := compute(%d, \"a string\")\n", i, i)
	}
	for name, old := range map[string]string{
		"exact": "\tvalue_15000 := compute(15000, \"a string\")", "line_trimmed": "  value_15000 := compute(15000, \"a string\")  \n",
		"unicode": "value_15000 := compute(15000, “a string”)", "no match": "value_x := nothing(like, this)",
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			for b.Loop() {
				_, _, err := substitute(text.String(), form{}, ReplaceRequest{Old: old, New: "x := 1\n"})
				if (err == nil) != (name != "no match") {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("file", func(b *testing.B) {
		dir := tempDir(b)
		b.SetBytes(int64(text.Len()))
		f := direct(dir)
		for b.Loop() {
			b.StopTimer()
			put(b, filepath.Join(dir, "f"), text.String())
			b.StartTimer()
			if r := f.Replace(b.Context(), ReplaceRequest{Path: "f", Old: "value_15000 :=", New: "x :="}); !r.Success {
				b.Fatal(r.Error)
			}
		}
	})
}

// TestGlob: the syntax, and that no pattern takes long.
func TestGlob(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		pattern, path string
		want          bool
	}{
		{"*.go", "a.go", true},
		{"*.go", "a/b.go", false},
		{"a?c", "abc", true},
		{"a?c", "a/c", false},
		{"[a-c]x", "bx", true},
		{"[!a-c]x", "bx", false},
		{"[^a-c]x", "dx", true},
		{"[!a]", "/", false},
		{"[]x]", "]", true},
		{"[[:digit:]]", "7", true},
		{"**/a", "a", true},
		{"**/a", "x/y/a", true},
		{"**/a", "xa", false},
		{"a/**", "a/b/c", true},
		{"a/**", "a", false},
		{"a/**/b", "a/b", true},
		{"a/**/b", "a/x/y/b", true},
		{"a**b", "axxb", true},
		{"a**b", "a/b", false},
		{"*.{go,py}", "x.py", true},
		{"*.{go,py}", "x.js", false},
		{"{a,{b,c}}x", "cx", true},
		{`\*`, "*", true},
		{`\*`, "x", false},
		{"ü*", "über", true},
		{"a.b", "axb", false},
		{"**", "a/b", true},
		{"x,y", "x,y", true},
	} {
		re, err := glob(row.pattern, true)
		if err != nil || re.MatchString(row.path) != row.want {
			t.Errorf("%s on %s: want %v (%v)", row.pattern, row.path, row.want, err)
		}
	}
	for _, bad := range []string{"[a", "{a", "{a,{b}", strings.Repeat("a", 5000)} {
		if _, err := glob(bad, true); err == nil {
			t.Errorf("%.10s was taken", bad)
		}
	}
	if re, err := glob("{a", false); err != nil || !re.MatchString("{a") {
		t.Errorf("without choices a brace is itself: %v", err)
	}
	// These take for ever where a matcher tries every way.
	for _, pattern := range []string{strings.Repeat("**/a/", 20) + "b", strings.Repeat("*a", 30) + "b", strings.Repeat("**/", 50) + "b"} {
		g := &ignores{dir: "/r", rules: parseIgnore(pattern)}
		for _, p := range []string{strings.Repeat("a/", 300) + "c", strings.Repeat("a", 5000)} {
			if g.ignored("/r/"+p, false) {
				t.Errorf("%.20s fits %.20s", pattern, p)
			}
		}
	}
}

// TestFindBounded: files of equal lines end in an answer, whatever it is.
func TestFindBounded(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("begin\nxx\n", 10_000) + "end"
	for _, old := range []string{strings.Repeat("  begin\nxy\n", 5000) + "begin", strings.Repeat(" begin\n xx\n", 5000) + "no", "begin\n" + strings.Repeat("xy\n", 3000) + "end"} {
		if _, err := find(text, old, "x", false, nil); err == nil {
			t.Error("found what is not there")
		}
	}
}
