// SPDX-License-Identifier: MIT

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Restored is what a Restore did. Paths are relative to the directory, with slashes.
type Restored struct {
	Before  Checkpoint // the state it replaced; Hash is "" if that is the latest checkpoint anyway
	Written []string
	Removed []string // made after the checkpoint
	// Kept are the paths that stay as they are, as something that no checkpoint holds (too
	// large, excluded, not readable) is in their place.
	Kept []string
}

// change is one path that differs between two trees.
type change struct {
	path    string
	removed bool // it is not in the second
}

// Restore brings a directory, or the given files and directories in it, to the state of one of
// its checkpoints: what differs is written, what was made since is removed. hash may be
// shortened to four digits; paths are relative. A checkpoint of the present state is taken
// first, and if it cannot be, nothing is changed; after an error in the middle it is what leads
// back. What no checkpoint holds is never overwritten or removed.
func (s *Store) Restore(ctx context.Context, workdir, hash string, paths ...string) (Restored, error) {
	var r Restored
	p, err := s.project(workdir)
	if err != nil {
		return r, err
	}
	if err := checkHash(hash); err != nil {
		return r, err
	}
	only, err := checkPaths(paths)
	if err != nil {
		return r, err
	}
	release, err := s.lock(ctx)
	if err != nil {
		return r, err
	}
	defer release()
	if ok, err := s.exists(); err != nil || !ok {
		return r, errors.Join(err, fmt.Errorf("%w: %s in %s", ErrNotFound, hash, p.dir))
	}
	c, err := s.find(ctx, p, hash)
	if err != nil {
		return r, err
	}
	before, now, err := s.take(ctx, p, "before restoring "+c.Hash[:8])
	if err != nil {
		return r, fmt.Errorf("nothing restored: the present state could not be kept: %w", err)
	}
	r.Before = before
	changes, err := s.changes(ctx, now, c.Hash, only)
	if err != nil {
		return r, err
	}
	held, err := s.held(ctx, now)
	if err != nil {
		return r, err
	}
	return r, s.apply(ctx, p, c, changes, held, &r)
}

// changes are the paths that differ between two trees.
func (s *Store) changes(ctx context.Context, from, to string, only []string) ([]change, error) {
	args := append([]string{"diff-tree", "-r", "-z", "--no-renames", "--name-status", from, to, "--"}, only...)
	out, err := s.git(ctx, call{args: args})
	if err != nil {
		return nil, err
	}
	var all []change
	for f := names(out); len(f) >= 2; f = f[2:] {
		all = append(all, change{path: f[1], removed: f[0] == "D"})
	}
	return all, nil
}

// held are the files that a tree has.
func (s *Store) held(ctx context.Context, tree string) (map[string]bool, error) {
	out, err := s.git(ctx, call{args: []string{"ls-tree", "-r", "-z", "--name-only", tree}})
	held := map[string]bool{}
	for _, name := range names(out) {
		held[name] = true
	}
	return held, err
}

// apply makes the changes: removals first, as a directory may have to make way for a file.
func (s *Store) apply(ctx context.Context, p project, c Checkpoint, changes []change, held map[string]bool, r *Restored) error {
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // files are written by git
	for _, ch := range changes {
		if !ch.removed {
			continue
		}
		if err := root.Remove(filepath.FromSlash(ch.path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", ch.path, err)
		}
		r.Removed = append(r.Removed, ch.path)
		for dir := path.Dir(ch.path); dir != "."; dir = path.Dir(dir) {
			if root.Remove(filepath.FromSlash(dir)) != nil {
				break // not empty
			}
		}
	}
	var write []string
	for _, ch := range changes {
		switch {
		case ch.removed:
		case free(root, ch.path, held):
			write = append(write, ch.path)
		default:
			r.Kept = append(r.Kept, ch.path)
		}
	}
	if len(write) == 0 {
		return nil
	}
	index := s.path("indexes", p.id+".tmp"+strconv.Itoa(os.Getpid())+"-"+strconv.FormatInt(time.Now().UnixNano(), 36))
	defer func() { _ = s.files.Remove(index) }() //nolint:errcheck // sweep finds it
	if _, err := s.git(ctx, call{args: []string{"read-tree", c.Hash}, index: index, work: p.dir, dir: p.dir}); err != nil {
		return err
	}
	if _, err := s.git(ctx, call{args: []string{"checkout-index", "--force", "-z", "--stdin"}, index: index, work: p.dir, dir: p.dir, stdin: joined(write)}); err != nil {
		return err
	}
	r.Written = write
	return nil
}

// free reports whether a path can be written without loss: nothing is there, or what is there
// is held by the checkpoint of just now.
func free(root *os.Root, name string, held map[string]bool) bool {
	parts := strings.Split(name, "/")
	for i := range parts {
		at := strings.Join(parts[:i+1], "/")
		info, err := root.Lstat(filepath.FromSlash(at))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return true
		case err != nil:
			return false
		case info.IsDir():
			if i == len(parts)-1 {
				return emptyDir(root, at)
			}
		default:
			return held[at]
		}
	}
	return true
}

func emptyDir(root *os.Root, name string) bool {
	d, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return false
	}
	defer d.Close() //nolint:errcheck // opened for reading
	_, err = d.Readdirnames(1)
	return errors.Is(err, io.EOF)
}
