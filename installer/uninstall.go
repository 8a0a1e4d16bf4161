// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// NewRemoval returns how to take a service off the host: stopped, disabled, every file of ours
// removed. What somebody else wrote stays; of what somebody edited a copy stays, unless purge.
// Purge also removes the copies that earlier runs kept. Nothing of the home's own is ever in it.
// The error is a [*Refusal].
func NewRemoval(o Observed, purge bool) (Plan, error) {
	b := builder{p: Plan{Target: o.Target, Notices: o.Notices}, o: o, made: map[string]bool{}}
	main := o.seen[o.file()]
	if err := removable(o, main); err != nil {
		return b.p, err
	}
	for _, path := range o.Theirs {
		b.p.Kept = append(b.p.Kept, path+" (not ours)")
	}
	if main.Link == "/dev/null" {
		b.p.Kept = append(b.p.Kept, main.Path+" (somebody masked the service)")
	}
	if !main.Exists && (!o.Props.Known || o.Props.Masked) && len(o.extra) == 0 {
		b.purge(purge)
		return b.p, nil
	}
	b.step(Step{Op: OpReread})
	own := o.ownSockets()
	units := append(o.socketsThat(func(s SocketSeen) bool { return s.Ours && s.Enabled }), o.Unit())
	if !o.offline && o.Reached {
		if len(own) > 0 || o.Props.PID > 0 || o.Props.Active == "active" || o.Props.Active == "activating" {
			b.step(Step{Op: OpStop, Unit: o.Unit(), Units: own})
		}
		if len(units) > 1 || o.Props.Enabled || o.Kind == Tasks && o.Props.Known { // one that is switched off is registered, too
			b.step(Step{Op: OpDisable, Unit: o.Unit(), Units: units})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(o.seen)) {
		s := o.seen[path]
		if !o.mine(s) {
			continue
		}
		if s.Prov.Edited && !purge {
			copied := path + backupMark + atomicfile.Hash(s.Data)[:12]
			b.step(Step{Op: OpFile, Path: copied, After: Image{Exists: true, Data: s.Data, Mode: 0o600}, Why: "copy of what was edited"})
		}
		b.step(Step{Op: OpFile, Path: path, Before: s.image(), Role: Definition})
	}
	if !o.offline && o.Reached {
		b.step(Step{Op: OpReload, Unit: o.Unit()})
	}
	if n := o.notes; n.Lingered != "" && !o.offline {
		b.step(Step{Op: OpUnlingr, User: n.Lingered, Soft: true, Why: "it was off before"})
	}
	if s := o.seen[o.notesFile()]; s.Exists {
		b.step(Step{Op: OpFile, Path: s.Path, Before: s.image(), Quiet: true})
	}
	b.purge(purge)
	return b.p, nil
}

func (t Target) notesFile() string { return t.notes() }

// mine reports whether a file is one that a removal takes away. A link has nothing of ours in it:
// only those by which a service of an image starts are, and no mask ever is.
func (o Observed) mine(s Seen) bool {
	switch {
	case s.Path == o.notesFile() || !s.image().Exists || slices.Contains(o.Theirs, s.Path):
		return false
	case s.Link != "" && o.offline:
		return s.Path != o.file()
	}
	return s.Prov.Ours
}

func (b *builder) purge(purge bool) {
	for _, path := range b.o.Copies {
		// A copy is named by what is in it; what else has such a name is somebody's own.
		if s := b.o.seen[path]; s.Link != "" || !strings.HasSuffix(path, backupMark+atomicfile.Hash(s.Data)[:12]) {
			b.p.Kept = append(b.p.Kept, path+" (not ours)")
			continue
		}
		if !purge {
			b.p.Kept = append(b.p.Kept, path+" (a copy; --purge removes it)")
			continue
		}
		b.step(Step{Op: OpFile, Path: path, Before: b.o.seen[path].image(), Why: "copy"})
	}
}

// removable refuses what is not ours to remove.
func removable(o Observed, main Seen) error {
	refuse := func(reason, msg, fix string) error {
		return &Refusal{Reason: reason, File: main.Path, Msg: msg, Fix: fix, Code: exitcode.Managed}
	}
	pinnedHome, _ := pinned(o.Kind, string(main.Data))
	switch {
	case o.Manager != "":
		return &Refusal{
			Reason: "managed", File: o.Home.Dir, Msg: "is managed by " + o.Manager,
			Fix: "disable the service in the configuration of " + o.Manager, Code: exitcode.Managed,
		}
	case main.Exists && pinnedHome != "" && pinnedHome != o.Home.Dir:
		return refuse("other-home", "belongs to the gateway of "+pinnedHome+", not of "+o.Home.Dir, "hermes-appliance uninstall --home "+pinnedHome)
	case main.Exists && !main.Prov.Ours:
		return refuse("foreign", "was not written by hermes-appliance", "remove it with what wrote it (upstream: hermes gateway uninstall)")
	case main.Exists && main.Owner != "":
		return refuse("readonly", "cannot be removed: "+main.Owner, "change it where it comes from")
	}
	return nil
}

// Uninstall takes the service of a home off the host. It refuses from inside that service. A stop
// that fails is an error, and then nothing was removed.
func (h Host) Uninstall(ctx context.Context, t Target, purge, dryRun bool) (rep Report, err error) {
	if dryRun {
		return h.removal(ctx, t, purge)
	}
	if rep, err = h.removal(ctx, t, purge); err != nil && !h.cutOff(t) {
		return rep, err
	}
	if h.insideOf(rep.Observed.Target, rep.Observed.Props) {
		return rep, insideRefusal("uninstall")
	}
	if !rep.Plan.Pending() && !h.cutOff(t) && !h.exists(filepath.Join(t.stateDir(), staged(t.journal()))) && !h.exists(systemState) {
		return rep, nil
	}
	release, err := h.lock(ctx, t)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, release()) }()
	settled, err := h.settle(ctx, t)
	if err != nil {
		return rep, err
	}
	rep, err = h.removal(ctx, t, purge)
	rep.Settled = settled
	if err != nil || !rep.Plan.Pending() {
		return rep, err
	}
	rep.Warnings, err = h.carryOut(ctx, "uninstall", rep.Plan)
	if err != nil {
		return rep, err
	}
	rep.Applied = true
	if err := h.unmark(t); err != nil {
		return rep, err
	}
	h.emptyDirs(t)
	rep.Observed, err = h.Observe(ctx, t, Desired{})
	return rep, err
}

func (h Host) removal(ctx context.Context, t Target, purge bool) (Report, error) {
	var links Desired
	if h.Offline {
		links = offlineLinks(t)
	}
	if t.Kind == Tasks {
		links.add(Definition, t.launcher(), "", 0)
	}
	o, err := h.Observe(ctx, t, links)
	if err != nil {
		return Report{}, err
	}
	for _, path := range o.Copies {
		if o.seen[path], err = h.see(t.Kind, path); err != nil {
			return Report{}, err
		}
	}
	p, err := NewRemoval(o, purge)
	return Report{Plan: p, Observed: o}, err
}

// offlineLinks are the links by which a service of an image starts.
func offlineLinks(t Target) Desired {
	var d Desired
	switch t.Kind {
	case OpenRC:
		d.link("/etc/runlevels/default/"+t.Name, t.file())
	case Systemd:
		for _, wants := range []string{"multi-user.target.wants", "default.target.wants"} {
			d.link(filepath.Join(t.dir(), wants, t.Unit()), t.file())
		}
		for _, s := range []string{"", ".webhook"} {
			d.link(filepath.Join(t.dir(), "sockets.target.wants", t.Name+s+socketExt), "")
		}
	case Launchd, Tasks, SCM, SysV:
	}
	return d
}

// emptyDirs removes the directories of drop-ins and links that hold nothing any more.
func (h Host) emptyDirs(t Target) {
	switch t.Kind {
	case Systemd:
		os.Remove(h.path(t.file() + ".d")) //nolint:errcheck // one that is not empty stays
	case Tasks:
		os.Remove(h.path(t.dir())) //nolint:errcheck // as above
	case Launchd, SCM, OpenRC, SysV:
	}
}
