// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/hermes-appliance/hermes-appliance/appliance/childenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/profile"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
)

// Snapshot gathers what a child working for a profile is built from: that profile's own
// values, the names of the launch profile's that must stay behind, and what an outer process
// may have loaded of any other. The secrets are those of the scope bound to ctx if it is of
// that profile, else those of now. Files that did not change since the last call are not read.
func (e *Environments) Snapshot(ctx context.Context, target home.Home) (childenv.Snapshot, error) {
	s := childenv.Snapshot{
		Inherited: e.o.Environ, BinDir: e.o.BinDir, Multiplexed: e.host.Multiplex(),
		Launch: childenv.Launch{Key: string(e.host.LaunchKey())},
	}
	key := profile.KeyOf(target.Dir)
	scope := secret.From(ctx)
	if scope == nil || scope.Home() != string(key) {
		var err error
		if scope, err = e.Scope(ctx, target); err != nil {
			return s, err
		}
	}
	known, err := e.known(key, target, scope)
	if err != nil {
		return s, err
	}
	t := known.profile // shallow: what it points to is not changed
	s.Target, s.Managed = &t, known.managed
	e.declared(target, &t)
	if t.Key == s.Launch.Key {
		return s, nil
	}
	if err := e.launch(ctx, &s); err != nil {
		return s, err
	}
	s.Foreign, err = e.foreign(key)
	return s, err
}

// known is what the files and secrets of a profile said of its children the last time.
type known struct {
	config  *config.Config // nil = unreadable, not to be remembered
	secrets any
	profile childenv.Profile
	managed []childenv.Var
}

// known describes the profile a child works for.
func (e *Environments) known(key profile.Key, h home.Home, scope *secret.Scope) (known, error) {
	c, err := e.configs.Load(h, e.configOptions())
	k := known{config: c, secrets: scope.Version()}
	e.mu.Lock()
	old, ok := e.remembered[key]
	e.mu.Unlock()
	if ok && err == nil && old.config == c && old.secrets == k.secrets && old.profile.Dir == h.Dir {
		return old, nil
	}
	k.profile = childenv.Profile{Key: string(key), Dir: h.Dir}
	k.managed = values(scope, &k.profile)
	if err := e.settings(h, scope, &k.profile); err != nil {
		return known{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if delete(e.remembered, key); err == nil {
		e.remembered[key] = k
	}
	return k, nil
}

// values gives a profile what its scope holds and returns the administrator's part.
func values(scope *secret.Scope, t *childenv.Profile) (managed []childenv.Var) {
	for _, v := range scope.Values() {
		out := childenv.Var{Name: v.Name, Value: v.Text.Reveal()}
		switch v.Origin.Kind {
		case secret.DotEnv:
			out.Origin = childenv.Dotenv
		case secret.Sourced, secret.Credential: // neither stands in a file of the home
			out.Origin = childenv.Source
		case secret.Managed:
			out.Origin = childenv.Managed
			managed = append(managed, out)
			continue
		case secret.Grant:
			out.Origin, out.Fill = childenv.Dotenv, true
		case secret.Launch, secret.OpEnv:
			continue // inherited values come with the environment; bootstrap tokens with nothing
		}
		t.Vars = append(t.Vars, out)
	}
	t.Applied = slices.Collect(maps.Keys(scope.Applied()))
	return managed
}

// declared reads which secrets the profile's platform plugins declare; a change of theirs
// counts at the next child (M6).
func (e *Environments) declared(h home.Home, t *childenv.Profile) {
	d, err := e.manifests.Read(t.Key, h.Dir)
	t.Declared, t.DeclaredErr = d.Names, err
	for _, w := range d.Warnings {
		e.o.Log.Warn("plugin manifest", "profile", h.Profile, "problem", w)
	}
}

// settings reads what the profile's config says of its children. A terminal policy that
// cannot be read refuses commands; it does not stop a child that runs none (P8).
func (e *Environments) settings(h home.Home, scope *secret.Scope, t *childenv.Profile) error {
	lookup := func(name string) (string, bool) {
		v, ok := scope.Lookup(name)
		return v.Text.Reveal(), ok
	}
	in := config.TerminalInput{UserHome: e.Getenv("HOME"), Lookup: lookup}
	if t.Key == string(e.host.LaunchKey()) {
		in.Launch = e.lookup
	}
	policy, err := e.configs.Terminal(h, e.configOptions(), in)
	if err != nil {
		t.TerminalRefused = err.Error()
		return nil //nolint:nilerr // a refusal is a property of the profile
	}
	for name, value := range policy.Vars() {
		t.Bridge = append(t.Bridge, childenv.Var{Name: name, Value: value, Origin: childenv.Bridge})
	}
	c, err := e.configs.Load(h, e.configOptions())
	if err != nil {
		return err
	}
	top, err := c.With(lookup).TopLevel()
	if err != nil {
		return err
	}
	for name, value := range top {
		t.Bridge = append(t.Bridge, childenv.Var{Name: name, Value: value, Origin: childenv.Bridge, Fill: true})
	}
	t.Passthrough, err = c.With(lookup).Strings("terminal", "env_passthrough")
	return err
}

// launch gathers the names of the launch profile for a child of another one. Its sources are
// asked too if they were not yet, for the names they supply (L3). If they cannot be, the store
// says so in the log, and its values are in nobody's environment.
func (e *Environments) launch(ctx context.Context, s *childenv.Snapshot) error {
	_, err := e.secrets.Load(profile.Bind(ctx, profile.Task{Home: e.o.Launch}), e.tenant(e.o.Launch))
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	key := s.Launch.Key
	s.Launch, err = e.launchNames()
	s.Launch.Key = key
	return err
}

// launchNames are the names that must not reach another profile because they are the launch
// profile's. A file of it that cannot be read now still counts with what it was seen to hold;
// one that never could be read is an error, because then nobody can tell what of the
// environment is the launch profile's. The key is the caller's to fill in.
func (e *Environments) launchNames() (childenv.Launch, error) {
	c, err := e.configs.Load(e.o.Launch, e.configOptions())
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil || c != e.launchConfig {
		e.readLaunch(c)
		e.launchConfig = c
	}
	for _, name := range launchFiles() {
		if err := e.launchUnread[name]; err != nil {
			return childenv.Launch{}, fmt.Errorf("no child of another profile is started: what the environment has of the launch profile cannot be told: %w", err)
		}
	}
	l := e.launchNow
	l.Supplied = e.secrets.Supplied()
	return l, nil
}

// launchFiles are the files whose values whoever started this process may have loaded.
func launchFiles() []string { return []string{".env", ".op.env"} }

// readLaunch brings what is known of the launch profile up to date; c is nil if its config
// cannot be read. The caller holds mu.
func (e *Environments) readLaunch(c *config.Config) {
	h := e.o.Launch
	l := childenv.Launch{Bridged: e.launchNow.Bridged}
	for _, name := range launchFiles() {
		values, err := e.files.Read(filepath.Join(h.Dir, name))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			e.launchUnread[name] = nil
		} else {
			e.o.Log.Warn("unreadable file", "profile", h.Profile, "file", name, "error", err)
			if _, read := e.launchUnread[name]; !read {
				e.launchUnread[name] = err
			}
		}
		l.Dotenv = append(l.Dotenv, slices.Collect(maps.Keys(values))...)
	}
	for _, name := range l.Dotenv {
		e.launchEver[name] = true
	}
	l.Ever = slices.Collect(maps.Keys(e.launchEver)) // L2
	if c != nil {
		if top, err := c.With(nil).TopLevel(); err == nil {
			l.Bridged = slices.Collect(maps.Keys(top))
		}
	}
	e.launchNow = l
}
