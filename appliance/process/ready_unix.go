// SPDX-License-Identifier: MIT

//go:build unix

package process

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ReadReady reads what a pipe or a terminal holds at this moment, whatever deadline is over. Where
// there is nothing, and somebody could still write, the error is EAGAIN. A deadline in the near
// future would not do: it may be over before the read that it is for.
func ReadReady(f *os.File, buf []byte) (n int, err error) {
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		return 0, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	rerr := raw.Read(func(fd uintptr) bool {
		for {
			if n, err = unix.Read(int(fd), buf); err != unix.EINTR { //nolint:errorlint // a number
				return true
			}
		}
	})
	switch {
	case rerr != nil:
		return 0, rerr
	case err != nil:
		return 0, err
	case n == 0 && len(buf) > 0:
		return 0, io.EOF
	}
	return n, nil
}
