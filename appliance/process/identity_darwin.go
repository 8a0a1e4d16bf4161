// SPDX-License-Identifier: MIT

package process

import (
	"golang.org/x/sys/unix"
)

func startTime(pid int) (int64, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	const zombie = 5 // SZOMB
	if err != nil || int(k.Proc.P_pid) != pid || k.Proc.P_stat == zombie {
		return 0, ErrNoProcess
	}
	return started(k) / 10_000, nil // microseconds
}
