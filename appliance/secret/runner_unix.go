// SPDX-License-Identifier: MIT

//go:build unix

package secret

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// group gives a command a session and a group of its own, and makes a kill reach them all.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
