// SPDX-License-Identifier: MIT

//go:build !linux

package installer

import "time"

// Monotonic is not known where there is no systemd.
func Monotonic() (now time.Duration, ok bool) { return 0, false }
