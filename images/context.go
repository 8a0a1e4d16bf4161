// SPDX-License-Identifier: MIT

package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// contextDir is the only directory of the repository that a Dockerfile copies from.
const contextDir = "images/image"

// extra is a file of a build's context that is not in the repository.
type extra struct {
	path string // each directory on the way is made
	mode int64
	data []byte
}

// buildContext packs what a build needs of the repository at dir: the Dockerfile and our own
// files for the image, and what else is given. Owners, times and modes are the same on every
// machine.
func buildContext(dir, dockerfile string, created time.Time, extras ...extra) ([]byte, error) {
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // it was read
	add := func(path string, info fs.FileInfo) error {
		h := &tar.Header{Name: path, ModTime: created, Mode: 0o644, Typeflag: tar.TypeReg, Size: info.Size()}
		switch {
		case info.IsDir():
			h.Typeflag, h.Size, h.Mode, h.Name = tar.TypeDir, 0, 0o755, path+"/"
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s: neither a file nor a directory", path)
		case info.Mode()&0o100 != 0:
			h.Mode = 0o755
		}
		if err := tw.WriteHeader(h); err != nil || info.IsDir() {
			return err
		}
		data, err := root.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = tw.Write(data)
		return err
	}
	info, err := root.Stat(dockerfile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no %s there; run it in the project's directory or name that with --dir", dir, dockerfile)
	}
	if err == nil {
		err = add(dockerfile, info)
	}
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(root.FS(), filepath.ToSlash(contextDir), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return add(path, info)
	})
	if err == nil {
		err = addExtras(tw, created, extras)
	}
	if err != nil {
		return nil, err
	}
	return buf.Bytes(), tw.Close()
}

// addExtras adds files and the directories that they are in, once each.
func addExtras(tw *tar.Writer, created time.Time, extras []extra) error {
	made := map[string]bool{}
	for _, x := range extras {
		parts := strings.Split(x.path, "/")
		for n := 1; n < len(parts); n++ {
			d := strings.Join(parts[:n], "/") + "/"
			if made[d] {
				continue
			}
			made[d] = true
			if err := tw.WriteHeader(&tar.Header{Name: d, ModTime: created, Mode: 0o755, Typeflag: tar.TypeDir}); err != nil {
				return err
			}
		}
		if err := tw.WriteHeader(&tar.Header{Name: x.path, ModTime: created, Mode: x.mode, Typeflag: tar.TypeReg, Size: int64(len(x.data))}); err != nil {
			return err
		}
		if _, err := tw.Write(x.data); err != nil {
			return err
		}
	}
	return nil
}
