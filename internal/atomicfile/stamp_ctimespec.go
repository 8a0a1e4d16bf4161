// SPDX-License-Identifier: MIT

//go:build darwin || freebsd || netbsd

package atomicfile

import (
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// identity tells a file from one that was put in its place, even with its time stamp.
func identity(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprint(st.Dev, " ", st.Ino, " ", ChangeTime(info).UnixNano())
}

// ChangeTime is when a file's content, name or rights last changed.
func ChangeTime(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctimespec.Unix())
	}
	return info.ModTime()
}
