// SPDX-License-Identifier: MIT

//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// waitExit waits until a child of ours has exited and leaves it a zombie. It asks the kernel
// queue: waitid with WNOWAIT also returns on darwin when the child was stopped.
func waitExit(pid int) error {
	kq, err := unix.Kqueue()
	if err != nil {
		return err
	}
	unix.CloseOnExec(kq)
	defer unix.Close(kq) //nolint:errcheck // nothing is buffered
	change, event := make([]unix.Kevent_t, 1), make([]unix.Kevent_t, 1)
	unix.SetKevent(&change[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	change[0].Fflags = unix.NOTE_EXIT
	for {
		n, err := unix.Kevent(kq, change, event, nil)
		switch {
		case err == unix.EINTR: //nolint:errorlint // a bare errno
		case err == unix.ESRCH: //nolint:errorlint // a bare errno
			return nil // a zombie already
		case err != nil:
			return os.NewSyscallError("kevent", err)
		case n > 0 && event[0].Flags&unix.EV_ERROR != 0 && unix.Errno(event[0].Data) != unix.ESRCH:
			return os.NewSyscallError("kevent", unix.Errno(event[0].Data))
		case n > 0:
			return nil
		}
	}
}
