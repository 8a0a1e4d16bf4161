// SPDX-License-Identifier: MIT

//go:build unix

package secret

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
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

// readNow reads what is there, without waiting; 0 = nothing is.
func readNow(file *os.File, buf []byte) (n int) {
	conn, err := file.SyscallConn()
	if err != nil {
		return 0
	}
	err = conn.Read(func(fd uintptr) bool {
		for n, err = unix.Read(int(fd), buf); errors.Is(err, unix.EINTR); {
			n, err = unix.Read(int(fd), buf)
		}
		return true
	})
	if err != nil {
		return 0
	}
	return n
}
