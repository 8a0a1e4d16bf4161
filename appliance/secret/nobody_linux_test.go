// SPDX-License-Identifier: MIT

package secret

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// unprivileged runs f with a file access that modes stop, also when the tests run as root.
func unprivileged(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.Setfsuid(65534)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
