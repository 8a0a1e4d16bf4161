// SPDX-License-Identifier: MIT

package session

import (
	"errors"
	"strconv"

	"golang.org/x/sys/windows"
)

const namespaced = false

func pidNamespace() string { return "" }

// startOf is when a process was created, "" if that cannot be read. A process that has exited
// while somebody still has a handle of it is gone.
func startOf(pid int) (start string, gone bool) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return "", errors.Is(err, windows.ERROR_INVALID_PARAMETER)
	}
	defer windows.CloseHandle(h) //nolint:errcheck // opened for reading
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(h, &created, &exited, &kernel, &user) != nil {
		return "", false
	}
	return strconv.FormatInt(created.Nanoseconds(), 10), exited.Nanoseconds() > created.Nanoseconds()
}
