// SPDX-License-Identifier: MIT

//go:build darwin || freebsd

package session

import "golang.org/x/sys/unix"

// remoteFS names the file system of a directory if it is not on this machine.
func remoteFS(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || uint64(st.Flags)&unix.MNT_LOCAL != 0 {
		return ""
	}
	var name []byte
	for _, c := range st.Fstypename {
		if c == 0 {
			break
		}
		name = append(name, byte(c))
	}
	return string(name)
}
