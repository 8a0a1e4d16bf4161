// SPDX-License-Identifier: MIT

// Package atomicfile is the only writer of files. A file is replaced whole or not at all:
// the new content is staged beside the file it replaces, with the same mode, owner and
// extended attributes, flushed, and renamed over it. Links are followed and survive; as root
// only those that root or the owner of their target made. Where a rename would lose
// something (a bind-mounted file, a second hard link, an owner we may not give away) the
// content is overwritten in place, which is not atomic: the caller that needs more keeps a
// journal. It never creates a directory on the way to a file and never writes to anything
// but a regular file. The directory of a staged file is held until the file is renamed or
// removed: another directory that takes its path in between gets nothing.
package atomicfile

import (
	"errors"
	"fmt"
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

// Write replaces the file that path leads to, in place where it must. After an error the
// file has its old content, but for two cases: the flush of the directory failed (it has the
// new content, which a power cut may take back), or it had to be written in place (see
// [Torn]). No staged file is left.
func (w Writer) Write(path string, data []byte, o Options) error {
	s, err := w.Stage(path, data, o)
	if err != nil {
		return err
	}
	err = s.Commit()
	if errors.Is(err, ErrInPlace) {
		err = s.CommitInPlace()
	}
	return errors.Join(err, s.Discard())
}

// Overwrite writes data into an existing regular file, keeping its inode. path has no link
// in it, as [State] has it. It is not atomic: a crash in it leaves what [Torn] describes.
func (w Writer) Overwrite(path string, data []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|openFlags, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if info, err := f.Stat(); err != nil {
		return err
	} else if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
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

// Touch makes an empty file with the owner of its directory when made by root. It is no
// error if the file exists, which then stays as it is; anything but a regular file is
// refused, also a link.
func (w Writer) Touch(path string, mode fs.FileMode) (err error) {
	if err := w.step(OpCreate, path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return w.touched(path)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return w.give(f, path)
}

// touched looks at a file that is there already. An empty one that belongs to another user
// than its directory was left by a run of root that was killed before it gave it away: it
// would lock that user out.
func (w Writer) touched(path string) (err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	if dir, err := os.Stat(filepath.Dir(path)); info.Size() > 0 || err != nil || !astray(info, dir) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|openFlags, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return w.give(f, path)
}

// give gives what root made to the owner of the directory it is in.
func (w Writer) give(f *os.File, path string) error {
	if err := w.step(OpOwner, path); err != nil {
		return err
	}
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
// if it exists; as root a link to it is followed only where [Resolve] would. The parent must
// exist: a directory that someone deleted is not brought back.
func (w Writer) Mkdir(path string, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return w.made(path, info)
	}
	if err := w.step(OpMkdir, path); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil {
		if info, serr := os.Stat(path); serr == nil && info.IsDir() {
			return nil // another process was faster, and gives it
		}
		return err
	}
	return w.giveDir(path)
}

// made looks at a directory that is there already; see touched.
func (w Writer) made(path string, info fs.FileInfo) error {
	if _, err := Resolve(path); err != nil {
		return err
	}
	parent, err := os.Stat(filepath.Dir(path))
	if err != nil || !astray(info, parent) {
		return err
	}
	if entries, err := os.ReadDir(path); err != nil || len(entries) > 0 {
		return err
	}
	return w.giveDir(path)
}

func (w Writer) giveDir(path string) (err error) {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // opened for reading
	if err := w.give(d, path); err != nil {
		return err
	}
	return w.SyncDir(filepath.Dir(path))
}

// Publish gives a directory that the caller filled under another name, beside it, its real
// name, and flushes it and its parent: it is there whole or not at all. What has the name
// already is an error, unless it is an empty directory.
func (w Writer) Publish(temp, path string) error {
	if err := w.SyncDir(temp); err != nil {
		return err
	}
	if err := w.step(OpRename, path); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
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
