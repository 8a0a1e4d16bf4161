// SPDX-License-Identifier: MIT

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// List returns the checkpoints of a directory, the newest first; none is no error.
func (s *Store) List(ctx context.Context, workdir string) ([]Checkpoint, error) {
	p, err := s.project(workdir)
	if err != nil {
		return nil, err
	}
	if ok, err := s.exists(); !ok {
		return nil, err
	}
	return s.history(ctx, p)
}

func (s *Store) history(ctx context.Context, p project) ([]Checkpoint, error) {
	tip, _, err := s.tip(ctx, p)
	if err != nil || tip == "" {
		return nil, err
	}
	out, err := s.git(ctx, call{args: []string{"log", "-z", "--format=%H %ct %s", tip, "--"}})
	if err != nil {
		return nil, err
	}
	var all []Checkpoint
	for _, line := range names(out) {
		hash, rest, _ := strings.Cut(line, " ")
		at, reason, _ := strings.Cut(rest, " ")
		unix, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("checkpoint %s: time %q: %w", hash, at, ErrInvalid)
		}
		all = append(all, Checkpoint{Hash: hash, Time: time.Unix(unix, 0), Reason: reason})
	}
	return all, nil
}

// find resolves a hash, or the beginning of one, among a directory's own checkpoints: those of
// other directories are not to be had here.
func (s *Store) find(ctx context.Context, p project, hash string) (Checkpoint, error) {
	all, err := s.history(ctx, p)
	if err != nil {
		return Checkpoint{}, err
	}
	var found []Checkpoint
	for _, c := range all {
		if strings.HasPrefix(c.Hash, strings.ToLower(hash)) {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 0:
		return Checkpoint{}, fmt.Errorf("%w: %s in %s", ErrNotFound, hash, p.dir)
	case 1:
		return found[0], nil
	}
	return Checkpoint{}, fmt.Errorf("checkpoint %s: %w: %d begin so; give more digits", hash, ErrInvalid, len(found))
}

// maxDiff is how many bytes of a difference are shown.
const maxDiff = 1 << 20

// Diff shows, as a unified diff, what has changed in a directory since a checkpoint. Of a long
// one the middle is left out. Nothing is recorded.
func (s *Store) Diff(ctx context.Context, workdir, hash string) (string, error) {
	p, err := s.project(workdir)
	if err != nil {
		return "", err
	}
	if err := checkHash(hash); err != nil {
		return "", err
	}
	release, err := s.lock(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	if ok, err := s.exists(); err != nil || !ok {
		return "", errors.Join(err, fmt.Errorf("%w: %s in %s", ErrNotFound, hash, p.dir))
	}
	c, err := s.find(ctx, p, hash)
	if err != nil {
		return "", err
	}
	tree, _, err := s.snapshot(ctx, p)
	if err != nil {
		return "", err
	}
	out := process.NewCapture(maxDiff)
	_, err = s.git(ctx, call{args: []string{"diff-tree", "-r", "-p", "--stat", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", c.Hash, tree}, out: out})
	return out.String(), err
}

// trim lets go of a project's checkpoints beyond the newest ones: the oldest that stays is
// told to have no parent, which keeps the hashes of those that stay. The space is given back by
// the next Prune.
func (s *Store) trim(ctx context.Context, p project, keep int) error {
	all, err := s.history(ctx, p)
	if err != nil || len(all) <= keep {
		return err
	}
	path := s.path("shallow")
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	cut := strings.Fields(string(data))
	cut = slices.DeleteFunc(cut, func(h string) bool {
		return slices.ContainsFunc(all, func(c Checkpoint) bool { return c.Hash == h })
	})
	cut = append(cut, all[keep-1].Hash)
	slices.Sort(cut)
	return s.files.Write(path, []byte(strings.Join(cut, "\n")+"\n"), atomicfile.Options{})
}
