// SPDX-License-Identifier: MIT

//go:build !windows

package files

import "syscall"

// openFlags keep an open from following a link that was put there a moment ago, and from
// waiting for the other end of a FIFO.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
