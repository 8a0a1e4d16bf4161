// SPDX-License-Identifier: MIT

package installer

import (
	"errors"
	"os/exec"
	"syscall"
)

func (h Host) owns(string) bool { return true }

func as(*exec.Cmd, Account) error { return errors.New("no other user's rights on Windows") }

// Give makes an account the owner of a file or directory that root made for it.
func Give(string, Account) error { return nil }

// Flags of CreateProcess.
const (
	noConsole = 0x00000008 // DETACHED_PROCESS
	ownGroup  = 0x00000200 // CREATE_NEW_PROCESS_GROUP
	ownJob    = 0x01000000 // CREATE_BREAKAWAY_FROM_JOB
)

// apart keeps a command out of this one's console and, if its job lets it, out of that.
func apart(cmd *exec.Cmd, breakaway bool) {
	flags := uint32(noConsole | ownGroup)
	if breakaway {
		flags |= ownJob
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: flags}
}
