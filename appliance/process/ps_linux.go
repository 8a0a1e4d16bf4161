// SPDX-License-Identifier: MIT

package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// tick is the unit of a start time in /proc: USER_HZ, 100 on all that Go runs on.
const tick = 1e9 / 100

// now is the present in the unit of start times.
func now() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0 // then nothing is too old to be a child, and nothing old enough to be in a reaped one's session
	}
	return ts.Nano() / tick
}

// scan returns the living processes that have not started before since and that may be
// signalled at all.
func scan(since int64) ([]*proc, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	dir.Close() //nolint:errcheck // opened for reading
	if err != nil {
		return nil, err
	}
	me, err := whoami()
	if err != nil {
		return nil, err
	}
	var out []*proc
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, dead, err := stat(pid)
		if err == nil && !dead && p.start >= since && !me.is(p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// statFields returns the fields of /proc/<pid>/stat from the third, the state, on.
func statFields(pid int) ([]string, error) {
	data, err := os.ReadFile(procFile(pid, "stat"))
	// The second, the name in brackets, may itself hold brackets and spaces.
	return strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:])), err
}

// stat reads /proc/<pid>/stat (proc_pid_stat(5)).
func stat(pid int) (p *proc, dead bool, err error) {
	const state, ppid, pgrp, session, threads, start = 0, 1, 2, 3, 17, 19
	f, err := statFields(pid)
	if err != nil {
		return nil, false, err
	}
	if len(f) <= start {
		return nil, false, fmt.Errorf("%s: not understood", procFile(pid, "stat"))
	}
	var n [start + 1]int64
	for i := ppid; i <= start; i++ {
		if n[i], err = strconv.ParseInt(f[i], 10, 64); err != nil {
			return nil, false, fmt.Errorf("%s: %w", procFile(pid, "stat"), err)
		}
	}
	p = &proc{
		ident: ident{pid: pid, start: n[start]},
		ppid:  int(n[ppid]), pgid: int(n[pgrp]), sid: int(n[session]),
	}
	// A process whose first thread has ended is shown as a zombie while others run.
	dead = f[state] == "X" || f[state] == "Z" && n[threads] <= 1
	return p, dead, nil
}

// startOf returns when the present holder of a pid started.
func startOf(pid int) (int64, error) {
	p, _, err := stat(pid)
	if err != nil {
		return 0, err
	}
	return p.start, nil
}

// marks returns the value of Mark with which a process was started. It is false while that
// cannot be said.
func marks(pid int) (string, bool) {
	data, err := os.ReadFile(procFile(pid, "environ"))
	if err != nil {
		return "", true // gone, or another user's
	}
	if len(data) == 0 {
		return "", !execing(pid)
	}
	return get(strings.Split(string(data), "\x00"), Mark), true
}

// execing reports whether a process whose environment was read as empty may be in the middle
// of an exec: the old one is gone then and the new one not yet there (env_end is 0), or has
// appeared since. A process that has none on purpose has one that ends where it begins.
func execing(pid int) bool {
	const flags, envStart, envEnd, kernelThread = 6, 47, 48, 0x200000
	f, err := statFields(pid)
	if err != nil || len(f) <= envEnd || f[0] == "Z" || f[0] == "X" {
		return false
	}
	n, err := strconv.ParseUint(f[flags], 10, 64)
	if err != nil || n&kernelThread != 0 {
		return false
	}
	return f[envEnd] == "0" || f[envStart] != f[envEnd]
}

func procFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}
