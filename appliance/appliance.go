// SPDX-License-Identifier: MIT

// Package appliance wires the parts of the running appliance together: what the profiles'
// files, vaults and policies say becomes what a child may get. It holds no rule of its own
// and never takes one profile's part for another's.
package appliance

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hermes-appliance/hermes-appliance/appliance/childenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/profile"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
)

// Options are what the process hands in.
type Options struct {
	Launch  home.Home // the home the process was started for
	Environ []string  // the environment it was started with, KEY=VALUE; nothing changes it later
	Log     *slog.Logger
	BinDir  string // where this program's command is; "" = unknown
	Latest  int    // the newest version of a config that may be written; 0 = any
	// Credentials are what the service manager handed to the process; nil = nothing.
	Credentials secret.Credentials
}

// Environments builds the environments of children for every profile of a home. It is safe
// for concurrent use.
type Environments struct {
	o         Options
	lookup    map[string]string
	policy    *childenv.Policy
	manifests *childenv.Manifests
	configs   *config.Cache
	secrets   *secret.Store
	files     *secret.Files
	host      *profile.Host
	inherited inherited

	mu           sync.Mutex
	remembered   map[profile.Key]known
	launchConfig *config.Config // that launchNow was read beside
	launchNow    childenv.Launch
	launchEver   map[string]bool  // only grows
	launchUnread map[string]error // by name of the file; nil = it was read once
}

// NewEnvironments reads the policy, and from the profiles' files what the environment may
// have of them; no vault is asked yet. The process serves many profiles if the launch home's config says so; a config that cannot be
// read counts as one that does, which keeps more apart.
func NewEnvironments(o Options) (*Environments, error) {
	policy, err := childenv.Load()
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &Environments{
		o: o, lookup: map[string]string{}, policy: policy, manifests: policy.NewManifests(),
		configs: config.NewCache(), files: secret.NewFiles(),
		remembered: map[profile.Key]known{}, launchEver: map[string]bool{}, launchUnread: map[string]error{},
	}
	for _, kv := range o.Environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			e.lookup[name] = value
		}
	}
	e.host = profile.NewHost(func() string { return o.Launch.Dir })
	if many, err := e.Multiplex(); many || err != nil {
		e.host.SetMultiplex(true)
	}
	e.secrets = secret.New(secret.Config{
		Sources: e.sources,
		Global:  policy.Global,
		Control: policy.Control,
		Routed:  func(ctx context.Context) bool { return e.host.Isolated(profile.From(ctx)) },
		Lookup:  func(name string) (string, bool) { v, ok := e.lookup[name]; return v, ok },
		Environ: func() []string { return o.Environ },
		Managed: e.managedFile,
		Grants:  e.grants,

		Credentials: e.credentials,
		ChildEnv:    e.vaultEnv,
		Files:       e.files,
		Log:         o.Log,
	})
	if err := e.checkCredentials(); err != nil {
		return nil, err
	}
	// Before anybody edits these files, so that what they held is known. What cannot be read now
	// is tried again for each child.
	_, unread := e.launchNames()
	_, unlisted := e.foreign("")
	if err := errors.Join(unread, unlisted); err != nil {
		o.Log.Warn("cannot tell yet what the environment has of the profiles", "error", err)
	}
	return e, nil
}

// Multiplex reports whether one process serves every profile: by the launch home's .env, the
// environment, or its config.
func (e *Environments) Multiplex() (bool, error) {
	c, err := e.configs.Load(e.o.Launch, e.configOptions())
	if err != nil {
		return false, err
	}
	return c.Multiplex(e.Setting)
}

// Setting looks a setting of the process up: the launch home's .env wins over the environment.
func (e *Environments) Setting(name string) (string, bool) {
	if file, err := e.files.Read(e.o.Launch.Env()); err == nil && !file[name].Empty() {
		return file[name].Reveal(), true
	}
	v, ok := e.lookup[name]
	return v, ok
}

// Getenv looks a variable up in the environment the process was started with.
func (e *Environments) Getenv(name string) string { return e.lookup[name] }

// Policy returns the policy that decides.
func (e *Environments) Policy() *childenv.Policy { return e.policy }

// Scope returns what a task working for a profile may read of secrets. The caller binds it
// with [secret.Bind] for as long as the task lasts.
func (e *Environments) Scope(ctx context.Context, h home.Home) (*secret.Scope, error) {
	return e.secrets.Scope(profile.Bind(ctx, profile.Task{Home: h}), e.tenant(h))
}

// Discovered has the sources of a home asked again after its plugins were looked for (N3).
func (e *Environments) Discovered(ctx context.Context, h home.Home) error {
	_, err := e.secrets.Discovered(ctx, e.tenant(h))
	return err
}

// managedFile is the administrator's .env, "" if there is no administrator.
func (e *Environments) managedFile() string {
	if dir := home.AdminDir(e.Getenv); dir != "" {
		return filepath.Join(dir, ".env")
	}
	return ""
}

func (e *Environments) configOptions() config.Options {
	return config.Options{AdminDir: home.AdminDir(e.Getenv), Log: e.o.Log}
}

// tenant is a home in the role it has for this process. Once another profile is served, the
// launch profile is a tenant like the others (S13).
func (e *Environments) tenant(h home.Home) secret.Tenant {
	t := secret.Tenant{Home: h, Foreign: e.host.Routed(profile.Task{Home: h})}
	if t.Foreign {
		e.secrets.Freeze()
	}
	return t
}
