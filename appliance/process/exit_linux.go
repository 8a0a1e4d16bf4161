// SPDX-License-Identifier: MIT

package process

import "golang.org/x/sys/unix"

// waitExit waits until a child of ours has exited and leaves it a zombie.
func waitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err
		}
	}
}
