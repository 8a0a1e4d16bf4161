// SPDX-License-Identifier: MIT

package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// Observed is what a host looked like: all that a plan depends on.
type Observed struct {
	Default  home.Home
	Profiles []Profile // the default one first
	FlagOn   bool
	Served   []string // by the live gateway of the default home; nil = none runs, or it says nothing
	Manifest *Manifest
	Facts    map[string]Facts // by profile

	Refusal     string            // why gateways cannot be moved here
	FlagErr     error             // why the flag cannot be read or turned on
	ManifestErr error             // why there is a manifest that cannot be followed
	FactsErr    map[string]error  // why a profile's config cannot be read
	NotReady    map[Service]error // kinds of units that this process cannot change
	AccountErr  error             // why the target's account cannot be used
	Inside      []string          // profiles whose gateway this process would end with
	Root        bool
	UID         int
	OptedOut    bool

	record *record
}

// Observe looks at the host and changes nothing. Only what keeps it from telling which
// profiles there are is an error; everything else that is wrong is in the result.
func (f Fleet) Observe(ctx context.Context) (Observed, error) {
	o := Observed{
		Default: f.Default, Refusal: f.Host.Refusal(), UID: f.Host.UID(), Facts: map[string]Facts{}, FactsErr: map[string]error{},
		NotReady: map[Service]error{},
	}
	o.Root = o.UID == 0
	homes, err := f.Default.Profiles()
	if err != nil {
		return o, err
	}
	for _, h := range append([]home.Home{f.Default}, homes...) {
		p, err := f.profile(ctx, h)
		if err != nil {
			return o, fmt.Errorf("profile %s: %w", h.Profile, err)
		}
		o.Profiles = append(o.Profiles, p)
		if f.Host.Inside(h) {
			o.Inside = append(o.Inside, h.Profile)
		}
		facts, err := f.Inspect(ctx, h)
		o.Facts[h.Profile] = facts
		if err != nil {
			o.FactsErr[h.Profile] = err
		}
	}
	if o.FlagOn, err = f.Flag.On(); err != nil {
		o.FlagErr = err
	} else {
		_, _, o.FlagErr = f.Flag.Draft()
	}
	if o.OptedOut, err = f.Flag.OptedOut(); err != nil && o.FlagErr == nil {
		o.FlagErr = err
	}
	o.Served = served(f.Default, o.byName(home.Default).PID)
	o.Manifest, o.ManifestErr = readManifest(f.Default)
	if o.record, err = readRecord(f.Default); err != nil && o.ManifestErr == nil {
		o.ManifestErr = err
	}
	if o.record != nil && o.Manifest != nil && !o.record.of(*o.Manifest) {
		o.record = nil // of another migration
	}
	f.ready(ctx, &o)
	return o, nil
}

// ready asks whether what a plan would touch can be touched.
func (f Fleet) ready(ctx context.Context, o *Observed) {
	t, account := o.target()
	kinds := []Service{}
	if t != nil {
		kinds = append(kinds, *t)
		if t.System && len(o.byName(home.Default).Services) == 0 { // a unit will be made
			o.AccountErr = f.Host.Account(account)
		}
	}
	all := slices.Clone(o.Profiles)
	if o.Manifest != nil {
		all = append(append(all, o.Manifest.Default), o.Manifest.Secondaries...)
	}
	for _, p := range all {
		kinds = append(kinds, p.Services...)
	}
	for _, s := range kinds {
		if _, asked := o.NotReady[s]; !asked {
			o.NotReady[s] = f.Host.Ready(ctx, s)
		}
	}
}

// GivingBack reports whether the gateways of a default home are on their way back to one a profile,
// or were left there; on reads the flag. Until the default gateway has started again, last of all,
// its list of profiles says nothing: it may write once more what was cleared, with any change of
// its state. What cannot be read gives nothing back.
func GivingBack(root home.Home, on func() (bool, error)) bool {
	var o Observed
	var errs [3]error
	o.Manifest, errs[0] = readManifest(root)
	o.record, errs[1] = readRecord(root)
	if o.Manifest == nil && o.record == nil {
		return false
	}
	o.FlagOn, errs[2] = on()
	return errors.Join(errs[:]...) == nil && !o.FlagOn && o.unfinishedReturn()
}

// profile looks at one profile's own gateway. Whose it is: the live process tells; else the
// account of a system unit, also when there is none of that name; else the home's owner.
func (f Fleet) profile(ctx context.Context, h home.Home) (Profile, error) {
	p := Profile{Name: h.Profile, Home: h.Dir}
	proc, live, err := f.Host.Process(h)
	if err != nil {
		return p, err
	}
	units, err := f.Host.Units(ctx, h)
	if err != nil {
		return p, err
	}
	p.units = units
	p.UID = Owner(h.Dir)
	for _, u := range units {
		if !p.has(u.Service) {
			p.Services = append(p.Services, u.Service)
		}
		if u.System {
			p.RunAs, p.UID = u.Account, u.UID
		}
		if u.Home != "" && real(u.Home) != real(h.Dir) {
			p.RuntimeHome = u.Home
		}
	}
	slices.SortStableFunc(p.Services, func(a, b Service) int { // user scope first
		return map[bool]int{false: 0, true: 1}[a.System] - map[bool]int{false: 0, true: 1}[b.System]
	})
	if live {
		p.PID, p.UID = proc.PID, proc.UID
	}
	return p, nil
}

// real is a path without links, as far as it exists.
func real(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return filepath.Clean(path)
}

func within(path, dir string) bool {
	return strings.HasPrefix(real(path), real(dir)+string(filepath.Separator))
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func (o Observed) byName(name string) Profile {
	for _, p := range o.Profiles {
		if p.Name == name {
			return p
		}
	}
	return Profile{}
}

func (o Observed) secondaries() (out []Profile) {
	for _, p := range o.Profiles {
		if p.Name != home.Default {
			out = append(out, p)
		}
	}
	return out
}

// standalone are the named profiles that have a gateway of their own.
func (o Observed) standalone() []Profile {
	return slices.DeleteFunc(o.secondaries(), func(p Profile) bool { return !p.own() })
}

// target is where the one gateway will run. A manifest knows better than the host: its units
// may be gone already.
func (o Observed) target() (*Service, string) {
	if o.Manifest != nil {
		if s, account := o.Manifest.target(); s != nil {
			return s, account
		}
	}
	return target(o.Profiles...)
}

// interrupted reports whether an earlier run turned the flag on and did not get to the end:
// no live gateway of the default home serves every profile that was migrated and still exists.
// That a unit is installed proves nothing: it is written before the start that may fail (H#110850).
func (o Observed) interrupted() bool {
	if !o.FlagOn || o.Manifest == nil {
		return false
	}
	if o.byName(home.Default).PID == 0 {
		return true
	}
	for _, p := range o.Manifest.Secondaries {
		if o.byName(p.Name).Name != "" && !slices.Contains(o.Served, p.Name) {
			return true
		}
	}
	return false
}
