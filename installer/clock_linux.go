// SPDX-License-Identifier: MIT

package installer

import (
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic is the kernel's clock that systemd's monotonic stamps are from: it stands still while
// the machine sleeps, unlike what /proc/uptime says.
func Monotonic() (now time.Duration, ok bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}
