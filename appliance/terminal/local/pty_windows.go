// SPDX-License-Identifier: MIT

package local

import (
	"io"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
)

const hasPTY = false

func startPTY(*process.Registry, process.Cmd, io.Reader) (terminal.Job, error) {
	return nil, terminal.ErrNoPTY
}
