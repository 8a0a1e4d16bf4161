// SPDX-License-Identifier: MIT

package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Options say how a file that does not exist is made.
type Options struct {
	Mode  fs.FileMode // 0 = 0600
	Umask bool        // Mode is less the process's umask, as with any file a program makes
	Temp  string      // name of the staged file, beside the target; "" = a random one
	// Part says that other hard links of the file keep the old content. Without it they are a
	// reason to write in place. For programs: a running one cannot be written into.
	Part bool
}

// Staged is new content waiting beside the file it will replace.
type Staged struct {
	Target string // resolved
	Temp   string
	// InPlace is why the file must be overwritten instead of replaced; "" = it need not.
	InPlace string

	w    Writer
	data []byte
	dir  *os.Root // where the staged file is, whatever its path leads to by now
	gone bool     // the staged file was renamed or discarded: Temp is not ours any more
}

// Stage writes data beside the file that path leads to. Nothing the file's readers see has
// changed when it returns. The caller ends with Commit or CommitInPlace, and Discard. A file
// that has the staged file's name already is an error and is left alone.
func (w Writer) Stage(path string, data []byte, o Options) (*Staged, error) {
	target, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	st := &Staged{Target: target, w: w, data: data}
	name := o.Temp
	if name == "" {
		name = randomName(target)
	}
	st.Temp = filepath.Join(filepath.Dir(target), name)
	info, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		info = nil
	} else if err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	if err := w.step(OpCreate, st.Temp); err != nil {
		return nil, err
	}
	perm := fs.FileMode(0o600)
	if o.Umask && info == nil {
		perm = o.Mode
	}
	if st.dir, err = os.OpenRoot(filepath.Dir(target)); err != nil {
		return nil, err
	}
	f, err := st.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm.Perm())
	if err != nil {
		return nil, errors.Join(at(err, st.Temp), st.dir.Close())
	}
	if err := w.fill(st, f, info, o); err != nil {
		return nil, errors.Join(err, st.Discard())
	}
	return st, nil
}

// fill makes the staged file what the target shall be, and closes it. old is nil for a new
// file.
func (w Writer) fill(st *Staged, f *os.File, old fs.FileInfo, o Options) (err error) {
	defer func() { err = errors.Join(err, f.Close()) }()
	mode := o.Mode
	if mode == 0 {
		mode = 0o600
	}
	if old != nil {
		mode = old.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
		if links(old) > 1 && !o.Part {
			st.InPlace = "it has more than one hard link"
		}
	}
	if err := w.likeness(st, f, old); err != nil {
		return err
	}
	if err := w.write(f, st.Temp, st.data); err != nil {
		return err
	}
	if err := w.step(OpMode, st.Temp); err != nil {
		return err
	}
	if old != nil || !o.Umask {
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	if err := w.step(OpSync, st.Temp); err != nil {
		return err
	}
	return f.Sync()
}

// likeness gives the staged file the owner and attributes of the old one, or of the
// directory for a new file made by root. What may not be given makes the write go in place.
func (w Writer) likeness(st *Staged, f *os.File, old fs.FileInfo) error {
	if old == nil {
		return w.give(f, st.Temp)
	}
	if err := w.step(OpOwner, st.Temp); err != nil {
		return err
	}
	if err := copyOwner(f, old, false); errors.Is(err, fs.ErrPermission) {
		st.InPlace = "its owner can only be kept by writing into it"
	} else if err != nil {
		return err
	}
	if err := w.step(OpAttrs, st.Temp); err != nil {
		return err
	}
	if err := copyAttrs(st.Target, f); err != nil {
		st.InPlace = "its extended attributes can only be kept by writing into it"
	}
	return nil
}

// Commit puts the staged content in place by rename and flushes the directory. [ErrInPlace]
// means that nothing happened yet and CommitInPlace is needed. After any other error look at
// the target: the rename may have happened.
func (s *Staged) Commit() error {
	if s.InPlace != "" {
		return fmt.Errorf("%s: %w: %s", s.Target, ErrInPlace, s.InPlace)
	}
	if err := s.w.step(OpRename, s.Target); err != nil {
		return err
	}
	if err := s.dir.Rename(filepath.Base(s.Temp), filepath.Base(s.Target)); err != nil {
		if crossesMount(err) {
			s.InPlace = "it is a mount point of its own"
			return fmt.Errorf("%s: %w: %s", s.Target, ErrInPlace, s.InPlace)
		}
		return at(err, s.Target)
	}
	s.gone = true
	return errors.Join(s.w.SyncDir(filepath.Dir(s.Target)), s.dir.Close())
}

// CommitInPlace overwrites the target with the staged content. A crash in it leaves a
// mixture of old and new: see [Torn]. The staged file stays until Discard: it is the only
// whole copy of what was being written. A caller that counts on it flushes its directory.
func (s *Staged) CommitInPlace() error { return s.w.Overwrite(s.Target, s.data) }

// Discard removes the staged file. It is no error if it is gone.
func (s *Staged) Discard() error {
	if s.gone {
		return nil
	}
	s.gone = true
	err := s.dir.Remove(filepath.Base(s.Temp))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(at(err, s.Temp), s.dir.Close())
}

// at makes an error of an operation in a directory name the whole path.
func at(err error, path string) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: p.Op, Path: path, Err: p.Err}
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return &os.LinkError{Op: l.Op, Old: l.Old, New: path, Err: l.Err}
	}
	return err
}
