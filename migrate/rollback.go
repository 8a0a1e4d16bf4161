// SPDX-License-Identifier: MIT

package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	Backup string `json:"backup"` // file name, beside the manifest
	Before string `json:"before"` // SHA-256, hex
	After  string `json:"after"`
}

func (mf *manifest) backup(f manifestFile) string {
	return filepath.Join(filepath.Dir(mf.path), f.Backup)
}

func (m Migrator) writeManifest(h home.Home, j *journal) error {
	mf := manifest{Version: formatVersion, Program: m.Program, From: j.From, To: j.To, Time: j.Time}
	for _, f := range j.Files {
		mf.Files = append(mf.Files, manifestFile{f.Name, f.Backup, f.Before, f.After})
	}
	return m.writeJSON(j.manifest(h), mf)
}

// markRolledBack ends a migration. Whoever removed its manifest meanwhile ended it as well.
func (m Migrator) markRolledBack(h home.Home, j *journal) error {
	if _, err := os.Lstat(j.manifest(h)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	mf, err := readManifest(j.manifest(h))
	if err != nil {
		return err
	}
	mf.RolledBack = &j.Time
	return m.writeJSON(j.manifest(h), mf)
}

func readManifest(path string) (*manifest, error) {
	data, _, err := atomicfile.Read(path)
	if err != nil {
		return nil, err
	}
	mf := manifest{path: path}
	err = decodeStrict(data, &mf)
	if err == nil {
		err = mf.valid()
	}
	if err != nil {
		return nil, &Refusal{
			Kind: ErrAmbiguous, File: path, Msg: fmt.Sprintf("not a manifest of format %d: %v", formatVersion, err),
			Fix: "a newer hermes-appliance may have written it; roll back with that one, or move the file away to do without it",
		}
	}
	return &mf, nil
}

// valid checks everything that a path is made of.
func (mf *manifest) valid() error {
	switch {
	case mf.Version != formatVersion:
		return fmt.Errorf("format %d", mf.Version)
	case len(mf.Files) == 0:
		return errors.New("no files")
	}
	seen := map[string]bool{}
	for _, f := range mf.Files {
		if !isFile(f.Name) || seen[f.Name] || !isName(f.Backup, f.Name+".", "") {
			return fmt.Errorf("file %q, backup %q", f.Name, f.Backup)
		}
		seen[f.Name] = true
	}
	return nil
}

// lastMigration finds the migration to take back: of those that stand the newest whose files
// are as it left them. A clock may have gone back between two, so that is not always the one
// with the latest time; where none fits that one is returned, and its refusal says why.
func lastMigration(h home.Home) (*manifest, error) {
	paths, err := filepath.Glob(filepath.Join(globEscape(h.Backups()), "manifest."+kindMigrate+"-*.json"))
	if err != nil {
		return nil, err
	}
	live := map[string]string{}
	for _, name := range []string{FileConfig, FileEnv, FileSoul} {
		// A file that cannot be read fits nothing; planning for it says why.
		if _, st, err := atomicfile.Read(pathOf(h, name)); err == nil && st.Exists {
			live[name] = st.SHA256
		}
	}
	var all, fit []*manifest
	for _, p := range paths {
		mf, err := readManifest(p)
		if err != nil {
			return nil, err
		}
		if mf.RolledBack != nil {
			continue
		}
		all = append(all, mf)
		if !slices.ContainsFunc(mf.Files, func(f manifestFile) bool { return live[f.Name] != f.After }) {
			fit = append(fit, mf)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: %w", h.Dir, ErrNoBackup)
	}
	if len(fit) > 0 {
		all = fit
	}
	return slices.MaxFunc(all, func(a, b *manifest) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.To, b.To), cmp.Compare(a.path, b.path))
	}), nil
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
	var err error
	if r.Recovered, err = unsettled(h); err != nil {
		return r, err
	}
	p, mf, _, err := m.planRollback(h)
	if err != nil {
		return r, err
	}
	r.Plan, r.Backup = p, mf.path
	return r, m.writable(h, p)
}

// Rollback returns the files of the last migration to what they were, with the same care as
// a migration. It refuses with [ErrChanged] if one of them was written since. An interrupted
// earlier run is settled first.
func (m Migrator) Rollback(ctx context.Context, h home.Home) (r Result, err error) {
	if _, err := unsettled(h); err != nil {
		return Result{Home: h}, err
	}
	r, err = m.PreviewRollback(h)
	if err != nil && r.Recovered == "" && len(leftovers(h)) == 0 {
		return r, err
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
	p, mf, states, err := m.planRollback(h)
	if err != nil {
		return r, err
	}
	r.Plan = p
	if err := m.writable(h, p); err != nil {
		return r, err
	}
	if err := m.ahead(ctx, h); err != nil {
		return r, err
	}
	c := &commit{m: m, h: h, kind: kindRollback, from: mf.To, to: mf.From, edits: p.edits, states: states, manifest: filepath.Base(mf.path)}
	r.Backup, err = c.run()
	r.Applied = c.stands
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
				Fix: "its old content is in " + mf.backup(f) + "; take over by hand what you want of it",
			}
		}
		old, bst, err := atomicfile.Read(mf.backup(f))
		if err != nil {
			return nil, nil, nil, err
		}
		if !bst.Exists || bst.SHA256 != f.Before {
			return nil, nil, nil, &Refusal{Kind: ErrChanged, File: mf.backup(f), Msg: "the backup is missing or damaged", Fix: "nothing was changed"}
		}
		states[f.Name] = st
		p.edits = append(p.edits, fileEdit{f.Name, data, old})
		p.Changes = append(p.Changes, Change{ID: kindRollback, File: f.Name, Action: Restored, Path: []string{}, Reason: "back to what it was before the migration"})
	}
	return p, mf, states, nil
}
