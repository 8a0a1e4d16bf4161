// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/hermes-appliance/hermes-appliance/appliance"
	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// sockets are the listeners that the manager is to hold for a service: none, unless a person asks
// for it or the service that stands has them. Their addresses are those of the home's settings as
// they are now.
func (o *serviceOptions) sockets(ctx context.Context, h installer.Host, t installer.Target, real home.Home, want *bool) ([]service.Socket, error) {
	if want == nil && !h.Sockets(t) || want != nil && !*want {
		return nil, nil
	}
	if t.Kind != installer.Systemd {
		return nil, &installer.Refusal{
			Reason: "no-sockets", Msg: noSockets(t.Kind), Fix: "install without --socket: clients are refused for the moment of a restart, and have to try again", Code: exitcode.Usage,
		}
	}
	out, err := listeners(ctx, real, home.AdminDir(h.Getenv))
	if err == nil && len(out) == 0 && want != nil {
		err = &installer.Refusal{
			Reason: "no-listener", File: real.Env(), Msg: "the gateway listens nowhere, so there is nothing to hold open",
			Fix: "put API_SERVER_ENABLED=true and API_SERVER_KEY=… there, then install again", Code: exitcode.Error,
		}
	}
	return out, err
}

// noSockets says why a manager holds no listener for this program.
func noSockets(k installer.Kind) string {
	switch k {
	case installer.Launchd:
		return "launchd hands a listener over through a library of its own, which this program does not use"
	case installer.Tasks:
		return "the Windows Task Scheduler cannot hold a listener open for a task"
	case installer.SCM:
		return "the Windows Service Control Manager cannot hold a listener open for a service"
	case installer.OpenRC:
		return "OpenRC cannot hold a listener open for a service"
	case installer.SysV:
		return "SysV init cannot hold a listener open for a service"
	case installer.Systemd:
	}
	return ""
}

// listeners are the addresses at which the gateway of a home listens, as systemd takes them. A
// home that is still to be made listens where a fresh one does.
func listeners(ctx context.Context, h home.Home, admin string) ([]service.Socket, error) {
	if none, err := noHome(h); err != nil {
		return nil, err
	} else if none {
		return []service.Socket{{Name: "api_server", Listen: "127.0.0.1:8642"}}, nil
	}
	env, err := appliance.NewEnvironments(appliance.Options{Launch: h})
	if err != nil {
		return nil, err
	}
	// Of this process's environment nothing counts: it is not the service's.
	r, err := profileFacts{env: env, options: config.Options{AdminDir: admin}}.reader(ctx, h)
	if err != nil {
		return nil, err
	}
	found, err := r.listeners(false)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.Env(), err)
	}
	var out []service.Socket
	for _, l := range found {
		if l.Platform != "api_server" && l.Platform != "webhook" {
			continue // upstream's; this gateway serves none of them
		}
		if l.Platform == "webhook" && r.text(l.Platform, "", "host") == "" {
			l.Host = ""
		}
		at, err := listenStream(l.Host, l.Port)
		if err != nil {
			return nil, fmt.Errorf("%s: the address of %s: %w", h.Env(), l.Platform, err)
		}
		out = append(out, service.Socket{Name: l.Platform, Listen: at})
	}
	return out, nil
}

// listenStream is an address as systemd takes it: it looks no names up.
func listenStream(host string, port int) (string, error) {
	if port == 0 {
		return "", errors.New("port 0 is any free one; expected one that stays, for systemd to hold")
	}
	switch host {
	case "": // every address, of both protocols
		return strconv.Itoa(port), nil
	case "localhost":
		host = "127.0.0.1"
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return "", fmt.Errorf("%q is a name; expected an address, for systemd looks no names up", host)
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}
