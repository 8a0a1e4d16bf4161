// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"

	"github.com/hermes-appliance/hermes-appliance/appliance/childenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/profile"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
)

// helperKind is the kind of child that the command line of a secret store is.
const helperKind = "helper"

// allowAll is what a config may grant to the launch profile at its top level (S1).
const allowAll = "GATEWAY_ALLOW_ALL_USERS"

// sources reads which vaults a home is configured for, those of its plugins included.
func (e *Environments) sources(_ context.Context, t secret.Tenant) (secret.Stack, error) {
	c, err := e.configs.Load(t.Home, e.configOptions())
	if err != nil {
		return secret.Stack{}, err
	}
	section, err := c.With(nil).Map("secrets")
	if err != nil {
		return secret.Stack{}, err
	}
	plugins, warnings, err := secret.ReadPlugins(t.Home.Dir)
	if err != nil {
		return secret.Stack{}, err
	}
	stack, err := secret.Parse(section, plugins)
	stack.Warnings = append(stack.Warnings, warnings...)
	return stack, err
}

// grants are the defaults that the launch home's config gives its own scope and no other
// (S1, R5). A config that cannot be read grants nothing.
func (e *Environments) grants() map[string]string {
	c, err := e.configs.Load(e.o.Launch, e.configOptions())
	if err != nil {
		return nil
	}
	top, err := c.With(nil).TopLevel()
	if value, ok := top[allowAll]; ok && err == nil {
		return map[string]string{allowAll: value}
	}
	return nil
}

// vaultEnv is the environment of the commands that fetch a home's secrets: what the profile's
// helpers start from, before any secret is known. A source adds its own token to it. It is
// empty where the policy refuses.
func (e *Environments) vaultEnv(t secret.Tenant, _ string) []string {
	key := profile.KeyOf(t.Home.Dir)
	s := childenv.Snapshot{
		Inherited: e.o.Environ, BinDir: e.o.BinDir, Multiplexed: e.host.Multiplex(),
		Launch: childenv.Launch{Key: string(e.host.LaunchKey())},
		Target: &childenv.Profile{Key: string(key), Dir: t.Home.Dir},
	}
	if t.Foreign {
		var err, listErr error
		launch := s.Launch.Key
		s.Launch, err = e.launchNames()
		s.Launch.Key = launch
		s.Foreign, listErr = e.foreign(key)
		if err = errors.Join(err, listErr); err != nil {
			e.o.Log.Warn("a vault's command gets no environment", "home", t.Home.Dir, "error", err)
			return []string{}
		}
	}
	env, err := e.policy.Build(helperKind, s)
	if err != nil {
		e.o.Log.Warn("a vault's command gets no environment", "home", t.Home.Dir, "error", err)
		return []string{}
	}
	return env
}
