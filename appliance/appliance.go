// SPDX-License-Identifier: MIT

// Package appliance wires the parts of the running appliance together: what the profiles'
// files, vaults and policies say becomes what a child may get. It holds no rule of its own
// and never takes one profile's part for another's.
package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/childenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/profile"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
)

// Options are what the process hands in.
type Options struct {
	Launch  home.Home // the home the process was started for
	Environ []string  // the environment it was started with, KEY=VALUE
	Log     *slog.Logger
	BinDir  string // where this program's command is; "" = unknown
}

// Environments builds the environments of children for every profile of a home. It is safe
// for concurrent use.
type Environments struct {
	o         Options
	lookup    map[string]string
	policy    *childenv.Policy
	manifests *childenv.Manifests
	secrets   *secret.Store
	files     *secret.Files
	host      *profile.Host
}

// NewEnvironments reads the policy and prepares the stores; no vault is asked yet.
func NewEnvironments(o Options) (*Environments, error) {
	policy, err := childenv.Load()
	if err != nil {
		return nil, err
	}
	e := &Environments{o: o, lookup: map[string]string{}, policy: policy, manifests: policy.NewManifests(), files: secret.NewFiles()}
	for _, kv := range o.Environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			e.lookup[name] = value
		}
	}
	e.host = profile.NewHost(func() string { return o.Launch.Dir })
	e.secrets = secret.New(secret.Config{
		Sources: e.sources,
		Global:  policy.Global,
		Routed:  func(ctx context.Context) bool { return e.host.Isolated(profile.From(ctx)) },
		Lookup:  func(name string) (string, bool) { v, ok := e.lookup[name]; return v, ok },
		Environ: func() []string { return o.Environ },
		Managed: e.managedFile,
		Files:   e.files,
		Log:     o.Log,
	})
	return e, nil
}

// Getenv looks a variable up in the environment the process was started with.
func (e *Environments) Getenv(name string) string { return e.lookup[name] }

// Policy returns the policy that decides.
func (e *Environments) Policy() *childenv.Policy { return e.policy }

// managedFile is the administrator's .env, "" if there is no administrator.
func (e *Environments) managedFile() string {
	if dir := home.AdminDir(e.Getenv); dir != "" {
		return filepath.Join(dir, ".env")
	}
	return ""
}

// sources reads which vaults a home is configured for.
func (e *Environments) sources(_ context.Context, t secret.Tenant) (secret.Stack, error) {
	c, err := config.Load(t.Home, e.configOptions())
	if err != nil {
		return secret.Stack{}, err
	}
	section, err := c.With(nil).Map("secrets")
	if err != nil {
		return secret.Stack{}, err
	}
	return secret.Parse(section, nil)
}

func (e *Environments) configOptions() config.Options {
	return config.Options{AdminDir: home.AdminDir(e.Getenv), Log: e.o.Log}
}

// tenant is a home in the role it has for this process.
func (e *Environments) tenant(h home.Home) secret.Tenant {
	return secret.Tenant{Home: h, Foreign: e.host.Routed(profile.Task{Home: h})}
}

// Snapshot gathers what a child working for a profile is built from: that profile's own
// values, the names of the launch profile's that must stay behind, and what an outer process
// may have loaded of any other.
func (e *Environments) Snapshot(ctx context.Context, target home.Home) (childenv.Snapshot, error) {
	s := childenv.Snapshot{
		Inherited: e.o.Environ, BinDir: e.o.BinDir, Multiplexed: e.host.Multiplex(),
		Launch: childenv.Launch{Key: string(e.host.LaunchKey())}, Foreign: map[string][]string{},
	}
	scope, err := e.secrets.Scope(profile.Bind(ctx, profile.Task{Home: target}), e.tenant(target))
	if err != nil {
		return s, err
	}
	if s.Target, err = e.target(target, scope, &s); err != nil {
		return s, err
	}
	if s.Target.Key != s.Launch.Key {
		if err := e.launch(ctx, &s); err != nil {
			return s, err
		}
	}
	return s, e.foreign(ctx, target, &s)
}

// target describes the profile a child works for.
func (e *Environments) target(h home.Home, scope *secret.Scope, s *childenv.Snapshot) (*childenv.Profile, error) {
	t := &childenv.Profile{Key: string(profile.KeyOf(h.Dir)), Dir: h.Dir}
	for _, v := range scope.Values() {
		out := childenv.Var{Name: v.Name, Value: v.Text.Reveal()}
		switch v.Origin.Kind {
		case secret.DotEnv:
			out.Origin = childenv.Dotenv
		case secret.Sourced:
			out.Origin = childenv.Source
		case secret.Managed:
			out.Origin = childenv.Managed
			s.Managed = append(s.Managed, out)
			continue
		case secret.Grant:
			out.Origin, out.Fill = childenv.Dotenv, true
		case secret.Launch, secret.OpEnv:
			continue // inherited values come with the environment; bootstrap tokens with nothing
		}
		t.Vars = append(t.Vars, out)
	}
	for name := range scope.Applied() {
		t.Applied = append(t.Applied, name)
	}
	declared, err := e.manifests.Read(t.Key, h.Dir)
	if err != nil {
		t.DeclaredErr = err
	}
	t.Declared = declared.Names
	for _, w := range declared.Warnings {
		if e.o.Log != nil {
			e.o.Log.Warn("plugin manifest", "profile", h.Profile, "problem", w)
		}
	}
	return t, e.settings(h, scope, t)
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
	policy, err := config.LoadTerminal(h, e.configOptions(), in)
	if err != nil {
		t.TerminalRefused = err.Error()
		return nil //nolint:nilerr // a refusal is a property of the profile
	}
	for name, value := range policy.Vars() {
		t.Bridge = append(t.Bridge, childenv.Var{Name: name, Value: value, Origin: childenv.Bridge})
	}
	c, err := config.Load(h, e.configOptions())
	if err != nil {
		return err
	}
	t.Passthrough, err = c.With(lookup).Strings("terminal", "env_passthrough")
	return err
}

// launch gathers the names of the launch profile's values.
func (e *Environments) launch(ctx context.Context, s *childenv.Snapshot) error {
	scope, err := e.secrets.Scope(ctx, e.tenant(e.o.Launch))
	if err != nil {
		return fmt.Errorf("the launch profile: %w", err)
	}
	for _, v := range scope.Values() {
		if v.Origin.Kind == secret.DotEnv {
			s.Launch.Dotenv = append(s.Launch.Dotenv, v.Name)
		}
	}
	s.Launch.Supplied = scope.Supplied()
	return nil
}

// foreign gathers the .env values of every other profile: an outer process may have loaded
// one of them into our environment without telling (L9). A profile whose file cannot be read
// is logged and left out: its trouble must not stop the others' children.
func (e *Environments) foreign(ctx context.Context, target home.Home, s *childenv.Snapshot) error {
	profiles, err := e.o.Launch.Profiles()
	if err != nil {
		return err
	}
	for _, h := range append(profiles, e.o.Launch.Root()) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if profile.KeyOf(h.Dir) == profile.KeyOf(target.Dir) {
			continue
		}
		values, err := e.files.Read(h.Env())
		if err != nil && !errors.Is(err, fs.ErrNotExist) && e.o.Log != nil {
			e.o.Log.Warn("unreadable .env", "profile", h.Profile, "error", err)
		}
		for name, text := range values {
			s.Foreign[name] = append(s.Foreign[name], text.Reveal())
		}
	}
	return nil
}
