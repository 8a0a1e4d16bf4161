// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strconv"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer"
	"github.com/hermes-appliance/hermes-appliance/installer/fleet"
)

// service finds the service of a home as the verbs install, restart and uninstall do.
func (g gatewayHost) service(ctx context.Context, h home.Home, s fleet.Service, account string) (installer.Host, installer.Request, error) {
	o := serviceOptions{homeOptions: homeOptions{home: h.Dir}, user: !s.System, system: s.System, runAs: account}
	host, t, standing, err := o.resolve(ctx, g.env)
	r := installer.Request{Target: t, Standing: standing, Options: installer.Options{NoStart: true}}
	if err != nil {
		return host, r, err
	}
	r.Spec, err = o.spec(ctx, host, t, g.env, asked{})
	return host, r, err
}

// Install puts back the files that there were, or installs as the verb does, without a start.
func (g gatewayHost) Install(ctx context.Context, h home.Home, s fleet.Service, account string, files []fleet.File) error {
	if len(files) > 0 {
		return g.Systemd.Install(ctx, s, files)
	}
	host, r, err := g.service(ctx, h, s, account)
	if err != nil {
		return err
	}
	_, err = host.Install(ctx, r)
	return err
}

// Start of the default gateway waits until it answers, and says why it does not.
func (g gatewayHost) Start(ctx context.Context, h home.Home, s fleet.Service) error {
	if h.Dir != g.Default.Dir {
		return g.Systemd.Start(ctx, h, s)
	}
	return g.observed(ctx, h, s, installer.Host.Start)
}

// Restart lets running turns finish and waits for the new process to answer. A unit that does
// not run is started.
func (g gatewayHost) Restart(ctx context.Context, h home.Home, s fleet.Service) error {
	return g.observed(ctx, h, s, installer.Host.Restart)
}

func (g gatewayHost) observed(ctx context.Context, h home.Home, s fleet.Service, do func(installer.Host, context.Context, installer.Observed) (installer.Outcome, error)) error {
	host, r, err := g.service(ctx, h, s, "")
	if err != nil {
		return err
	}
	seen, err := host.Observe(ctx, r.Target, installer.Desired{})
	if err != nil {
		return err
	}
	out, err := do(host, ctx, seen)
	if err == nil && out.Ask != nil {
		err = out.Ask(ctx)
	}
	return err
}

// Uninstall takes the default home's service off as the verb does, with all that installing it
// left on the host. Of a profile only the unit goes: what else there is of it will be needed on
// the way back.
func (g gatewayHost) Uninstall(ctx context.Context, h home.Home, s fleet.Service) error {
	if h.Dir == g.Default.Dir {
		host, r, err := g.service(ctx, h, s, "")
		if err == nil {
			_, err = host.Uninstall(ctx, r.Target, false, false)
			g.Forget(ctx, s, r.Target.Unit())
		}
		if refused, ok := errors.AsType[*installer.Refusal](err); !ok || refused.Reason != "foreign" {
			return err
		}
	}
	return g.Systemd.Uninstall(ctx, h, s)
}

// otherManager refuses hosts whose manager this command does not know and has a gateway in hand:
// it would start again what is stopped here.
func (g gatewayHost) otherManager() string {
	o := serviceOptions{}
	host := o.host(g.env)
	kind, err := host.Detect()
	if err != nil || kind == installer.Systemd {
		return ""
	}
	found, err := host.Services(kind, installer.Account{})
	if err != nil || len(found) > 0 {
		return fmt.Sprintf("services of %s are not moved yet: take them off with %s uninstall first, or set gateway.multiplex_profiles: true and restart the default gateway yourself", kind, Name)
	}
	return ""
}

func accountID(name string) (int, error) {
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return 0, err
		}
	}
	return strconv.Atoi(u.Uid)
}
