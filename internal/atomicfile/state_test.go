// SPDX-License-Identifier: MIT

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"real/file": "text", "sub/": ""})
	for link, to := range map[string]string{"link": "hop", "hop": "real/file", "dangling": "nothing", "loop": "loop", "todir": "sub"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	real, err := filepath.EvalSymlinks(filepath.Join(dir, "real", "file"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"real/file", "link"} {
		data, st, err := Read(filepath.Join(dir, name))
		if err != nil || string(data) != "text" || !st.Exists || st.Path != real || st.Size() != 4 || st.SHA256 != Hash([]byte("text")) || st.Mode() != 0o600 {
			t.Errorf("%s: got %q %+v %v", name, data, st, err)
		}
	}
	if _, st, err := Read(filepath.Join(dir, "absent")); err != nil || st.Exists || st.Size() != 0 || st.Mode() != 0 {
		t.Errorf("absent file: got %+v %v", st, err)
	}
	if _, st, err := Read(filepath.Join(dir, "no", "such", "dir")); err != nil || st.Exists {
		t.Errorf("absent directory: got %+v %v", st, err)
	}
	if _, _, err := Read(filepath.Join(dir, "dangling")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "leads nowhere") {
		t.Errorf("dangling link: got %v", err)
	}
	if _, _, err := Read(filepath.Join(dir, "loop")); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), filepath.Join(dir, "loop")) {
		t.Errorf("loop: got %v, want an error with the path", err)
	}
	for _, name := range []string{"sub", "todir"} {
		if _, _, err := Read(filepath.Join(dir, name)); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: got %v, want ErrNotRegular", name, err)
		}
	}
}

func TestStateChanged(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		before func(dir string) error // makes the file that is read
		then   func(dir string) error
		want   bool
	}{
		{"nothing", write("f", "a"), func(string) error { return nil }, false},
		{"absent", func(string) error { return nil }, func(string) error { return nil }, false},
		{"made", func(string) error { return nil }, write("f", "a"), true},
		{"removed", write("f", "a"), func(d string) error { return os.Remove(filepath.Join(d, "f")) }, true},
		{"content", write("f", "a"), write("f", "b"), true},
		{"same content, later", write("f", "a"), func(d string) error {
			later := time.Now().Add(time.Hour)
			return os.Chtimes(filepath.Join(d, "f"), later, later)
		}, true},
		{"same content and time, another file", write("f", "a"), func(d string) error {
			path := filepath.Join(d, "f")
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return errors.Join(write("g", "a")(d), os.Chtimes(filepath.Join(d, "g"), info.ModTime(), info.ModTime()), os.Rename(filepath.Join(d, "g"), path))
		}, true},
		{"same time and size, another content", write("f", "a"), func(d string) error {
			path := filepath.Join(d, "f")
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return errors.Join(write("f", "b")(d), os.Chtimes(path, info.ModTime(), info.ModTime()))
		}, true},
		{
			"link to a file like it", func(d string) error { return errors.Join(write("g", "a")(d), os.Symlink("g", filepath.Join(d, "f"))) },
			func(d string) error {
				return errors.Join(write("h", "a")(d), os.Remove(filepath.Join(d, "f")), os.Symlink("h", filepath.Join(d, "f")))
			}, true,
		},
		{
			"link that leads nowhere now", func(d string) error { return errors.Join(write("g", "a")(d), os.Symlink("g", filepath.Join(d, "f"))) },
			func(d string) error { return os.Remove(filepath.Join(d, "g")) }, true,
		},
		{"the same file, moved with its directory", func(d string) error {
			return errors.Join(os.Mkdir(filepath.Join(d, "one"), 0o700), write("one/g", "a")(d), os.Symlink("one/g", filepath.Join(d, "f")))
		}, func(d string) error {
			return errors.Join(os.Rename(filepath.Join(d, "one"), filepath.Join(d, "two")), os.Remove(filepath.Join(d, "f")), os.Symlink("two/g", filepath.Join(d, "f")))
		}, true},
		{"a directory now", write("f", "a"), func(d string) error {
			return errors.Join(os.Remove(filepath.Join(d, "f")), os.Mkdir(filepath.Join(d, "f"), 0o700))
		}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := row.before(dir); err != nil {
				t.Fatal(err)
			}
			_, st, err := Read(filepath.Join(dir, "f"))
			if err != nil {
				t.Fatal(err)
			}
			if err := row.then(dir); err != nil {
				t.Fatal(err)
			}
			if got, err := st.Changed(); err != nil || got != row.want {
				t.Errorf("got %v %v, want %v", got, err, row.want)
			}
		})
	}
}

func write(name, text string) func(string) error {
	return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
}

func TestLinks(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	testkit.WriteTree(t, dir, map[string]string{"sub/file": "x"})
	for link, to := range map[string]string{
		"a": "b", "b": filepath.Join(dir, "dir", "file"), "dir": "sub", "none": "dir/gone/deep", "up": "dir/../sub/file", "loop": "loop",
	} {
		if err := os.Symlink(filepath.FromSlash(to), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for start, want := range map[string][]string{
		"sub/file": {"sub/file"},
		"dir/file": {"sub/file"},
		"a":        {"a", "b", "sub/file"},
		"none":     {"none", "dir/gone/deep"},
		"up":       {"up", "sub/file"},
		"absent":   {"absent"},
	} {
		got, err := Links(filepath.Join(dir, start))
		for i := range got {
			got[i] = filepath.ToSlash(strings.TrimPrefix(got[i], dir+string(filepath.Separator)))
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", start, err, diff)
		}
	}
	if _, err := Links(filepath.Join(dir, "loop")); err == nil {
		t.Error("a loop has no end")
	}
}
