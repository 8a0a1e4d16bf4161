// SPDX-License-Identifier: MIT

package secret

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Scope is what one task may read on behalf of one home. It is frozen when it is made, except
// for [Store.Refresh] and [Scope.Set]; a reader sees all of a change or nothing of it (S7). It
// is safe for concurrent use.
type Scope struct {
	key     string
	foreign bool
	mu      *sync.Mutex // of the home: orders writers
	now     atomic.Pointer[table]
}

// table is a scope at one moment. Nothing in it changes.
type table struct {
	layers

	values   map[string]Value
	applied  map[string]string
	supplied map[string]bool
}

// layers is what a scope is made of, lowest first (S1, S13).
type layers struct {
	key     string
	global  func(string) bool
	process func(string) (string, bool) // launch home before Freeze: only asked whether it has a value
	frozen  map[string]Text             // launch home after Freeze
	own     map[string]Text             // .env
	given   map[string]Text             // credentials
	snap    *Snapshot                   // nil = no sources
	grants  map[string]string           // launch home
	managed map[string]Text
}

// existing reports whether the home, or the launch process below it, has a value of its own. An
// empty one counts as none.
func (l layers) existing(name string) bool {
	if !l.own[name].Empty() || !l.given[name].Empty() || !l.frozen[name].Empty() {
		return true
	}
	if l.process == nil {
		return false
	}
	v, _ := l.process(name)
	return v != ""
}

// build makes a table.
func (l layers) build() *table {
	t := &table{layers: l, values: make(map[string]Value, len(l.frozen)+len(l.own)+len(l.managed))}
	put := func(name string, text Text, kind Kind, source string) {
		t.values[name] = Value{name, text, Origin{kind, source, l.key}}
	}
	for name, text := range l.frozen {
		put(name, text, Launch, "")
	}
	for name, text := range l.own {
		put(name, text, DotEnv, "")
	}
	for name, text := range l.given {
		put(name, text, Credential, "")
	}
	if l.snap != nil {
		t.applied, t.supplied = l.claims()
		for name := range t.applied {
			c := l.snap.claims[name]
			put(name, c.text, Sourced, c.source)
		}
	}
	for name, v := range l.grants {
		if _, ok := t.values[name]; !ok && !l.existing(name) {
			put(name, Wrap(v), Grant, "")
		}
	}
	for name, text := range l.managed {
		if !l.global(name) {
			put(name, text, Managed, "")
		}
	}
	return t
}

// claims decides which of the supplied values apply: those that the home has no value for, and
// those of a source that overrides unless the name is to be preserved (P3).
func (l layers) claims() (applied map[string]string, supplied map[string]bool) {
	applied, supplied = map[string]string{}, maps.Clone(l.snap.globals)
	wins := func(name string) bool {
		return !l.existing(name) || l.snap.claims[name].override && !l.snap.preserve[name]
	}
	for name, c := range l.snap.claims {
		if c.of != "" && !wins(c.of) {
			continue // an alias of a value that is not used
		}
		if supplied == nil {
			supplied = map[string]bool{}
		}
		supplied[name] = true
		if wins(name) {
			applied[name] = c.source
		}
	}
	return applied, supplied
}

// Home returns the key of the home whose secrets these are.
func (s *Scope) Home() string { return s.key }

// Stamp returns the home key of a routed profile, "" for the launch profile's own scope: only
// binders of a foreign home stamp (R3, R4).
func (s *Scope) Stamp() string {
	if s.foreign {
		return s.key
	}
	return ""
}

// Version can be compared: it is another one after every change of what is in the scope.
func (s *Scope) Version() any { return s.now.Load() }

// Lookup returns a value of the scope alone. Most callers want [Store.Get].
func (s *Scope) Lookup(name string) (Value, bool) {
	v, ok := s.now.Load().values[name]
	return v, ok
}

// Values returns everything in the scope by name, of one moment.
func (s *Scope) Values() []Value {
	t := s.now.Load()
	return slices.SortedFunc(maps.Values(t.values), func(a, b Value) int { return strings.Compare(a.Name, b.Name) })
}

// Applied returns the names whose value a source supplied and that is used, each with the
// source: for labels, and for what an MCP server is handed. It is not [Scope.Supplied] and must
// never become it (N1).
func (s *Scope) Applied() map[string]string { return maps.Clone(s.now.Load().applied) }

// Supplied returns every name that a source supplied, also those whose value lost to one that
// the home or the process had: for stripping, and for nothing else (N1).
func (s *Scope) Supplied() []string { return sorted(s.now.Load().supplied) }

// Set notes that a task that runs under s has written name=text to the home's .env. What stands
// above .env stays above it. Scopes of other tasks see it when they are made (S9).
func (s *Scope) Set(name string, text Text) {
	s.edit(func(own map[string]Text) { own[name] = text })
}

// Unset notes that a task that runs under s has removed a name from the home's .env.
func (s *Scope) Unset(name string) {
	s.edit(func(own map[string]Text) { delete(own, name) })
}

func (s *Scope) edit(f func(own map[string]Text)) {
	if s == nil {
		return // the task has no scope: the next one reads the file
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.now.Load().layers
	own := make(map[string]Text, len(l.own)+1)
	maps.Copy(own, l.own)
	f(own)
	l.own = own
	s.now.Store(l.build())
}
