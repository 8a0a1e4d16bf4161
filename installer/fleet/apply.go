// SPDX-License-Identifier: MIT

package fleet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Result is what a run came to.
type Result struct {
	Action     Action   `json:"action"`
	Served     []string `json:"served"`                // what the one gateway says it serves
	RolledBack bool     `json:"rolled_back,omitempty"` // it failed, and everything is as before
	Notes      []string `json:"notes"`
}

// BlockedError says that nothing was changed, and why.
type BlockedError struct{ Blockers []Finding }

func (e *BlockedError) Error() string {
	lines := []string{"refused, nothing was changed:"}
	for _, b := range e.Blockers {
		lines = append(lines, "- "+b.String())
	}
	return strings.Join(lines, "\n")
}

// UnconfirmedError says that all steps were taken and the gateway does not serve everybody yet.
// Nothing is taken back: it may only be slow.
type UnconfirmedError struct {
	Missing []string
	Waited  time.Duration
}

func (e *UnconfirmedError) Error() string {
	return fmt.Sprintf("the default gateway has not said within %s that it serves %s; the flag and the manifest stay: look at its log, then run gateway migrate --multiplex again to finish, or --standalone to go back",
		e.Waited, strings.Join(e.Missing, ", "))
}

// lockWait is how long a run waits for another one.
const lockWait = 5 * time.Second

// Apply carries out what plan comes to now, which must be what shown says: what changed since
// a person looked at it is shown again, not done. An error after steps were taken says what
// became of them.
func (f Fleet) Apply(ctx context.Context, shown Plan, plan func(Observed) Plan) (r Result, err error) {
	r = Result{Action: shown.Action, Served: []string{}, Notes: []string{}}
	if shown.Blocked() {
		return r, &BlockedError{shown.Blockers}
	}
	if shown.Action == Nothing {
		return r, nil
	}
	release, err := f.lock(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := errors.Join(f.sweep(), f.begun(ctx)); err != nil {
		return r, err
	}
	o, err := f.Observe(ctx)
	if err != nil {
		return r, err
	}
	now := plan(o)
	if now.Blocked() {
		return r, &BlockedError{now.Blockers}
	}
	if !slices.Equal(now.Steps, shown.Steps) {
		return r, errors.New("the gateways changed while this was decided; nothing was done, run again")
	}
	if shown.Action == Restore || shown.Action == Finish {
		m := o.Manifest
		if m == nil {
			m = &o.record.Manifest
		}
		return r, f.restore(ctx, *m, o.record, shown.Action == Finish)
	}
	return r, f.multiplex(ctx, o, shown.Action, &r)
}

// lock keeps two runs on one home apart. It is not the lock of the home's files, which the
// edit of the config takes.
func (f Fleet) lock(ctx context.Context) (func() error, error) {
	if err := f.Files.Mkdir(f.Default.State(), 0o700); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	release, err := home.LockFile(ctx, filepath.Join(f.Default.State(), "gateway_migration"))
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, &home.LockedError{Home: f.Default}
	}
	return release, err
}

// staged is the name under which a file is written before it takes its place.
func staged(path string) string { return "." + filepath.Base(path) + ".fleet.new" }

// write replaces a file whole. Only a holder of the lock calls it, so what has the staged name
// was left by a run that was killed.
func (f Fleet) write(path string, data []byte) error {
	return f.Files.Write(path, data, atomicfile.Options{Mode: 0o600, Temp: staged(path)})
}

// sweep removes what killed runs left half written.
func (f Fleet) sweep() error {
	var errs []error
	for _, path := range []string{manifestPath(f.Default), recordPath(f.Default), statePath(f.Default), f.Default.Config()} {
		if left := filepath.Join(filepath.Dir(path), staged(path)); exists(left) {
			errs = append(errs, f.Files.Remove(left))
		}
	}
	return errors.Join(errs...)
}

// multiplex makes one gateway of many, or finishes that.
func (f Fleet) multiplex(ctx context.Context, o Observed, action Action, r *Result) error {
	def := o.byName(home.Default)
	m, rec := o.Manifest, o.record
	if action == Migrate {
		fresh := newManifest(o, f.Now())
		m = &fresh
		var err error
		if rec, err = f.newRecord(o, fresh); err != nil {
			return err
		}
		if err := f.begin(ctx, def, rec); err != nil {
			return err
		}
	} else if len(def.Services) > 0 {
		if err := f.Host.Enable(ctx, o.Default, def.Services[0]); err != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("the default gateway's unit could not be enabled: %v", err))
		}
	}
	if err := f.bring(ctx, o, *m); err != nil {
		return f.takeBack(ctx, *m, rec, r, err)
	}
	return f.confirm(ctx, o, r)
}

// begin enables the survivor and writes down what there was. The record is the first, so that
// also a run that is killed right after the enabling leaves word of what it was before. What
// fails here is taken back: nothing was begun.
func (f Fleet) begin(ctx context.Context, def Profile, rec *record) error {
	if err := f.writeRecord(rec); err != nil {
		return err
	}
	if len(def.Services) > 0 {
		if err := f.Host.Enable(ctx, f.Default, def.Services[0]); err != nil {
			why := &BlockedError{[]Finding{{Kind: "enable", Profile: home.Default, Message: fmt.Sprintf("the survivor cannot be enabled: %v", err)}}}
			if err := f.forget(ctx, rec); err != nil {
				return errors.Join(why, err)
			}
			return why
		}
	}
	if err := f.writeManifest(rec.Manifest); err != nil {
		return errors.Join(err, f.forget(ctx, rec))
	}
	f.say("wrote " + manifestPath(f.Default))
	return nil
}

// forget takes back what was done before the first step that takes something away. The record
// goes last: it says what the survivor was.
func (f Fleet) forget(ctx context.Context, rec *record) error {
	ctx = context.WithoutCancel(ctx)
	if err := errors.Join(f.Files.Remove(manifestPath(f.Default)), f.disableAgain(ctx, f.Default, rec)); err != nil {
		return err
	}
	return f.dropRecord()
}

// begun takes back what a run did that was killed before it had written its manifest.
func (f Fleet) begun(ctx context.Context) error {
	rec, err := readRecord(f.Default)
	if err != nil || rec == nil || rec.Last || exists(manifestPath(f.Default)) {
		return err
	}
	return f.forget(ctx, rec)
}

// takeBack undoes a bring-up that failed. It works on when the caller's patience is over: half
// a fleet is worse than a slow answer.
func (f Fleet) takeBack(ctx context.Context, m Manifest, rec *record, r *Result, cause error) error {
	f.say("that failed; bringing back what there was")
	if err := f.restore(context.WithoutCancel(ctx), m, rec, false); err != nil {
		return fmt.Errorf("the migration failed: %w; and so did the way back: %w; run gateway migrate --standalone to go on with that", cause, err)
	}
	r.RolledBack = true
	return fmt.Errorf("the migration failed and was taken back; every gateway is as before: %w", cause)
}

// bring takes the gateways of the profiles away and starts the one that serves them.
func (f Fleet) bring(ctx context.Context, o Observed, m Manifest) error {
	def, h := o.byName(home.Default), o.Default
	t, account := m.target()
	made := len(def.Services) == 0 && t != nil
	if made { // first, for it is what fails if the machine is not as it seems
		if err := f.Host.Install(ctx, h, *t, runAs(*t, account), nil); err != nil {
			return fmt.Errorf("default: %w", err)
		}
		f.say(fmt.Sprintf("default: installed %s", t))
	}
	if err := f.remove(ctx, o, m); err != nil {
		return err
	}
	if err := f.turnOn(ctx); err != nil {
		return fmt.Errorf("gateway.multiplex_profiles: %w", err)
	}
	f.say("default: gateway.multiplex_profiles is on")
	return f.startDefault(ctx, def, t, made)
}

// remove stops and removes the gateway of every profile of the manifest that still has one.
func (f Fleet) remove(ctx context.Context, o Observed, m Manifest) error {
	for _, was := range m.Secondaries {
		q := o.byName(was.Name)
		for _, s := range q.Services {
			if err := f.Host.Uninstall(ctx, q.home(), s); err != nil {
				return fmt.Errorf("%s: %w", q.Name, err)
			}
		}
		if q.PID > 0 { // also one that no unit held, beside it
			if err := f.Host.StopProcess(ctx, q.home()); err != nil {
				return fmt.Errorf("%s: %w", q.Name, err)
			}
		}
		if q.own() {
			f.say(q.Name + ": stopped and removed " + footprint(q))
		}
	}
	return nil
}

// startDefault brings the default gateway up with the config as it is now.
func (f Fleet) startDefault(ctx context.Context, def Profile, t *Service, made bool) (err error) {
	h := def.home()
	switch {
	case len(def.Services) > 0:
		err = f.Host.Restart(ctx, h, def.Services[0])
	case def.PID > 0:
		err = f.Host.StopProcess(ctx, h)
	}
	if err == nil && made {
		err = f.Host.Start(ctx, h, *t)
	} else if err == nil && len(def.Services) == 0 {
		err = f.Host.Spawn(ctx, h)
	}
	if err != nil {
		return fmt.Errorf("default: %w", err)
	}
	f.say("default: started its gateway")
	return nil
}

// confirm waits until the one gateway says that it serves every profile.
func (f Fleet) confirm(ctx context.Context, o Observed, r *Result) error {
	wait, poll := f.Wait, f.Poll
	if wait == 0 {
		wait = ServedWait
	}
	if poll == 0 {
		poll = 500 * time.Millisecond
	}
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		missing := []string{}
		if p, live, err := f.Host.Process(o.Default); err == nil && live {
			r.Served = append([]string{}, served(o.Default, p.PID)...)
		}
		for _, q := range o.Profiles {
			if !slices.Contains(r.Served, q.Name) {
				missing = append(missing, q.Name)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-time.After(poll):
		case <-deadline.C:
			return &UnconfirmedError{missing, wait}
		case <-ctx.Done():
			return errors.Join(ctx.Err(), &UnconfirmedError{missing, wait})
		}
	}
}
