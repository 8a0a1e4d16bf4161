// SPDX-License-Identifier: MIT

package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Migrator migrates homes. It is safe for concurrent use on different homes; on the same
// home, also from several processes, the second waits for the first.
type Migrator struct {
	Ladder   Ladder
	Getenv   func(string) string // environment for homes and advice
	Now      func() time.Time    // names backups
	LockWait time.Duration       // how long to wait for another writer
	Files    atomicfile.Writer
	Program  string // name and version for manifests
	// Ahead is called under the home's lock right before its files change; an error stops that.
	// nil = nobody asks for it.
	Ahead func(ctx context.Context, h home.Home) error
	// Manager is on whose behalf homes are written, "" = their owner's. A home that this
	// manager manages is written like any other: its activation calls.
	Manager string
}

// Result is what happened, or would happen, to one home.
type Result struct {
	Home      home.Home
	Plan      *Plan  // nil when the home could not be planned
	Applied   bool   // the plan was written
	Recovered string // what was done about an interrupted run, or must be done first; "" = none
	Backup    string // path of the manifest that Rollback would use; "" = none
}

// Preview plans a home and writes nothing. A home that others manage or that cannot be
// written gives the plan and a [*Refusal] of [ErrManaged] if there is something to do.
func (m Migrator) Preview(h home.Home, o Options) (Result, error) {
	r, _, err := m.preview(h, o)
	if err != nil || !r.Plan.Pending() {
		return r, err
	}
	return r, m.writable(h, r.Plan)
}

func (m Migrator) preview(h home.Home, o Options) (Result, snapshot, error) {
	r := Result{Home: h}
	var err error
	if r.Recovered, err = unsettled(h); err != nil {
		return r, snapshot{}, err
	}
	s, err := m.read(h)
	if err != nil {
		return r, s, err
	}
	r.Plan, err = m.Ladder.Plan(s.in, o)
	if err == nil && r.Plan.Pending() {
		r.Plan.Advice = append(r.Plan.Advice, s.notes...)
	}
	return r, s, err
}

// unsettled says what must be done about an interrupted run; "" = there is none.
func unsettled(h home.Home) (string, error) {
	j, err := readJournal(h)
	if err != nil || j == nil {
		return "", err
	}
	return fmt.Sprintf("a run that was interrupted (%s) is finished or undone first", j.what()), nil
}

// Apply plans a home and carries the plan out. A home with nothing to do is not written to
// at all. An interrupted earlier run is settled first, unless the home is managed by now.
func (m Migrator) Apply(ctx context.Context, h home.Home, o Options) (r Result, err error) {
	r, _, err = m.preview(h, o)
	switch {
	case r.Recovered != "":
		err = m.unmanaged(h, r.Plan)
	case err == nil && r.Plan.Pending():
		err = m.writable(h, r.Plan)
	case err == nil && (len(leftovers(h)) == 0 || m.writable(h, r.Plan) != nil):
		return r, nil
	}
	if err != nil {
		return r, err
	}
	release, err := m.lock(ctx, h)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, release()) }()
	said, err := m.recover(h)
	if err != nil {
		return r, err
	}
	r, s, err := m.preview(h, o)
	r.Recovered = said
	if err != nil || !r.Plan.Pending() {
		return r, err
	}
	if err := m.writable(h, r.Plan); err != nil {
		return r, err
	}
	if err := m.ahead(ctx, h); err != nil {
		return r, err
	}
	c := &commit{m: m, h: h, kind: kindMigrate, from: r.Plan.From, to: r.Plan.To, edits: r.Plan.edits, states: s.states}
	r.Backup, err = c.run()
	r.Applied = c.stands
	return r, err
}

func (m Migrator) ahead(ctx context.Context, h home.Home) error {
	if m.Ahead == nil {
		return nil
	}
	return m.Ahead(ctx, h)
}

// lock takes the home's lock, waiting as long as the migrator allows.
func (m Migrator) lock(ctx context.Context, h home.Home) (func() error, error) {
	ctx, cancel := context.WithTimeout(ctx, m.LockWait)
	defer cancel()
	release, err := h.Lock(ctx)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, &Refusal{Kind: ErrManaged, File: h.Dir, Msg: "this user cannot write the home", Fix: "run as the user who owns it"}
	case errors.Is(err, syscall.EROFS):
		return nil, &Refusal{Kind: ErrManaged, File: h.Dir, Msg: "is on a read-only file system", Fix: "remount it, then run again"}
	}
	return release, err
}

// writable refuses homes that others manage and files that cannot be replaced. It names the
// place where the plan's changes must be made instead.
func (m Migrator) writable(h home.Home, p *Plan) error {
	if err := m.unmanaged(h, p); err != nil {
		return err
	}
	for _, e := range p.edits {
		if err := m.replaceable(h, e.name, p); err != nil {
			return err
		}
	}
	why, err := home.DirOwner(h.Dir) // for the lock and the backups, wherever links lead the files
	if err != nil || why == "" {
		return err
	}
	return &Refusal{Kind: ErrManaged, File: h.Dir, Msg: "cannot be written: " + why, Fix: "make it writable (chmod u+w, or remount), then run again"}
}

// unmanaged refuses a home that others than m.Manager manage. p may be nil.
func (m Migrator) unmanaged(h home.Home, p *Plan) error {
	manager, err := h.Manager(m.Getenv)
	if err != nil || manager == "" || manager == m.Manager {
		return err
	}
	return &Refusal{Kind: ErrManaged, File: h.Config(), Msg: "is managed by " + manager, Fix: elsewhere(p, "in its configuration")}
}

// elsewhere tells to make a plan's changes in another place. p may be nil.
func elsewhere(p *Plan, place string) string {
	if p == nil || len(p.Changes) == 0 {
		return "make the changes " + place
	}
	return "make these changes " + place + ": " + nixOptions(p)
}

// replaceable refuses a file that cannot be written. p may be nil.
func (m Migrator) replaceable(h home.Home, name string, p *Plan) error {
	path := pathOf(h, name)
	owner, err := home.FileOwner(path)
	if err != nil || owner == "" {
		return err
	}
	fix := "make it writable (chmod u+w, or remount), then run again"
	switch owner {
	case "nix store":
		fix = elsewhere(p, "where the file is generated")
	case "dangling link":
		fix = "make its target, or remove the link"
	case "immutable file", "immutable directory":
		fix = "chattr -i -a what it names, then run again"
	case "another user's link":
		fix = "run as the user who owns the home, or let that user own the file"
	case "no regular file":
		fix = "put a file there"
	}
	return &Refusal{Kind: ErrManaged, File: path, Msg: "cannot be replaced: " + owner, Fix: fix}
}

func pathOf(h home.Home, name string) string {
	switch name {
	case FileEnv:
		return h.Env()
	case FileSoul:
		return h.Soul()
	}
	return h.Config()
}
