// SPDX-License-Identifier: MIT

package installer

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// Plan is what would be done. It is made from values alone and reads nothing.
type Plan struct {
	Target

	Steps   []Step   `json:"steps"`
	Kept    []string `json:"kept,omitempty"`    // what is left as it is, and why
	Notices []string `json:"notices,omitempty"` // what a person should know
}

// Pending reports whether there is something to do.
func (p Plan) Pending() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return !s.Op.silent() })
}

// backupMark is in the name of every copy that is kept of what was replaced.
const backupMark = ".bak-"

// NewPlan returns how to get from what is to what shall be. The error is a [*Refusal]; the plan
// is valid with it, so that it can be shown.
func NewPlan(d Desired, o Observed, opt Options) (Plan, error) {
	b := builder{p: Plan{Target: d.Target, Notices: o.Notices}, o: o, made: map[string]bool{}}
	refusal := b.refusal(d, opt)
	bus := d.Kind == Systemd && d.Scope == service.User && !o.offline && !o.Reached
	linger := d.Linger && o.Linger != "yes" && !o.offline
	var first []Step
	if bus { // nothing else can be said to a manager that is not there
		if linger {
			first = append(first, Step{Op: OpLinger, User: d.Account.Name, Why: "its manager runs without a session"})
		}
		first = append(first, Step{Op: OpBus, User: d.Account.Name})
	}
	changed := b.files(d, opt)
	if !o.offline {
		b.live(d, changed, linger && !bus)
	}
	if numbered := d.Kind == Systemd || d.Kind == OpenRC || d.Kind == SysV; numbered && d.Scope == service.System && d.Account.UID == 0 {
		b.p.Notices = append(slices.Clip(b.p.Notices), "it runs as root, and so does every command that it is asked to run; --run-as-user NAME has it run as somebody else")
	}
	if b.p.Pending() && d.Kind == Systemd && !o.offline {
		n := o.notes
		if linger {
			n.Lingered = d.Account.Name
		}
		if err := b.notes(n); err != nil {
			return b.p, err
		}
	}
	b.order(d, first)
	if refusal != nil {
		return b.p, refusal
	}
	return b.p, nil
}

// builder gathers steps.
type builder struct {
	p    Plan
	o    Observed
	made map[string]bool // directories
}

func (b *builder) step(s Step) { b.p.Steps = append(b.p.Steps, s) }

// refusal says why nothing may be touched; nil = it may.
func (b *builder) refusal(d Desired, opt Options) *Refusal {
	o := b.o
	no := func(reason, msg, fix string) *Refusal {
		return &Refusal{Reason: reason, File: o.File.Path, Msg: msg, Fix: fix, Code: exitcode.Managed}
	}
	switch {
	case o.Manager != "":
		return &Refusal{
			Reason: "managed", File: o.Home.Dir, Msg: "is managed by " + o.Manager,
			Fix: "enable the service in the configuration of " + o.Manager, Code: exitcode.Managed,
		}
	case o.Props.Masked || o.File.Link == "/dev/null":
		return no("masked", "somebody masked the service", o.Fix)
	case o.File.Owner == "nix store" || strings.HasPrefix(o.File.Link, "/nix/store/"):
		return no("managed", "is a link into the Nix store", "change the service where it is generated (NixOS or home-manager)")
	case o.File.Owner != "":
		return no("readonly", "cannot be written: "+o.File.Owner, "make it writable (chmod u+w, or remount), then run again")
	case o.File.Exists && !o.File.Prov.Ours && !opt.Force:
		return no("foreign", "was not written by hermes-appliance", "--dry-run shows the difference, --force keeps a copy and replaces it")
	case o.File.Prov.Edited && !opt.Force:
		return no("edited", "was edited by hand", "--force keeps a copy and replaces it; systemctl edit "+d.Unit()+" is the place for changes that stay")
	}
	if d.Start && o.Other != 0 {
		return &Refusal{
			Reason: "running", File: o.Home.Dir, Msg: fmt.Sprintf("process %d runs a gateway of this home that is not the service's", o.Other),
			Fix: "stop it first (Ctrl-C where it was started, or uninstall the service that it belongs to)", Code: exitcode.Locked,
		}
	}
	for _, f := range d.Files {
		if s := o.seen[f.Path]; s.Owner != "" && f.Role != DropIn {
			return &Refusal{Reason: "readonly", File: f.Path, Msg: "cannot be written: " + s.Owner, Fix: "make it writable, then run again", Code: exitcode.Managed}
		}
	}
	return nil
}

// files adds the steps that make the files what they shall be, and reports whether there are
// any for the manager to read.
func (b *builder) files(d Desired, opt Options) (changed bool) {
	for _, f := range d.Files {
		s := b.o.seen[f.Path]
		before := s.image()
		after := Image{Exists: true, Data: f.Data, Mode: uint32(f.Mode), Link: f.Link}
		if before.Exists && f.Link == "" {
			after.Mode = before.Mode // it is the administrator's
		}
		if before.same(after) {
			continue
		}
		mine := !s.Exists && s.Link == "" || s.Prov.Ours && !s.Prov.Edited
		if (f.Role == DropIn || f.Role == Listener) && !mine && !opt.Force {
			b.p.Kept = append(b.p.Kept, f.Path+" (replaced by somebody: it is theirs now; --force keeps a copy and replaces it)")
			continue
		}
		if f.Role == Autostart && before.Exists {
			continue // somebody's own link of that name starts it as well
		}
		b.mkdir(filepath.Dir(f.Path))
		if !mine {
			b.backup(f.Path, s)
		}
		why := "new"
		if before.Exists {
			why = "differs from what this version writes"
		}
		b.step(Step{Op: OpFile, Path: f.Path, Before: before, After: after, Role: f.Role, Why: why})
		changed = true
	}
	return b.obsolete() || changed
}

// replaced reports whether a step makes a unit's file anew or takes it away.
func (b *builder) replaced(unit string) bool {
	return slices.ContainsFunc(b.p.Steps, func(s Step) bool { return s.Op == OpFile && s.Before.Exists && filepath.Base(s.Path) == unit })
}

// obsolete removes files of ours that are not part of the service any more.
func (b *builder) obsolete() (changed bool) {
	for _, path := range b.o.extra {
		unit := filepath.Base(path)
		if slices.Contains(b.o.openSockets(), unit) {
			b.step(Step{Op: OpClose, Units: []string{unit}, Why: "the gateway listens itself"})
		}
		if isSocket(unit) && slices.ContainsFunc(b.o.Sockets, func(s SocketSeen) bool { return s.Unit == unit && s.Enabled }) {
			b.step(Step{Op: OpDisable, Unit: unit, Units: []string{unit}})
		}
		b.step(Step{Op: OpFile, Path: path, Before: b.o.seen[path].image(), Why: "not part of it any more"})
		changed = true
	}
	for _, path := range b.o.Theirs {
		b.p.Kept = append(b.p.Kept, path+" (not ours)")
	}
	return changed
}

// backup keeps a copy of what is replaced.
func (b *builder) backup(path string, s Seen) {
	if !s.Exists {
		return
	}
	copied := path + backupMark + atomicfile.Hash(s.Data)[:12]
	b.step(Step{Op: OpFile, Path: copied, After: Image{Exists: true, Data: s.Data, Mode: 0o600}, Why: "copy of what was there"})
}

// mkdir adds the directories that are missing, the outermost first.
func (b *builder) mkdir(dir string) {
	if b.made[dir] || !b.o.missing[dir] {
		return
	}
	b.mkdir(filepath.Dir(dir))
	b.made[dir] = true
	b.step(Step{Op: OpMkdir, Path: dir})
}

// live adds the steps for the manager.
func (b *builder) live(d Desired, changed, linger bool) {
	o := b.o
	active := o.Props.Active == "active" || o.Props.Active == "activating"
	if changed || o.Props.Stale || !o.Props.Known {
		b.step(Step{Op: OpReload, Unit: d.Unit(), Why: "the manager reads the definition"})
	}
	if units := o.notEnabled(d); d.Enable && len(units) > 0 {
		b.step(Step{Op: OpEnable, Unit: d.Unit(), Units: units, Why: "it starts by itself"})
	}
	if linger {
		b.step(Step{Op: OpLinger, User: d.Account.Name, Soft: true, Why: "its manager runs without a session"})
	}
	sockets, open := d.sockets(), o.openSockets()
	closed := slices.ContainsFunc(sockets, func(u string) bool { return !slices.Contains(open, u) })
	for _, u := range sockets {
		if d.Start && slices.Contains(open, u) && b.replaced(u) {
			b.step(Step{Op: OpClose, Units: []string{u}, Why: "it opens anew with the gateway"})
		}
	}
	switch {
	case !d.Start:
		if active && changed {
			b.p.Notices = append(b.p.Notices, "the running gateway keeps its old definition until hermes-appliance restart")
		}
	case active && (changed || o.Props.Stale):
		b.step(Step{Op: OpRestart, Unit: d.Unit(), Units: sockets, PID: o.Props.PID, Why: "the running one has the old definition"})
	case active && closed:
		b.step(Step{Op: OpRestart, Unit: d.Unit(), Units: sockets, PID: o.Props.PID, Why: "its socket is not open"})
	case !active:
		b.step(Step{Op: OpStart, Unit: d.Unit(), Units: sockets, Why: "it does not run"})
	}
}

// notes adds the file that uninstall reads.
func (b *builder) notes(n notes) error {
	a, err := n.artefact(b.p.Target)
	if err != nil {
		return err
	}
	s := b.o.seen[a.Path]
	before := s.image()
	after := Image{Exists: true, Data: a.Data, Mode: uint32(a.Mode)}
	if before.Exists {
		after.Mode = before.Mode
	}
	if before.same(after) {
		return nil
	}
	// First of all, so that whatever is done after it is known to uninstall.
	steps := b.p.Steps
	b.p.Steps = nil
	b.mkdir(filepath.Dir(a.Path))
	b.step(Step{Op: OpFile, Path: a.Path, Before: before, After: after, Quiet: true})
	b.p.Steps = append(b.p.Steps, steps...)
	return nil
}

// order puts the steps that only count when everything is undone ahead of the others: what runs
// now is to run again, with the manager having read the files of before. first are those without
// which there is no manager.
func (b *builder) order(d Desired, first []Step) {
	has := func(op Op) bool { return slices.ContainsFunc(b.p.Steps, func(s Step) bool { return s.Op == op }) }
	if has(OpRestart) || has(OpClose) {
		units := slices.Compact(slices.Sorted(slices.Values(append(d.sockets(), b.o.ownSockets()...))))
		first = append(first, Step{Op: OpRevive, Unit: d.Unit(), Units: units})
	}
	if has(OpReload) {
		first = append(first, Step{Op: OpReread})
	}
	b.p.Steps = append(first, b.p.Steps...)
}

// Text prints the plan for people.
func (p Plan) Text() string {
	var b strings.Builder
	for _, s := range p.Steps {
		if !s.Op.silent() && !s.Quiet && s.Op != OpMkdir {
			fmt.Fprintf(&b, "  %s\n", s)
		}
	}
	for _, k := range p.Kept {
		fmt.Fprintf(&b, "  kept      %s\n", k)
	}
	for _, n := range p.Notices {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	return b.String()
}
