// SPDX-License-Identifier: MIT

//go:build !windows

package checkpoint

import (
	"io/fs"
	"syscall"
)

// identity names a directory itself, not its path. ok is false where the file system gives
// none.
func identity(info fs.FileInfo) (dev, ino uint64, ok bool) {
	st, is := info.Sys().(*syscall.Stat_t)
	if !is {
		return 0, 0, false
	}
	dev, ino = uint64(st.Dev), uint64(st.Ino) //nolint:unconvert // the types differ between systems
	return dev, ino, dev != 0 && ino != 0
}
