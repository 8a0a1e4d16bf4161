// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance"
	"github.com/hermes-appliance/hermes-appliance/appliance/childenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer/fleet"
)

// newFleet wires what moves gateways to this machine. launch is the home that this process was
// started for: its environment belongs to that home and to no other, whichever gateway is
// started from here (isolation spec R9).
func newFleet(env Env, launch, root home.Home) (fleet.Fleet, error) {
	environ := childenv.TakeEnviron()
	e, err := appliance.NewEnvironments(appliance.Options{Launch: launch, Environ: environ})
	if err != nil {
		return fleet.Fleet{}, err
	}
	own := launch.Dir == root.Dir
	if !own {
		environ = nil // a profile's environment says nothing of the default home
	}
	of, err := appliance.NewEnvironments(appliance.Options{Launch: root, Environ: environ})
	if err != nil {
		return fleet.Fleet{}, err
	}
	admin := home.AdminDir(env.Getenv)
	flag := multiplexFlag{cli: env, env: of, home: root, editor: (&configOptions{}).editor(root, env), options: config.Options{AdminDir: admin}}
	facts := profileFacts{env: of, root: root, options: config.Options{AdminDir: admin}}
	return fleet.Fleet{
		Default: root, Host: newGatewayHost(env, e, root), Flag: flag, Inspect: facts.read, Now: env.Now,
	}, nil
}

// multiplexFlag is gateway.multiplex_profiles of the default home. Every edit is one of config
// set: nothing else in the file changes.
type multiplexFlag struct {
	cli     Env
	env     *appliance.Environments
	home    home.Home
	editor  config.Editor
	options config.Options
}

func (m multiplexFlag) On() (bool, error) { return m.env.Multiplex() }

// Draft finds what would keep the flag from counting before anything is stopped.
func (m multiplexFlag) Draft() (before, after []byte, err error) {
	c, err := config.Load(m.home, m.options)
	if err != nil {
		return nil, nil, err
	}
	if _, err := current(m.home, m.cli); err != nil {
		return nil, nil, err // the gateway would refuse to start
	}
	if c.Has(config.MultiplexAlias()...) && c.Origin(config.MultiplexAlias()...) == config.Admin {
		file, line := c.Line(config.MultiplexAlias()...)
		return nil, nil, fmt.Errorf("%s, line %d: the administrator decides multiplex_profiles", file, line)
	}
	if on, said := config.MultiplexWord(m.env.Setting); said && !on {
		return nil, nil, fmt.Errorf("%s turns it off, whatever the config says; take it out of %s and of the environment", config.MultiplexEnv, m.home.Env())
	}
	return m.editor.Preview(config.Edit{Path: config.MultiplexAlias()}, config.Edit{Path: config.MultiplexPath(), Value: "true"})
}

func (m multiplexFlag) Own() (bool, error) {
	c, err := config.Load(m.home, config.Options{})
	return err == nil && c.Origin(config.MultiplexPath()...) == config.User, err
}

func (m multiplexFlag) Turn(ctx context.Context, on bool) error {
	if _, err := m.editor.Unset(ctx, config.MultiplexAlias()); err != nil {
		return err
	}
	_, err := m.editor.Set(ctx, config.MultiplexPath(), fmt.Sprint(on))
	return err
}

func (m multiplexFlag) Clear(ctx context.Context) error {
	_, err := m.editor.Unset(ctx, config.MultiplexPath())
	return err
}

// OptedOut reads the one key there is, from the config that counts (H#110683).
func (m multiplexFlag) OptedOut() (bool, error) {
	c, err := config.Load(m.home, m.options)
	if err != nil || !c.Has("gateway", "auto_multiplex_migration") {
		return false, err
	}
	on, err := c.With(nil).Bool("gateway", "auto_multiplex_migration")
	return !on, err
}

// profileFacts reads what a profile would connect with and listen on, under that profile's own
// scope: what it does not have stays missing, whatever this process has.
type profileFacts struct {
	env     *appliance.Environments
	root    home.Home
	options config.Options
}

func (p profileFacts) read(ctx context.Context, h home.Home) (fleet.Facts, error) {
	var out fleet.Facts
	r, err := p.reader(ctx, h)
	if err != nil {
		return out, err
	}
	out.Claims = r.claims(h.Config())
	out.Listeners, err = r.listeners(h.Dir == p.root.Dir)
	return out, err
}

// reader reads one profile's config and secrets.
func (p profileFacts) reader(ctx context.Context, h home.Home) (*factReader, error) {
	if f, err := os.Open(h.Env()); err == nil {
		f.Close() //nolint:errcheck // nothing was read
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err // a scope would take it for an empty one
	}
	c, err := config.Load(h, p.options)
	if err != nil {
		return nil, err
	}
	scope, err := p.env.Scope(ctx, h)
	if err != nil {
		return nil, err
	}
	r := &factReader{view: c.With(scopeLookup(scope)), scope: scope, file: h.Env()}
	if h.Dir == p.root.Dir {
		r.process = p.env.Getenv // a miss of the launch profile's falls through to it
	}
	return r, r.sections()
}

// userUnits is where an account's own units are.
func userUnits(env Env, accountHome string, own bool) string {
	if dir := env.Getenv("XDG_CONFIG_HOME"); dir != "" && own {
		return filepath.Join(dir, "systemd", "user")
	}
	if accountHome == "" {
		return ""
	}
	return filepath.Join(accountHome, ".config", "systemd", "user")
}

// truthy reads yes and no as adapters do.
func truthy(s string) bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "1", "true", "yes", "on":
		return true
	}
	return false
}
