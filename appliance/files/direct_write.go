// SPDX-License-Identifier: MIT

package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Write implements [Host].
func (d *Direct) Write(ctx context.Context, at Place, data []byte, mode fs.FileMode) (now Place, verified bool, err error) {
	if at.Kind == Regular && at.Abs != at.Path { // root does not write through anybody's links
		if _, err := atomicfile.Resolve(at.Abs); err != nil {
			return at, false, err
		}
	}
	if err := d.makeDirs(at); err != nil {
		return at, false, err
	}
	if err := d.unchanged(at); err != nil {
		return at, false, err
	}
	o := atomicfile.Options{Mode: mode}
	if mode == 0 {
		o = atomicfile.Options{Mode: 0o666, Umask: true}
	}
	st, err := d.Files.Stage(at.Path, data, o)
	if err != nil {
		return at, false, moved(at, err)
	}
	if err := d.commit(at, st); err != nil {
		return at, false, errors.Join(err, st.Discard())
	}
	if err := st.Discard(); err != nil {
		return at, false, err
	}
	return d.landed(ctx, at, data)
}

// commit puts staged content in place if the file and its directory are still those that were
// judged. A directory that is exchanged after the check makes the rename fail: the staged
// file is not in the new one.
func (d *Direct) commit(at Place, st *atomicfile.Staged) error {
	if st.Target != at.Path {
		return fmt.Errorf("%s: %w", at.Path, ErrMoved)
	}
	if real, err := filepath.EvalSymlinks(st.Temp); err != nil || real != st.Temp {
		return fmt.Errorf("%s: %w", at.Path, ErrMoved)
	}
	if err := d.unchanged(at); err != nil {
		return err
	}
	err := st.Commit()
	if errors.Is(err, atomicfile.ErrInPlace) {
		return st.CommitInPlace()
	}
	return err
}

// unchanged reports with ErrMoved that the file is not the one that was located.
func (d *Direct) unchanged(at Place) error {
	real, err := resolve(at.Path)
	if err != nil {
		return moved(at, err)
	}
	if real != at.Path {
		return fmt.Errorf("%s: %w", at.Path, ErrMoved)
	}
	info, err := os.Lstat(at.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if at.Kind == Missing {
			return nil
		}
		return fmt.Errorf("%s: %w: it is gone", at.Path, ErrMoved)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return irregular(at, info)
	case at.Kind != Regular || at.Stamp != "" && stamp(info) != at.Stamp:
		return fmt.Errorf("%s: %w: somebody else wrote it", at.Path, ErrMoved)
	}
	return nil
}

// moved turns what a link in the way makes of an operation into ErrMoved.
func moved(at Place, err error) error {
	if errors.Is(err, ErrDangling) || errors.Is(err, atomicfile.ErrNotRegular) {
		return fmt.Errorf("%s: %w: %w", at.Path, ErrMoved, err)
	}
	return err
}

// makeDirs makes the directories on the way to a file, and makes sure that they are where
// the path says.
func (d *Direct) makeDirs(at Place) error {
	dir := filepath.Dir(at.Path)
	var missing []string
	for p := dir; ; p = filepath.Dir(p) {
		if _, err := os.Lstat(p); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, p)
	}
	for _, p := range slices.Backward(missing) {
		if err := d.Files.Mkdir(p, 0o777); err != nil {
			return err
		}
	}
	if real, err := filepath.EvalSymlinks(dir); err != nil || real != dir {
		return fmt.Errorf("%s: %w", at.Path, ErrMoved)
	}
	return nil
}

// landed reads back what was written.
func (d *Direct) landed(ctx context.Context, at Place, data []byte) (Place, bool, error) {
	f, info, err := d.open(at)
	if err != nil {
		return at, false, err
	}
	if err := f.Close(); err != nil {
		return at, false, err
	}
	now := seen(at, info)
	got, err := d.Read(ctx, now, int64(len(data)))
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return now, false, err
	}
	if err != nil || atomicfile.Hash(got) != atomicfile.Hash(data) {
		return now, false, fmt.Errorf("%s: %w", at.Path, ErrDiffers)
	}
	return now, true, nil
}

// Remove implements [Host].
func (d *Direct) Remove(_ context.Context, at Place) error {
	if at.Kind != Regular {
		return fmt.Errorf("%s: %w", at.Path, ErrNotRegular)
	}
	if err := d.unchanged(at); err != nil {
		return err
	}
	return d.Files.Remove(at.Path)
}
