// SPDX-License-Identifier: MIT

//go:build unix

package cli

import "syscall"

// closeOnExec keeps a passed file from children.
func closeOnExec(fd int) { syscall.CloseOnExec(fd) }
