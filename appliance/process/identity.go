// SPDX-License-Identifier: MIT

package process

import (
	"errors"
	"io/fs"
	"os"
)

// ErrNoProcess says that no process has a pid, or that it has ended and only its parent does
// not know yet.
var ErrNoProcess = errors.New("no such process")

// StartTime returns when the present holder of a pid started: on Linux in clock ticks since
// the system booted (field 22 of /proc/<pid>/stat), elsewhere in hundredths of a second since
// 1970, as upstream writes it beside a pid. Pid and start time together name a process for as
// long as the system runs. The error is [ErrNoProcess], or that the system cannot tell.
func StartTime(pid int) (int64, error) {
	if pid <= 0 {
		return 0, ErrNoProcess
	}
	start, err := startTime(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, ErrNoProcess
	}
	return start, err
}

// Signal sends a signal to the process that a pid and its [StartTime] name, and to no later
// holder of the pid. The error is [ErrNoProcess] if that one is gone, [ErrProtected] for this
// process, pid 1 or below, or a start time that is not known (0).
func Signal(pid int, start int64, sig os.Signal) error {
	if pid <= 1 || pid == os.Getpid() || start == 0 {
		return ErrProtected
	}
	p, err := os.FindProcess(pid) // where there are pidfds, holds this holder of the pid
	if err != nil {
		return ErrNoProcess
	}
	defer p.Release() //nolint:errcheck // nothing was kept
	if now, err := StartTime(pid); err != nil || now != start {
		return errors.Join(ErrNoProcess, err)
	}
	err = p.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return ErrNoProcess
	}
	return err
}
