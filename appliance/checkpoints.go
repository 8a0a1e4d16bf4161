// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/checkpoint"
	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
)

// timeoutVar is upstream's variable for the seconds that git may take.
const timeoutVar = "HERMES_CHECKPOINT_TIMEOUT"

// checkpointSettings are a profile's checkpoints.* of now.
type checkpointSettings struct {
	on, prune, orphans                   bool
	snapshots, total, file, days, everyH int64
}

// readCheckpointSettings reads them; without checkpoints.enabled none are taken.
func readCheckpointSettings(v config.View) (checkpointSettings, error) {
	set := checkpointSettings{prune: true, orphans: true, snapshots: checkpoint.MaxSnapshots, total: 500, file: 10, days: 7, everyH: 24}
	var errs []error
	for key, to := range map[string]*bool{"enabled": &set.on, "auto_prune": &set.prune, "delete_orphans": &set.orphans} {
		if v.Has("checkpoints", key) {
			on, err := v.Bool("checkpoints", key)
			*to, errs = on, append(errs, err)
		}
	}
	for key, to := range map[string]*int64{
		"max_snapshots": &set.snapshots, "max_total_size_mb": &set.total, "max_file_size_mb": &set.file,
		"retention_days": &set.days, "min_interval_hours": &set.everyH,
	} {
		if v.Has("checkpoints", key) {
			n, err := v.Int("checkpoints", key)
			*to, errs = min(max(n, 0), 1<<20), append(errs, err)
		}
	}
	return set, errors.Join(errs...)
}

// checkpoints is the profile's store, in an environment that is built as for any git.
func (t *Tenant) checkpoints(ctx context.Context, b bound, set checkpointSettings) (*checkpoint.Store, error) {
	rt := t.rt
	snap, err := rt.env.Snapshot(ctx, t.home)
	if err != nil {
		return nil, err
	}
	vars, err := rt.env.policy.Build("helper", snap)
	if err != nil {
		return nil, err
	}
	timeout, _ := b.lookup(timeoutVar)
	o := set.options(t.home, rt.env.Getenv("HOME"), timeout)
	o.Env, o.Processes, o.Now, o.Log = vars, rt.processes, rt.now, rt.log.With("profile", t.home.Profile)
	return checkpoint.New(o), nil
}

// options are those of a home's store, but for how git is run.
func (set checkpointSettings) options(h home.Home, userHome, timeout string) checkpoint.Options {
	o := checkpoint.Options{
		Dir: filepath.Join(h.Dir, "checkpoints"), MaxSnapshots: int(max(set.snapshots, 1)), MaxFileSize: set.file << 20,
	}
	if set.file == 0 {
		o.MaxFileSize = -1
	}
	if userHome != "" {
		o.Broad = append(o.Broad, userHome)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(timeout)); err == nil {
		o.Timeout = time.Duration(min(max(n, 1), 3600)) * time.Second
	}
	return o
}

// CheckpointOptions are those of a home's store as its config of now says, whether or not more
// are taken, for a command that a person runs. The caller adds how git is run.
func CheckpointOptions(h home.Home, v config.View, getenv func(string) string) (checkpoint.Options, error) {
	set, err := readCheckpointSettings(v)
	return set.options(h, getenv("HOME"), getenv(timeoutVar)), err
}

// keep takes a checkpoint of the session's directory before the turn's first call that may
// change files. Other calls wait for it. A turn never fails because none could be taken.
func (w *work) keep(ctx context.Context, name string) {
	switch name {
	case "write_file", "patch", terminal.ToolName:
		w.kept.Do(func() { w.checkpoint(ctx, "before "+name) })
	}
}

func (w *work) checkpoint(ctx context.Context, reason string) {
	log := w.t.rt.log.With("profile", w.t.home.Profile, "session", w.session)
	set, err := readCheckpointSettings(w.b.view)
	if err != nil {
		log.WarnContext(ctx, "no checkpoint: settings", "error", err)
		return
	}
	if !set.on {
		return
	}
	backend, policy, err := w.t.term.at(ctx, w.b)
	if err != nil || policy.Backend() != "local" {
		return // the call itself says why it cannot run; other places are not this machine's files
	}
	dir := dirOf(backend, policy, w.session)
	if !filepath.IsAbs(dir) {
		dir = w.t.rt.env.Getenv("HOME") // where its commands run; no project
	}
	store, err := w.t.checkpoints(ctx, w.b, set)
	if err != nil {
		log.WarnContext(ctx, "no checkpoint", "dir", dir, "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkpoint.MaxTimeout)
	defer cancel()
	switch c, err := store.Take(ctx, dir, reason); {
	case errors.Is(err, checkpoint.ErrTooBroad):
		log.DebugContext(ctx, "no checkpoint", "dir", dir, "error", err)
	case err != nil:
		log.WarnContext(ctx, "no checkpoint", "dir", dir, "error", err)
	case c.Hash != "":
		log.InfoContext(ctx, "checkpoint taken", "dir", dir, "checkpoint", c.Hash, "left_out", len(c.Left))
	}
}

// tidyCheckpoints prunes the checkpoints of every profile that keeps some, beside the turns.
func (r *Runtime) tidyCheckpoints() {
	r.chore(r.base, func(ctx context.Context) {
		ids, err := r.Profiles()
		if err != nil {
			r.log.Warn("checkpoints are not pruned", "error", err)
			return
		}
		for _, id := range ids {
			if t, err := r.Tenant(id); err == nil && ctx.Err() == nil {
				t.tidyCheckpoints(ctx)
			}
		}
	})
}

func (t *Tenant) tidyCheckpoints(ctx context.Context) {
	log := t.log()
	ctx, b, err := t.bind(ctx)
	if err != nil {
		return // a turn of the profile says so
	}
	set, err := readCheckpointSettings(b.view)
	if err != nil || !set.on || !set.prune {
		return
	}
	store, err := t.checkpoints(ctx, b, set)
	if err != nil {
		log.Warn("checkpoints are not pruned", "error", err)
		return
	}
	n, err := store.Prune(ctx, checkpoint.PruneOptions{
		Retention: time.Duration(set.days) * 24 * time.Hour, DeleteOrphans: set.orphans, MaxTotal: set.total << 20,
		MinEvery: time.Duration(set.everyH) * time.Hour,
	})
	if err != nil && ctx.Err() == nil {
		log.Warn("checkpoints", "problem", err)
	}
	if n.Scanned > 0 {
		log.Info("checkpoints pruned", "scanned", n.Scanned, "orphans", n.DeletedOrphan, "stale", n.DeletedStale, "errors", n.Errors, "bytes_freed", n.BytesFreed)
	}
}
