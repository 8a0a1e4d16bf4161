// SPDX-License-Identifier: MIT

// Package atomicfile is the only writer of files. A file is replaced whole or not at all:
// the new content is staged beside the file it replaces, with the same mode, owner and
// extended attributes, flushed, and renamed over it. Links are followed and survive. Where
// a rename would lose something (a bind-mounted file, a second hard link, an owner we may
// not give away) the content is overwritten in place, which is not atomic: the caller that
// needs more keeps a journal. It never creates a directory on the way to a file and never
// writes to anything but a regular file.
package atomicfile

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Op names a step of a write that can fail or be interrupted.
type Op string

// The steps, in the order of a write.
const (
	OpCreate  Op = "create"
	OpOwner   Op = "owner"
	OpAttrs   Op = "attributes"
	OpMode    Op = "mode"
	OpWrite   Op = "write"
	OpSync    Op = "sync"
	OpRename  Op = "rename"
	OpSyncDir Op = "sync directory"
	OpCut     Op = "truncate"
	OpRemove  Op = "remove"
	OpMkdir   Op = "make directory"
)

// chunk is how much one OpWrite writes; small, so that a test can stop between two.
const chunk = 4096

// ErrInPlace says that a file cannot be replaced by rename; [Staged.CommitInPlace] can
// still write it.
var ErrInPlace = errors.New("cannot be replaced by rename")

// ErrNotRegular says that the path leads to a directory, a device or the like.
var ErrNotRegular = errors.New("not a regular file")

// Writer writes files. The zero value is ready; it holds no state and is safe for
// concurrent use if Before is.
type Writer struct {
	// Before is called ahead of every step; an error makes the step fail. nil = no hook.
	// It exists for tests that fail or kill a write at every step in turn.
	Before func(op Op, path string) error
}

func (w Writer) step(op Op, path string) error {
	if w.Before == nil {
		return nil
	}
	return w.Before(op, path)
}

// State is what a file was when it was read.
type State struct {
	Path   string // resolved: no link left in it
	Exists bool
	SHA256 string // of the content, hex

	info fs.FileInfo
}

// Size returns the length in bytes.
func (s State) Size() int64 {
	if s.info == nil {
		return 0
	}
	return s.info.Size()
}

// Mode returns the permission bits.
func (s State) Mode() fs.FileMode {
	if s.info == nil {
		return 0
	}
	return s.info.Mode().Perm()
}

// Read reads a regular file through links. A file that does not exist is no error: Exists
// is false. A link that leads nowhere is an error that wraps [fs.ErrNotExist].
func Read(path string) ([]byte, State, error) {
	st := State{Path: path}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, st, nil
	} else if err != nil {
		return nil, st, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, st, fmt.Errorf("%s: link leads nowhere: %w", path, err)
	}
	st.Path = real
	f, err := os.Open(real)
	if err != nil {
		return nil, st, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	if st.info, err = f.Stat(); err != nil {
		return nil, st, err
	}
	if !st.info.Mode().IsRegular() {
		return nil, st, fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, st, err
	}
	st.Exists = true
	st.SHA256 = Hash(data)
	return data, st, nil
}

// Hash returns the SHA-256 of data in hex.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Changed reports whether the file at s.Path is another one, or another content, than s.
func (s State) Changed() (bool, error) {
	_, now, err := Read(s.Path)
	if err != nil {
		return false, err
	}
	if now.Exists != s.Exists {
		return true, nil
	}
	if !now.Exists {
		return false, nil
	}
	same := os.SameFile(s.info, now.info) && s.info.Size() == now.info.Size() &&
		s.info.ModTime().Equal(now.info.ModTime()) && s.SHA256 == now.SHA256
	return !same, nil
}

// Options say how a file that does not exist is made.
type Options struct {
	Mode fs.FileMode // 0 = 0600
	Temp string      // name of the staged file, beside the target; "" = a random one
}

// Staged is new content waiting beside the file it will replace.
type Staged struct {
	Target string // resolved
	Temp   string
	// InPlace is why the file must be overwritten instead of replaced; "" = it need not.
	InPlace string

	w    Writer
	data []byte
}

// Stage writes data beside the file that path leads to. Nothing the file's readers see has
// changed when it returns. The caller ends with Commit, CommitInPlace or Discard.
func (w Writer) Stage(path string, data []byte, o Options) (*Staged, error) {
	target, err := resolve(path)
	if err != nil {
		return nil, err
	}
	st := &Staged{Target: target, w: w, data: data}
	name := o.Temp
	if name == "" {
		name = "." + filepath.Base(target) + "." + rand.Text()[:8] + ".new"
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
	if err := w.stage(st, info, o); err != nil {
		return nil, errors.Join(err, st.Discard())
	}
	return st, nil
}

// resolve follows links in path; the last part may be missing.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err == nil {
		return real, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if _, lerr := os.Lstat(abs); lerr == nil {
		return "", fmt.Errorf("%s: link leads nowhere: %w", path, err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(abs)), nil
}

func (w Writer) stage(st *Staged, old fs.FileInfo, o Options) (err error) {
	if err := w.step(OpCreate, st.Temp); err != nil {
		return err
	}
	f, err := os.OpenFile(st.Temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	mode := o.Mode
	if mode == 0 {
		mode = 0o600
	}
	if old != nil {
		mode = old.Mode().Perm()
		if links(old) > 1 {
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
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := w.step(OpSync, st.Temp); err != nil {
		return err
	}
	return f.Sync()
}

// likeness gives the staged file the owner and attributes of the old one, or of the
// directory for a new file made by root. What may not be given makes the write go in place.
func (w Writer) likeness(st *Staged, f *os.File, old fs.FileInfo) error {
	if err := w.step(OpOwner, st.Temp); err != nil {
		return err
	}
	like := old
	if like == nil {
		dir, err := os.Stat(filepath.Dir(st.Temp))
		if err != nil {
			return err
		}
		like = dir
	}
	if err := copyOwner(f, like, old == nil); err != nil {
		if !errors.Is(err, fs.ErrPermission) || old == nil {
			return err
		}
		st.InPlace = "its owner can only be kept by writing into it"
	}
	if old == nil {
		return nil
	}
	if err := w.step(OpAttrs, st.Temp); err != nil {
		return err
	}
	if err := copyAttrs(st.Target, f); err != nil {
		st.InPlace = "its extended attributes can only be kept by writing into it"
	}
	return nil
}

// write writes data in chunks.
func (w Writer) write(f *os.File, path string, data []byte) error {
	for off := 0; off < len(data) || off == 0; off += chunk {
		if err := w.step(OpWrite, path); err != nil {
			return err
		}
		if _, err := f.WriteAt(data[off:min(off+chunk, len(data))], int64(off)); err != nil {
			return err
		}
	}
	return nil
}

// Commit puts the staged content in place by rename and flushes the directory. [ErrInPlace]
// means that nothing happened yet and CommitInPlace is needed.
func (s *Staged) Commit() error {
	if s.InPlace != "" {
		return fmt.Errorf("%s: %w: %s", s.Target, ErrInPlace, s.InPlace)
	}
	if err := s.w.step(OpRename, s.Target); err != nil {
		return err
	}
	if err := os.Rename(s.Temp, s.Target); err != nil {
		if crossesMount(err) {
			s.InPlace = "it is a mount point of its own"
			return fmt.Errorf("%s: %w: %s", s.Target, ErrInPlace, s.InPlace)
		}
		return err
	}
	return s.w.SyncDir(filepath.Dir(s.Target))
}

// CommitInPlace overwrites the target with the staged content and removes the staged file.
// A crash in it leaves a mixture of old and new: see [Torn].
func (s *Staged) CommitInPlace() (err error) {
	if err := s.w.Overwrite(s.Target, s.data); err != nil {
		return err
	}
	return s.Discard()
}

// Overwrite writes data into an existing file, keeping its inode. It is not atomic: a crash
// in it leaves what [Torn] describes.
func (w Writer) Overwrite(path string, data []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := w.write(f, path, data); err != nil {
		return err
	}
	if err := w.step(OpCut, path); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(data))); err != nil {
		return err
	}
	if err := w.step(OpSync, path); err != nil {
		return err
	}
	return f.Sync()
}

// Torn reports whether content is what interrupted in-place writes of after over before, and
// of before over that again, can leave: at every place the byte of one of the two.
func Torn(content, before, after []byte) bool {
	if len(content) < min(len(before), len(after)) {
		return false
	}
	for i, c := range content {
		if (i >= len(before) || before[i] != c) && (i >= len(after) || after[i] != c) {
			return false
		}
	}
	return true
}

// Discard removes the staged file. It is no error if it is gone.
func (s *Staged) Discard() error {
	err := os.Remove(s.Temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Write replaces the file that path leads to, in place where it must.
func (w Writer) Write(path string, data []byte, o Options) error {
	s, err := w.Stage(path, data, o)
	if err != nil {
		return err
	}
	err = s.Commit()
	if errors.Is(err, ErrInPlace) {
		err = s.CommitInPlace()
	}
	if err != nil {
		return errors.Join(err, s.Discard())
	}
	return nil
}

// Touch makes an empty file with the owner of its directory when made by root. It is no
// error if the file exists, which then stays as it is.
func (w Writer) Touch(path string, mode fs.FileMode) (err error) {
	if err := w.step(OpCreate, path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	return copyOwner(f, dir, true)
}

// Remove deletes a file and flushes its directory. It is no error if it is gone.
func (w Writer) Remove(path string) error {
	if err := w.step(OpRemove, path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return w.SyncDir(filepath.Dir(path))
}

// Mkdir makes one directory, with the owner of its parent when made by root. It is no error
// if it exists. The parent must exist: a directory that someone deleted is not brought back.
func (w Writer) Mkdir(path string, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := w.step(OpMkdir, path); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	parent, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // opened for reading
	if err := copyOwner(d, parent, true); err != nil {
		return err
	}
	return w.SyncDir(filepath.Dir(path))
}

// SyncDir flushes a directory, so that a rename or removal in it survives a power cut.
func (w Writer) SyncDir(dir string) error {
	if err := w.step(OpSyncDir, dir); err != nil {
		return err
	}
	return syncDir(dir)
}
