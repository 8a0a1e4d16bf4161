// SPDX-License-Identifier: MIT

package home

import (
	"os"

	"golang.org/x/sys/unix"
)

// fsImmutable is FS_IMMUTABLE_FL of linux/fs.h, which x/sys does not have.
const fsImmutable = 0x10

// immutable reports whether a file carries the immutable attribute (chattr +i), under which
// a rename over it fails although its mode allows writing.
func immutable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // opened for reading
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	return err == nil && flags&fsImmutable != 0
}
