// SPDX-License-Identifier: MIT

//go:build unix

package home

import (
	"errors"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// access says why this process cannot write a file, or make files in a directory; "" if it
// can. A file that belongs to somebody else counts: its owner can only be kept by writing
// into it.
func access(path string, dir bool) string {
	mode, what := uint32(unix.W_OK), "read-only file"
	if dir {
		mode, what = unix.W_OK|unix.X_OK, "read-only directory"
	}
	switch err := unix.Access(path, mode); {
	case errors.Is(err, unix.EROFS):
		return "read-only file system"
	case errors.Is(err, fs.ErrPermission):
		return what
	}
	return ""
}

func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
