// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// Request is an installation that somebody wants.
type Request struct {
	Spec     service.Spec
	Target   Target
	Standing *Found // see [Host.Resolve]
	Options  Options

	// Migrator brings the homes up to date first; with a nil clock nothing is migrated.
	Migrator migrate.Migrator
	// Prepare makes the home where there is none. nil = it must be there.
	Prepare func() error
}

// Report is what an installation or removal did, or would do.
type Report struct {
	Plan     Plan     `json:"plan"`
	Applied  bool     `json:"applied"`
	Settled  string   `json:"settled,omitempty"`  // what was done about an earlier run that was cut off
	Migrated []string `json:"migrated,omitempty"` // homes whose config was brought up to date
	Warnings []string `json:"warnings,omitempty"` // what failed and does not keep the service from running
	Observed Observed `json:"service"`            // after it
}

// Preview returns what Install would do, and changes nothing (H#109473). With a [*Refusal] the
// plan is there, too, so that it can be shown.
func (h Host) Preview(ctx context.Context, r Request) (Report, error) {
	if err := h.settled(r.Target, r.Standing, program(r.Spec)); err != nil {
		return Report{}, err
	}
	rep, err := h.plan(ctx, r)
	pending, merr := h.pendingMigrations(r)
	rep.Migrated = pending
	if j, jerr := h.interrupted(r.Target); jerr == nil && j != nil {
		rep.Settled = "an earlier " + j.What + " was cut off; it is undone first"
	}
	return rep, errors.Join(err, merr)
}

func program(s service.Spec) string {
	if len(s.Exec) == 0 {
		return ""
	}
	return s.Exec[0]
}

func (h Host) plan(ctx context.Context, r Request) (Report, error) {
	d, err := h.Desired(r.Spec, r.Target, r.Options)
	if err != nil {
		return Report{}, err
	}
	o, err := h.Observe(ctx, r.Target, d)
	if err != nil {
		return Report{}, err
	}
	p, err := NewPlan(d, o, r.Options)
	return Report{Plan: p, Observed: o}, err
}

// Install puts the service on the host, in this order: refusals; the config of the homes is
// brought up to date; files; the manager reads them; enabled; linger; started; ready. What was
// cut off before is undone first. After an error everything but the migrations is as it was, or
// the [*StepError] names what is not; a migration stands on its own and can be taken back on its
// own. Where there is nothing to do nothing is touched.
func (h Host) Install(ctx context.Context, r Request) (rep Report, err error) {
	if err := h.settled(r.Target, r.Standing, program(r.Spec)); err != nil {
		return rep, err
	}
	if rep, err = h.plan(ctx, r); err != nil && !h.cutOff(r.Target) {
		return rep, err
	}
	if r.Prepare != nil {
		if err := r.Prepare(); err != nil {
			return rep, err
		}
	}
	release, err := h.lock(ctx, r.Target)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, release()) }()
	settled, err := h.settle(ctx, r.Target)
	if err != nil {
		return rep, err
	}
	migrated, err := h.migrations(ctx, r)
	if err != nil {
		return rep, fmt.Errorf("the service was not touched: %w", err)
	}
	rep, err = h.plan(ctx, r)
	rep.Settled, rep.Migrated = settled, migrated
	if err != nil {
		return rep, err
	}
	if err := h.reachable(ctx, r); err != nil {
		return rep, err
	}
	if !rep.Plan.Pending() {
		return rep, nil
	}
	if h.insideOf(rep.Observed.Target, rep.Observed.Props) {
		return rep, insideRefusal("install")
	}
	before := slices.Clone(rep.Observed.Notices)
	rep.Warnings, err = h.carryOut(ctx, "install", rep.Plan)
	if err != nil {
		return rep, err
	}
	rep.Applied = true
	rep.Observed, err = h.Observe(ctx, r.Target, Desired{})
	if w := rep.Observed.Props.warning(); w != "" {
		rep.Warnings = append(rep.Warnings, w)
	}
	// Of the host as it was before, only what is still so is worth a word.
	rep.Plan.Notices = append(slices.DeleteFunc(rep.Plan.Notices, func(n string) bool { return slices.Contains(before, n) }), rep.Observed.Notices...)
	return rep, err
}

func (h Host) cutOff(t Target) bool {
	j, err := h.interrupted(t)
	return err == nil && j != nil
}

// homes are those that the service serves: a home with its profiles, or one profile.
func (h Host) homes(r Request) ([]home.Home, error) {
	real := r.Target.Home
	real.Dir = h.path(real.Dir)
	if real.Profile != home.Default {
		return []home.Home{real}, nil
	}
	profiles, err := real.Profiles()
	return append([]home.Home{real}, profiles...), err
}

// pendingMigrations names the homes that would be migrated.
func (h Host) pendingMigrations(r Request) (out []string, err error) {
	if r.Migrator.Now == nil {
		return nil, nil
	}
	homes, err := h.homes(r)
	if err != nil {
		return nil, err
	}
	for _, hm := range homes {
		res, err := r.Migrator.Preview(hm, migrate.Options{})
		if err != nil && exitcode.Of(err) != exitcode.Newer {
			return out, err
		}
		if err == nil && res.Plan != nil && res.Plan.Pending() {
			out = append(out, hm.Dir)
		}
	}
	return out, nil
}

// migrations brings the homes up to date. One that a newer program wrote runs as it is.
func (h Host) migrations(ctx context.Context, r Request) (out []string, err error) {
	if r.Migrator.Now == nil {
		return nil, nil
	}
	homes, err := h.homes(r)
	if err != nil {
		return nil, err
	}
	for _, hm := range homes {
		res, err := r.Migrator.Apply(ctx, hm, migrate.Options{})
		if err != nil && exitcode.Of(err) != exitcode.Newer {
			return out, err
		}
		if res.Applied {
			out = append(out, hm.Dir)
		}
	}
	return out, nil
}

// reachable refuses a program or home that the service's user cannot reach: its unit would fail
// with 200/CHDIR or 203/EXEC for ever (H#6989).
func (h Host) reachable(ctx context.Context, r Request) error {
	if h.Offline || h.OS == "windows" || r.Target.Scope != service.System || h.UID != 0 {
		return nil
	}
	const ask = `test -x "$1" || exit 3; cd -- "$2" && test -w . || exit 4`
	prog := program(r.Spec)
	res, err := h.Run(ctx, Command{
		Argv: []string{"/bin/sh", "-c", ask, "sh", prog, h.path(r.Target.Home.Dir)}, Env: h.plainEnv(), As: &r.Target.Account,
	})
	if err != nil {
		return fmt.Errorf("asking as %s: %w", r.Target.Account.Name, err)
	}
	name := r.Target.Account.Name
	switch res.Code {
	case 0:
		return nil
	case 3:
		return &Refusal{Reason: "unreachable", File: prog, Msg: name + " cannot run it", Fix: "sudo install -m 755 " + prog + " /usr/local/bin/, and install with that one", Code: exitcode.Error}
	}
	return &Refusal{Reason: "unreachable", File: r.Target.Home.Dir, Msg: name + " cannot enter and write it", Fix: "sudo chown -R " + name + ": " + r.Target.Home.Dir + ", or pass --run-as-user", Code: exitcode.Error}
}
