// SPDX-License-Identifier: MIT

package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func direct(dir string) *FS {
	return New(&Direct{Dir: func() string { return dir }, Home: dir}, Guard{}, Limits{})
}

func TestRead(t *testing.T) {
	t.Parallel()
	forHosts(t, func(t *testing.T, dir string, h Host) {
		f := New(h, Guard{}, Limits{LineChars: 10, ReadChars: 60})
		testkit.WriteTree(t, dir, map[string]string{
			"plain": "one\ntwo\nthree", "crlf": "a\r\nb\r\n", "bom": "\ufeffx\n", "empty": "", "long": strings.Repeat("ü", 50) + "\n",
			"many": strings.Repeat("12345678\n", 100), "wide": "\xff\xfea\x00\n\x00\xfc\x00", "latin": "gr\xfc\xdfe\n", "bin": "\x7fELF\x00\x01", "pic.png": "x",
			"README.md": "x", "dir/": "",
		})
		for _, row := range []struct {
			q       ReadRequest
			content string
			hint    string
			lines   int
			fail    string
		}{
			{ReadRequest{Path: "plain"}, "1|one\n2|two\n3|three", "", 3, ""},
			{ReadRequest{Path: "plain", Offset: 2, Limit: 1}, "2|two", "lines 2 to 2 of 3: go on with offset=3", 3, ""},
			{ReadRequest{Path: "plain", Offset: 9}, "", "offset 9 is behind the end: the file has 3 lines", 3, ""},
			{ReadRequest{Path: "crlf"}, "1|a\n2|b", "CR LF", 2, ""},
			{ReadRequest{Path: "bom"}, "1|x", "", 1, ""},
			{ReadRequest{Path: "empty"}, "", "empty", 0, ""},
			{ReadRequest{Path: "long"}, "1|" + strings.Repeat("ü", 10) + "... [truncated]", "", 1, ""},
			{ReadRequest{Path: "many"}, "1|12345678\n2|12345678\n3|12345678\n4|12345678\n5|12345678", "of 100: go on with offset=6", 100, ""},
			{ReadRequest{Path: "wide"}, "1|a\n2|ü", "UTF-16 LE", 2, ""},
			{ReadRequest{Path: "latin"}, "1|gr\ufffde", "not UTF-8", 1, ""},
			{ReadRequest{Path: "bin"}, "", "", 0, "ELF executable"},
			{ReadRequest{Path: "pic.png"}, "", "vision_analyze", 0, ""},
			{ReadRequest{Path: "dir"}, "", "", 0, "is a directory"},
			{ReadRequest{Path: "readme.md"}, "", "", 0, "not found"},
			{ReadRequest{Path: " "}, "", "", 0, "empty"},
			{ReadRequest{Path: "file:///etc/passwd"}, "", "", 0, "not a URL"},
			{ReadRequest{Path: "a\x00b"}, "", "", 0, "NUL"},
		} {
			r := f.Read(t.Context(), row.q)
			if r.Content != row.content || r.TotalLines != row.lines || !strings.Contains(r.Hint, row.hint) || !strings.Contains(r.Error, row.fail) || (r.Error != "") != (row.fail != "") {
				t.Errorf("%+v:\n got %+v\nwant %+v", row.q, r, row)
			}
			if row.q.Path == "readme.md" && (len(r.Similar) != 1 || !strings.HasSuffix(r.Similar[0], "/README.md")) {
				t.Errorf("similar: %q", r.Similar)
			}
			if (r.Host == "") != h.Local() {
				t.Errorf("host %q", r.Host)
			}
		}
	})
}

func TestWrite(t *testing.T) {
	t.Parallel()
	forHosts(t, func(t *testing.T, dir string, h Host) {
		f := New(h, Guard{}, Limits{})
		testkit.WriteTree(t, dir, map[string]string{"crlf": "a\r\nb\r\n", "bom": "\ufeffx\n", "wide": "\xff\xfea\x00", "d/": ""})
		for _, row := range []struct{ path, content, want, fail string }{
			{"x/y/new", "a\nb", "a\nb", ""},
			{"x/y/new", "", "", ""},
			{"crlf", "c\nd\n", "c\r\nd\r\n", ""},
			{"crlf", "c\r\nd\r\n", "c\r\nd\r\n", ""},
			{"bom", "y\n", "\ufeffy\n", ""},
			{"wide", "ü", "\xff\xfe\xfc\x00", ""},
			{"d", "x", "", "not a regular file"},
			{"num", "1|a\n2|b\n3|c\n", "", "line numbers"},
			{"table", "1|a\n", "1|a\n", ""},
		} {
			r := f.Write(t.Context(), WriteRequest{Path: row.path, Content: row.content})
			if row.fail != "" {
				if !strings.Contains(r.Error, row.fail) {
					t.Errorf("%s: got %+v, want %q", row.path, r, row.fail)
				}
				continue
			}
			if got := get(t, filepath.Join(dir, row.path)); got != row.want || r.Error != "" || r.BytesWritten != len(row.want) {
				t.Errorf("%s: got %q, want %q: %+v", row.path, got, row.want, r)
			}
		}
		if r := f.Write(t.Context(), WriteRequest{Path: "deep/er/f", Content: "x"}); !r.DirsCreated || r.Resolved != filepath.Join(dir, "deep/er/f") {
			t.Errorf("%+v", r)
		}
	})
}

func TestReplace(t *testing.T) {
	t.Parallel()
	forHosts(t, func(t *testing.T, dir string, h Host) {
		f := New(h, Guard{}, Limits{})
		for _, row := range []struct{ text, old, with, want, fail string }{
			{"a\nb\n", "b", "c", "a\nc\n", ""},
			{"a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\n", "x\r\ny\r\nc\r\n", ""},
			{"\ufeffa\n", "a", "ü", "\ufeffü\n", ""},
			{"\xff\xfea\x00b\x00", "b", "ß", "\xff\xfea\x00\xdf\x00", ""},
			{"gr\xfcn rot", "rot", "blau", "gr\xfcn blau", ""},
			{"a\x00b", "a", "b", "", "binary"},
			{"a b", "zz", "b", "", "not found"},
		} {
			path := filepath.Join(dir, "f")
			put(t, path, row.text)
			r := f.Replace(t.Context(), ReplaceRequest{Path: "f", Old: row.old, New: row.with})
			if row.fail != "" {
				if !strings.Contains(r.Error, row.fail) || get(t, path) != row.text {
					t.Errorf("%q: %+v", row.text, r)
				}
				continue
			}
			if got := get(t, path); got != row.want || !r.Success || !strings.Contains(r.Diff, "@@") {
				t.Errorf("%q: got %q, want %q: %+v", row.text, got, row.want, r)
			}
			f.show(path, "")
		}
	})
}

// TestStale: what was changed behind the agent's back is said with the next edit, once.
func TestStale(t *testing.T) {
	t.Parallel()
	forHosts(t, func(t *testing.T, dir string, h Host) {
		f := New(h, Guard{}, Limits{})
		path := filepath.Join(dir, "f")
		put(t, path, "one")
		f.Read(t.Context(), ReadRequest{Path: "f"})
		if r := f.Replace(t.Context(), ReplaceRequest{Path: "f", Old: "one", New: "two"}); r.Warning != "" {
			t.Errorf("its own read: %q", r.Warning)
		}
		put(t, path, "three and more")
		if r := f.Write(t.Context(), WriteRequest{Path: "f", Content: "x"}); !strings.Contains(r.Warning, "changed by somebody else") {
			t.Errorf("no warning: %+v", r)
		}
		if r := f.Write(t.Context(), WriteRequest{Path: "f", Content: "y"}); r.Warning != "" {
			t.Errorf("its own write: %q", r.Warning)
		}
		if r := f.Write(t.Context(), WriteRequest{Path: "../out", Content: "y"}); !strings.Contains(r.Warning, "outside the working directory") {
			t.Errorf("outside: %+v", r)
		}
	})
}

// TestReport9RemotePath: a path means the backend's file, also where the gateway has one of
// the same name, and ~ is the backend's.
func TestReport9RemotePath(t *testing.T) {
	t.Parallel()
	gateway, remote := tempDir(t), tempDir(t)
	put(t, filepath.Join(gateway, "f"), "gateway's")
	put(t, filepath.Join(remote, "proj", "f"), "backend's")
	s := shells(t, remote)["bash"]
	s.Runner.(*runner).dir = filepath.Join(remote, "proj")
	f := New(s, Guard{}, Limits{})
	for _, p := range []string{"f", "~/proj/f", "./../proj/f"} {
		if r := f.Read(t.Context(), ReadRequest{Path: p}); r.Content != "1|backend's" {
			t.Errorf("%s: %+v", p, r)
		}
	}
}

// TestReport10NamesTheMachine: a file that is not on the target is not said to be missing as
// such; the answer names the machine that was looked on.
func TestReport10NamesTheMachine(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	s := shells(t, dir)["bash"]
	s.Label = "ssh dev@build"
	r := New(s, Guard{}, Limits{}).Read(t.Context(), ReadRequest{Path: "/nowhere/x"})
	if !strings.Contains(r.Error, "ssh dev@build") || r.Host != "ssh dev@build" {
		t.Errorf("%+v", r)
	}
}

// TestReport13WrapperText: what a backend's wrapper says stays out of files.
func TestReport13WrapperText(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	f := New(shells(t, dir)["noisy bash"], Guard{}, Limits{})
	text := "cat <<'EOF'\n$x `y` \"z\"\nEOF\neval 'q'; exit 3\n"
	if r := f.Write(t.Context(), WriteRequest{Path: "f", Content: text}); r.Error != "" || get(t, filepath.Join(dir, "f")) != text {
		t.Errorf("%+v", r)
	}
}

// TestConcurrentEdits: parallel edits of one file all land.
func TestConcurrentEdits(t *testing.T) {
	t.Parallel()
	forHosts(t, func(t *testing.T, dir string, h Host) {
		f := New(h, Guard{}, Limits{})
		const n = 8
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "line %d:\n", i)
		}
		put(t, filepath.Join(dir, "f"), text.String())
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				r := f.Replace(t.Context(), ReplaceRequest{Path: "f", Old: fmt.Sprintf("line %d:", i), New: fmt.Sprintf("line %d: done", i)})
				if r.Error != "" {
					t.Error(r.Error)
				}
			})
		}
		wg.Wait()
		if got := strings.Count(get(t, filepath.Join(dir, "f")), "done"); got != n {
			t.Errorf("%d of %d edits are in the file", got, n)
		}
	})
}

// TestWriteFaults: whichever step of a write fails, the file is the old or the new one, the
// result says that it failed, and no staged file is left.
func TestWriteFaults(t *testing.T) {
	t.Parallel()
	for k := 1; ; k++ {
		dir := tempDir(t)
		path := filepath.Join(dir, "f")
		put(t, path, "old")
		n := 0
		d := &Direct{Dir: func() string { return dir }, Files: atomicfile.Writer{Before: func(op atomicfile.Op, _ string) error {
			if n++; n == k {
				return fmt.Errorf("%s: %w", op, errInjectedOp)
			}
			return nil
		}}}
		r := New(d, Guard{}, Limits{}).Write(t.Context(), WriteRequest{Path: "f", Content: "new"})
		if n < k {
			if r.Error != "" || k < 8 {
				t.Errorf("%d steps: %+v", n, r)
			}
			return
		}
		if got := get(t, path); r.Error == "" || got != "old" && !strings.Contains(r.Error, "sync directory") {
			t.Errorf("step %d: %q, %+v", k, got, r)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("step %d: %v %v", k, entries, err)
		}
	}
}

var errInjectedOp = errors.New("injected")

// TestSymlinkRaces: somebody exchanges the file, or its directory, for a link to a secret all
// the time. No read shows the secret and no write reaches it.
func TestSymlinkRaces(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "link", runtime.GOOS != "windows", "links need rights there")
	dir := tempDir(t)
	testkit.WriteTree(t, dir, map[string]string{"secret/f": "not secret", "secret/.env": "SECRET", "pub/f": "public", "other/": ""})
	guard := Guard{Homes: []Home{{Dir: filepath.Join(dir, "secret"), Profile: "default"}}}
	f := New(&Direct{Dir: func() string { return dir }}, guard, Limits{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	swap := func(steps ...func() error) {
		wg.Go(func() {
			for {
				for _, s := range steps {
					select {
					case <-stop:
						return
					default:
						_ = s()
					}
				}
			}
		})
	}
	in := func(p string) string { return filepath.Join(dir, p) }
	swap(
		func() error { return os.Symlink(in("secret/.env"), in("pub/l")) },
		func() error { return os.Rename(in("pub/l"), in("pub/f")) },
		func() error { return os.WriteFile(in("pub/n"), []byte("public"), 0o600) },
		func() error { return os.Rename(in("pub/n"), in("pub/f")) },
		func() error { return os.Rename(in("pub"), in("other/pub")) },
		func() error { return os.Symlink(in("secret"), in("pub")) },
		func() error { return os.Remove(in("pub")) },
		func() error { return os.Rename(in("other/pub"), in("pub")) },
	)
	for i := range 600 {
		if r := f.Read(t.Context(), ReadRequest{Path: "pub/f"}); strings.Contains(r.Content, "SECRET") {
			t.Fatalf("round %d: %+v", i, r)
		}
		_ = f.Write(t.Context(), WriteRequest{Path: "pub/.env", Content: "EVIL"})
		_ = f.Replace(t.Context(), ReplaceRequest{Path: "pub/f", Old: "SECRET", New: "EVIL"})
	}
	close(stop)
	wg.Wait()
	if got := get(t, in("secret/.env")); got != "SECRET" {
		t.Errorf("the secret is %q", got)
	}
	entries, err := os.ReadDir(in("secret"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{".env", "f"}) {
		t.Errorf("in the secret directory: %q", names)
	}
}
