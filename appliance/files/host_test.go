// SPDX-License-Identifier: MIT

//go:build !windows

package files

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// hostile are names that a shell or a parser could take for something else.
func hostile() []string {
	return []string{
		"plain", "with space", "-n", "--", "a'b", `a"b`, "a\nb", "a\n", "$(touch pwned)", "`touch pwned`", "a;touch pwned", "*", "[x]", "?",
		`back\slash`, "ümläut", "\xff\xfe", "tab\there", "!history", "~", "~root", "a&b|c<d>e", "%s%n", "{a,b}", "end\\", "a\r", ".hidden", "#x", "=",
	}
}

// TestWriteReadIdentity: whatever bytes and whatever name, what is written is what is there
// and what is read.
func TestWriteReadIdentity(t *testing.T) {
	t.Parallel()
	forHosts(t, func(t *testing.T, dir string, h Host) {
		rnd := rand.New(rand.NewPCG(1, 2))
		for i, name := range hostile() {
			data := make([]byte, []int{0, 1, 2, 77, 3000, 70_000}[i%6])
			for j := range data {
				data[j] = byte(rnd.IntN(256))
			}
			if i%4 == 3 {
				data = append(data, "\n\n"...)
			}
			path := filepath.Join(dir, "new dir", "d"+name, name)
			at := locate(t, h, path)
			if at.Kind != Missing || at.Path != path {
				t.Fatalf("%q: %+v", name, at)
			}
			now, verified, err := h.Write(t.Context(), at, data, 0)
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			if !verified && !strings.Contains(t.Name(), "without_base64") {
				t.Errorf("%q: not verified", name)
			}
			if got := get(t, path); got != string(data) {
				t.Errorf("%q: %d bytes on disk, wrote %d", name, len(got), len(data))
			}
			got, err := h.Read(t.Context(), now, 1<<20)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%q: read %d bytes, wrote %d (%v)", name, len(got), len(data), err)
			}
			if again := locate(t, h, path); again.Stamp != now.Stamp || again.Kind != Regular || again.Size != int64(len(data)) {
				t.Errorf("%q: located %+v, written %+v", name, again, now)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
			t.Error("a name was run as code")
		}
		names, err := h.Names(t.Context(), filepath.Join(dir, "new dir"), 1000)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		var want []string
		for _, n := range hostile() {
			want = append(want, "d"+n)
		}
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Errorf("names\n got %q\nwant %q", names, want)
		}
		for _, n := range hostile() { // no staged file is left
			entries, err := os.ReadDir(filepath.Join(dir, "new dir", "d"+n))
			if err != nil || len(entries) != 1 {
				t.Errorf("%q: %v %v", n, entries, err)
			}
		}
	})
}

// TestLocate: paths mean what they mean on the host.
func TestLocate(t *testing.T) {
	t.Parallel()
	forHosts(t, func(t *testing.T, dir string, h Host) {
		put(t, filepath.Join(dir, "real", "file"), "x")
		put(t, filepath.Join(dir, "~odd"), "x")
		link := func(to, from string) {
			if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
				t.Fatal(err)
			}
		}
		link("real", "dirlink")
		link("dirlink/file", "filelink")
		link("nowhere", "dangling")
		link("loop", "loop")
		if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, row := range []struct {
			ask, want string
			kind      Kind
		}{
			{"real/file", "real/file", Regular},
			{"./real//./file", "real/file", Regular},
			{"~/real/file", "real/file", Regular},
			{"~", "", Directory},
			{"dirlink/file", "real/file", Regular},
			{"filelink", "real/file", Regular},
			{"real", "real", Directory},
			{"fifo", "fifo", Other},
			{"dirlink/../real/file", "real/file", Regular},
			{"missing/a/b", "missing/a/b", Missing},
			{"dirlink/new/x", "real/new/x", Missing},
			{"real/sub/../../new", "new", Missing},
			{"~odd", "~odd", Regular},
			{"../../../../../../../../../../../..", "/", Directory},
		} {
			at, err := h.Locate(t.Context(), row.ask)
			want := filepath.Join(dir, row.want)
			if row.want == "/" {
				want = "/"
			}
			if err != nil || at.Path != want || at.Kind != row.kind {
				t.Errorf("%s: got %q kind %d (%v), want %q kind %d", row.ask, at.Path, at.Kind, err, want, row.kind)
			}
			if at.Dir != dir || at.Home != dir {
				t.Errorf("%s: directory %q, home %q", row.ask, at.Dir, at.Home)
			}
		}
		if at := locate(t, h, "~root/x"); at.Path == filepath.Join(dir, "~root/x") || at.Kind != Missing {
			t.Errorf("~root: %+v", at)
		}
		for ask, want := range map[string]error{"dangling": ErrDangling, "dangling/x": ErrDangling, "loop": nil, "real/file/x": nil} {
			if _, err := h.Locate(t.Context(), ask); err == nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", ask, err, want)
			}
		}
	})
}

// TestWriteKeeps: mode, links and hard links survive a write.
func TestWriteKeeps(t *testing.T) {
	t.Parallel()
	forHosts(t, func(t *testing.T, dir string, h Host) {
		path := filepath.Join(dir, "real", "f")
		put(t, path, "old")
		for _, err := range []error{os.Chmod(path, 0o754), os.Symlink("real/f", filepath.Join(dir, "link")), os.Link(path, filepath.Join(dir, "hard"))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := h.Write(t.Context(), locate(t, h, "link"), []byte("new and longer"), 0); err != nil {
			t.Fatal(err)
		}
		if got := get(t, path) + get(t, filepath.Join(dir, "hard")); got != "new and longernew and longer" {
			t.Errorf("got %q: the hard link was broken", got)
		}
		if to, err := os.Readlink(filepath.Join(dir, "link")); err != nil || to != "real/f" {
			t.Errorf("link: %q %v", to, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o754 {
			t.Errorf("mode %v %v", info.Mode(), err)
		}
		if err := os.Remove(filepath.Join(dir, "hard")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.Write(t.Context(), locate(t, h, path), []byte("n"), 0); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o754 || get(t, path) != "n" {
			t.Errorf("replaced: mode %v %v", info.Mode(), err)
		}
		probe := filepath.Join(dir, "probe")
		if err := os.WriteFile(probe, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		want, err := os.Stat(probe)
		if err != nil {
			t.Fatal(err)
		}
		if now, _, err := h.Write(t.Context(), locate(t, h, "fresh"), []byte("n"), 0); err != nil || now.Mode != want.Mode() {
			t.Errorf("new file: mode %v (%v), the umask gives %v", now.Mode, err, want.Mode())
		}
		if now, _, err := h.Write(t.Context(), locate(t, h, "exact"), []byte("n"), 0o711); err != nil || now.Mode != 0o711 {
			t.Errorf("given mode: %v %v", now.Mode, err)
		}
	})
}

// TestMoved: a place that is not what was judged any more is neither read nor written nor
// removed.
func TestMoved(t *testing.T) {
	t.Parallel()
	forHosts(t, func(t *testing.T, dir string, h Host) {
		secret := filepath.Join(dir, "secret", "f")
		change := map[string]func(path string) error{
			"file becomes a link": func(p string) error { return errors.Join(os.Remove(p), os.Symlink(secret, p)) },
			"directory becomes a link": func(p string) error {
				d := filepath.Dir(p)
				return errors.Join(os.RemoveAll(d), os.Symlink(filepath.Dir(secret), d))
			},
			"file becomes a FIFO":     func(p string) error { return errors.Join(os.Remove(p), syscall.Mkfifo(p, 0o600)) },
			"somebody else writes it": func(p string) error { return os.WriteFile(p, []byte("not what was read"), 0o600) },
			"file is removed":         os.Remove,
		}
		for name, f := range change {
			put(t, secret, "secret")
			path := filepath.Join(dir, strings.ReplaceAll(name, " ", "_"), "f")
			put(t, path, "judged")
			at := locate(t, h, path)
			if err := f(path); err != nil {
				t.Fatal(err)
			}
			if name != "somebody else writes it" {
				if data, err := h.Read(t.Context(), at, 100); err == nil {
					t.Errorf("%s: read %q", name, data)
				}
				if p, err := h.Page(t.Context(), at, PageRange{1, 9, 100, 100}); err == nil {
					t.Errorf("%s: page %q", name, p.Lines)
				}
			}
			if _, _, err := h.Write(t.Context(), at, []byte("evil"), 0); !errors.Is(err, ErrMoved) && !errors.Is(err, ErrNotRegular) {
				t.Errorf("%s: write: %v", name, err)
			}
			if err := h.Remove(t.Context(), at); err == nil {
				t.Errorf("%s: removed", name)
			}
			if got := get(t, secret); got != "secret" {
				t.Errorf("%s: the secret is %q", name, got)
			}
		}
		at := locate(t, h, "later/f")
		put(t, filepath.Join(dir, "later", "f"), "theirs")
		if _, _, err := h.Write(t.Context(), at, []byte("ours"), 0); !errors.Is(err, ErrMoved) {
			t.Errorf("a file that appeared: %v", err)
		}
		at = locate(t, h, "newdir/f")
		if err := os.Symlink("secret", filepath.Join(dir, "newdir")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.Write(t.Context(), at, []byte("ours"), 0); !errors.Is(err, ErrMoved) {
			t.Errorf("a directory that appeared as a link: %v", err)
		}
		if got := get(t, secret); got != "secret" {
			t.Errorf("the secret is %q", got)
		}
	})
}

// TestPage: lines, counts and cuts are the same on every host.
func TestPage(t *testing.T) {
	t.Parallel()
	texts := []string{"", "\n", "a", "a\n", "a\nb", "a\nb\n", "\n\n\n", strings.Repeat("x", 5000) + "\nshort\n" + strings.Repeat("y", 5000), "a\r\nb\r\n", "\xff\n\xfe"}
	for range 20 {
		texts = append(texts, strings.Repeat("line\n", rand.IntN(50))+strings.Repeat("z", rand.IntN(3)))
	}
	forHosts(t, func(t *testing.T, dir string, h Host) {
		texts := texts
		if !h.Local() && h.Name() != "test bash" {
			texts = texts[:12]
		}
		for i, text := range texts {
			path := filepath.Join(dir, "f")
			put(t, path, text)
			all := strings.Split(text, "\n")
			if all[len(all)-1] == "" {
				all = all[:len(all)-1]
			}
			for _, want := range []PageRange{{1, 1000, 100, 1 << 20}, {2, 3, 100, 1 << 20}, {3, 3, 10, 1 << 20}, {900, 901, 10, 10}} {
				p, err := h.Page(t.Context(), locate(t, h, path), want)
				if err != nil {
					t.Fatal(err)
				}
				if p.Total() != len(all) || p.Size != int64(len(text)) || string(p.Sample) != text[:min(len(text), sampleSize)] {
					t.Errorf("text %d: %d lines, %d bytes, sample of %d; want %d, %d", i, p.Total(), p.Size, len(p.Sample), len(all), len(text))
				}
				var lines []string
				for _, l := range all[min(want.From-1, len(all)):min(want.To, len(all))] {
					lines = append(lines, l[:min(len(l), want.Width)])
				}
				var got []string
				for _, l := range p.Lines {
					got = append(got, string(l))
				}
				if !slices.Equal(got, lines) {
					t.Errorf("text %d %+v:\n got %q\nwant %q", i, want, got, lines)
				}
			}
		}
	})
}

func TestReadLimit(t *testing.T) {
	t.Parallel()
	forHosts(t, func(t *testing.T, dir string, h Host) {
		put(t, filepath.Join(dir, "f"), strings.Repeat("x", 100))
		at := locate(t, h, "f")
		if data, err := h.Read(t.Context(), at, 100); err != nil || len(data) != 100 {
			t.Errorf("%d bytes, %v", len(data), err)
		}
		if _, err := h.Read(t.Context(), at, 99); !errors.Is(err, ErrTooLarge) {
			t.Errorf("got %v, want ErrTooLarge", err)
		}
		if err := h.Remove(t.Context(), at); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "f")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("still there: %v", err)
		}
	})
}

// TestKeep: what is kept in a backend is whole and private; a directory that somebody else
// made is not used.
func TestKeep(t *testing.T) {
	t.Parallel()
	for name := range shells(t, t.TempDir()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := tempDir(t)
			s := shells(t, dir)[name]
			r := s.Runner.(*runner)
			r.env = append(r.env, "TMPDIR="+dir)
			for _, data := range []string{"", "x\n\n", strings.Repeat("\x00ü", 5000)} {
				path, err := s.Keep(t.Context(), "call 1.txt", []byte(data))
				if err != nil || path != filepath.Join(dir, "hermes-results", "call 1.txt") || get(t, path) != data {
					t.Fatalf("%q: %q, %v", data[:min(5, len(data))], path, err)
				}
				for p, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
					if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
						t.Errorf("%s: mode %v %v", p, info.Mode(), err)
					}
				}
			}
			if _, err := s.Keep(t.Context(), "../x", nil); err == nil {
				t.Error("a name with a path was taken")
			}
			if err := errors.Join(os.RemoveAll(filepath.Join(dir, "hermes-results")), os.Symlink(t.TempDir(), filepath.Join(dir, "hermes-results"))); err != nil {
				t.Fatal(err)
			}
			if path, err := s.Keep(t.Context(), "x", []byte("x")); err == nil {
				t.Errorf("kept behind a link: %s", path)
			}
		})
	}
}

// TestSameFile: a file that took the opened one's place between the open and the second look
// is noticed, also with no link in the path.
func TestSameFile(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	d := &Direct{Dir: func() string { return dir }}
	put(t, filepath.Join(dir, "f"), "judged")
	at := locate(t, d, "f")
	f, _, err := d.open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := same(f, at); err != nil {
		t.Errorf("the same file: %v", err)
	}
	put(t, filepath.Join(dir, "g"), "another")
	if err := os.Rename(filepath.Join(dir, "g"), filepath.Join(dir, "f")); err != nil {
		t.Fatal(err)
	}
	if _, err := same(f, at); !errors.Is(err, ErrMoved) {
		t.Errorf("another file: %v", err)
	}
}
