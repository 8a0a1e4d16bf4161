// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/profile"
)

// A profile that is deleted or renamed while the gateway runs has a database, MCP servers,
// commands and secrets open here. They are ended when somebody asks for it, or when another
// profile is opened, so that they do not add up.

// missed looks whether a profile that somebody asked for in vain was served.
func (r *Runtime) missed(h home.Home, err error) {
	if !errors.Is(err, home.ErrNoProfile) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tenants {
		if t.home.Dir == h.Dir {
			r.drop(t)
		}
	}
}

// dropDeleted lets go of every profile that is gone. The caller holds mu.
func (r *Runtime) dropDeleted() {
	for key, t := range r.tenants {
		if key == r.env.host.LaunchKey() {
			continue
		}
		h, err := r.env.o.Launch.NamedProfile(t.home.Profile)
		if errors.Is(err, home.ErrNoProfile) || err == nil && profile.KeyOf(h.Dir) != key {
			r.drop(t)
		}
	}
}

// drop lets go of a profile, beside the turns. The caller holds mu.
func (r *Runtime) drop(t *Tenant) {
	if r.closed || t.key == r.env.host.LaunchKey() {
		return
	}
	delete(r.tenants, t.key)
	r.leaving[t.key] = true
	r.chores.Go(func() {
		if err := t.leave(r.base); err != nil {
			t.log().Warn("a profile is gone; not all that it had open could be ended", "error", err)
		} else {
			t.log().Info("a profile is gone; what it had open is ended")
		}
		r.veils.drop(t)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.leaving, t.key)
	})
}

// leave ends what a profile that is gone does and has open, and forgets its secrets.
func (t *Tenant) leave(ctx context.Context) error {
	for _, turn := range t.rt.Turns.Running(string(t.key)) {
		turn.Stop("its profile was deleted")
		select {
		case <-turn.Done():
		case <-ctx.Done():
		}
	}
	for session := range t.term.busy() {
		t.term.end(ctx, session)
	}
	err := errors.Join(t.rt.servers.Remove(ctx, string(t.key)), t.close(ctx))
	t.rt.grants.ForgetAll(t.home.Dir)
	t.rt.env.forget(t.home, t.key)
	return err
}

// forget drops what is remembered of a profile that is gone.
func (e *Environments) forget(h home.Home, key profile.Key) {
	e.configs.Forget(h)
	e.manifests.Forget(string(key))
	e.secrets.Forget(string(key))
	e.files.Forget(h.Dir)
	e.files.Forget(string(key))
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.remembered, key)
}
