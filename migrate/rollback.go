// SPDX-License-Identifier: MIT

package migrate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// ErrNoBackup says that there is no migration to take back.
var ErrNoBackup = errors.New("no migration to roll back")

// manifest records a migration that stands, so that it can be taken back.
type manifest struct {
	Version    int            `json:"version"`
	Program    string         `json:"program"`
	From       int            `json:"from"`
	To         int            `json:"to"`
	Time       time.Time      `json:"time"`
	Files      []manifestFile `json:"files"`
	RolledBack *time.Time     `json:"rolled_back,omitempty"`

	path string
}

type manifestFile struct {
	Name   string `json:"name"`
	Target string `json:"target"`
	Backup string `json:"backup"` // file name, beside the manifest
	Before string `json:"before"`
	After  string `json:"after"`
}

func (m Migrator) writeManifest(h home.Home, j *journal) error {
	mf := manifest{Version: formatVersion, Program: m.Program, From: j.From, To: j.To, Time: j.Time}
	for _, f := range j.Files {
		mf.Files = append(mf.Files, manifestFile{f.Name, f.Target, filepath.Base(f.Backup), f.Before, f.After})
	}
	if err := m.clearTemp(filepath.Join(h.Backups(), "."+filepath.Base(j.Manifest)+".new")); err != nil {
		return err
	}
	return m.writeJSON(j.Manifest, mf)
}

func (m Migrator) markRolledBack(h home.Home, j *journal) error {
	mf, err := readManifest(j.Manifest)
	if err != nil {
		return err
	}
	mf.RolledBack = &j.Time
	if err := m.clearTemp(filepath.Join(h.Backups(), "."+filepath.Base(j.Manifest)+".new")); err != nil {
		return err
	}
	return m.writeJSON(j.Manifest, mf)
}

func readManifest(path string) (*manifest, error) {
	data, st, err := atomicfile.Read(path)
	if err != nil {
		return nil, err
	}
	mf := manifest{path: path}
	if err := decodeStrict(data, &mf); err != nil || !st.Exists || mf.Version != formatVersion {
		return nil, &Refusal{Kind: ErrAmbiguous, File: path, Msg: fmt.Sprintf("not a manifest of format %d (%v)", formatVersion, err)}
	}
	return &mf, nil
}

// lastMigration finds the newest migration that stands.
func lastMigration(h home.Home) (*manifest, error) {
	paths, err := filepath.Glob(filepath.Join(globEscape(h.Backups()), "manifest."+kindMigrate+"-*.json"))
	if err != nil {
		return nil, err
	}
	var all []*manifest
	for _, p := range paths {
		mf, err := readManifest(p)
		if err != nil {
			return nil, err
		}
		if mf.RolledBack == nil {
			all = append(all, mf)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: %w", h.Dir, ErrNoBackup)
	}
	return slices.MaxFunc(all, func(a, b *manifest) int { return a.Time.Compare(b.Time) }), nil
}

// globEscape takes the pattern characters out of a path.
func globEscape(path string) string {
	var out []byte
	for i := range len(path) {
		switch path[i] {
		case '*', '?', '[', '\\':
			if filepath.Separator == '\\' {
				break
			}
			out = append(out, '\\')
		}
		out = append(out, path[i])
	}
	return string(out)
}

// PreviewRollback plans the way back from the last migration and writes nothing.
func (m Migrator) PreviewRollback(h home.Home) (Result, error) {
	r := Result{Home: h}
	p, mf, _, err := m.planRollback(h)
	if err != nil {
		return r, err
	}
	r.Plan, r.Backup = p, mf.path
	return r, m.writable(h, p)
}

// Rollback returns the files of the last migration to what they were, with the same care as
// a migration. It refuses with [ErrChanged] if one of them was written since.
func (m Migrator) Rollback(ctx context.Context, h home.Home) (r Result, err error) {
	if r, err = m.PreviewRollback(h); err != nil && !errors.Is(err, ErrChanged) {
		return r, err
	}
	release, err := m.lock(ctx, h)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if r.Recovered, err = m.recover(h); err != nil {
		return r, err
	}
	p, mf, states, err := m.planRollback(h)
	if err != nil {
		return r, err
	}
	r.Plan = p
	if err := m.writable(h, p); err != nil {
		return r, err
	}
	c := &commit{m: m, h: h, kind: kindRollback, from: mf.To, to: mf.From, edits: p.edits, states: states, manifest: mf.path}
	r.Backup, err = c.run()
	r.Applied = err == nil
	return r, err
}

// planRollback checks the files against the last manifest.
func (m Migrator) planRollback(h home.Home) (*Plan, *manifest, map[string]atomicfile.State, error) {
	mf, err := lastMigration(h)
	if err != nil {
		return nil, nil, nil, err
	}
	p := &Plan{From: mf.To, To: mf.From, Changes: []Change{}, Kept: []Pin{}, NotApplied: []Change{}, Skipped: []int{}, Advice: []string{}}
	states := map[string]atomicfile.State{}
	for _, f := range mf.Files {
		data, st, err := atomicfile.Read(pathOf(h, f.Name))
		if err != nil {
			return nil, nil, nil, err
		}
		if !st.Exists || st.SHA256 != f.After {
			return nil, nil, nil, &Refusal{
				Kind: ErrChanged, File: pathOf(h, f.Name), Msg: fmt.Sprintf("was written since the migration to %d", mf.To),
				Fix: "its old content is in " + filepath.Join(filepath.Dir(mf.path), f.Backup) + "; take over by hand what you want of it",
			}
		}
		old, bst, err := atomicfile.Read(filepath.Join(filepath.Dir(mf.path), f.Backup))
		if err != nil {
			return nil, nil, nil, err
		}
		if !bst.Exists || bst.SHA256 != f.Before {
			return nil, nil, nil, &Refusal{Kind: ErrChanged, File: filepath.Join(filepath.Dir(mf.path), f.Backup), Msg: "the backup is missing or damaged"}
		}
		states[f.Name] = st
		p.edits = append(p.edits, fileEdit{f.Name, data, old})
		p.Changes = append(p.Changes, Change{ID: kindRollback, File: f.Name, Action: Restored, Path: []string{}, Reason: "back to what it was before the migration"})
	}
	return p, mf, states, nil
}
