// SPDX-License-Identifier: MIT

//go:build unix

package installer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// owns reports whether a directory belongs to this process's user. One that cannot be looked at
// does not.
func (h Host) owns(dir string) bool {
	info, err := os.Stat(h.path(dir))
	if err != nil || !info.IsDir() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == h.UID
}

// as gives a command another user's rights.
func as(cmd *exec.Cmd, a Account) error {
	if a.UID < 0 || a.GID < 0 {
		return errors.New("no rights of a user without a number")
	}
	if os.Geteuid() == a.UID {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("only root may act for %s", a.Name)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.UID), Gid: uint32(a.GID)}}
	return nil
}

// Give makes an account the owner of a file or directory that root made for it.
func Give(path string, a Account) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, a.UID, a.GID)
}
