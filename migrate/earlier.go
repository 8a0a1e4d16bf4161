// SPDX-License-Identifier: MIT

package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// Earlier is the state of a home's files that [Migrator.Return] goes back to.
type Earlier struct {
	Config []byte // the content of config.yaml
	// Beside has the SHA-256 that .env and SOUL.md had; a file without one is not looked at.
	// Their content is never kept but in the backups of migrations.
	Beside map[string]string
	// Force goes back although .env or SOUL.md were edited since a migration changed them.
	// Those then stay as they are.
	Force bool
	// Own refuses with [ErrChanged] if anybody but migrations, and earlier returns, changed
	// config.yaml since.
	Own bool
}

// PreviewReturn plans the way to an earlier state and writes nothing.
func (m Migrator) PreviewReturn(h home.Home, to Earlier) (Result, error) {
	r := Result{Home: h}
	var err error
	if r.Recovered, err = unsettled(h); err != nil {
		return r, err
	}
	if r.Plan, _, err = m.planReturn(h, to); err != nil || len(r.Plan.edits) == 0 {
		return r, err
	}
	return r, m.writable(h, r.Plan)
}

// Return puts config.yaml back to what it was, and .env and SOUL.md where migrations since
// changed them and nobody else did, with the same care as a migration and with backups of its
// own: [Migrator.Rollback] takes it back. An interrupted earlier run is settled first.
func (m Migrator) Return(ctx context.Context, h home.Home, to Earlier) (r Result, err error) {
	if _, err := unsettled(h); err != nil {
		return Result{Home: h}, err
	}
	if r, err = m.PreviewReturn(h, to); r.Recovered == "" && (err != nil || len(r.Plan.edits) == 0) {
		return r, err // what an interrupted run left is settled first, and planned for then
	}
	if err := m.unmanaged(h, r.Plan); err != nil {
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
	r = Result{Home: h, Recovered: said}
	p, states, err := m.planReturn(h, to)
	r.Plan = p
	if err != nil || len(p.edits) == 0 {
		return r, err
	}
	if err := m.writable(h, p); err != nil {
		return r, err
	}
	if err := m.ahead(ctx, h); err != nil {
		return r, err
	}
	c := &commit{m: m, h: h, kind: kindMigrate, from: p.From, to: p.To, edits: p.edits, states: states}
	r.Backup, err = c.run()
	r.Applied = c.stands
	return r, err
}

// planReturn compares the files with the earlier state. A config that is what it was leaves
// everything as it is.
func (m Migrator) planReturn(h home.Home, to Earlier) (*Plan, map[string]atomicfile.State, error) {
	s, err := m.read(h)
	if err != nil {
		return nil, nil, err
	}
	p := &Plan{
		From: Stamp(s.in.Config), To: Stamp(to.Config),
		Changes: []Change{}, Kept: []Pin{}, NotApplied: []Change{}, Skipped: []int{}, Advice: []string{},
	}
	live := s.states[FileConfig]
	if live.Exists && live.SHA256 == atomicfile.Hash(to.Config) {
		return p, nil, nil
	}
	if !live.Exists {
		return nil, nil, &Refusal{Kind: ErrChanged, File: h.Config(), Msg: "was removed since", Fix: "put one there, e.g. with \"up\", then run again"}
	}
	all, err := standing(h)
	if err != nil {
		return nil, nil, err
	}
	if to.Own {
		if old, err := earlierContent(all, FileConfig, atomicfile.Hash(to.Config), live.SHA256); err != nil || old == nil {
			return nil, nil, &Refusal{Kind: ErrChanged, File: h.Config(), Msg: "was written by somebody else meanwhile", Fix: "it stays as it is"}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(to.Beside)) {
		st := s.states[name]
		if !st.Exists || st.SHA256 == to.Beside[name] {
			continue
		}
		old, err := earlierContent(all, name, to.Beside[name], st.SHA256)
		switch {
		case err != nil && !to.Force:
			return nil, nil, err
		case err != nil:
			p.Advice = append(p.Advice, err.Error())
			continue
		case old == nil:
			continue // no migration touched it: what changed is the person's
		}
		data, now, err := atomicfile.Read(pathOf(h, name))
		if err != nil {
			return nil, nil, err
		}
		s.states[name] = now
		p.edits = append(p.edits, fileEdit{name, data, old})
		p.Changes = append(p.Changes, Change{ID: kindRollback, File: name, Action: Restored, Path: []string{}, Reason: "a migration since then changed it"})
	}
	p.edits = append(p.edits, fileEdit{FileConfig, s.in.Config, to.Config}) // last: with it the commit stands
	p.Changes = append(p.Changes, pinChanges(s.in.Config, to.Config)...)
	return p, s.states, nil
}

// standing returns the migrations of a home that nobody took back.
func standing(h home.Home) ([]*manifest, error) {
	paths, err := filepath.Glob(filepath.Join(globEscape(h.Backups()), "manifest."+kindMigrate+"-*.json"))
	if err != nil {
		return nil, err
	}
	var out []*manifest
	for _, p := range paths {
		mf, err := readManifest(p)
		if err != nil {
			return nil, err
		}
		if mf.RolledBack == nil {
			out = append(out, mf)
		}
	}
	return out, nil
}

// earlierContent follows the migrations of a file from its present content back to the wanted
// one. nil = no migration since then changed the file. A chain that breaks was edited: that is
// a [*Refusal], and so is a damaged backup.
func earlierContent(all []*manifest, name, want, have string) ([]byte, error) {
	var first *manifestFile // the step that left the wanted content
	var in *manifest
	seen := map[string]bool{}
	for at := have; at != want && !seen[at]; {
		seen[at] = true
		for _, mf := range all {
			for _, f := range mf.Files {
				if f.Name == name && f.After == at && !seen[f.Before] {
					at, first, in = f.Before, &f, mf
				}
			}
		}
		if at == want {
			return backupOf(in, *first)
		}
	}
	for _, mf := range all {
		for _, f := range mf.Files {
			if f.Name == name && f.Before == want {
				return nil, &Refusal{
					Kind: ErrChanged, File: name, Msg: "a migration changed it since, and then somebody else",
					Fix: "its old content is in " + mf.backup(f) + "; --force leaves the file as it is",
				}
			}
		}
	}
	return nil, nil
}

func backupOf(mf *manifest, f manifestFile) ([]byte, error) {
	data, st, err := atomicfile.Read(mf.backup(f))
	if err != nil {
		return nil, err
	}
	if !st.Exists || st.SHA256 != f.Before {
		return nil, &Refusal{Kind: ErrChanged, File: mf.backup(f), Msg: "the backup is missing or damaged", Fix: "--force leaves " + f.Name + " as it is"}
	}
	return data, nil
}

// Stamp returns the config version that a config.yaml says, 0 if it says none that can be read.
func Stamp(config []byte) int {
	doc, err := yamlspan.Parse(config)
	if err != nil {
		return 0
	}
	n, state := stampOf(doc)
	if state != stampOK {
		return 0
	}
	return n
}

// shownKeys are the values that a comparison of two configs may show beside the version.
func shownKeys() [][]string {
	return [][]string{{"terminal", "backend"}, {"terminal", "docker_image"}}
}

// pinChanges names what a comparison shows.
func pinChanges(from, to []byte) []Change {
	out := []Change{{ID: kindRollback, File: FileConfig, Action: Restored, Path: []string{}, Reason: "back to what it was"}}
	read := func(src []byte, path []string) string {
		if doc, err := yamlspan.Parse(src); err == nil {
			if f, ok := doc.Find(path...); ok && f.Node.Kind == yamlspan.Scalar {
				return f.Node.Value
			}
		}
		return ""
	}
	for _, path := range shownKeys() {
		if a, b := read(from, path), read(to, path); a != b {
			out = append(out, Change{ID: kindRollback, File: FileConfig, Action: Restored, Path: path, Old: a, New: b, Reason: "back to what it was"})
		}
	}
	return out
}

// Compare returns the difference of two configs for reading: as [Plan.Diff] it shows values of
// no key but the config version and the choice of the sandbox. "" = they are equal.
func Compare(from, to []byte) (string, error) {
	if atomicfile.Hash(from) == atomicfile.Hash(to) {
		return "", nil
	}
	p := &Plan{Changes: pinChanges(from, to), edits: []fileEdit{{FileConfig, from, to}}}
	diff, err := p.Diff()
	if err != nil {
		return "", fmt.Errorf("comparing two configs: %w", err)
	}
	return diff, nil
}
