// SPDX-License-Identifier: MIT

package installer

import (
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// Refusal is a reason for which nothing is done, and what removes it. No byte of the host has
// changed.
type Refusal struct {
	Reason string        `json:"reason"` // a word for scripts, e.g. "foreign"
	File   string        `json:"file,omitempty"`
	Msg    string        `json:"message"`
	Fix    string        `json:"fix,omitempty"` // a command, or what to do
	Code   exitcode.Code `json:"exit"`          // exitcode.OK: there is nothing to install here, and that is fine
}

func (r *Refusal) Error() string {
	var b strings.Builder
	if r.File != "" {
		b.WriteString(r.File + ": ")
	}
	b.WriteString(r.Msg)
	if r.Fix != "" {
		b.WriteString("; " + r.Fix)
	}
	return b.String()
}

// ExitCode follows the table.
func (r *Refusal) ExitCode() exitcode.Code { return r.Code }
