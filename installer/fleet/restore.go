// SPDX-License-Identifier: MIT

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// restore brings back what a manifest says there was. The order is the spec's: the flag; then
// what the multiplexer said of the others, lest they park themselves on it; then their
// gateways; then the manifest goes, if all that worked; the default gateway last, for this
// process may be a child of it (H#109473). If only is set, nothing but that last step is left.
func (f Fleet) restore(ctx context.Context, m Manifest, rec *record, only bool) error {
	if !only {
		if err := f.others(ctx, m, rec); err != nil {
			return err
		}
		if rec != nil {
			rec.Last = true
			if err := f.writeRecord(rec); err != nil {
				return err
			}
		}
		if err := f.Files.Remove(manifestPath(f.Default)); err != nil {
			return err
		}
	}
	err := f.defaultBack(ctx, m, rec)
	if err == nil {
		err = f.settle(ctx, m, rec)
	}
	if err != nil {
		return errors.Join(err, f.writeManifest(m))
	}
	return f.dropRecord()
}

// others brings everything back but the default gateway. One profile that fails does not keep
// the others from theirs.
func (f Fleet) others(ctx context.Context, m Manifest, rec *record) error {
	if err := f.turnBack(ctx, m, rec); err != nil {
		return fmt.Errorf("gateway.multiplex_profiles: %w", err)
	}
	f.say("default: gateway.multiplex_profiles is as it was")
	names := []string{}
	for _, q := range m.Secondaries {
		names = append(names, q.Name)
	}
	if err := f.clearServed(names); err != nil {
		return err
	}
	var errs []error
	for _, q := range m.Secondaries {
		if err := f.bringBack(ctx, q, rec); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", q.Name, err))
		}
	}
	return errors.Join(errs...)
}

// bringBack gives a profile its gateway again, unless it has it.
func (f Fleet) bringBack(ctx context.Context, q Profile, rec *record) error {
	if _, err := f.Default.NamedProfile(q.Name); errors.Is(err, home.ErrNoProfile) {
		return nil // deleted since
	}
	h := q.home()
	units, err := f.Host.Units(ctx, h)
	if err != nil {
		return err
	}
	said := q.Name + ": has its own gateway again"
	for i, s := range q.Services {
		installed, active := has(units, s)
		start := rec.active(q.Name, s, i == 0)
		if installed && (active || !start) {
			continue
		}
		if !installed {
			if err := f.Host.Install(ctx, h, s, runAs(s, q.RunAs), rec.files(q.Name, s)); err != nil {
				return err
			}
		}
		if start {
			if err := f.Host.Start(ctx, h, s); err != nil {
				return err
			}
		}
		f.say(said)
	}
	if err := f.disableAgain(ctx, h, rec); err != nil {
		return err
	}
	if len(q.Services) == 0 && q.PID > 0 {
		if _, live, err := f.Host.Process(h); live || err != nil {
			return err
		}
		if err := f.Host.Spawn(ctx, h); err != nil {
			return err
		}
		f.say(said)
	}
	return nil
}

// disableAgain has the units of a home not start by themselves that did not before. Putting a
// unit back enables it, and so does making it the survivor.
func (f Fleet) disableAgain(ctx context.Context, h home.Home, rec *record) error {
	if rec == nil || !slices.ContainsFunc(rec.Units[h.Profile], func(u Unit) bool { return u.Disabled }) {
		return nil
	}
	units, err := f.Host.Units(ctx, h)
	if err != nil {
		return err
	}
	for _, u := range units {
		was := slices.ContainsFunc(rec.Units[h.Profile], func(b Unit) bool { return b.Service == u.Service && b.Name == u.Name && b.Disabled })
		if was && !u.Disabled {
			if err := f.Host.Disable(ctx, h, u); err != nil {
				return err
			}
		}
	}
	return nil
}

func has(units []Unit, s Service) (installed, active bool) {
	for _, u := range units {
		if u.Service == s {
			installed, active = true, active || u.Active
		}
	}
	return installed, active
}

// defaultBack restarts the default gateway as it was: under its unit, detached, or not at all.
func (f Fleet) defaultBack(ctx context.Context, m Manifest, rec *record) error {
	h := f.Default
	units, err := f.Host.Units(ctx, h)
	if err != nil {
		return err
	}
	_, live, err := f.Host.Process(h)
	if err != nil {
		return err
	}
	if len(m.Default.Services) > 0 {
		s := m.Default.Services[0]
		if installed, _ := has(units, s); !installed {
			if err := f.Host.Install(ctx, h, s, runAs(s, m.Default.RunAs), rec.files(home.Default, s)); err != nil {
				return err
			}
		}
		if err = f.disableAgain(ctx, h, rec); err == nil {
			err = f.Host.Restart(ctx, h, s)
		}
	} else {
		err = f.withoutUnit(ctx, m, units, live)
	}
	if err == nil {
		f.say("default: its gateway is as it was")
	}
	return err
}

// withoutUnit takes away the unit that a migration made.
func (f Fleet) withoutUnit(ctx context.Context, m Manifest, units []Unit, live bool) error {
	h := f.Default
	if t, _ := m.target(); t != nil {
		if installed, _ := has(units, *t); installed {
			if err := f.Host.Uninstall(ctx, h, *t); err != nil {
				return err
			}
			_, still, err := f.Host.Process(h)
			if err != nil {
				return err
			}
			live = still
		}
	}
	if live {
		if err := f.Host.StopProcess(ctx, h); err != nil {
			return err
		}
	}
	if m.Default.PID > 0 {
		return f.Host.Spawn(ctx, h)
	}
	return nil
}

// settle looks once more at the profiles' units: one that found its credential still held by
// the multiplexer has parked itself, and nothing but a start brings it back.
func (f Fleet) settle(ctx context.Context, m Manifest, rec *record) error {
	var errs []error
	for _, q := range m.Secondaries {
		if err := f.bringBack(ctx, q, rec); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", q.Name, err))
		}
	}
	return errors.Join(errs...)
}
