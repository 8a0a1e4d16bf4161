// SPDX-License-Identifier: MIT

package secret

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

// settled returns a cache for which every file has been left alone for an hour.
func settled() *Files {
	f := NewFiles()
	f.now = func() time.Time { return time.Now().Add(time.Hour) }
	return f
}

func write(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func plain(m map[string]Text) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = v.Reveal()
	}
	return out
}

func inUTF16(order binary.AppendByteOrder, text string) string {
	out := order.AppendUint16(nil, 0xfeff)
	for _, u := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, u)
	}
	return string(out)
}

func TestFilesRead(t *testing.T) {
	t.Parallel()
	both := map[string]string{"A": "ü €", "B": "2"}
	for name, c := range map[string]struct {
		text string
		want map[string]string
	}{
		"S5/empty":              {"", map[string]string{}},
		"S5/tokenizer":          {"# c\n export A = 'x y' # tail\r\nB=a#b\nC=\"q\\\"\\\\\" # t\nD=v # t\nE='open\nF=\n", map[string]string{"A": "x y", "B": "a#b", "C": `q"\`, "D": "v", "E": "'open", "F": ""}},
		"S5/last line counts":   {"A=1\nA=2\n", map[string]string{"A": "2"}},
		"S5/byte order mark":    {"\xef\xbb\xbfA=1\n", map[string]string{"A": "1"}},
		"S5/latin-1":            {"A=\xfc\nB=2", map[string]string{"A": "ü", "B": "2"}},
		"S5/latin-1 with mark":  {"\xef\xbb\xbfA=\xfc", map[string]string{"A": "ü"}},
		"S5/UTF-16 little":      {inUTF16(binary.LittleEndian, "A=ü €\r\nB=2\r\n"), both},
		"S5/UTF-16 big":         {inUTF16(binary.BigEndian, "A=ü €\nB=2"), both},
		"S5/UTF-16 half a unit": {inUTF16(binary.LittleEndian, "A=ü €\nB=2") + "\n", both},
		"S5/UTF-16 unmarked":    {"A\x00=\x001\x00\n\x00", map[string]string{"A": "1"}},
		"S5/NUL padded":         {"A=1\n" + strings.Repeat("\x00", 4096), map[string]string{"A": "1"}},
		"S6/half a line":        {"A=1\nB", map[string]string{"A": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), ".env")
			write(t, path, c.text)
			got, err := NewFiles().Read(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, plain(got)); diff != "" {
				t.Error(diff)
			}
			if now, _ := os.ReadFile(path); string(now) != c.text {
				t.Error("a reader wrote the file")
			}
		})
	}
}

func TestFilesUnreadable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make    func(path string) error
		missing bool
	}{
		"S6/missing":       {func(string) error { return nil }, true},
		"S6/dangling link": {func(p string) error { return os.Symlink(p+".none", p) }, true},
		"S6/link loop":     {func(p string) error { return os.Symlink(p, p) }, false},
		"S6/directory":     {func(p string) error { return os.Mkdir(p, 0o700) }, false},
		"S6/pipe":          {pipe, false},
		"S6/file as directory": {func(p string) error {
			return errors.Join(os.Remove(filepath.Dir(p)), os.WriteFile(filepath.Dir(p), nil, 0o600))
		}, false},
		"S6/mode 000":      {func(p string) error { return os.WriteFile(p, []byte("A=1"), 0) }, false},
		"S5/UTF-32 little": {func(p string) error { return os.WriteFile(p, []byte("\xff\xfe\x00\x00A\x00\x00\x00"), 0o600) }, false},
		"S5/UTF-32 big":    {func(p string) error { return os.WriteFile(p, []byte("\x00\x00\xfe\xff\x00\x00\x00A"), 0o600) }, false},
		"S6/huge":          {func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("A=1\n", maxEnvFile/4+1)), 0o600) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "home", ".env")
			write(t, path, "A=old\n")
			f := settled()
			if got, err := f.Read(path); err != nil || len(got) != 1 {
				t.Fatalf("got %v, %v", got, err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			var got map[string]Text
			var err error
			if name == "S6/mode 000" {
				unprivileged(t, func() { got, err = f.Read(path) })
			} else {
				got, err = f.Read(path)
			}
			if err == nil || got == nil || len(got) != 0 {
				t.Fatalf("got %v, %v; want an empty map and the reason", got, err)
			}
			if errors.Is(err, fs.ErrNotExist) != c.missing {
				t.Errorf("missing or not: %v", err)
			}
			if len(f.entries) != 0 {
				t.Error("the entry was not dropped")
			}
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
			write(t, path, "A=new\n")
			if got, _ := f.Read(path); got["A"].Reveal() != "new" {
				t.Errorf("after recovery: got %v", plain(got))
			}
		})
	}
}

func symlink(tb testing.TB, to, path string) {
	tb.Helper()
	if err := os.Symlink(to, path); err != nil {
		tb.Fatal(err)
	}
}

func TestFilesCache(t *testing.T) {
	t.Parallel()
	past := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		edit func(path string) error
		want string
	}{
		"S6/unchanged":        {func(string) error { return nil }, "1"},
		"S6/edited":           {func(p string) error { return os.WriteFile(p, []byte("A=22"), 0o600) }, "22"},
		"S6/edited same size": {func(p string) error { return os.WriteFile(p, []byte("A=2"), 0o600) }, "2"},
		"S6/replaced with the old time": {func(p string) error {
			return errors.Join(os.WriteFile(p+"~", []byte("A=2"), 0o600), os.Chtimes(p+"~", past, past), os.Rename(p+"~", p))
		}, "2"},
		"S6/edited with the old time": {func(p string) error {
			return errors.Join(os.WriteFile(p, []byte("A=2"), 0o600), os.Chtimes(p, past, past))
		}, "2"},
		"S6/link swapped": {func(p string) error {
			return errors.Join(os.WriteFile(p+"2", []byte("A=2"), 0o600), os.Chtimes(p+"2", past, past), os.Remove(p), os.Symlink(p+"2", p))
		}, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), ".env")
			write(t, path, "A=1")
			if err := os.Chtimes(path, past, past); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond) // a tick of the file system's clock, for ctime
			f := settled()
			first, _ := f.Read(path)
			if len(f.entries) != 1 {
				t.Fatal("not remembered")
			}
			if err := c.edit(path); err != nil {
				t.Fatal(err)
			}
			first["A"], first["B"] = Wrap("mine"), Wrap("mine")
			for range 2 {
				got, err := f.Read(path)
				if diff := cmp.Diff(map[string]string{"A": c.want}, plain(got)); err != nil || diff != "" {
					t.Errorf("%v %s", err, diff)
				}
			}
		})
	}
}

// TestFilesRacy is what a cache by signature alone gets wrong: a change in the same tick of the
// file system's clock, of the same size, in place.
func TestFilesRacy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), ".env")
	f, began := NewFiles(), time.Now()
	f.now = func() time.Time { return began } // each change is just now, however long the machine takes
	for i := range 300 {
		want := string(rune('a' + i%26))
		write(t, path, "A="+want)
		if got, err := f.Read(path); err != nil || got["A"].Reveal() != want {
			t.Fatalf("S6: write %d: got %v, %v", i, plain(got), err)
		}
	}
	if len(f.entries) != 0 {
		t.Error("a file that changed just now was remembered")
	}
}
