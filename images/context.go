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
	"time"
)

// contextDir is the only directory that the Dockerfile copies from.
const contextDir = "images/image"

// buildContext packs what a build needs of the repository at dir: the Dockerfile and our own
// files for the image. Owners, times and modes are the same on every machine.
func buildContext(dir string, created time.Time) ([]byte, error) {
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
	info, err := root.Stat(DockerfilePath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no %s there; run it in the project's directory or name that with --dir", dir, DockerfilePath)
	}
	if err == nil {
		err = add(DockerfilePath, info)
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
	if err != nil {
		return nil, err
	}
	return buf.Bytes(), tw.Close()
}
