// SPDX-License-Identifier: MIT

package home

import (
	"path/filepath"
	"runtime"
	"strings"
)

// Key returns the identity of a home directory whatever path leads to it: its real path, on
// Windows without case. What does not exist yet is resolved as far as it does. The result is
// never remembered here, so that a link that is moved is noticed; do not keep the key of a
// directory that is not there.
func Key(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = filepath.Clean(dir)
	}
	path := realpath(abs)
	if runtime.GOOS == "windows" {
		return strings.ToLower(path)
	}
	return path
}

func realpath(dir string) string {
	var rest []string
	for at := dir; ; {
		if path, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(append([]string{path}, rest...)...)
		}
		up := filepath.Dir(at)
		if up == at {
			return dir
		}
		rest = append([]string{filepath.Base(at)}, rest...)
		at = up
	}
}
