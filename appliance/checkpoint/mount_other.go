// SPDX-License-Identifier: MIT

//go:build !linux

package checkpoint

import (
	"os"
	"path/filepath"
)

// mountPoint reports whether a directory is on another file system than its parent.
func mountPoint(dir string) bool {
	here, err := os.Stat(dir)
	if err != nil {
		return false
	}
	above, err := os.Stat(filepath.Dir(dir))
	if err != nil {
		return false
	}
	d1, _, ok1 := identity(here)
	d2, _, ok2 := identity(above)
	return ok1 && ok2 && d1 != d2
}
