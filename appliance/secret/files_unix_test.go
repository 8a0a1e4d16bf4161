// SPDX-License-Identifier: MIT

//go:build unix

package secret

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

func pipe(path string) error { return syscall.Mkfifo(path, 0o600) }

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}
