// SPDX-License-Identifier: MIT

package atomicfile

import (
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// identity tells a file from one that was put in its place. Windows says no more than when
// it was created without opening it.
func identity(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Win32FileAttributeData); ok {
		return fmt.Sprint(st.CreationTime.Nanoseconds())
	}
	return ""
}

// ChangeTime is when a file was last written: Windows says no more without opening it.
func ChangeTime(info fs.FileInfo) time.Time { return info.ModTime() }
