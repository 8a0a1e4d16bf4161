// SPDX-License-Identifier: MIT

//go:build unix

package mcp

import "syscall"

// noFollow refuses a link as the last part of a path, and does not wait for a pipe's reader.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
