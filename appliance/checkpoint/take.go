// SPDX-License-Identifier: MIT

package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Take stores the state of a directory, which must be absolute. If it is that of the latest
// checkpoint, none is taken and Hash is "". The error wraps [ErrTooMany] or [ErrTooBroad] where
// the directory is refused. Whatever the error, the directory and earlier checkpoints are as
// before; a turn should go on.
func (s *Store) Take(ctx context.Context, workdir, reason string) (Checkpoint, error) {
	p, err := s.project(workdir)
	if err != nil {
		return Checkpoint{}, err
	}
	release, err := s.lock(ctx)
	if err != nil {
		return Checkpoint{}, err
	}
	defer release()
	c, _, err := s.take(ctx, p, reason)
	return c, err
}

// take is Take under the lock. tree is the state of the directory, also when no checkpoint was
// needed; it is "" for a directory that holds nothing and never did.
func (s *Store) take(ctx context.Context, p project, reason string) (c Checkpoint, tree string, err error) {
	if err := s.open(ctx); err != nil {
		return c, "", err
	}
	if err := s.touch(p); err != nil {
		return c, "", err
	}
	s.sweep(p)
	parent, before, err := s.tip(ctx, p)
	if err != nil {
		return c, "", err
	}
	tree, left, err := s.snapshot(ctx, p)
	if err != nil {
		return c, "", err
	}
	c.Left = left
	if tree == before || (before == "" && tree == emptyTree) {
		return c, before, nil
	}
	c.Time, c.Reason = s.o.Now().Truncate(time.Second), oneLine(reason)
	// The project in the message keeps equal states of two directories apart.
	args := []string{"commit-tree", tree, "-F", "-"}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	hash, err := s.line(ctx, call{args: args, stdin: []byte(c.Reason + "\n\nproject " + p.id + "\n")})
	if err != nil {
		return Checkpoint{Left: left}, "", err
	}
	if _, err := s.git(ctx, call{args: []string{"update-ref", p.ref(), hash}}); err != nil {
		return Checkpoint{Left: left}, "", err
	}
	c.Hash = hash
	if err := s.trim(ctx, p, s.o.MaxSnapshots); err != nil {
		s.o.Log.WarnContext(ctx, "old checkpoints were not let go", "dir", p.dir, "error", err)
	}
	return c, tree, nil
}

// emptyTree is the tree of a directory without files, in git's usual object format.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// oneLine makes a reason fit the list: no control characters, no more than 200 letters.
func oneLine(reason string) string {
	text := strings.Join(strings.FieldsFunc(reason, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }), " ")
	if r := []rune(strings.ToValidUTF8(text, "\uFFFD")); len(r) > 200 {
		text = string(r[:199]) + "…"
	}
	if text == "" {
		return "checkpoint"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// snapshot writes the state of a directory as a tree. The project's index is only a memory of
// what was looked at: work goes on in a copy, so that a killed git leaves no lock on it.
func (s *Store) snapshot(ctx context.Context, p project) (tree string, left []string, err error) {
	index := s.path("indexes", p.id)
	work := index + ".tmp" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	defer func() { _ = s.files.Remove(work) }() //nolint:errcheck // sweep finds it
	if err := s.copyIndex(index, work); err != nil {
		return "", nil, err
	}
	tree, left, err = s.stage(ctx, p, work)
	if _, failed := errors.AsType[*gitError](err); failed { // perhaps the memory is damaged
		if err := s.files.Remove(work); err != nil {
			return "", nil, err
		}
		tree, left, err = s.stage(ctx, p, work)
	}
	if err != nil {
		return "", nil, err
	}
	return tree, left, s.copyIndex(work, index)
}

// copyIndex copies an index, if there is one, with its time: a file that changed in the second
// in which git wrote the index is looked at again, and by that time git knows which.
func (s *Store) copyIndex(from, to string) error {
	info, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	staged, err := s.files.Stage(to, data, atomicfile.Options{})
	if err != nil {
		return err
	}
	if err = os.Chtimes(staged.Temp, time.Time{}, info.ModTime()); err == nil {
		err = staged.Commit()
	}
	return errors.Join(err, staged.Discard())
}

// stage brings an index up to date with the directory and writes its tree.
func (s *Store) stage(ctx context.Context, p project, index string) (tree string, left []string, err error) {
	all, err := s.list(ctx, p, index)
	if err != nil {
		return "", nil, err
	}
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return "", nil, err
	}
	defer root.Close() //nolint:errcheck // opened for reading
	add, drop, left := s.sort(root, all, false)
	err = s.update(ctx, p, index, add, drop)
	if _, failed := errors.AsType[*gitError](err); failed { // perhaps one cannot be read
		add, drop, left = s.sort(root, all, true)
		err = s.update(ctx, p, index, add, drop)
	}
	if err != nil {
		return "", nil, err
	}
	tree, err = s.line(ctx, call{args: []string{"write-tree"}, work: p.dir, dir: p.dir, index: index})
	return tree, left, err
}

// list is what is in the directory and in the index, less what is excluded. A nested
// repository is one name with a slash at its end; git does not look into it.
func (s *Store) list(ctx context.Context, p project, index string) ([]string, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := &limited{most: s.o.MaxFiles, stop: stop}
	_, err := s.git(ctx, call{
		args: []string{"ls-files", "-z", "--cached", "--others", "--exclude-standard"},
		work: p.dir, dir: p.dir, index: index, out: out,
	})
	if out.n > out.most {
		return nil, fmt.Errorf("%s: %w: more than %d; name what needs none in .gitignore", p.dir, ErrTooMany, s.o.MaxFiles)
	}
	return names(out.String()), err
}

// sort divides the listed paths into those to store, those to drop from the index, and of the
// latter those that are there but cannot be stored. Unreadable files are only looked for if
// try is set.
func (s *Store) sort(root *os.Root, all []string, try bool) (add, drop, left []string) {
	for _, path := range all {
		if strings.HasSuffix(path, "/") {
			left = append(left, path)
			continue
		}
		info, err := root.Lstat(filepath.FromSlash(path))
		regular := err == nil && info.Mode().IsRegular()
		switch {
		case err != nil, info.IsDir():
			drop = append(drop, path)
		case info.Mode().Type() == fs.ModeSymlink:
			add = append(add, path)
		case !regular, s.o.MaxFileSize > 0 && info.Size() > s.o.MaxFileSize, try && !readable(root, path):
			drop, left = append(drop, path), append(left, path)
		default:
			add = append(add, path)
		}
	}
	return add, drop, left
}

func readable(root *os.Root, path string) bool {
	f, err := root.Open(filepath.FromSlash(path))
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// update changes an index: first what is gone, then what is there.
func (s *Store) update(ctx context.Context, p project, index string, add, drop []string) error {
	if len(drop) > 0 {
		var b bytes.Buffer
		for _, path := range drop {
			b.WriteString("0 " + strings.Repeat("0", 40) + "\t" + path + "\x00")
		}
		if _, err := s.git(ctx, call{args: []string{"update-index", "-z", "--index-info"}, work: p.dir, dir: p.dir, index: index, stdin: b.Bytes()}); err != nil {
			return err
		}
	}
	_, err := s.git(ctx, call{args: []string{"update-index", "--add", "--remove", "--replace", "-z", "--stdin"}, work: p.dir, dir: p.dir, index: index, stdin: joined(add), slow: true})
	return err
}

// stale is how old a leaving of a killed process is at least: no git runs that long.
const stale = 2 * MaxTimeout

// sweep removes what a killed process left of a project: working copies of its index and the
// lock of its ref. The caller holds the store's lock, so nobody alive but an orphaned git can
// own them, and that ends within its timeout.
func (s *Store) sweep(p project) {
	paths, err := filepath.Glob(s.path("indexes", p.id+".*"))
	if err != nil {
		return
	}
	for _, path := range append(paths, s.path("refs", "hermes", p.id+".lock")) {
		if info, err := os.Lstat(path); err == nil && s.o.Now().Sub(info.ModTime()) > stale {
			if err := os.Remove(path); err != nil {
				s.o.Log.Warn("a leaving of an earlier run was not removed", "path", path, "error", err)
			}
		}
	}
}
