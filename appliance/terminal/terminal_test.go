// SPDX-License-Identifier: MIT

package terminal

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestBackground(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"A && B &":                            "A && { B & };",
		"A || B &":                            "A || { B & };",
		"A && B && C &":                       "A && B && { C & };",
		"A && B | C &":                        "A && { B | C & };",
		"A && ! B &":                          "A && { ! B & };",
		"A && B & C":                          "A && { B & }; C",
		"A && B &\nC":                         "A && { B & };\nC",
		"A && B & # why":                      "A && { B & }; # why",
		"( A && B & )":                        "( A && { B & }; )",
		"if x; then A && B & fi":              "if x; then A && { B & }; fi",
		"f() { A && B & }; f":                 "f() { A && { B & }; }; f",
		"A && B & C && D &":                   "A && { B & }; C && { D & };",
		"A && cat <<E &\nx && y &\nE":         "A && { cat <<E & };\nx && y &\nE",
		"A && B >/dev/null 2>&1 &":            "A && { B >/dev/null 2>&1 & };",
		"A && echo 'x && y &' &":              "A && { echo 'x && y &' & };",
		"A && { B & }":                        "A && { B & }",
		"A &":                                 "A &",
		"A && B":                              "A && B",
		"A; B &":                              "A; B &",
		"echo 'A && B &'":                     "echo 'A && B &'",
		"cat <<'E'\nA && B &\nE":              "cat <<'E'\nA && B &\nE",
		"x=$(A && B &)":                       "x=$(A && B &)",
		"! A && B":                            "! A && B",
		"日本 && é &":                           "日本 && { é & };",
		"A && B & 'open":                      "A && B & 'open",
		"A &> f && B &> g":                    "A &> f && B &> g",
		"case x in x) A && B & ;; esac":       "case x in x) A && { B & }; ;; esac",
		"for i in 1 2; do A && B & done":      "for i in 1 2; do A && { B & }; done",
		"A && (B; C) &":                       "A && { (B; C) & };",
		"(A && B) &":                          "(A && B) &",
		"A && for i in 1; do B && C & done &": "A && { for i in 1; do B && { C & }; done & };",
	} {
		got := Background(in)
		if got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
		if _, err := syntax.NewParser().Parse(strings.NewReader(got), ""); err != nil && got != in {
			t.Errorf("%q: %v", got, err)
		}
		if again := Background(got); again != got {
			t.Errorf("twice: %q", again)
		}
	}
}

func FuzzBackground(f *testing.F) {
	f.Add("A && B & C")
	f.Add("A && cat <<E &\nx\nE\n")
	f.Fuzz(func(t *testing.T, in string) {
		out := Background(in)
		p := func(s string) error {
			_, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(s), "")
			return err
		}
		if p(in) == nil && p(out) != nil {
			t.Fatalf("%q became %q: %v", in, out, p(out))
		}
		if Background(out) != out {
			t.Fatalf("%q: not stable", in)
		}
	})
}

func TestQuoteDir(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"~": "~", "~/": `"$HOME"`, "~/x y": `"$HOME"/'x y'`, "/a'b": `'/a'\''b'`, "~user": "'~user'", "": "''", "-n": "'-n'",
	} {
		if got := quoteDir(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

// However output is cut into pieces, the filter passes on the same.
func TestFilterPieces(t *testing.T) {
	t.Parallel()
	const m = "__HERMES_CWD_0123456789ab__"
	for _, eol := range []string{"\n", "\r\n"} {
		end := eol + m + "/dir" + eol + m + eol
		for name, c := range map[string]struct {
			in, out, dir string
			ok           bool
		}{
			"plain":       {"out" + end, "out", "/dir", true},
			"newline":     {"out" + eol + end, "out" + eol, "/dir", true},
			"none":        {"out" + eol, "out" + eol, "", false},
			"after":       {"out" + end + "bye" + eol, "outbye" + eol, "/dir", true},
			"two":         {"a" + end + "b" + eol + m + "/other" + eol + m + eol, "a" + end + "b", "/other", true},
			"cut":         {"a" + eol + m + "/di", "a" + eol + m + "/di", "", false},
			"begun":       {"a" + eol + m + eol + "b" + end, "a" + eol + m + eol + "b", "/dir", true},
			"marker only": {m + eol + m, m + eol + m, "", false},
			"much after":  {"a" + end + strings.Repeat("x", markerRoom+10), "a" + end + strings.Repeat("x", markerRoom+10), "", false},
			"long":        {eol + m + strings.Repeat("y", 3*markerRoom) + end, eol + m + strings.Repeat("y", 3*markerRoom), "/dir", true},
			"no dir":      {eol + m + noDir + eol + m + eol, "", noDir, true},
			"no path":     {eol + m + "pwd: error" + eol + m + eol, "", "pwd: error", false},
		} {
			for seed := range uint64(40) {
				r := rand.New(rand.NewPCG(seed, 1))
				var b bytes.Buffer
				f := newFilter(&b, m, eol)
				for in := c.in; in != ""; {
					n := 1 + r.IntN(min(len(in), 1+int(seed*seed)))
					if seed == 0 {
						n = len(in)
					}
					f.Write([]byte(in[:n]))
					in = in[n:]
				}
				dir, ok := f.finish(false)
				if b.String() != c.out || dir != c.dir || ok != c.ok {
					t.Fatalf("%s, seed %d: got %.200q, %q, %v, want %.200q, %q, %v", name, seed, b.String(), dir, ok, c.out, c.dir, c.ok)
				}
			}
		}
	}
	var b bytes.Buffer
	f := newFilter(&b, m, "\n")
	io.WriteString(f, "a\n"+m+"/di")
	if f.finish(true); b.String() != "a" {
		t.Errorf("killed: %q", b.String())
	}
}

// TestObituary: what a shell says of its child's kill is no output; the command's own words are.
func TestObituary(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]string{
		"Terminated\n": "", "a\nTerminated\n": "a\n", "a\nKilled\n": "a\n", "": "", "a": "a",
		"Terminated": "", "a\nTerminated": "a\n", "a\nTerminated\nTerminated\n": "a\n", "Terminated\n\n": "Terminated\n\n", "all Terminated\n": "all Terminated\n", "Terminated\nb\n": "Terminated\nb\n",
	} {
		if got := obituary(out); got != want {
			t.Errorf("%q: got %q, want %q", out, got, want)
		}
	}
}

func TestPlainText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"\x1b[1;31mred\x1b[0m": "red", "a\x1b]0;title\x07b": "ab", "a\x1b]8;;u\x1b\\l": "al", "\x1b(Bx\x1b=": "x", "plain": "plain", "\x1b[?25lx": "x", "é\x1b[K": "é",
	} {
		if got := plainText(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestRolling(t *testing.T) {
	t.Parallel()
	var lines []string
	r := &rolling{saw: func(l string) { lines = append(lines, l) }}
	io.WriteString(r, "one\ntw")
	io.WriteString(r, "o\r\nthree")
	r.end()
	if got := strings.Join(lines, "|"); got != "one|two|three" {
		t.Errorf("lines %q", got)
	}
	r = &rolling{}
	for i := range 100_000 {
		fmt.Fprintf(r, "%d é\n", i)
	}
	s, cut := r.text()
	if !cut || len(s) > rollingMax || !strings.HasSuffix(s, "99999 é\n") || len(s) < rollingMax-10 {
		t.Errorf("%d bytes, %v", len(s), cut)
	}
	if got := tail("aéé", 3); got != "é" {
		t.Errorf("tail %q", got)
	}
}

func TestWatchLimits(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	w := &watch{patterns: []string{"ready", "error"}, now: func() time.Time { return now }}
	if s := w.see("nothing"); s != (sighting{}) {
		t.Errorf("%+v", s)
	}
	if s := w.see("is ready"); s.pattern != "ready" || s.over {
		t.Errorf("%+v", s)
	}
	for range 5 {
		if s := w.see("error"); s != (sighting{}) {
			t.Errorf("within the time: %+v", s)
		}
	}
	now = now.Add(watchEvery)
	if s := w.see("error"); s.pattern != "error" || s.left != 5 {
		t.Errorf("%+v", s)
	}
	now = now.Add(watchEvery) // a quiet time: the strike is forgotten
	w.see("error")
	strikes := 0
	for i := range 10 {
		s := w.see("error")
		if s.over {
			strikes = i
			break
		}
		now = now.Add(watchEvery)
		w.see("error")
	}
	if strikes != watchStrikes-1 {
		t.Errorf("silenced after %d times in a row", strikes+1)
	}
	now = now.Add(time.Hour)
	if s := w.see("error"); s != (sighting{}) {
		t.Errorf("after it was silenced: %+v", s)
	}
	w = &watch{patterns: []string{"x"}, now: func() time.Time { return now }}
	for i := range watchNotices {
		now = now.Add(watchEvery)
		if s := w.see("x"); s.pattern != "x" || s.over != (i == watchNotices-1) {
			t.Errorf("notice %d: %+v", i, s)
		}
	}
	now = now.Add(time.Hour)
	if s := w.see("x"); s != (sighting{}) {
		t.Errorf("after the last: %+v", s)
	}
}

func TestSpillPlaces(t *testing.T) {
	t.Parallel()
	root, other := t.TempDir(), t.TempDir()
	dir := filepath.Join(root, "cache", "terminal-output")
	write := func() (*spilled, *process.Capture) {
		s := &Spill{Dir: dir, Now: time.Now}
		c := process.NewCapture(10)
		sp := s.open(c)
		io.WriteString(c, "more than ten bytes")
		sp.close(slog.New(slog.DiscardHandler))
		return sp, c
	}
	if err := os.Mkdir(filepath.Join(root, "cache"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := os.Symlink(other, dir)
	testkit.Need(t, "link", err == nil, "links cannot be made here")
	if sp, c := write(); sp.name() != "" || c.SpillErr() == nil {
		t.Error("a link was followed")
	}
	if entries, err := os.ReadDir(other); err != nil || len(entries) > 0 {
		t.Errorf("written to where a link leads: %v, %v", entries, err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	sp, c := write()
	if data, err := os.ReadFile(sp.name()); err != nil || string(data) != "more than ten bytes" || c.SpillErr() != nil {
		t.Errorf("%q, %v, %v", data, err, c.SpillErr())
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is open to others: %v, %v", info, err)
	}
	var none *Spill
	if sp := none.open(process.NewCapture(1)); sp.name() != "" {
		t.Error("no place, and yet a file")
	}
}

func TestMeaning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command string
		code    int
		said    bool
	}{
		{"grep x f", 1, true},
		{"cat f | /bin/grep x", 1, true},
		{"a && diff x y", 1, true},
		{"grep x f", 2, false},
		{"make", 1, false},
		{"make", 137, true},
		{"grep x || make", 1, false},
		{"'open", 1, false},
		{"grep x f", 0, false},
	} {
		if got := meaning(c.command, Result{Code: c.code}); (got != "") != c.said {
			t.Errorf("%s: %d: %q", c.command, c.code, got)
		}
	}
	if got := meaning("x", Result{Code: 137, TimedOut: true}); got != "" {
		t.Errorf("our own kill: %q", got)
	}
}
