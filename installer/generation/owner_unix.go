// SPDX-License-Identifier: MIT

//go:build unix

package generation

import (
	"io/fs"
	"syscall"
)

// foreignOwner reports whether a file belongs to somebody else than root.
func foreignOwner(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || st.Uid != 0 || info.Mode().Perm()&0o022 != 0
}
