// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/service"
)

// socketExt ends the name of a unit that holds a listener.
const socketExt = ".socket"

func isSocket(unit string) bool { return strings.HasSuffix(unit, socketExt) }

// SocketSeen is a socket unit of a service as it is.
type SocketSeen struct {
	Unit    string   `json:"unit"`
	Listen  []string `json:"listen"`
	Active  string   `json:"active"` // systemd's words
	Enabled bool     `json:"enabled"`
	Ours    bool     `json:"ours"` // this program wrote it
}

func (s SocketSeen) open() bool { return s.Active == "active" }

// askSockets asks the manager about the socket units that stand beside the service's.
func (h Host) askSockets(ctx context.Context, o *Observed) {
	for _, path := range slices.Sorted(maps.Keys(o.seen)) {
		s := o.seen[path]
		if filepath.Dir(path) != o.dir() || !isSocket(path) || !s.Exists {
			continue
		}
		p, err := h.manager(o.Target).Show(ctx, filepath.Base(path))
		if err != nil {
			o.unasked = err
			return
		}
		seen := SocketSeen{Unit: filepath.Base(path), Active: p.Active, Enabled: p.Enabled, Ours: s.Prov.Ours, Listen: []string{}}
		if u, err := service.ParseUnit(string(s.Data)); err == nil {
			seen.Listen = append(seen.Listen, u.All("Socket", "ListenStream")...)
		}
		o.Sockets = append(o.Sockets, seen)
	}
}

// socketsThat names the socket units for which something holds.
func (o Observed) socketsThat(ok func(SocketSeen) bool) (out []string) {
	for _, s := range o.Sockets {
		if ok(s) {
			out = append(out, s.Unit)
		}
	}
	return out
}

func (o Observed) openSockets() []string { return o.socketsThat(SocketSeen.open) }

// ownSockets are those that this program wrote and that are open.
func (o Observed) ownSockets() []string {
	return o.socketsThat(func(s SocketSeen) bool { return s.Ours && s.open() })
}

// sockets are the units that hold the service's listeners.
func (d *Desired) sockets() []string {
	return slices.DeleteFunc(slices.Clone(d.Units), func(u string) bool { return !isSocket(u) })
}

// notEnabled are the units that do not start by themselves and shall.
func (o Observed) notEnabled(d Desired) (out []string) {
	enabled := o.socketsThat(func(s SocketSeen) bool { return s.Enabled })
	for _, u := range d.Units {
		if isSocket(u) && !slices.Contains(enabled, u) || !isSocket(u) && !o.Props.Enabled && o.Props.Unsupervised == "" {
			out = append(out, u)
		}
	}
	return out
}

// Sockets reports whether the service that stands has its listeners held by the manager.
func (h Host) Sockets(t Target) bool {
	main, err := h.see(t.Kind, t.file())
	if err != nil || t.Kind != Systemd || !main.Prov.Ours {
		return false
	}
	u, err := service.ParseUnit(string(main.Data))
	return err == nil && len(u.All("Service", "Sockets")) > 0
}

// closeSockets has the manager listen no more. What is not loaded does not.
func (h Host) closeSockets(ctx context.Context, t Target, units []string) error {
	var errs []error
	for _, u := range units {
		if isSocket(u) {
			m := h.manager(t)
			errs = append(errs, m.Stop(ctx, u), m.ResetFailed(ctx, u))
		}
	}
	return errors.Join(errs...)
}

// revive has run again what ran before: the service, which opens its sockets, or where it did not
// run the sockets that waited for somebody to ask.
func (r *run) revive(ctx context.Context, s Step) error {
	if !r.reached(OpRestart) && !r.reached(OpClose) {
		return nil
	}
	m := r.h.manager(r.t)
	err := errors.Join(r.h.closeSockets(ctx, r.t, s.Units), m.Stop(ctx, s.Unit), m.ResetFailed(ctx, s.Unit))
	if slices.ContainsFunc(r.j.Entries, func(e entry) bool { return e.Op == OpRestart }) {
		return errors.Join(err, m.Start(ctx, s.Unit))
	}
	for i, e := range r.j.Entries {
		if e.Op == OpClose && i <= r.j.At {
			for _, u := range e.Units {
				err = errors.Join(err, m.Start(ctx, u))
			}
		}
	}
	return err
}

// sockets checks what must hold of the socket units of a step after it.
func (r *run) sockets(ctx context.Context, s Step) error {
	for _, u := range s.Units {
		if !isSocket(u) {
			continue
		}
		p, err := r.h.manager(r.t).Show(ctx, u)
		if err != nil {
			return err
		}
		open := p.Active == "active"
		switch s.Op {
		case OpStart, OpRestart:
			if !open {
				return fmt.Errorf("%s is %s (%s): another program may have its address", u, p.Active, p.Result)
			}
		case OpStop, OpClose:
			if open {
				return fmt.Errorf("%s: it was stopped, and is still open", u)
			}
		case OpEnable, OpDisable:
			if p.Enabled != (s.Op == OpEnable) {
				return fmt.Errorf("%s: the manager said that it did %s it, and did not", u, s.Op)
			}
		default:
		}
	}
	return nil
}
