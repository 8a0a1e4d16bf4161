// SPDX-License-Identifier: MIT

package generation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// state is what a home is at one moment: a manifest without a number, and the bytes.
type state struct {
	Manifest

	config []byte
	units  [][]byte // as in Units
}

// observe reads the present state. A unit of the last generation that is gone is left out.
func (s Store) observe(seen Seen, last *Manifest) (state, error) {
	st := state{Manifest: Manifest{
		Version: formatVersion, Program: s.Program, Binary: seen.Binary, Units: []Unit{},
	}}
	switch {
	case seen.Sandbox != nil:
		st.Sandbox = *seen.Sandbox
		if last != nil && st.Sandbox.Digest == "" && st.Sandbox.Image == last.Sandbox.Image {
			st.Sandbox.Digest = last.Sandbox.Digest // nobody asked the engine this time
		}
	case last != nil:
		st.Sandbox = last.Sandbox
	}
	if !seen.Binary.valid() {
		return st, fmt.Errorf("the program %q, sha256 %q, is unknown", seen.Binary.Path, seen.Binary.SHA256)
	}
	data, f, err := atomicfile.Read(s.Home.Config())
	if err != nil {
		return st, err
	}
	if f.Exists {
		st.config = data
		st.Config = Config{Stamp: migrate.Stamp(data), SHA256: f.SHA256}
	}
	for name, path := range map[string]string{migrate.FileEnv: s.Home.Env(), migrate.FileSoul: s.Home.Soul()} {
		if _, f, err := atomicfile.Read(path); err == nil && f.Exists { // what cannot be read no migration changes
			if st.Config.Beside == nil {
				st.Config.Beside = map[string]string{}
			}
			st.Config.Beside[name] = f.SHA256
		}
	}
	paths := seen.Units
	if paths == nil && last != nil {
		for _, u := range last.Units {
			paths = append(paths, u.Path)
		}
	}
	for _, p := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		if !IsUnit(p) {
			return st, fmt.Errorf("%s: expected a file in a directory of a service manager", p)
		}
		data, f, err := atomicfile.Read(p)
		if err != nil {
			return st, err
		}
		if f.Exists {
			st.Units = append(st.Units, Unit{p, f.SHA256})
			st.units = append(st.units, data)
		}
	}
	return st, nil
}

// same reports whether nothing of what runs differs. What a person writes into .env or SOUL.md
// changes nothing of it.
func (m Manifest) same(o Manifest) bool { return len(differences(m, o)) == 0 }

// Recorded is what Record did.
type Recorded struct {
	Manifest

	New  bool   // false: nothing had changed, this is the last one
	Note string // what could not be kept; "" = all is
}

// Record makes the present state a generation, unless it is that of the last one. It is there
// whole or not at all; the oldest beyond [KeepGenerations] goes.
// While an activation is under way it records nothing: that one does, with what comes of it.
func (s Store) Record(ctx context.Context, why Reason, seen Seen) (Recorded, error) {
	if j, err := s.pending(); err != nil || j != nil {
		return Recorded{}, err
	}
	return s.record(ctx, why, seen, 0)
}

// record is Record that does not remove the generation spare, whatever its age.
func (s Store) record(ctx context.Context, why Reason, seen Seen, spare int) (r Recorded, err error) {
	if err := s.Files.Mkdir(s.Home.State(), 0o700); err != nil {
		return r, err
	}
	release, err := home.LockFile(ctx, s.root())
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, release()) }()
	return s.recordLocked(why, seen, spare)
}

func (s Store) recordLocked(why Reason, seen Seen, spare int) (r Recorded, err error) {
	if err := s.Files.Mkdir(s.root(), 0o700); err != nil {
		return r, err
	}
	all, err := s.List()
	if err != nil {
		return r, err
	}
	next, last := s.next(), (*Manifest)(nil)
	if len(all) > 0 {
		last = &all[len(all)-1]
	}
	now, err := s.observe(seen, last)
	if err != nil {
		return r, err
	}
	if err := s.keep(seen.Binary); err != nil {
		r.Note = "the program of this generation is not kept: " + err.Error()
	}
	if last != nil && now.same(*last) {
		r.Manifest = *last
		return r, nil
	}
	now.Number, now.Reason, now.Time = next, why, s.Now().UTC()
	if err := s.write(now); err != nil {
		return r, err
	}
	r.Manifest, r.New = now.Manifest, true
	return r, s.prune(append(all, now.Manifest), spare)
}

// next is a number that no generation has had, as far as can be told.
func (s Store) next() int {
	entries, _ := os.ReadDir(s.root()) //nolint:errcheck // List has read it
	top := 0
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			top = max(top, n)
		}
	}
	return top + 1
}

// write puts a generation into place.
func (s Store) write(st state) error {
	temp := filepath.Join(s.root(), newPrefix+strconv.Itoa(st.Number))
	if err := os.RemoveAll(temp); err != nil { // of a run that was cut off
		return err
	}
	if err := s.Files.Mkdir(temp, 0o700); err != nil {
		return err
	}
	err := s.fill(temp, st)
	if err == nil {
		err = s.Files.Publish(temp, s.dir(st.Number))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	return nil
}

func (s Store) fill(dir string, st state) error {
	put := func(name string, data []byte) error {
		return s.Files.Write(filepath.Join(dir, name), data, atomicfile.Options{Mode: 0o600})
	}
	if st.Config.SHA256 != "" {
		if err := put(migrate.FileConfig, st.config); err != nil {
			return err
		}
	}
	for i, data := range st.units {
		if err := put("unit-"+strconv.Itoa(i), data); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(st.Manifest, "", "  ")
	if err != nil {
		return err
	}
	return put(manifestName, append(data, '\n'))
}

// prune removes old generations and programs; all is oldest first, and the last one is the
// present.
func (s Store) prune(all []Manifest, spare int) error {
	entries, err := os.ReadDir(s.root())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), newPrefix) {
			if err := os.RemoveAll(filepath.Join(s.root(), e.Name())); err != nil {
				return err
			}
		}
	}
	var programs []string
	for _, m := range slices.Backward(all) {
		if b := m.Binary; !slices.Contains(programs, b.SHA256) && b.Path == all[len(all)-1].Binary.Path {
			programs = append(programs, b.SHA256)
		}
	}
	for _, sum := range programs[min(len(programs), KeepPrograms):] {
		if i := slices.IndexFunc(all, func(m Manifest) bool { return m.Number == spare }); i >= 0 && all[i].Binary.SHA256 == sum {
			continue
		}
		path := kept(Binary{Path: all[len(all)-1].Binary.Path, SHA256: sum})
		if _, err := os.Lstat(path); err == nil {
			if err := s.Files.Remove(path); err != nil {
				return err
			}
		}
	}
	for _, m := range all[:max(0, len(all)-KeepGenerations)] {
		if m.Number == spare {
			continue
		}
		if err := os.RemoveAll(s.dir(m.Number)); err != nil {
			return err
		}
	}
	return nil
}
