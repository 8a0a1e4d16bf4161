// SPDX-License-Identifier: MIT

package session

import "golang.org/x/sys/unix"

// remoteFS names the file system of a directory if other machines may write it too, or if its
// shared memory is not the same for all who map it: WAL needs both. "" = local or unknown.
// The numbers are those of statfs(2).
func remoteFS(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return ""
	}
	return map[uint32]string{
		0x6969:     "NFS",
		0x517b:     "SMB",
		0xff534d42: "CIFS",
		0xfe534d42: "SMB",
		0x65735546: "FUSE", // also virtiofs, through which virtual machines see their host's files
		0x01021997: "9p",
		0x00c36400: "Ceph",
		0x0bd00bd0: "Lustre",
		0x5346414f: "AFS",
		0x73757245: "Coda",
		0x01161970: "GFS2",
		0x7461636f: "OCFS2",
		0x786f4256: "VirtualBox shared folder",
		0x19830326: "BeeGFS",
	}[uint32(st.Type)]
}
