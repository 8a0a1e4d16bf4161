// SPDX-License-Identifier: MIT

package secret

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"
)

// Snapshot is what the sources of a home supplied at one moment. Nothing in it changes.
type Snapshot struct {
	claims   map[string]claim
	globals  map[string]bool // names of the process that a source supplied
	preserve map[string]bool
	last     map[string]map[string]good // by source: what it may keep when it fails
	plugins  bool                       // a plugin's source took part (N3, N4)
	failed   bool                       // a source did not answer in full
	reports  []SourceReport
	warnings []string
}

// Reports says what came of each source, best first.
func (s *Snapshot) Reports() []SourceReport {
	if s == nil {
		return nil
	}
	return slices.Clone(s.reports)
}

// Warnings are sentences about the configuration and about names that two sources supply.
func (s *Snapshot) Warnings() []string {
	if s == nil {
		return nil
	}
	return slices.Clone(s.warnings)
}

// Load returns what the sources of a home supplied. It asks them if the home is not applied
// yet, or if some failed and their time has come again; sources that fail are in the reports.
// With an error the home counts as not applied (P5) and the snapshot is nil.
func (s *Store) Load(ctx context.Context, t Tenant) (*Snapshot, error) {
	key, err := t.locate()
	if err != nil {
		return nil, err
	}
	return s.load(ctx, s.entry(entryKey{key, t.Foreign}), t)
}

func (s *Store) load(ctx context.Context, e *entry, t Tenant) (*Snapshot, error) {
	snap, due, err := e.state(s.c.Now())
	if !due {
		return snap, err
	}
	if snap != nil { // one task tries again, the others go on with what there is
		select {
		case e.busy <- struct{}{}:
		default:
			return snap, nil
		}
	} else if err := e.acquire(ctx); err != nil {
		return nil, err
	}
	defer e.release()
	if snap, due, err = e.state(s.c.Now()); !due { // another task was faster
		return snap, err
	}
	next, err := s.hydrate(ctx, e, t)
	switch {
	case err == nil:
		s.publish(e, next, false)
	case snap != nil && ctx.Err() == nil:
		return snap, nil // as before; the reason is in the log
	default:
		return nil, err
	}
	return next, nil
}

// state returns what is known of a home, and whether its sources should be asked.
func (e *entry) state(now time.Time) (snap *Snapshot, due bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	due = (e.snap == nil || e.snap.failed) && !now.Before(e.notBefore)
	return e.snap, due, e.err
}

func (e *entry) acquire(ctx context.Context) error {
	select {
	case e.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *entry) release() { <-e.busy }

// Refresh asks the sources of a home again and brings what they say into its snapshot and into
// every scope that a task holds: names that are no longer supplied disappear (S7). On an error
// everything is as before (N5). A source that fails keeps its values; see the reports.
func (s *Store) Refresh(ctx context.Context, t Tenant) (*Snapshot, error) {
	key, err := t.locate()
	if err != nil {
		return nil, err
	}
	e := s.entry(entryKey{key, t.Foreign})
	if err := e.acquire(ctx); err != nil {
		return nil, err
	}
	defer e.release()
	next, err := s.hydrate(ctx, e, t)
	if err != nil {
		return nil, err
	}
	s.publish(e, next, true)
	return next, nil
}

// Discovered is called after the plugins of a home were looked for. If one declares a source,
// the home is refreshed; also, once, when the last such source has gone (N3). Whether one was
// there is known from the snapshot itself, so that a refresh that fails is tried again by the
// next discovery (N4). A home that never had one is left alone.
func (s *Store) Discovered(ctx context.Context, t Tenant) (refreshed bool, err error) {
	stack, err := s.c.Sources(ctx, t)
	if err != nil {
		return false, fmt.Errorf("secrets: %w", err)
	}
	members, _ := stack.enabled()
	has := slices.ContainsFunc(members, func(m member) bool { return m.spec.Plugin })
	key, err := t.locate()
	if err != nil {
		return false, err
	}
	e := s.entry(entryKey{key, t.Foreign})
	e.mu.Lock()
	had := e.snap != nil && e.snap.plugins
	e.mu.Unlock()
	if !has && !had {
		return false, nil
	}
	_, err = s.Refresh(ctx, t)
	return err == nil, err
}

// hydrate asks the sources and notes the outcome of the try; the caller holds e.busy and
// publishes.
func (s *Store) hydrate(ctx context.Context, e *entry, t Tenant) (*Snapshot, error) {
	e.mu.Lock()
	prev := e.snap
	e.mu.Unlock()
	next, asked, err := s.collect(ctx, e, t, prev)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err() // the task was stopped: that says nothing about the sources
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notBefore = time.Time{}
	switch {
	case asked && (err != nil || next.failed):
		e.notBefore = s.c.Now().Add(s.c.Retry << min(e.failures, 5))
		e.failures++
	case err == nil:
		e.failures = 0
	}
	if err != nil {
		s.c.Log.Warn("secret sources of a home were not applied", "home", e.key, "error", err)
		if e.snap == nil {
			e.err = err
		}
		return nil, err
	}
	s.log(e.key, next)
	return next, nil
}

// collect makes a snapshot; asked says that the sources had their turn.
func (s *Store) collect(ctx context.Context, e *entry, t Tenant, prev *Snapshot) (next *Snapshot, asked bool, err error) {
	stack, err := s.c.Sources(ctx, t)
	if err != nil {
		return nil, false, fmt.Errorf("secrets: %w", err)
	}
	members, warnings := stack.enabled()
	next = &Snapshot{warnings: warnings, preserve: map[string]bool{}, last: map[string]map[string]good{}}
	if len(members) == 0 {
		return next, false, nil
	}
	for _, m := range members {
		if err := control(t, s.c.Control, m.spec.Name, m.spec.Refs); err != nil {
			return nil, false, err
		}
		next.plugins = next.plugins || m.spec.Plugin
	}
	for _, name := range stack.Preserve {
		next.preserve[name] = true
	}
	in, err := s.input(t, e.key)
	if err != nil {
		return nil, false, err
	}
	results, err := ask(ctx, members, in)
	if err != nil {
		return nil, true, err
	}
	if t.moved(e.key) {
		return nil, false, ErrMoved // what was answered is for nobody
	}
	return next, true, s.settle(next, prev, results, t, stack)
}

// settle brings the answers into a snapshot.
func (s *Store) settle(next, prev *Snapshot, results []result, t Tenant, stack Stack) error {
	for i := range results {
		r := &results[i]
		var last map[string]good
		if prev != nil {
			last = prev.last[r.spec.Name]
		}
		next.last[r.spec.Name] = r.keep(last)
		next.failed = next.failed || !r.fetched && r.report.Err.Reason != NotConfigured
		for _, why := range r.report.Failed {
			next.failed = next.failed || !why.gone()
		}
		if err := control(t, s.c.Control, r.spec.Name, r.values); err != nil {
			return err
		}
	}
	c := newClaimer(results, t.Home.Profile, stack, s.c.Global)
	for i := range results {
		c.add(&results[i])
		next.reports = append(next.reports, results[i].report)
	}
	next.claims, next.globals, next.warnings = c.claims, c.globals, append(next.warnings, c.warnings...)
	return control(t, s.c.Control, "alias", c.claims)
}

// input is what the sources of a home may use. A .env that exists and cannot be read is not
// one without tokens.
func (s *Store) input(t Tenant, key string) (Input, error) {
	own, err := s.own(key)
	if err != nil {
		return Input{}, err
	}
	in := Input{Home: t.Home, Key: key, Vars: map[string]Text{}, Own: map[string]Text{}, Run: s.c.Run}
	if s.c.ChildEnv != nil {
		in.Env = func(kind string) []string { return s.c.ChildEnv(t, kind) }
	}
	if !t.Foreign {
		if frozen := s.frozen.Load(); frozen != nil {
			maps.Copy(in.Vars, *frozen)
		} else {
			for name, v := range split(s.c.Environ()) {
				in.Vars[name] = Wrap(v)
			}
		}
	}
	for _, values := range []map[string]Text{own, s.c.Credentials(key)} {
		maps.Copy(in.Vars, values)
		maps.Copy(in.Own, values)
	}
	if !in.Vars[EnvOnePassword].Empty() {
		return in, nil
	}
	op, err := s.c.Files.read(filepath.Join(key, ".op.env"))
	if err != nil && !missing(err) {
		return Input{}, err
	}
	for name, text := range op {
		if in.Vars[name].Empty() {
			in.Vars[name], in.Own[name] = text, text
		}
	}
	return in, nil
}

// log reports a snapshot: names and reasons, no values.
func (s *Store) log(key string, snap *Snapshot) {
	for _, w := range snap.warnings {
		s.c.Log.Warn("secret sources", "home", key, "warning", w)
	}
	for _, r := range snap.reports {
		if r.Err != nil {
			s.c.Log.Warn("secret source failed", "home", key, "source", r.Name, "reason", string(r.Err.Reason), "detail", r.Err.Detail, "kept", len(r.Kept))
		}
		for _, name := range sorted(r.Failed) {
			s.c.Log.Warn("secret could not be fetched", "home", key, "source", r.Name, "name", name, "reason", string(r.Failed[name]), "kept", slices.Contains(r.Kept, name))
		}
		if len(r.Protected) > 0 {
			s.c.Log.Warn("secret source supplies bootstrap names; they are ignored", "home", key, "source", r.Name, "names", r.Protected)
		}
	}
}
