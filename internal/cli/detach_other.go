// SPDX-License-Identifier: MIT

//go:build !unix

package cli

import "os/exec"

// detach does nothing: there gateways are not moved.
func detach(*exec.Cmd) {}
