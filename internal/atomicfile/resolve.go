// SPDX-License-Identifier: MIT

package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrForeignLink says that root was led to a file by a link that neither root nor the file's
// owner made. Following it would let anyone who may write a home write everywhere.
var ErrForeignLink = errors.New("link made by another user")

// maxLinks is where a chain of links ends, as in the kernel.
const maxLinks = 40

// Resolve returns the file that writing to path would write: links are followed, the last
// part may be missing. A link that leads nowhere is an error that wraps [fs.ErrNotExist].
// As root it fails with [ErrForeignLink] where the last part of path is a link, or a chain
// of them, that somebody else than root or the owner of its target made.
func Resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := follow(abs)
	if err == nil {
		return real, trusted(abs, real)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if _, lerr := os.Lstat(abs); lerr == nil {
		return "", fmt.Errorf("%s: link leads nowhere: %w", path, err)
	}
	dir, err := follow(filepath.Dir(abs))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(abs)), nil
}

// follow is [filepath.EvalSymlinks]; its error always names a path, also of links that lead back
// to themselves.
func follow(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if _, ok := errors.AsType[*fs.PathError](err); err != nil && !ok {
		err = &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
	}
	return real, err
}

// Links returns the chain of links that starts at path: the path of each link, then of what
// the last one names, whether that exists or not. A path that is no link gives itself.
func Links(path string) ([]string, error) {
	var out []string
	for range maxLinks {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil { // beyond here only names are left
			return append(out, path), nil //nolint:nilerr // the chain ends in nothing
		}
		path = filepath.Join(dir, filepath.Base(path))
		out = append(out, path)
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return out, nil //nolint:nilerr // the chain ends here
		}
		to, err := os.Readlink(path)
		if err != nil {
			return nil, err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		path = to
	}
	return nil, fmt.Errorf("%s: too many links", out[0])
}

// trusted refuses links that root must not follow.
func trusted(path, real string) error {
	if os.Geteuid() != 0 {
		return nil // the kernel's own rules are enough
	}
	target, err := os.Lstat(real)
	if err != nil {
		return err
	}
	chain, err := Links(path)
	if err != nil {
		return err
	}
	for _, l := range chain[:len(chain)-1] {
		info, err := os.Lstat(l)
		if err != nil {
			return err
		}
		if owner := ownerOf(info); owner != 0 && owner != ownerOf(target) {
			return fmt.Errorf("%s: %w (uid %d) to a file of uid %d", l, ErrForeignLink, owner, ownerOf(target))
		}
	}
	return nil
}
