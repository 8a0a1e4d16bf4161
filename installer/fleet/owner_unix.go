// SPDX-License-Identifier: MIT

//go:build unix

package fleet

import (
	"os"
	"syscall"
)

// Owner is the number of the user who owns a file; nil = it cannot be told.
func Owner(path string) *int {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	uid := int(st.Uid)
	return &uid
}
