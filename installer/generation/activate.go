// SPDX-License-Identifier: MIT

package generation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// Activation goes from the present state to another one, or stays.
type Activation struct {
	Store

	Seen  Seen // the present state
	Fleet Fleet
	Wait  time.Duration    // for a gateway to come up, beyond its drain
	Say   func(msg string) // what is done, for people; never a secret
	// Migrate has the program that is in place bring the configs of the home up to date, before
	// a gateway starts on them. nil = they stay.
	Migrate func(ctx context.Context, program string) error
	// Check has a look at a staged program before it replaces the present one. nil = none.
	Check func(ctx context.Context, staged string) error
}

// Outcome is what an activation did.
type Outcome struct {
	Recorded Manifest  // the generation that runs now
	Restart  []Gateway // gateways that run on it, as they were before
	Manual   []Gateway // those that nobody starts again: they run on what was until somebody does
	Notes    []string
}

// target is what shall be.
type target struct {
	reason  Reason
	number  int      // of a rollback
	binary  Binary   // what shall be at the program's path
	program []byte   // its content; nil = it stays
	config  []byte   // nil = it stays
	earlier Manifest // of a rollback: whose config and units they are
	units   []unitEdit
	force   bool
}

// unitEdit is what becomes of one unit.
type unitEdit struct {
	path     string
	from, to []byte // nil = not there
}

// FailedError says that the new state was not fit to run and what was before is back.
type FailedError struct {
	Why  error
	Undo error // what of it is not back; nil = all is
}

func (e *FailedError) Error() string {
	if e.Undo == nil {
		return e.Why.Error() + "; everything is as it was"
	}
	return fmt.Sprintf("%v; not everything is as it was: %v", e.Why, e.Undo)
}

func (e *FailedError) Unwrap() []error { return []error{e.Why, e.Undo} }

// Update replaces the program by another one with this content, has the gateways drain and
// start on it, and records the result. When a gateway does not come up with the new version,
// the old program and config are put back and the error is a [*FailedError].
func (a Activation) Update(ctx context.Context, to Binary, program []byte) (Outcome, error) {
	to.Path = a.Seen.Binary.Path
	if to.SHA256 != atomicfile.Hash(program) {
		return Outcome{}, fmt.Errorf("%s: the program is not the one that was checked", to.Path)
	}
	return a.run(ctx, func() (target, error) {
		return target{reason: Update, binary: to, program: program}, nil
	})
}

// run activates what plan returns once nobody else does.
func (a Activation) run(ctx context.Context, plan func() (target, error)) (out Outcome, err error) {
	release, err := a.lock(ctx, a.Seen.Binary.Path)
	if errors.Is(err, errBusy) {
		err = a.busy()
	}
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, release()) }()
	said, err := a.settle(ctx)
	if said != "" {
		out.Notes = append(out.Notes, said)
	}
	if err != nil {
		return out, err
	}
	t, err := plan()
	if err != nil {
		return out, err
	}
	before, err := a.record(ctx, Found, a.Seen, t.number)
	if err != nil {
		return out, err
	}
	if before.Note != "" && t.program != nil {
		return out, fmt.Errorf("nothing was changed: %s", before.Note)
	}
	return a.apply(ctx, t, before.Manifest, out)
}

// apply carries a target out; before is what is now.
func (a Activation) apply(ctx context.Context, t target, before Manifest, out Outcome) (Outcome, error) {
	var program *atomicfile.Staged
	if t.program != nil {
		var err error
		if program, err = a.stage(t.binary.Path, t.program); err != nil {
			return out, err
		}
		if a.Check != nil {
			if err := a.Check(ctx, program.Temp); err != nil {
				return out, errors.Join(err, program.Discard())
			}
		}
	}
	j := &journal{
		Version: formatVersion, Reason: t.reason, Phase: prepared, Time: a.Now().UTC(),
		Before: before.Number, Target: t.number, From: before.Binary, To: t.binary,
	}
	if err := a.writeJournal(j); err != nil {
		if program != nil {
			err = errors.Join(err, program.Discard())
		}
		return out, err
	}
	notes, err := a.swap(ctx, t, program)
	out.Notes = append(out.Notes, notes...)
	var due, moved []Gateway
	if err == nil {
		due, out.Manual, err = a.gateways(ctx)
	}
	if err == nil {
		j.Phase = swapped
		for _, g := range due {
			j.Restart = append(j.Restart, g.Home.Profile)
		}
		err = a.writeJournal(j)
	}
	if err == nil {
		moved, err = a.prove(ctx, due, t.binary.Version)
	}
	if err == nil {
		out.Restart = moved
		return a.finish(ctx, j, out)
	}
	a.say("going back: %v", err)
	undo := context.WithoutCancel(ctx) // somebody who gives up wants what was before
	return out, &FailedError{err, errors.Join(a.undo(undo, j), a.back(undo, j, moved))}
}

func (a Activation) say(format string, args ...any) {
	if a.Say != nil {
		a.Say(fmt.Sprintf(format, args...))
	}
}

// swap puts the new state in place: units, config, then the program, with which it counts.
func (a Activation) swap(ctx context.Context, t target, program *atomicfile.Staged) (notes []string, err error) {
	if err := a.putUnits(ctx, t.units); err != nil {
		return nil, errors.Join(err, discard(program))
	}
	if t.config != nil {
		r, err := a.Migrator.Return(ctx, a.Home, migrate.Earlier{Config: t.config, Beside: t.earlier.Config.Beside, Force: t.force})
		if r.Plan != nil {
			notes = r.Plan.Advice
		}
		if err != nil {
			return notes, errors.Join(err, discard(program))
		}
	}
	if program != nil {
		if err := program.Commit(); err != nil {
			return notes, errors.Join(err, discard(program))
		}
		a.say("%s is version %s now", program.Target, t.binary.Version)
	}
	if a.Migrate != nil && t.reason == Update {
		return notes, a.Migrate(ctx, t.binary.Path)
	}
	return notes, nil
}

func discard(p *atomicfile.Staged) error {
	if p == nil {
		return nil
	}
	return p.Discard()
}

// putUnits writes and removes units, and has the manager read them.
func (a Activation) putUnits(ctx context.Context, edits []unitEdit) error {
	var paths []string
	for _, e := range edits {
		paths = append(paths, e.path)
		var err error
		if e.to == nil {
			err = a.Files.Remove(e.path)
		} else {
			err = a.Files.Write(e.path, e.to, atomicfile.Options{Mode: 0o644})
		}
		if err != nil {
			return err
		}
		a.say("%s is what it was", e.path)
	}
	if len(paths) == 0 || a.Reload == nil {
		return nil
	}
	return a.Reload(ctx, paths)
}

// gateways returns those that somebody starts again when they end, and those that were started
// by hand, which are left alone.
func (a Activation) gateways(ctx context.Context) (due, manual []Gateway, err error) {
	if a.Fleet == nil {
		return nil, nil, nil
	}
	all, err := a.Fleet.Running(ctx)
	for _, g := range all {
		if g.Supervisor == "" {
			manual = append(manual, g)
		} else {
			due = append(due, g)
		}
	}
	return due, manual, err
}

// prove has gateways start again and waits until each serves with the version. moved are those
// that were asked to.
func (a Activation) prove(ctx context.Context, due []Gateway, version string) (moved []Gateway, err error) {
	for _, g := range due {
		moved = append(moved, g)
		if g.PID == 0 { // it has ended, and is to come back by itself
			if err := await(ctx, a.Fleet, g, version, a.Wait); err != nil {
				return moved, err
			}
			continue
		}
		a.say("restarting the gateway of %s (process %d); its turns may finish first", g.Home.Dir, g.PID)
		if err := restart(ctx, a.Fleet, g, version, a.Wait); err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// back has the gateways that were asked to restart serve on what was before.
func (a Activation) back(ctx context.Context, j *journal, moved []Gateway) error {
	var errs []error
	version, swapped := j.From.Version, j.From.SHA256 != j.To.SHA256
	for _, was := range moved {
		now, ok, err := a.Fleet.Ask(ctx, was.Home)
		gone := Gateway{Home: was.Home} // that must not answer any more
		switch {
		case err == nil && ok && now.same(was):
			continue // it never ended: it may still do so, and starts on the old program
		case err == nil && ok && swapped && now.Version == version && now.Ready:
			continue
		case err == nil && ok && (!swapped || now.Version != version):
			gone = now
			if _, err := a.Fleet.Drain(ctx, now); err != nil {
				a.say("process %d could not be asked to restart: %v", now.PID, err)
			}
		case err == nil && !ok:
			if err := a.Fleet.Revive(ctx, was.Home); err != nil {
				a.say("the gateway of %s could not be started: %v", was.Home.Dir, err)
			}
		}
		errs = append(errs, await(ctx, a.Fleet, gone, version, a.Wait))
	}
	return errors.Join(errs...)
}

// finish records what runs now and ends the journal.
func (a Activation) finish(ctx context.Context, j *journal, out Outcome) (Outcome, error) {
	seen := a.Seen
	seen.Binary = j.To
	if j.Target != 0 {
		t, err := a.Load(j.Target)
		if err == nil {
			seen.Units, seen.Sandbox = unitPaths(t), &t.Sandbox
		}
	}
	r, err := a.record(ctx, j.Reason, seen, j.Before)
	if err != nil {
		return out, fmt.Errorf("all is in place, but not recorded; run generations list again to finish: %w", err)
	}
	if r.Note != "" {
		out.Notes = append(out.Notes, r.Note)
	}
	out.Recorded = r.Manifest
	return out, a.Files.Remove(a.JournalPath())
}

func unitPaths(m Manifest) []string {
	out := []string{}
	for _, u := range m.Units {
		out = append(out, u.Path)
	}
	return out
}

// undo puts back what was before an activation, and ends its journal. What somebody else wrote
// meanwhile stays and is named in the error.
func (a Activation) undo(ctx context.Context, j *journal) error {
	before, err := a.Load(j.Before)
	if err != nil {
		return err
	}
	errs := []error{a.undoProgram(j)}
	if before.Config.SHA256 != "" {
		data, err := a.config(before)
		if err == nil {
			_, err = a.Migrator.Return(ctx, a.Home, migrate.Earlier{Config: data, Beside: before.Config.Beside, Own: true})
		}
		errs = append(errs, err)
	}
	errs = append(errs, a.undoUnits(ctx, j, before))
	if err := errors.Join(errs...); err != nil && !onlyForeign(errs) {
		return err // the next start tries again
	}
	return errors.Join(append(errs, a.Files.Remove(a.JournalPath()))...)
}

// onlyForeign reports whether all that is wrong is that somebody else wrote a file: trying
// again would not help.
func onlyForeign(errs []error) bool {
	for _, err := range errs {
		if err != nil && !errors.Is(err, migrate.ErrChanged) {
			return false
		}
	}
	return true
}

// undoProgram puts the old program back.
func (a Activation) undoProgram(j *journal) error {
	real, err := atomicfile.Resolve(j.From.Path)
	if err != nil {
		return err
	}
	now, err := ReadBinary(real, "", "")
	switch {
	case err != nil && !absent(err):
		return err
	case err == nil && now.SHA256 == j.From.SHA256:
		if _, err := os.Lstat(staged(real)); err == nil { // a new program that was never put in place
			return a.Files.Remove(staged(real))
		}
		return nil
	case err == nil && now.SHA256 != j.To.SHA256:
		return fmt.Errorf("%s: %w meanwhile and stays as it is; the old program is %s", real, migrate.ErrChanged, kept(j.From))
	}
	data, err := a.program(j.From)
	if err != nil {
		return err
	}
	p, err := a.stage(real, data)
	if err != nil {
		return err
	}
	if err := p.Commit(); err != nil {
		return errors.Join(err, p.Discard())
	}
	a.say("%s is version %s again", real, j.From.Version)
	return nil
}

// undoUnits puts the units back that a rollback changed.
func (a Activation) undoUnits(ctx context.Context, j *journal, before Manifest) error {
	if j.Target == 0 {
		return nil
	}
	t, err := a.Load(j.Target)
	if err != nil {
		return err
	}
	edits, foreign, err := a.unitEdits(t, before)
	if err == nil {
		err = a.putUnits(ctx, edits)
	}
	return errors.Join(append(foreign, err)...)
}
