// SPDX-License-Identifier: MIT

package migrate

import (
	"errors"
	"fmt"
	"os"
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
	manifest string // rollback: the one to mark; "" = a new one

	staged []*atomicfile.Staged
	j      journal
}

// run carries the commit out and returns the path of the manifest. After an error the files
// are what they were, unless the error says that the next run settles it.
func (c *commit) run() (string, error) {
	if err := c.stage(); err != nil {
		return "", errors.Join(err, c.discard())
	}
	if err := c.m.writeJSON(journalPath(c.h), c.j); err != nil {
		return "", errors.Join(err, c.discard(), c.m.clearTemp(journalPath(c.h)))
	}
	err := c.backup()
	if err == nil {
		err = c.unchanged()
	}
	if err == nil {
		err = c.swap()
	}
	if err != nil {
		_, uerr := c.m.undo(c.h, &c.j)
		if uerr != nil {
			uerr = fmt.Errorf("not undone yet, the next run of migrate does it: %w", uerr)
		}
		return "", errors.Join(err, uerr)
	}
	if err := c.m.finish(c.h, &c.j); err != nil {
		return c.j.Manifest, fmt.Errorf("the files are in place, but not the record of their backup; run migrate again to finish: %w", err)
	}
	return c.j.Manifest, nil
}

// stage writes every new file beside the old one. A home that cannot be written fails here,
// before anything of it has changed.
func (c *commit) stage() error {
	now := c.m.Now()
	c.j = journal{Version: formatVersion, Kind: c.kind, From: c.from, To: c.to, Time: now, Manifest: c.manifest}
	mark := fmt.Sprintf("%s-%d-%d.%s", c.kind, c.from, c.to, now.UTC().Format("20060102-150405"))
	mark = c.freeMark(mark)
	if c.j.Manifest == "" {
		c.j.Manifest = filepath.Join(c.h.Backups(), "manifest."+mark+".json")
	}
	for _, e := range c.edits {
		st := c.states[e.name]
		temp := "." + filepath.Base(st.Path) + ".migrate-new"
		if err := c.m.clearTemp(filepath.Join(filepath.Dir(st.Path), temp)); err != nil {
			return err
		}
		s, err := c.m.Files.Stage(st.Path, e.new, atomicfile.Options{Temp: temp})
		if err != nil {
			return err
		}
		c.staged = append(c.staged, s)
		c.j.Files = append(c.j.Files, journalFile{
			Name: e.name, Target: s.Target, Temp: s.Temp, Backup: filepath.Join(c.h.Backups(), e.name+"."+mark),
			Before: st.SHA256, After: atomicfile.Hash(e.new), InPlace: s.InPlace != "",
		})
	}
	return nil
}

// freeMark makes a mark that no backup has yet.
func (c *commit) freeMark(mark string) string {
	for n := 1; ; n++ {
		try := mark
		if n > 1 {
			try = fmt.Sprintf("%s.%d", mark, n)
		}
		taken, err := filepath.Glob(filepath.Join(c.h.Backups(), "*."+try+"*"))
		if err != nil || len(taken) == 0 {
			return try
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
	if err := c.m.Files.Mkdir(filepath.Dir(c.h.Backups()), 0o700); err != nil {
		return err
	}
	if err := c.m.Files.Mkdir(c.h.Backups(), 0o700); err != nil {
		return err
	}
	for i, f := range c.j.Files {
		temp := "." + filepath.Base(f.Backup) + ".new"
		if err := c.m.Files.Write(f.Backup, c.edits[i].old, atomicfile.Options{Temp: temp}); err != nil {
			return err
		}
	}
	return nil
}

// unchanged checks that no one wrote the files since they were read.
func (c *commit) unchanged() error {
	for _, e := range c.edits {
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

// swap puts the files in place, config.yaml last.
func (c *commit) swap() error {
	for i, s := range c.staged {
		err := s.Commit()
		if errors.Is(err, atomicfile.ErrInPlace) {
			if !c.j.Files[i].InPlace {
				c.j.Files[i].InPlace = true
				if err := c.m.writeJSON(journalPath(c.h), c.j); err != nil {
					return err
				}
			}
			err = s.CommitInPlace()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finish records a commit that stands: the manifest, then the end of the journal.
func (m Migrator) finish(h home.Home, j *journal) error {
	var err error
	if j.Kind == kindRollback {
		err = m.markRolledBack(h, j)
	} else {
		err = m.writeManifest(h, j)
	}
	if err != nil {
		return err
	}
	for _, f := range j.Files {
		if err := m.clearTemp(f.Temp); err != nil {
			return err
		}
	}
	return m.Files.Remove(journalPath(h))
}

// undo brings every file of a commit back to what it was, and removes what the commit made.
// A file that someone else has written since is left alone and named.
func (m Migrator) undo(h home.Home, j *journal) (foreign []string, err error) {
	for i := len(j.Files) - 1; i >= 0; i-- {
		f := j.Files[i]
		data, st, err := atomicfile.Read(f.Target)
		if err != nil {
			return foreign, err
		}
		switch {
		case st.Exists && st.SHA256 == f.Before:
			continue
		case !st.Exists || !m.ours(f, data, st):
			foreign = append(foreign, f.Target)
			continue
		}
		if err := m.restore(f); err != nil {
			return foreign, err
		}
	}
	for _, f := range j.Files {
		if err := m.clearTemp(f.Temp); err != nil {
			return foreign, err
		}
		if len(foreign) > 0 {
			continue // keep the backups: one of them may be wanted
		}
		if err := m.clearBackup(f.Backup); err != nil {
			return foreign, err
		}
	}
	return foreign, m.Files.Remove(journalPath(h))
}

// clearBackup removes a backup and what its writing may have left.
func (m Migrator) clearBackup(path string) error {
	if err := m.clearTemp(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")); err != nil {
		return err
	}
	return m.clearTemp(path)
}

// ours reports whether a file's content is what this commit put there, whole or in part.
func (m Migrator) ours(f journalFile, data []byte, st atomicfile.State) bool {
	if st.SHA256 == f.After {
		return true
	}
	if !f.InPlace {
		return false
	}
	before, b, err := atomicfile.Read(f.Backup)
	after, a, aerr := atomicfile.Read(f.Temp)
	return err == nil && aerr == nil && b.Exists && a.Exists && atomicfile.Torn(data, before, after)
}

// restore writes a file's backup back.
func (m Migrator) restore(f journalFile) error {
	data, st, err := atomicfile.Read(f.Backup)
	if err != nil {
		return err
	}
	if !st.Exists || st.SHA256 != f.Before {
		return fmt.Errorf("%s: the backup is missing or damaged; %s stays as it is", f.Backup, f.Target)
	}
	if f.InPlace {
		return m.Files.Overwrite(f.Target, data)
	}
	temp := "." + filepath.Base(f.Target) + ".migrate-old"
	if err := m.clearTemp(filepath.Join(filepath.Dir(f.Target), temp)); err != nil {
		return err
	}
	return m.Files.Write(f.Target, data, atomicfile.Options{Temp: temp})
}

// recover settles a commit that was interrupted and says what it did; "" = there was none.
func (m Migrator) recover(h home.Home) (string, error) {
	if err := m.clearTemp(filepath.Join(h.State(), "."+filepath.Base(journalPath(h))+".new")); err != nil {
		return "", err
	}
	j, err := readJournal(h)
	if err != nil || j == nil {
		return "", err
	}
	last := j.Files[len(j.Files)-1]
	_, st, err := atomicfile.Read(last.Target)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if st.Exists && st.SHA256 == last.After {
		return fmt.Sprintf("an interrupted run (%s) was finished", j.what()), m.finish(h, j)
	}
	foreign, err := m.undo(h, j)
	said := fmt.Sprintf("an interrupted run (%s) was undone", j.what())
	for _, f := range foreign {
		said += fmt.Sprintf("; %s was written by someone else meanwhile and stays as it is", f)
	}
	return said, err
}
