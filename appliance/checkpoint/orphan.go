// SPDX-License-Identifier: MIT

package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// orphaned reports whether a project's directory is observed to be deleted, and not only out
// of sight. Without a record of the directory it was in nothing can be told.
func orphaned(m meta) bool {
	if m.ParentDev == nil || m.ParentIno == nil {
		return false
	}
	return gone(m.Workdir, func(info fs.FileInfo) bool {
		dev, ino, ok := identity(info)
		return ok && dev == *m.ParentDev && ino == *m.ParentIno
	})
}

// gone reports whether a directory is deleted: it is not there, and its parent is, is the one
// it was in (nil = not known), and is not the empty mount point of a volume that is away. Any
// doubt, and any error, is a no: a deletion cannot be taken back.
func gone(dir string, known func(fs.FileInfo) bool) bool {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return false
	}
	info, err := os.Stat(parent)
	if err != nil || !info.IsDir() || (known != nil && !known(info)) {
		return false
	}
	d, err := os.Open(parent)
	if err != nil {
		return false
	}
	defer d.Close() //nolint:errcheck // opened for reading
	switch _, err := d.Readdirnames(1); {
	case err == nil:
		return true
	case errors.Is(err, io.EOF):
		return mountPoint(parent)
	}
	return false
}
