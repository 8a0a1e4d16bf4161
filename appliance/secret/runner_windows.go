// SPDX-License-Identifier: MIT

package secret

import (
	"os"
	"os/exec"
)

// group leaves a command as it is: killing a tree takes a job object, which the runner of
// package process has.
func group(*exec.Cmd) {}

// readNow reads nothing: there a pipe has no deadline after which something could be left.
func readNow(*os.File, []byte) int { return 0 }
