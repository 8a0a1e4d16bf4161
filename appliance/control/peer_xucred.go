// SPDX-License-Identifier: MIT

//go:build darwin || freebsd

package control

import (
	"net"

	"golang.org/x/sys/unix"
)

// peer returns the user at the other end.
func peer(c *net.UnixConn) (uid int, known bool, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	var cred *unix.Xucred
	var credErr error
	const local = 0 // SOL_LOCAL
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptXucred(int(fd), local, unix.LOCAL_PEERCRED)
	}); err != nil {
		return 0, false, err
	}
	if credErr != nil {
		return 0, false, credErr
	}
	return int(cred.Uid), true, nil
}
