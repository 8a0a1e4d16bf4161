// SPDX-License-Identifier: MIT

//go:build unix && !linux

package session

import (
	"errors"

	"golang.org/x/sys/unix"
)

const namespaced = false

func pidNamespace() string { return "" }

// startOf can only say whether there is a process of that id.
func startOf(pid int) (start string, gone bool) {
	return "", errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}
