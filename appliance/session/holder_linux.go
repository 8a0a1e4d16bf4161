// SPDX-License-Identifier: MIT

package session

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// namespaced says that a process id without its namespace proves nothing.
const namespaced = true

// pidNamespace is the number of this process's own namespace of process ids.
func pidNamespace() string {
	link, err := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(link, "[")
	return strings.TrimSuffix(rest, "]")
}

// startOf is when a process started, in ticks since boot, "" if that cannot be read. gone is
// true only if there is no such process, or it is a zombie.
func startOf(pid int) (start string, gone bool) {
	if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
		return "", true
	}
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", false
	}
	// The name in brackets may hold anything; the state follows it, the start is field 22.
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(f) < 20 {
		return "", false
	}
	return f[19], f[0] == "Z" || f[0] == "X"
}
