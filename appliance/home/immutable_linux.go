// SPDX-License-Identifier: MIT

package home

import (
	"os"

	"golang.org/x/sys/unix"
)

// fsFixed are FS_IMMUTABLE_FL and FS_APPEND_FL of linux/fs.h, which x/sys does not have.
const fsFixed = 0x10 | 0x20

// immutable reports whether a file or directory carries the immutable or the append-only
// attribute (chattr +i, +a), under which a rename over it, or in it, fails although its mode
// allows writing. path leads to no pipe.
func immutable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // opened for reading
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	return err == nil && flags&fsFixed != 0
}
