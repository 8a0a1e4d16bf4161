// SPDX-License-Identifier: MIT

//go:build unix

package migrate_test

import (
	"fmt"
	"io/fs"
	"syscall"
)

// identity tells a file from every other, with its owner, and whether it has several names.
func identity(info fs.FileInfo) (id string, many bool) {
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d of %d:%d", st.Dev, st.Ino, st.Uid, st.Gid), st.Nlink > 1 && !info.IsDir()
}
