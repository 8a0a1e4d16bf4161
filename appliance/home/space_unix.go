// SPDX-License-Identifier: MIT

//go:build unix

package home

import "golang.org/x/sys/unix"

// FreeSpace is how many bytes this user may still write to the file system of a path.
func FreeSpace(path string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil //nolint:unconvert // the types differ between systems
}
