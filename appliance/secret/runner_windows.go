// SPDX-License-Identifier: MIT

package secret

import "os/exec"

// group leaves a command as it is: killing a tree takes a job object, which the runner of
// package process has.
func group(*exec.Cmd) {}
