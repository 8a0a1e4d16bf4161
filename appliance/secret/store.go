// SPDX-License-Identifier: MIT

package secret

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// ErrMoved says that a home was exchanged for another one while it was read. Nothing of it was
// used.
var ErrMoved = errors.New("home directory was moved while it was read; try again")

// Config is what a store is told about the world. Every field may be left out.
type Config struct {
	// Sources returns how a home is configured to get secrets from outside. An error is one of
	// the configuration: the home is not marked as applied and tried again (P5).
	Sources func(ctx context.Context, t Tenant) (Stack, error)
	// Global says which names belong to the process and to no profile.
	Global func(name string) bool
	// Control says which names steer where credentials are sent (N6).
	Control func(name string) bool
	// Routed reports whether a task runs under multiplex semantics or for another home than the
	// launch home. What such a task's scope does not have, it has not.
	Routed func(ctx context.Context) bool

	Lookup  func(name string) (string, bool) // the process's environment, live
	Environ func() []string                  // the same as a list
	Managed func() string                    // path of the administrator's .env; "" = none
	// Credentials are what the service manager handed over for a home; they beat its .env.
	Credentials func(key string) map[string]Text
	Grants      func() map[string]string // defaults that the launch home's config grants (S1)

	// ChildEnv builds the environment of a source's command. nil = an empty one.
	ChildEnv func(t Tenant, kind string) []string
	Run      Runner // nil = Exec

	Files *Files // shared with other readers of .env; nil = an own one
	Log   *slog.Logger
	Now   func() time.Time
	Retry time.Duration // after which failed sources are asked again, doubling up to 32 times; 0 = a minute
}

// Store holds what the sources of every home supplied, and makes scopes. It is safe for
// concurrent use; make one with [New].
type Store struct {
	c      Config
	frozen atomic.Pointer[map[string]Text]

	mu       sync.Mutex
	entries  map[entryKey]*entry
	supplied map[string]bool // see [Store.Supplied]
}

// entryKey is a home in a role: what the launch profile may see, a routed one may not.
type entryKey struct {
	key     string
	foreign bool
}

// entry is a home.
type entry struct {
	entryKey

	busy chan struct{} // held while sources are asked

	mu        sync.Mutex // orders publishing and scopes
	snap      *Snapshot  // nil = not applied yet
	err       error      // why not
	notBefore time.Time  // of the next try that nobody asked for
	failures  int        // tries in a row in which a source failed
	live      []weak.Pointer[Scope]
}

// New returns a store without any home.
func New(c Config) *Store {
	never := func(string) bool { return false }
	if c.Sources == nil {
		c.Sources = func(context.Context, Tenant) (Stack, error) { return Stack{}, nil }
	}
	if c.Global == nil {
		c.Global = never
	}
	if c.Control == nil {
		c.Control = never
	}
	if c.Routed == nil {
		c.Routed = func(context.Context) bool { return false }
	}
	if c.Lookup == nil {
		c.Lookup = func(string) (string, bool) { return "", false }
	}
	if c.Environ == nil {
		c.Environ = func() []string { return nil }
	}
	if c.Managed == nil {
		c.Managed = func() string { return "" }
	}
	if c.Credentials == nil {
		c.Credentials = func(string) map[string]Text { return nil }
	}
	if c.Grants == nil {
		c.Grants = func() map[string]string { return nil }
	}
	if c.Run == nil {
		c.Run = Exec{}
	}
	if c.Files == nil {
		c.Files = NewFiles()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Retry <= 0 {
		c.Retry = time.Minute
	}
	return &Store{c: c, entries: map[entryKey]*entry{}, supplied: map[string]bool{}}
}

func (s *Store) entry(k entryKey) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[k]
	if e == nil {
		e = &entry{entryKey: k, busy: make(chan struct{}, 1)}
		s.entries[k] = e
	}
	return e
}

// Scope returns a new scope for a task of t. The first task of a home waits for its sources;
// sources that fail, or a configuration that is wrong, are logged and do not stop it: the scope
// then has what is left. An error means that there must be no scope: the routed profile is gone
// ([home.ErrNoProfile], R12), its directory was exchanged ([ErrMoved]), or ctx is over.
func (s *Store) Scope(ctx context.Context, t Tenant) (*Scope, error) {
	for range 3 {
		key, err := t.locate()
		if err != nil {
			return nil, err
		}
		e := s.entry(entryKey{key, t.Foreign})
		if _, err := s.load(ctx, e, t); err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		sc := s.open(e)
		if !t.moved(key) {
			return sc, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", t.Home.Dir, ErrMoved)
}

// open makes a scope of what is there now and remembers it as long as somebody holds it. The
// caller looks whether the home was exchanged meanwhile.
func (s *Store) open(e *entry) *Scope {
	sc := &Scope{key: e.key, foreign: e.foreign, mu: &e.mu}
	e.mu.Lock()
	defer e.mu.Unlock()
	own, err := s.read(e.key)
	if err != nil {
		s.c.Log.Warn("cannot read the secrets of a home; it has none for now", "home", e.key, "error", err)
	}
	sc.now.Store(s.layers(e, own).build())
	e.live = append(slices.DeleteFunc(e.live, func(p weak.Pointer[Scope]) bool { return p.Value() == nil }), weak.Make(sc))
	return sc
}

// own reads a home's .env and makes sure that it is that home's.
func (s *Store) own(key string) (map[string]Text, error) {
	own, err := s.read(key)
	if err == nil && home.Key(key) != key {
		return nil, ErrMoved
	}
	return own, err
}

// read reads the .env below a directory. A missing file is no error.
func (s *Store) read(key string) (map[string]Text, error) {
	own, err := s.c.Files.read(filepath.Join(key, ".env"))
	if missing(err) {
		err = nil
	}
	return own, err
}

// layers collects what a scope of e is made of; the caller holds e.mu.
func (s *Store) layers(e *entry, own map[string]Text) layers {
	l := layers{key: e.key, global: s.c.Global, own: own, given: s.c.Credentials(e.key), snap: e.snap}
	if !e.foreign {
		if frozen := s.frozen.Load(); frozen != nil {
			l.frozen = *frozen
		} else {
			l.process = s.c.Lookup
		}
		l.grants = maps.Clone(s.c.Grants())
	}
	if path := s.c.Managed(); path != "" {
		managed, err := s.c.Files.read(path)
		if err != nil && !missing(err) {
			s.c.Log.Error("cannot read the administrator's .env; it is ignored", "path", path, "error", err)
		}
		l.managed = managed
	}
	return l
}

// publish makes a snapshot the home's current one, and with refresh also that of the scopes
// that tasks hold (S7). A .env that cannot be read now does not take away what they have.
func (s *Store) publish(e *entry, snap *Snapshot, refresh bool) {
	s.noteSupplied(snap)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.snap, e.err = snap, nil
	if !refresh {
		return
	}
	own, err := s.own(e.key)
	for _, sc := range e.scopes() {
		l := s.layers(e, own)
		if err != nil {
			l.own = sc.now.Load().own
		}
		sc.now.Store(l.build())
	}
}

// scopes returns the scopes that somebody holds; the caller holds e.mu.
func (e *entry) scopes() (out []*Scope) {
	for _, p := range e.live {
		if sc := p.Value(); sc != nil {
			out = append(out, sc)
		}
	}
	return out
}

// Freeze makes the launch profile a tenant like the others, because another profile is about to
// be served: from now on the process's environment as it is now lies below its .env, changes of
// it are not seen, and no task reads a secret without a scope (S13). There is no way back;
// calling it again does nothing.
func (s *Store) Freeze() {
	if s.frozen.Load() != nil {
		return
	}
	frozen := map[string]Text{}
	for name, v := range split(s.c.Environ()) {
		if !s.c.Global(name) {
			frozen[name] = Wrap(v)
		}
	}
	if !s.frozen.CompareAndSwap(nil, &frozen) {
		return
	}
	s.mu.Lock()
	entries := slices.Collect(maps.Values(s.entries))
	s.mu.Unlock()
	for _, e := range entries {
		if e.foreign {
			continue
		}
		e.mu.Lock()
		for _, sc := range e.scopes() {
			l := sc.now.Load().layers
			l.process, l.frozen = nil, frozen
			sc.now.Store(l.build())
		}
		e.mu.Unlock()
	}
}

// split makes a map of an environment; of two assignments of one name the last counts.
func split(environ []string) map[string]string {
	out := make(map[string]string, len(environ))
	for _, kv := range environ {
		if name, v, ok := strings.Cut(kv, "="); ok && name != "" {
			out[name] = v
		}
	}
	return out
}

// Forget drops what is remembered of a home that was deleted or renamed, by the key that it had.
// Scopes that tasks hold stay as they are.
func (s *Store) Forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, foreign := range []bool{false, true} {
		delete(s.entries, entryKey{key, foreign})
	}
}

// Supplied returns every name that a source supplied to any home so far, applied or not: for
// stripping what the launch profile left, and for nothing else (N1, L7). A name that a source has
// stopped to supply stays: the process's environment may still hold what was a secret, and no
// other profile's child is to get it (L2, L3).
func (s *Store) Supplied() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.supplied)
}

// noteSupplied remembers the names of a snapshot.
func (s *Store) noteSupplied(snap *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range snap.claims {
		s.supplied[name] = true
	}
	for name := range snap.globals {
		s.supplied[name] = true
	}
}

// OpEnv returns the values of a home's .op.env, which are in no scope. Names that a child must
// not get can be told from them.
func (s *Store) OpEnv(t Tenant) []Value {
	key := home.Key(t.Home.Dir)
	values, err := s.c.Files.read(filepath.Join(key, ".op.env"))
	if err != nil && !missing(err) {
		s.c.Log.Warn("cannot read .op.env", "home", key, "error", err)
	}
	var out []Value
	for _, name := range sorted(values) {
		out = append(out, Value{name, values[name], Origin{OpEnv, "", key}})
	}
	return out
}
