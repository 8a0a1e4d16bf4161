// SPDX-License-Identifier: MIT

package process

import (
	"errors"
	"io/fs"
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
