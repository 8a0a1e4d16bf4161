// SPDX-License-Identifier: MIT

package process

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB of sys/proc.h

// now is the present in the unit of start times: microseconds of the wall clock.
func now() int64 { return time.Now().UnixMicro() }

// scan returns the living processes that have not started before since and that may be
// signalled at all.
func scan(since int64) ([]*proc, error) {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	me, err := whoami()
	if err != nil {
		return nil, err
	}
	var out []*proc
	for i := range all {
		k := &all[i]
		p := &proc{
			ident: ident{pid: int(k.Proc.P_pid), start: started(k)},
			ppid:  int(k.Eproc.Ppid), pgid: int(k.Eproc.Pgid),
		}
		if k.Proc.P_stat == zombie || p.start < since {
			continue
		}
		if p.sid, err = unix.Getsid(p.pid); err == nil && !me.is(p) {
			out = append(out, p)
		}
	}
	return out, nil
}

func started(k *unix.KinfoProc) int64 {
	t := k.Proc.P_starttime
	return t.Sec*1e6 + int64(t.Usec)
}

// startOf returns when the present holder of a pid started.
func startOf(pid int) (int64, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, err
	}
	return started(k), nil
}

// marks returns the value of Mark with which a process was started.
func marks(pid int) (string, bool) {
	// The number of arguments, the path, the arguments, then the environment.
	data, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return "", true
	}
	return get(strings.Split(string(data), "\x00"), Mark), true
}
