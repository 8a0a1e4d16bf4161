// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// allowlistKey is where a profile's config keeps what its owner approved for good.
const allowlistKey = "command_allowlist"

// lockWait is how long an approval waits for somebody else who edits the config.
const lockWait = 10 * time.Second

// Allowlists keeps the permanent approvals of every profile in its own config.yaml, edited
// item by item (A1). It is safe for concurrent use, also by several processes.
type Allowlists struct{ e *Environments }

// Allowlists returns the store of permanent approvals.
func (e *Environments) Allowlists() Allowlists { return Allowlists{e} }

// LoadAllowlist returns the list of the profile with this home directory. Only the profile's
// own file counts: what the administrator or a default says is not the owner's approval.
func (a Allowlists) LoadAllowlist(_ context.Context, dir string) ([]string, error) {
	return a.editor(dir).List([]string{allowlistKey})
}

// EditAllowlist changes the list of the profile with this home directory. A managed or
// read-only home refuses with an [*config.Error].
func (a Allowlists) EditAllowlist(ctx context.Context, dir string, edit func([]string) []string) error {
	_, err := a.editor(dir).EditList(ctx, []string{allowlistKey}, edit)
	return err
}

func (a Allowlists) editor(dir string) config.Editor {
	return config.Editor{
		Home: home.Home{Dir: dir}, AdminDir: home.AdminDir(a.e.Getenv), Getenv: a.e.Getenv,
		Latest: a.e.o.Latest, LockWait: lockWait, Files: atomicfile.Writer{},
	}
}
