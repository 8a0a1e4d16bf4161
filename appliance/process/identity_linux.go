// SPDX-License-Identifier: MIT

package process

import (
	"errors"

	"golang.org/x/sys/unix"
)

func startTime(pid int) (int64, error) {
	p, dead, err := stat(pid)
	switch {
	case err != nil && !errors.Is(err, unix.ESRCH): // it may end while it is looked at
		return 0, err
	case err != nil || dead:
		return 0, ErrNoProcess
	}
	return p.start, nil
}
