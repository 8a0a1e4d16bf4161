// SPDX-License-Identifier: MIT

//go:build !linux

package secret

import (
	"os"
	"runtime"
	"testing"
)

// unprivileged runs f with a file access that modes stop.
func unprivileged(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() == 0 || runtime.GOOS == "windows" {
		t.Skip("modes do not stop this user")
	}
	f()
}
