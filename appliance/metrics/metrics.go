// SPDX-License-Identifier: MIT

// Package metrics counts how the agent loop does: five counters of upstream, with upstream's
// names and closed values, for the profile that opted in. It gives the check of every value,
// the kind of a command, how a command ended, whether a profile opted in, and a file of daily
// sums in the profile's home.
//
// It never keeps a text of anybody: no command, path, argument or reply, only words of closed
// lists and public ids of models. It never sends anything, never writes before the first count,
// and never fails or holds up who counts.
package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// The counters, by upstream's names.
const (
	FileEdit        = "hermes.file_edit.count"
	LoopGuard       = "hermes.loop_guard.count"
	ToolRecovery    = "hermes.tool_recovery.count"
	Terminal        = "hermes.terminal.outcome.count"
	ModelReplyIssue = "hermes.model_reply_issue.count"
)

const (
	// every is how long counts wait for others before they are written.
	every = 5 * time.Second
	// keepDays is how many days back, besides today, sums are kept; as long as upstream's.
	keepDays = 30
	// maxRows bounds the sums in the file, and those that wait for it: a user may name models
	// without end.
	maxRows = 5000
)

// Options are what a store works with. Home is required.
type Options struct {
	Home      string           // the profile's home directory; it must exist
	Tools     []string         // names of built-in tools; any other counts as mcp or plugin
	Providers []string         // names of public providers; any other counts as custom
	Now       func() time.Time // nil = the real time
	Log       *slog.Logger     // nil = nothing is logged
	Files     atomicfile.Writer
}

// Store sums the counters of one profile. It is safe for concurrent use. Nothing exists of it on
// disk, and nothing runs, before the first count.
type Store struct {
	o     Options
	rules map[string]map[string]rule
	every time.Duration // the constant, but in tests

	mu      sync.Mutex
	pending map[key]int64
	started bool
	closed  bool

	wake chan struct{} // something is pending
	stop chan struct{} // closed by Close
	done chan error    // what the last write brought

	saving sync.Mutex // held while the file is written
	warned bool       // about a file that cannot be written; guarded by saving
}

// key is what one sum is about.
type key struct{ day, name, dims string }

// New returns a store for a profile that opted in.
func New(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{
		o: o, rules: counters(o.Tools, o.Providers), every: every, pending: map[key]int64{},
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan error, 1),
	}
}

// Count adds one. A value that is on no list becomes the catch-all of its dimension, or the
// count is dropped; dimensions that the counter does not have are left out. Count keeps nothing
// of dims, takes no longer than a look into a map, and does nothing after Close.
func (s *Store) Count(name string, dims map[string]string) {
	text, ok := check(s.rules[name], dims)
	if !ok {
		return
	}
	k := key{s.o.Now().UTC().Format(time.DateOnly), name, text}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.add(k, 1)
	if !s.started {
		s.started = true
		go s.run()
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// add sums what waits; s.mu is held.
func (s *Store) add(k key, n int64) {
	if _, known := s.pending[k]; known || len(s.pending) < maxRows {
		s.pending[k] += n
	}
}

// Close writes what waits and ends the store. When ctx ends first, its cause is returned; the
// write goes on. A second Close does nothing.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	wait := s.started && !s.closed
	if !s.closed {
		s.closed = true
		close(s.stop)
	}
	s.mu.Unlock()
	if !wait {
		return nil
	}
	select {
	case err := <-s.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("counters are being written: %w", context.Cause(ctx))
	}
}

// run writes what waits, some time after it came, until the store is closed.
func (s *Store) run() {
	for {
		select {
		case <-s.wake:
		case <-s.stop:
			s.done <- s.flush()
			return
		}
		t := time.NewTimer(s.every)
		select {
		case <-t.C:
			// What could not be written is tried again with the next count.
			s.flush() //nolint:errcheck // it is logged, and nobody is here who could do more
		case <-s.stop:
			t.Stop()
			s.done <- s.flush()
			return
		}
	}
}

// flush adds what waits to the file. After an error it waits on.
func (s *Store) flush() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	batch := s.pending
	s.pending = map[key]int64{}
	s.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	err := s.save(batch)
	if err == nil {
		s.warned = false
		return nil
	}
	if !s.warned {
		s.warned = true
		s.o.Log.Warn("counters were not written; they are kept in memory", "file", Path(s.o.Home), "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, n := range batch {
		s.add(k, n)
	}
	return fmt.Errorf("counters: %w", err)
}
