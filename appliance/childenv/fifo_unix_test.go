// SPDX-License-Identifier: MIT

//go:build unix

package childenv

import "syscall"

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }
