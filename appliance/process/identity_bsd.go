// SPDX-License-Identifier: MIT

//go:build unix && !linux && !darwin

package process

import (
	"errors"

	"golang.org/x/sys/unix"
)

// startTime can only tell here whether there is such a process.
func startTime(pid int) (int64, error) {
	if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
		return 0, ErrNoProcess
	}
	return 0, errors.ErrUnsupported
}
