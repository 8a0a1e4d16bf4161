// SPDX-License-Identifier: MIT

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// PruneOptions say what is let go. The zero value deletes nothing.
type PruneOptions struct {
	Retention     time.Duration // since the last use of a directory's checkpoints; 0 = for ever
	DeleteOrphans bool          // of directories that are observed to be deleted
	// Allow binds the deletion of orphans to what somebody was shown: ids of projects, names
	// of old repositories. nil = all.
	Allow    []string
	MaxTotal int64         // bytes of the store; the oldest checkpoints go, one of each directory stays; 0 = no limit
	MinEvery time.Duration // do nothing if the last Prune is more recent; 0 = do it
}

// Counts say what a Prune did.
type Counts struct {
	Scanned       int   `json:"scanned"`
	DeletedOrphan int   `json:"deleted_orphan"`
	DeletedStale  int   `json:"deleted_stale"`
	Errors        int   `json:"errors"`
	BytesFreed    int64 `json:"bytes_freed"`
}

// pruning is one run.
type pruning struct {
	s     *Store
	o     PruneOptions
	now   time.Time
	count Counts
	errs  []error
}

func (r *pruning) fail(err error) {
	if err != nil {
		r.count.Errors++
		r.errs = append(r.errs, err)
	}
}

// Prune deletes the checkpoints of directories that are gone or were not used for long, cuts
// the store to its size, and gives back the space. What is unsure stays. It goes on after an
// error; the error it returns has all of them, and Counts is right in any case.
func (s *Store) Prune(ctx context.Context, o PruneOptions) (Counts, error) {
	if _, err := os.Stat(s.o.Dir); errors.Is(err, fs.ErrNotExist) {
		return Counts{}, nil
	}
	release, err := s.lock(ctx)
	if err != nil {
		return Counts{Errors: 1}, err
	}
	defer release()
	r := &pruning{s: s, o: o, now: s.o.Now()}
	if r.recent() {
		return Counts{}, nil
	}
	before := size(s.o.Dir)
	r.old()
	if ok, err := s.exists(); err != nil {
		r.fail(err)
	} else if ok {
		r.store(ctx)
	}
	r.count.BytesFreed = max(0, before-size(s.o.Dir))
	r.fail(s.files.Write(r.marker(), []byte(strconv.FormatInt(r.now.Unix(), 10)+"\n"), atomicfile.Options{}))
	return r.count, errors.Join(r.errs...)
}

func (r *pruning) marker() string { return filepath.Join(r.s.o.Dir, ".last_prune") }

// recent reports whether the last run is too short ago. A marker from the future, or one that
// makes no sense, does not count. Upstream writes seconds with a fraction.
func (r *pruning) recent() bool {
	data, err := os.ReadFile(r.marker())
	if err != nil || r.o.MinEvery <= 0 {
		return false
	}
	sec, err := strconv.ParseFloat(strings.TrimSpace(string(data)), 64)
	if err != nil {
		return false
	}
	age := seconds(r.now) - sec
	return age >= 0 && age < r.o.MinEvery.Seconds()
}

func (r *pruning) stale(last time.Time) bool {
	return r.o.Retention > 0 && last.Unix() > 0 && r.now.Sub(last) > r.o.Retention
}

func (r *pruning) allowed(name string) bool {
	return r.o.Allow == nil || slices.Contains(r.o.Allow, name)
}

// old looks at what earlier layouts left beside the store: one repository a directory, and
// archives of those.
func (r *pruning) old() {
	list, err := os.ReadDir(r.s.o.Dir)
	r.fail(err)
	for _, f := range list {
		path := filepath.Join(r.s.o.Dir, f.Name())
		if !f.IsDir() || f.Name() == "store" {
			continue
		}
		archive := strings.HasPrefix(f.Name(), "legacy-")
		if _, err := os.Stat(filepath.Join(path, "HEAD")); !archive && err != nil {
			continue // nothing of ours
		}
		r.count.Scanned++
		info, err := f.Info()
		if err != nil {
			r.fail(err)
			continue
		}
		orphan := false
		if !archive && r.o.DeleteOrphans && r.allowed(f.Name()) {
			data, err := os.ReadFile(filepath.Join(path, "HERMES_WORKDIR"))
			dir := strings.TrimSpace(string(data))
			orphan = err == nil && filepath.IsAbs(dir) && gone(dir, nil)
		}
		if orphan || r.stale(info.ModTime()) {
			r.drop(orphan, os.RemoveAll(path))
		}
	}
}

func (r *pruning) drop(orphan bool, err error) {
	switch {
	case err != nil:
		r.fail(err)
	case orphan:
		r.count.DeletedOrphan++
	default:
		r.count.DeletedStale++
	}
}

// store looks at the projects of the store.
func (r *pruning) store(ctx context.Context) {
	list, err := r.s.projects()
	r.fail(err)
	for _, e := range list {
		r.count.Scanned++
		if e.err != nil {
			r.fail(fmt.Errorf("project %s is kept: %w", e.id, e.err))
			continue
		}
		orphan := r.o.DeleteOrphans && r.allowed(e.id) && orphaned(e.meta)
		touched := time.UnixMilli(int64(e.Touched * 1000))
		if orphan || (e.Touched > 0 && r.stale(touched)) {
			r.drop(orphan, r.s.forget(ctx, e.project))
			continue
		}
		r.fail(r.s.trim(ctx, e.project, r.s.o.MaxSnapshots))
		r.fail(r.s.capLedger(e.id))
	}
	r.leavings()
	_, err = r.s.git(ctx, call{args: []string{"gc", "--quiet", "--prune=now"}, slow: true})
	r.fail(err)
	r.shrink(ctx)
}

// forget deletes what the store has of a project; the objects go with the next gc. The project
// file goes last: a deletion that was cut short is taken up by the next run.
func (s *Store) forget(ctx context.Context, p project) error {
	if _, err := s.git(ctx, call{args: []string{"update-ref", "-d", p.ref()}}); err != nil {
		return err
	}
	for _, path := range []string{s.path("indexes", p.id), s.path("ledgers", p.id+".json"), s.path("projects", p.id+".json")} {
		if err := s.files.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// leavings removes the half-written packs and objects of killed processes.
func (r *pruning) leavings() {
	for _, pattern := range []string{"pack/tmp_*", "pack/.tmp-*", "??/tmp_obj_*"} {
		found, err := filepath.Glob(filepath.Join(r.s.path("objects"), filepath.FromSlash(pattern)))
		r.fail(err)
		for _, path := range found {
			if info, err := os.Lstat(path); err == nil && r.now.Sub(info.ModTime()) > stale {
				r.fail(os.Remove(path))
			}
		}
	}
}

// shrink lets the oldest checkpoints go until the store is as small as it may be. The last one
// of a directory stays.
func (r *pruning) shrink(ctx context.Context) {
	for r.o.MaxTotal > 0 && size(r.s.dir) > r.o.MaxTotal {
		list, err := r.s.projects()
		r.fail(err)
		again := false
		for _, e := range list {
			all, err := r.s.history(ctx, e.project)
			if err == nil && len(all) > 1 {
				again = true
				err = r.s.trim(ctx, e.project, max(1, len(all)*3/4))
			}
			if err != nil {
				r.fail(err)
				return
			}
		}
		if !again {
			r.s.o.Log.WarnContext(ctx, "the checkpoint store stays over its size: one checkpoint of each directory is kept", "dir", r.s.dir)
			return
		}
		if _, err := r.s.git(ctx, call{args: []string{"gc", "--quiet", "--prune=now"}, slow: true}); err != nil {
			r.fail(err)
			return
		}
	}
}

// size is the number of bytes in the files below a directory, as far as they can be seen.
func size(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { //nolint:errcheck // as far as it goes
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	return total
}
