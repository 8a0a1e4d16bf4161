// SPDX-License-Identifier: MIT

//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// detach lets a child outlive this process and its terminal.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
