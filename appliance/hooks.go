// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/platform/webhook"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// hookName is what the webhook server is called in the state file.
const hookName = "webhook"

// subscriptions is where upstream keeps the routes that its command line makes.
const subscriptions = "webhook_subscriptions.json"

// startHooks listens for webhooks if the launch profile has them on, and says of every route
// that it cannot serve why. Such a route is off; the others run.
func (s *server) startHooks(ctx context.Context, t *Tenant) error {
	_, b, err := t.bind(ctx)
	if err != nil {
		return err
	}
	set, err := t.hookSettings(b)
	if err != nil || !set.enabled {
		return err
	}
	for _, key := range set.unknown {
		s.o.Log.Warn("this key of the webhook settings means nothing", "file", b.view.Path(), "key", key)
	}
	a, err := s.open(ctx, hookName, net.JoinHostPort(set.host, strconv.Itoa(set.port)))
	if err != nil {
		return fmt.Errorf("%w; WEBHOOK_PORT=… in .env chooses another port", err)
	}
	s.hooks = a // routes are judged by where it really listens
	on, off := s.surveyHooks(ctx, t, set)
	st := gateway.PlatformState{Message: strings.Join(off, "\n"), Attention: len(off) > 0}
	if on == 0 && len(off) == 0 {
		st.Message = "no routes: write some under platforms.webhook.extra.routes in config.yaml"
	}
	s.serve(ctx, a, webhook.New(webhook.Options{Host: hookHost{s}, Log: s.o.Log, Now: s.o.Now, Multiplex: s.rt.Multiplexed}), st)
	s.o.Log.Info("webhooks are served", "address", a.base(), "routes", on, "off", len(off))
	return nil
}

// surveyHooks looks at every route there is: on counts those that are served, off says of each
// other one why it is not.
func (s *server) surveyHooks(ctx context.Context, launch *Tenant, set hookSettings) (on int, off []string) {
	look := func(t *Tenant, name string) (problem string) {
		r, err := hookProfile{t, s}.Route(ctx, name)
		if err != nil {
			return err.Error()
		}
		on++
		for _, note := range r.Notes {
			s.o.Log.Warn("webhook route", "profile", t.Name(), "route", name, "note", note)
		}
		return ""
	}
	report := func(profile, name, problem string) string {
		s.o.Log.Error("this webhook route is off", "profile", profile, "route", name, "reason", problem)
		return "route " + name + " is off: " + problem
	}
	for _, name := range slices.Sorted(maps.Keys(set.routes)) {
		owner, who := launch, set.routes[name].bound()
		if who != "" && who != launch.Name() {
			var err error
			if owner, err = s.rt.Tenant(who); err != nil {
				off = append(off, report(who, name, "profile: "+err.Error()))
				continue
			}
		}
		if problem := look(owner, name); problem != "" {
			off = append(off, report(owner.Name(), name, problem))
		}
	}
	if problem := unreadSubscriptions(launch.home); problem != "" {
		s.o.Log.Error("webhook subscriptions", "reason", problem)
		off = append(off, problem)
	}
	s.surveyOwnHooks(ctx, launch, set, look, report)
	return on, off
}

// surveyOwnHooks looks at the routes that stand in the configs of the other profiles.
func (s *server) surveyOwnHooks(ctx context.Context, launch *Tenant, set hookSettings, look func(*Tenant, string) string, report func(profile, name, problem string) string) {
	profiles, err := s.rt.Profiles()
	if err != nil {
		s.o.Log.Warn("profiles cannot be listed", "error", err)
	}
	for _, id := range profiles {
		t, err := s.rt.Tenant(id)
		if err != nil || t == launch {
			continue
		}
		_, b, err := t.bind(ctx)
		var own hookSettings
		if err == nil {
			own, err = t.hookSettings(b)
		}
		if err != nil {
			s.state.SetPlatform(id+":"+hookName, gateway.PlatformState{State: "failed", Code: "config", Message: err.Error(), Attention: true})
			s.o.Log.Error("the webhook settings of this profile cannot be read", "profile", id, "error", err)
			continue
		}
		if !own.enabled {
			continue
		}
		var off []string
		for _, name := range slices.Sorted(maps.Keys(own.routes)) {
			if r, ok := set.routes[name]; ok && r.bound() == id {
				off = append(off, report(id, name, "the config of the default profile has a route of this name for this profile, which counts"))
			} else if problem := look(t, name); problem != "" {
				off = append(off, report(id, name, problem))
			}
		}
		if problem := unreadSubscriptions(t.home); problem != "" {
			off = append(off, problem)
		}
		s.state.SetPlatform(id+":"+hookName, gateway.PlatformState{State: "connected", Message: strings.Join(off, "\n"), Attention: len(off) > 0})
	}
}

// unreadSubscriptions says if a home has routes that upstream's command line made: they are
// not served, and the file stays as it is.
func unreadSubscriptions(h home.Home) string {
	path := filepath.Join(h.Dir, subscriptions)
	data, st, err := atomicfile.Read(path)
	if err != nil || !st.Exists {
		return ""
	}
	var routes map[string]json.RawMessage
	if json.Unmarshal(data, &routes) == nil && len(routes) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %d routes of this file are not served by hermes-appliance yet; write them under platforms.webhook.extra.routes in config.yaml", path, len(routes))
}
