// SPDX-License-Identifier: MIT

package process

import (
	"errors"

	"golang.org/x/sys/windows"
)

func startTime(pid int) (int64, error) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if errors.Is(err, windows.ERROR_INVALID_PARAMETER) {
		return 0, ErrNoProcess
	}
	if err != nil {
		return 0, err
	}
	defer windows.CloseHandle(h) //nolint:errcheck // nothing was written
	const stillActive = 259
	var code uint32
	if err := windows.GetExitCodeProcess(h, &code); err == nil && code != stillActive {
		return 0, ErrNoProcess
	}
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &created, &exited, &kernel, &user); err != nil {
		return 0, err
	}
	return created.Nanoseconds() / 10_000_000, nil
}
