// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// Choice is what a person says about which service is meant.
type Choice struct {
	Scope   service.Scope // "" = the one that stands, else a system service for root and a user's for others
	User    string        // --run-as-user; "" = see [Host.Resolve]
	Home    string        // absolute; "" = adopt the home of the service that stands, else ~/.hermes of its account
	Profile string        // a profile of that home; "" = itself
	Look    bool          // nothing will be changed: another user's service will do, too
	Stands  bool          // only one that is installed is meant; nobody becomes its account by that
	Verb    string        // the command that asks, for the words of a refusal
}

func uidName(h Host) string {
	if h.OS == "windows" {
		return ""
	}
	return strconv.Itoa(h.UID)
}

// Resolve finds out which service is meant: whose, of which home, under which name. standing is
// the one of that home that stands already, nil = none. The error may be a [*Refusal].
func (h Host) Resolve(ctx context.Context, c Choice) (t Target, standing *Found, err error) {
	kind, err := h.Detect()
	if err != nil {
		return t, nil, err
	}
	self := h.self(ctx)
	all, err := h.Services(kind, self)
	if err != nil {
		return t, nil, err
	}
	sortFound(all)
	t = Target{Kind: kind, Scope: h.scope(kind, c, all), image: h.Offline, data: h.Getenv("ProgramFiles")}
	if kind == Tasks && t.Scope == service.System {
		kind, t.Kind = SCM, SCM
	}
	if err := h.sudo(t.Scope); err != nil && !c.Look {
		return t, nil, err
	}
	base := pick(all, t.Scope, func(f Found) bool { return f.Name == service.Base })
	pinnedUser := ""
	if c.Home == "" && c.Profile == "" && base != nil {
		pinnedUser = base.User
	} else if f := pick(all, t.Scope, func(f Found) bool { return c.Home != "" && f.Home == homeOf(c) }); f != nil {
		pinnedUser = f.User
	}
	t.Account, err = h.account(ctx, t.Scope, c.User, pinnedUser)
	if r, ok := errors.AsType[*Refusal](err); ok && c.Stands && (r.Reason == "root" || r.Reason == "no-user") {
		t.Account, err = self, nil
	}
	if err != nil {
		return t, nil, err
	}
	if err := h.scoped(kind, t.Scope, t.Account, c.Verb); err != nil && !c.Look {
		return t, nil, err
	}
	platform := filepath.Join(t.Account.Home, ".hermes")
	dir := c.Home
	if dir == "" {
		dir = platform
		if base != nil && base.Home != "" && c.Profile == "" {
			dir = base.Home // adopt it (H#6729)
		}
	}
	if t.Home, err = locate(h, dir, c.Profile); err != nil {
		return t, nil, err
	}
	if real, err := filepath.EvalSymlinks(platform); err == nil && h.Root == "" {
		platform = real
	}
	t.Name = service.Name(t.Home.Dir, platform)
	if base != nil && base.Home == t.Home.Dir {
		t.Name = base.Name
	}
	if kind == Tasks { // they stand in the home
		if all, err = h.find(t); err != nil {
			return t, nil, err
		}
	}
	standing = pick(all, t.Scope, func(f Found) bool { return f.Home == t.Home.Dir })
	if standing != nil {
		t.Name = standing.Name // whatever it was called when it was made (H#109476)
	} else {
		if name := h.cutOffName(t); name != "" {
			t.Name = name
		}
		standing = pick(all, t.Scope, func(f Found) bool { return f.Name == t.Name })
	}
	return t, standing, nil
}

// cutOffName returns the name under which a run for this home was cut off, "" if none was. The
// definition, by which the service would be known, may be away in its middle; and by the home
// of whoever asks, root's say, it would have another name.
func (h Host) cutOffName(t Target) string {
	entries, err := os.ReadDir(h.path(t.stateDir()))
	if err != nil {
		return ""
	}
	for _, e := range entries {
		name, named := strings.CutPrefix(e.Name(), "service-")
		name, ended := strings.CutSuffix(name, ".journal")
		if !named || !ended {
			continue
		}
		at := t
		at.Name = name
		if j, err := h.interrupted(at); err == nil && j != nil && j.Home == t.Home.Dir {
			return name
		}
	}
	return ""
}

func homeOf(c Choice) string {
	if c.Profile != "" && c.Profile != home.Default {
		return filepath.Join(c.Home, "profiles", c.Profile)
	}
	return c.Home
}

// locate makes a home of a path of the host.
func locate(h Host, dir, profile string) (home.Home, error) {
	at, err := home.Locate(h.path(dir), h.Getenv)
	if err != nil {
		return at, err
	}
	if profile != "" {
		if at, err = at.NamedProfile(profile); err != nil {
			return at, err
		}
	}
	at.Dir = h.inside(at.Dir)
	if h.Root == "" {
		if real, err := filepath.EvalSymlinks(at.Dir); err == nil {
			at.Dir = real
		}
	}
	return at, nil
}

func (h Host) scope(kind Kind, c Choice, all []Found) service.Scope {
	switch {
	case c.Scope != "":
		return c.Scope
	case kind == Launchd:
		return service.User
	case kind == Tasks:
		if slices.ContainsFunc(all, func(f Found) bool {
			return homeOf(c) == "" && f.Name == service.Base || homeOf(c) != "" && f.Home == homeOf(c)
		}) {
			return service.System
		}
		return service.User
	case kind == OpenRC || kind == SysV:
		return service.System
	}
	want := homeOf(c)
	var system, user bool
	for _, f := range all {
		if want == "" && f.Name == service.Base || want != "" && f.Home == want {
			system, user = system || f.Scope == service.System, user || f.Scope == service.User
		}
	}
	if system != user {
		if system {
			return service.System
		}
		return service.User
	}
	if h.UID == 0 {
		return service.System
	}
	return service.User
}

func pick(all []Found, scope service.Scope, ok func(Found) bool) *Found {
	for i := range all {
		if all[i].Scope == scope && ok(all[i]) {
			return &all[i]
		}
	}
	return nil
}

// tempDirs are emptied by the system: nothing that lives there may be a service's.
func tempDirs() []string { return []string{"/tmp", "/var/tmp", "/private/tmp", "/private/var/tmp"} }

// settled refuses homes that a service must not be pinned to.
func (h Host) settled(t Target, standing *Found, program string) error {
	for _, p := range []struct{ what, path string }{{"home", t.Home.Dir}, {"program", program}} {
		for _, dir := range append(tempDirs(), strings.TrimRight(h.Getenv("TMPDIR"), "/"), h.Getenv("TEMP")) {
			if dir != "" && (p.path == dir || strings.HasPrefix(p.path, dir+string(filepath.Separator))) {
				return &Refusal{
					Reason: "temporary", File: p.path, Msg: "a " + p.what + " in " + dir + " is gone after the next start of the machine",
					Fix: "move it to a place that stays (say /usr/local/bin or ~/.hermes), or pass --home DIR", Code: exitcode.Usage,
				}
			}
		}
	}
	if standing != nil && standing.Home != "" && standing.Home != t.Home.Dir {
		return &Refusal{
			Reason: "other-home", File: standing.File, Msg: fmt.Sprintf("belongs to the gateway of %s, not of %s", standing.Home, t.Home.Dir),
			Fix: "hermes-appliance uninstall --home " + standing.Home + " takes that one off; then install again", Code: exitcode.Error,
		}
	}
	return nil
}

// Hardening is the profile of hardening that the service has, "" where it has none of ours. A
// drop-in that was taken away is a choice, too.
func (h Host) Hardening(t Target) service.Hardening {
	main, err := h.see(t.Kind, t.file())
	if err != nil || t.Kind != Systemd || !main.Prov.Ours {
		return ""
	}
	drop, err := h.see(t.Kind, filepath.Join(t.file()+".d", "10-hardening.conf"))
	switch {
	case err != nil || drop.Exists && !drop.Prov.Ours || drop.Link != "":
		return ""
	case !drop.Exists:
		return service.Unlocked
	case strings.Contains(string(drop.Data), "\nRestrictNamespaces=true\n"):
		return service.Balanced
	}
	return service.Agent
}
