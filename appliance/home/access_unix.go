// SPDX-License-Identifier: MIT

//go:build unix

package home

import (
	"errors"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// access says why this process cannot create files in dir, "" if it can.
func access(dir string) string {
	switch err := unix.Access(dir, unix.W_OK|unix.X_OK); {
	case err == nil:
		return ""
	case errors.Is(err, unix.EROFS):
		return "read-only file system"
	case errors.Is(err, fs.ErrPermission):
		return "read-only directory"
	}
	return ""
}

func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
