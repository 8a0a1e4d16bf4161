// SPDX-License-Identifier: MIT

package fleet

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// check finds what speaks against a migration. What only an operator may decide is a notice,
// and a blocker where nobody is there to decide.
func (o Observed) check(p *Plan, automatic bool) {
	block := func(f Finding) { p.Blockers = append(p.Blockers, f) }
	for _, q := range o.Profiles {
		if err := o.FactsErr[q.Name]; err != nil {
			block(Finding{Kind: "unreadable", Profile: q.Name, Message: fmt.Sprintf("profile %s: its config cannot be read: %v", q.Name, err)})
		}
	}
	o.duplicates(block)
	asked := map[Service]bool{}
	o.listeners(block, func(f Finding) { p.Notices = append(p.Notices, f) })
	if o.FlagErr != nil {
		block(Finding{Kind: "flag", Profile: home.Default, Message: "gateway.multiplex_profiles cannot be turned on: " + o.FlagErr.Error()})
	}
	t, _ := o.target()
	if t != nil {
		o.reachable(block, asked, *t)
	}
	if o.AccountErr != nil {
		block(Finding{Kind: "account", Profile: home.Default, Message: "the default gateway's service has no account to run as: " + o.AccountErr.Error()})
	}
	for _, q := range o.standalone() {
		o.reachable(block, asked, q.Services...)
		if slices.Contains(o.Inside, q.Name) {
			block(Finding{Kind: "inside", Profile: q.Name, Message: fmt.Sprintf("this command runs inside the gateway of %s, which would be stopped and this command with it", q.Name), Fix: "run it from a shell of your own"})
		}
	}
	for _, q := range o.Profiles {
		o.foreign(block, q)
	}
	for _, f := range o.guards() {
		if automatic {
			block(f)
		} else {
			p.Notices = append(p.Notices, f)
		}
	}
}

// duplicates refuses one credential in two profiles: a platform lets one connection use it, so
// one of the two would fall silent. The default profile's claim counts first. The side that
// came from the environment is named: its file does not show it.
func (o Observed) duplicates(block func(Finding)) {
	type owned struct {
		profile string
		claim   Claim
	}
	owners := map[[2]string]owned{}
	for _, q := range o.Profiles {
		for _, c := range o.Facts[q.Name].Claims {
			key := [2]string{c.Platform, c.Fingerprint}
			first, taken := owners[key]
			if !taken {
				owners[key] = owned{q.Name, c}
				continue
			}
			if first.profile == q.Name {
				continue
			}
			block(Finding{
				Kind: "duplicate-credential", Profile: q.Name,
				Message: fmt.Sprintf("profiles %s and %s hold the same %s credential: %s of %s in %s, %s of %s in %s", first.profile, q.Name, c.Platform,
					first.claim.Keys, first.profile, first.claim.Origin, c.Keys, q.Name, c.Origin),
				Fix: fix(first.claim, c, q.Name),
			})
		}
	}
}

func fix(first, second Claim, name string) string {
	for _, c := range []Claim{first, second} {
		if c.Origin == FromEnvironment {
			return "unset " + c.Keys + " where this command runs, and where the gateway is started"
		}
	}
	return fmt.Sprintf("give %s a credential of its own, or take %s out of one of the two", name, second.Keys)
}

// listeners: one process has one listener a platform. A platform that answers below
// /p/<profile>/ moves there; one that does not would take the whole profile with it.
func (o Observed) listeners(block, notice func(Finding)) {
	for _, q := range o.secondaries() {
		for _, l := range o.Facts[q.Name].Listeners {
			if !l.Prefix {
				block(Finding{
					Kind: "listener", Profile: q.Name,
					Message: fmt.Sprintf("profile %s has %s on, which binds a port of its own and answers nothing below /p/%s/", q.Name, l.Platform, q.Name),
					Fix:     fmt.Sprintf("set platforms.%s.enabled: false there", l.Platform),
				})
				continue
			}
			notice(Finding{
				Kind: "url", Profile: q.Name,
				Message: fmt.Sprintf("profile %s: %s moves to %s; its key stays, and clients of the old port must be told", q.Name, l.Platform, o.url(l.Platform, q.Name)),
			})
		}
	}
}

// url is where a profile's platform answers afterwards, on the default profile's listener.
func (o Observed) url(platform, profile string) string {
	host, port, tail := "127.0.0.1", 8642, "/v1/..."
	if platform == "webhook" {
		host, port, tail = "0.0.0.0", 8644, "/webhooks/<route>"
	}
	for _, l := range o.Facts[home.Default].Listeners {
		if l.Platform == platform {
			host, port = l.Host, l.Port
		}
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(port)) + "/p/" + profile + tail
}

// reachable blocks on units that this process cannot change, each kind once.
func (o Observed) reachable(block func(Finding), asked map[Service]bool, services ...Service) {
	for _, s := range services {
		if err := o.NotReady[s]; err != nil && !asked[s] {
			asked[s] = true
			block(Finding{Kind: "manager", Message: fmt.Sprintf("%s: %v", s, err)})
		}
	}
}

// foreign blocks on what is not this home's, or not this user's, to stop.
func (o Observed) foreign(block func(Finding), q Profile) {
	if q.PID > 0 && !o.Root && q.UID != nil && *q.UID != o.UID {
		block(Finding{Kind: "process", Profile: q.Name, Message: fmt.Sprintf("the gateway of %s, process %d, belongs to user %d", q.Name, q.PID, *q.UID), Fix: "run as that user or as root"})
	}
	for _, u := range q.units {
		if u.Foreign != "" && q.Name != home.Default {
			block(Finding{Kind: "foreign-unit", Profile: q.Name, Message: fmt.Sprintf("%s of %s is not this program's to remove: %s", u.Name, q.Name, u.Foreign), Fix: "take it out where it is declared"})
		}
		if u.Home != "" && real(u.Home) != real(q.Home) && exists(u.Home) {
			block(Finding{
				Kind: "other-home", Profile: q.Name, Message: fmt.Sprintf("%s runs the home %s, not %s: it belongs to another installation", u.Name, u.Home, q.Home),
				Fix: "run this command for that home, or remove the unit yourself",
			})
		}
	}
}

// guards are borders that no automatic run crosses: another manager, two units of one profile,
// another account, a home elsewhere.
func (o Observed) guards() (out []Finding) {
	add := func(kind string, q Profile, format string, args ...any) {
		out = append(out, Finding{Kind: kind, Profile: q.Name, Message: fmt.Sprintf("profile %s: ", q.Name) + fmt.Sprintf(format, args...)})
	}
	def := o.byName(home.Default)
	t, _ := o.target()
	for _, q := range append([]Profile{def}, o.standalone()...) {
		if len(q.Services) > 1 || len(q.units) > 1 {
			add("many-units", q, "more than one unit is installed (%s)", footprint(Profile{Services: q.Services}))
		}
		if q.RuntimeHome != "" && !within(q.RuntimeHome, o.Default.Dir+"/profiles") {
			add("runtime-home", q, "its unit runs the home %s, outside of %s/profiles", q.RuntimeHome, o.Default.Dir)
		}
		if q.UID == nil && q.own() {
			add("user", q, "whose gateway it is cannot be told (account %q)", q.RunAs)
		}
		if q.Name == home.Default {
			continue
		}
		if t != nil && len(q.Services) > 0 && !q.has(*t) {
			add("manager-differs", q, "its gateway runs under %s, the one gateway will under %s", q.Services[0], t)
		}
		if q.UID != nil && def.UID != nil && *q.UID != *def.UID {
			add("user", q, "its gateway runs as user %d, the default one as %d", *q.UID, *def.UID)
		}
	}
	return out
}

// checkReturn finds what speaks against a way back.
func (o Observed) checkReturn(p *Plan, m Manifest) {
	block := func(f Finding) { p.Blockers = append(p.Blockers, f) }
	asked := map[Service]bool{}
	o.reachable(block, asked, m.Default.Services...)
	if t, _ := m.target(); t != nil {
		o.reachable(block, asked, *t)
	}
	for _, q := range m.Secondaries {
		if p.Action == Restore {
			o.reachable(block, asked, q.Services...)
			if now := o.byName(q.Name); now.Name == "" {
				p.Notices = append(p.Notices, Finding{Kind: "gone", Profile: q.Name, Message: fmt.Sprintf("profile %s does not exist any more; it gets no gateway", q.Name)})
			} else if real(q.Home) != real(now.Home) {
				block(Finding{Kind: "manifest", Profile: q.Name, Message: fmt.Sprintf("%s says that %s lives in %s, but it lives in %s", manifestPath(o.Default), q.Name, q.Home, now.Home), Fix: "repair the manifest"})
			}
		}
	}
	def := o.byName(home.Default)
	if def.PID > 0 && !o.Root && def.UID != nil && *def.UID != o.UID {
		o.foreign(block, def)
	}
	if slices.Contains(o.Inside, home.Default) && len(m.Default.Services) == 0 {
		block(Finding{Kind: "inside", Profile: home.Default, Message: "this command runs inside the default gateway, which would be taken away and this command with it", Fix: "run it from a shell of your own"})
	}
}
