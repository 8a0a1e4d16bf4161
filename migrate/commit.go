// SPDX-License-Identifier: MIT

package migrate

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// commit puts the edited files of one home in place, all or none. The caller holds the
// home's lock.
type commit struct {
	m        Migrator
	h        home.Home
	kind     string
	from, to int
	edits    []fileEdit // config.yaml last
	states   map[string]atomicfile.State
	manifest string // rollback: the file name of the one to mark; "" = a new one

	staged  []*atomicfile.Staged
	j       journal
	reached int  // how many files may have been written
	stands  bool // all of them were
}

// run carries the commit out and returns the path of the manifest. After an error the files
// are what they were, unless the commit stands or the error says that the next run settles
// it.
func (c *commit) run() (string, error) {
	if err := c.stage(); err != nil {
		return "", errors.Join(err, c.discard())
	}
	if err := c.m.writeJSON(journalPath(c.h), c.j); err != nil {
		return "", errors.Join(err, c.discard(), c.m.clearTemp(journalPath(c.h)))
	}
	err := c.backup()
	if err == nil {
		err = c.swap()
	}
	if err != nil {
		foreign, uerr := c.m.undo(c.h, &c.j, c.reached)
		for _, f := range foreign {
			err = fmt.Errorf("%w; %s", err, f)
		}
		if uerr != nil {
			uerr = fmt.Errorf("not undone yet, the next run of migrate does it: %w", uerr)
		}
		return "", errors.Join(err, uerr)
	}
	c.stands = true
	if err := c.m.finish(c.h, &c.j); err != nil {
		err = fmt.Errorf("the files are in place, but not the record of their backup; run migrate again to finish: %w", err)
		return c.j.manifest(c.h), err
	}
	return c.j.manifest(c.h), nil
}

// stage writes every new file beside the old one. A home that cannot be written fails here,
// before anything of it has changed.
func (c *commit) stage() error {
	now := c.m.Now()
	c.j = journal{Version: formatVersion, Kind: c.kind, From: c.from, To: c.to, Time: now, Manifest: c.manifest}
	mark := fmt.Sprintf("%s-%d-%d.%s", c.kind, c.from, c.to, now.UTC().Format("20060102-150405"))
	mark, err := c.freeMark(mark)
	if err != nil {
		return err
	}
	if c.j.Manifest == "" {
		c.j.Manifest = "manifest." + mark + ".json"
	}
	for _, e := range c.edits {
		st := c.states[e.name]
		temp := tempName(c.h, st.Path, tempNew)
		if err := c.m.clearTemp(filepath.Join(filepath.Dir(st.Path), temp)); err != nil {
			return err
		}
		s, err := c.m.Files.Stage(st.Path, e.new, atomicfile.Options{Temp: temp})
		if err != nil {
			return err
		}
		c.staged = append(c.staged, s)
		c.j.Files = append(c.j.Files, journalFile{
			Name: e.name, Temp: temp, Backup: e.name + "." + mark,
			Before: st.SHA256, After: atomicfile.Hash(e.new), InPlace: s.InPlace != "",
		})
	}
	return nil
}

// freeMark makes a mark that no backup has yet.
func (c *commit) freeMark(mark string) (string, error) {
	for n := 1; ; n++ {
		try := mark
		if n > 1 {
			try = fmt.Sprintf("%s.%d", mark, n)
		}
		taken, err := filepath.Glob(filepath.Join(globEscape(c.h.Backups()), "*."+try+"*"))
		if err != nil || len(taken) == 0 {
			return try, err
		}
	}
}

func (c *commit) discard() error {
	var errs []error
	for _, s := range c.staged {
		errs = append(errs, s.Discard())
	}
	return errors.Join(errs...)
}

// backup writes the old contents to backups/config.
func (c *commit) backup() error {
	if err := c.m.mkBackups(c.h); err != nil {
		return err
	}
	for i, f := range c.j.Files {
		path := f.backup(c.h)
		if err := c.m.Files.Write(path, c.edits[i].old, atomicfile.Options{Temp: filepath.Base(besides(path))}); err != nil {
			return err
		}
	}
	return nil
}

func (m Migrator) mkBackups(h home.Home) error {
	if err := m.Files.Mkdir(filepath.Dir(h.Backups()), 0o700); err != nil {
		return err
	}
	return m.Files.Mkdir(h.Backups(), 0o700)
}

// unchanged checks that no one wrote the files from the i-th on since they were read.
func (c *commit) unchanged(i int) error {
	for _, e := range c.edits[i:] {
		changed, err := c.states[e.name].Changed()
		if err != nil {
			return err
		}
		if changed {
			return &Refusal{Kind: ErrChanged, File: pathOf(c.h, e.name), Msg: "someone wrote the file while it was being migrated", Fix: "nothing was changed; run again"}
		}
	}
	return nil
}

// swap puts the files in place, config.yaml last. It looks at the files once more before
// each of them: what comes before takes as long as a disk takes to flush.
func (c *commit) swap() error {
	for i, s := range c.staged {
		if err := c.unchanged(i); err != nil {
			return err
		}
		c.reached = i + 1
		err := s.Commit()
		if errors.Is(err, atomicfile.ErrInPlace) {
			c.reached = i
			err = c.overwrite(i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// overwrite puts a file in place that cannot be replaced. The journal says so first. The
// staged file stays until the commit is done: together with the backup it tells a file that
// is half old, half new from one that somebody else wrote.
func (c *commit) overwrite(i int) error {
	if !c.j.Files[i].InPlace {
		c.j.Files[i].InPlace = true
		if err := c.m.writeJSON(journalPath(c.h), c.j); err != nil {
			return err
		}
	}
	if err := c.m.Files.SyncDir(filepath.Dir(c.staged[i].Temp)); err != nil {
		return err
	}
	if err := c.unchanged(i); err != nil {
		return err
	}
	c.reached = i + 1
	return c.staged[i].CommitInPlace()
}

// finish records a commit that stands: the manifest, then the end of the journal.
func (m Migrator) finish(h home.Home, j *journal) error {
	err := m.mkBackups(h)
	if err == nil && j.Kind == kindRollback {
		err = m.markRolledBack(h, j)
	} else if err == nil {
		err = m.writeManifest(h, j)
	}
	if err != nil {
		return err
	}
	if err := m.clearStaged(h, j); err != nil {
		return err
	}
	return m.Files.Remove(journalPath(h))
}

// clearStaged removes everything that a commit stages.
func (m Migrator) clearStaged(h home.Home, j *journal) error {
	paths := []string{besides(j.manifest(h))}
	for _, f := range j.Files {
		paths = append(paths, besides(f.backup(h)))
		target, err := atomicfile.Resolve(pathOf(h, f.Name))
		if err != nil {
			return err
		}
		dir := filepath.Dir(target)
		paths = append(paths, filepath.Join(dir, f.Temp), filepath.Join(dir, tempName(h, target, tempOld)))
	}
	for _, p := range paths {
		if err := m.clearTemp(p); err != nil {
			return err
		}
	}
	return nil
}

// undo brings the first files of a commit, as many as it reached, back to what they were,
// and removes what the commit made. A file that someone else has written since is left
// alone, named, and keeps its backup.
func (m Migrator) undo(h home.Home, j *journal, reached int) (foreign []string, err error) {
	keep := map[string]bool{}
	for i := reached - 1; i >= 0; i-- {
		f := j.Files[i]
		data, st, err := atomicfile.Read(pathOf(h, f.Name))
		if err != nil {
			return foreign, err
		}
		switch {
		case st.Exists && st.SHA256 == f.Before:
			continue
		case !st.Exists || !m.ours(h, f, st.Path, data):
			keep[f.Name] = true
			foreign = append(foreign, f.foreign(h))
			continue
		}
		if err := m.restore(h, f, st.Path); err != nil {
			return foreign, err
		}
	}
	if err := m.clearStaged(h, j); err != nil {
		return foreign, err
	}
	for _, f := range j.Files {
		if keep[f.Name] {
			continue
		}
		if err := m.clearTemp(f.backup(h)); err != nil {
			return foreign, err
		}
	}
	return foreign, m.Files.Remove(journalPath(h))
}

// ours reports whether a file's content is what this commit put there, whole or in part.
func (m Migrator) ours(h home.Home, f journalFile, target string, data []byte) bool {
	if atomicfile.Hash(data) == f.After {
		return true
	}
	if !f.InPlace {
		return false
	}
	before, b, err := atomicfile.Read(f.backup(h))
	after, a, aerr := atomicfile.Read(filepath.Join(filepath.Dir(target), f.Temp))
	return err == nil && aerr == nil && b.SHA256 == f.Before && a.SHA256 == f.After && atomicfile.Torn(data, before, after)
}

// restore writes a file's backup back.
func (m Migrator) restore(h home.Home, f journalFile, target string) error {
	data, st, err := atomicfile.Read(f.backup(h))
	if err != nil {
		return err
	}
	if !st.Exists || st.SHA256 != f.Before {
		return &Refusal{
			Kind: ErrAmbiguous, File: f.backup(h), Msg: fmt.Sprintf("the backup is missing or damaged; %s stays half migrated", target),
			Fix: "put the old content of that file back by hand, or keep it as it is, and remove " + journalPath(h),
		}
	}
	if f.InPlace {
		return m.Files.Overwrite(target, data) // needs no room, where staging would: the disk may be full
	}
	temp := tempName(h, target, tempOld)
	if err := m.clearTemp(filepath.Join(filepath.Dir(target), temp)); err != nil {
		return err
	}
	return m.Files.Write(target, data, atomicfile.Options{Temp: temp})
}
