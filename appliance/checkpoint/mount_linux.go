// SPDX-License-Identifier: MIT

package checkpoint

import "golang.org/x/sys/unix"

// mountPoint reports whether something is mounted at a directory, also from the same file
// system. A kernel that cannot tell (before 5.8) gives false.
func mountPoint(dir string) bool {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_BASIC_STATS, &st) != nil {
		return false
	}
	return st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
