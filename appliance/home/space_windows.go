// SPDX-License-Identifier: MIT

package home

import "golang.org/x/sys/windows"

// FreeSpace is how many bytes this user may still write to the file system of a path.
func FreeSpace(path string) (uint64, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return free, err
}
