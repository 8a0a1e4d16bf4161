// SPDX-License-Identifier: MIT

package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// record is what the manifest has no room for: the exact bytes that a way back brings back.
// Without it, as after a migration by upstream, the way back writes what means the same.
type record struct {
	Manifest Manifest          `json:"manifest"`
	Config   []byte            `json:"config"`         // config.yaml before the flag was turned on
	After    []byte            `json:"config_after"`   // and with it
	FlagOwn  bool              `json:"flag_own"`       // the file had the key itself
	Units    map[string][]Unit `json:"units"`          // by profile
	Last     bool              `json:"last,omitempty"` // all is back but the default gateway
}

func recordPath(h home.Home) string { return filepath.Join(h.State(), ManifestName) }

// readRecord returns nil if there is none. One that cannot be read is an error: it may hold the
// only copy of a unit.
func readRecord(h home.Home) (*record, error) {
	data, st, err := atomicfile.Read(recordPath(h))
	if err != nil || !st.Exists {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, &ManifestError{recordPath(h), "the record of a migration", err}
	}
	return &r, nil
}

func (f Fleet) writeRecord(r *record) error {
	data, err := indented(r)
	if err != nil {
		return err
	}
	if err := f.Files.Mkdir(f.Default.State(), 0o700); err != nil {
		return err
	}
	return f.write(recordPath(f.Default), data)
}

// of reports whether a record was written with that manifest: upstream may have written another
// one since.
func (r *record) of(m Manifest) bool {
	mine, err := indented(r.Manifest)
	theirs, err2 := indented(m)
	return err == nil && err2 == nil && string(mine) == string(theirs)
}

// files are those of a profile's units of one kind, nil if nobody kept them.
func (r *record) files(name string, s Service) (out []File) {
	if r == nil {
		return nil
	}
	for _, u := range r.Units[name] {
		if u.Service == s {
			out = append(out, u.Files...)
		}
	}
	return out
}

// active reports whether a profile's unit of one kind ran; unknown is the answer if nobody kept
// that: of two units of one profile only one can run.
func (r *record) active(name string, s Service, unknown bool) bool {
	if r == nil {
		return unknown
	}
	for _, u := range r.Units[name] {
		if u.Service == s && u.Active {
			return true
		}
	}
	return false
}

func (f Fleet) dropRecord() error { return f.Files.Remove(recordPath(f.Default)) }

// newRecord keeps what a migration is about to change.
func (f Fleet) newRecord(o Observed, m Manifest) (*record, error) {
	r := &record{Manifest: m, Units: map[string][]Unit{}}
	var err error
	if r.Config, r.After, err = f.Flag.Draft(); err != nil {
		return nil, err
	}
	if r.FlagOwn, err = f.Flag.Own(); err != nil {
		return nil, err
	}
	for _, p := range o.Profiles {
		if len(p.units) > 0 {
			r.Units[p.Name] = p.units
		}
	}
	return r, nil
}

// turnOn writes the flag: the file as it was drafted, if it still is what the draft was made from.
func (f Fleet) turnOn(ctx context.Context) error {
	before, after, err := f.Flag.Draft()
	if err != nil {
		return err
	}
	return f.putConfig(ctx, before, after)
}

// turnBack gives the flag its old value: the old file, byte for byte, if nobody else changed
// it since, else by an edit of that one key.
func (f Fleet) turnBack(ctx context.Context, m Manifest, r *record) error {
	if r == nil {
		return f.Flag.Turn(ctx, m.FlagWas)
	}
	data, _, err := atomicfile.Read(f.Default.Config())
	switch {
	case err != nil:
		return err
	case bytes.Equal(data, r.Config):
		return nil
	case bytes.Equal(data, r.After):
		return f.putConfig(ctx, r.After, r.Config)
	case r.FlagOwn:
		return f.Flag.Turn(ctx, m.FlagWas)
	}
	return f.Flag.Clear(ctx)
}

// putConfig replaces config.yaml, if it holds what it should.
func (f Fleet) putConfig(ctx context.Context, from, to []byte) (err error) {
	if bytes.Equal(from, to) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	release, err := f.Default.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if data, _, err := atomicfile.Read(f.Default.Config()); err != nil || !bytes.Equal(data, from) {
		return errors.Join(err, errors.New("someone wrote "+f.Default.Config()+" meanwhile; run again"))
	}
	return f.write(f.Default.Config(), to)
}
