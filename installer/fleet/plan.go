// SPDX-License-Identifier: MIT

package fleet

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// Action is what a plan comes to.
type Action string

// The actions.
const (
	Nothing Action = "nothing" // it is as it was asked for
	Migrate Action = "migrate" // many gateways become one
	Resume  Action = "resume"  // an earlier migration is finished
	Restore Action = "restore" // one gateway becomes many again
	Finish  Action = "finish"  // of a way back only the default gateway is left to restart
)

// Finding is one thing that speaks against a plan, or that a person should know.
type Finding struct {
	Kind    string `json:"kind"` // a word for programs, e.g. duplicate-credential
	Profile string `json:"profile,omitempty"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
}

func (f Finding) String() string {
	if f.Fix == "" {
		return f.Message
	}
	return f.Message + "; " + f.Fix
}

// Plan is what would be done, and what speaks against it.
type Plan struct {
	Action      Action    `json:"action"`
	Home        string    `json:"default_home"`
	Profiles    []Profile `json:"profiles"`
	FlagOn      bool      `json:"multiplex_flag_on"`
	Served      []string  `json:"live_served"`
	Interrupted bool      `json:"interrupted"`
	Steps       []string  `json:"steps"`
	Blockers    []Finding `json:"blockers"`
	Notices     []Finding `json:"notices"`
}

// Blocked reports whether the plan may not be carried out.
func (p Plan) Blocked() bool { return len(p.Blockers) > 0 }

func (o Observed) plan(action Action) Plan {
	return Plan{
		Action: action, Home: o.Default.Dir, Profiles: o.Profiles, FlagOn: o.FlagOn, Served: o.Served, Interrupted: o.interrupted(),
		Steps: []string{}, Blockers: []Finding{}, Notices: []Finding{},
	}
}

// Multiplex plans the way to one gateway. An automatic run, by an updater, asks nobody: what a
// person may decide blocks it, it starts nothing that has not been running, and the profile's
// word can forbid it (H#110683).
func (o Observed) Multiplex(automatic bool) Plan {
	p := o.plan(Migrate)
	said := func(why Finding) Plan {
		p.Action = Nothing
		p.Notices = append(p.Notices, why)
		return p
	}
	switch {
	case automatic && o.OptedOut:
		return said(Finding{Kind: "opted-out", Message: "gateway.auto_multiplex_migration is off: the profiles keep their gateways"})
	case o.Refusal != "":
		p.Blockers = append(p.Blockers, Finding{Kind: "host", Message: o.Refusal})
		return p
	case o.ManifestErr != nil:
		p.Blockers = append(p.Blockers, Finding{Kind: "manifest", Message: o.ManifestErr.Error()})
		return p
	case o.unfinishedReturn():
		p.Blockers = append(p.Blockers, Finding{
			Kind: "unfinished-return", Message: "an earlier way back to separate gateways, or a migration that had only begun, was not finished: " + manifestPath(o.Default) + " says what there was",
			Fix: "run gateway migrate --standalone first, which finishes it",
		})
		return p
	case o.interrupted():
		return o.resume(p)
	case len(o.Profiles) < 2:
		return said(Finding{Kind: "one-profile", Message: "there is only one profile: nothing to bring together"})
	case o.converged():
		p = said(Finding{Kind: "already", Message: "the default gateway serves many profiles already"})
		for _, s := range o.standalone() {
			p.Notices = append(p.Notices, Finding{
				Kind: "beside", Profile: s.Name, Message: fmt.Sprintf("profile %s has a gateway of its own beside it (%s)", s.Name, footprint(s)), Fix: "remove that service",
			})
		}
		return p
	case automatic && len(o.standalone()) == 0:
		return said(Finding{Kind: "no-gateways", Message: "no named profile has a gateway of its own"})
	}
	o.check(&p, automatic)
	o.steps(&p, o.standalone())
	p.Notices = append(p.Notices, Finding{Kind: "new-profiles", Message: "profiles made later are served by the same gateway"})
	return p
}

// unfinishedReturn reports whether the flag is off and there still is a word of what was.
func (o Observed) unfinishedReturn() bool {
	return !o.FlagOn && o.Manifest != nil || o.Manifest == nil && o.record != nil && o.record.Last
}

// converged reports whether one gateway is meant to serve all. Without a manifest the flag
// alone says so little that gateways beside it are still brought in.
func (o Observed) converged() bool {
	on := o.FlagOn || len(o.Served) > 1
	return on && (o.Manifest != nil || len(o.standalone()) == 0)
}

// resume finishes what is half done. What speaks against it is said and stops nothing: the
// gateways are gone, and a refusal would leave the fleet without any.
func (o Observed) resume(p Plan) Plan {
	p.Action = Resume
	o.check(&p, false)
	for _, b := range p.Blockers {
		b.Message = "goes on in spite of this, for gateways are gone already: " + b.Message
		p.Notices = append(p.Notices, b)
	}
	p.Blockers = []Finding{}
	var left []Profile
	for _, s := range o.Manifest.Secondaries {
		if now := o.byName(s.Name); now.own() {
			left = append(left, now)
		}
	}
	o.steps(&p, left)
	return p
}

// steps lists what a migration does, in order.
func (o Observed) steps(p *Plan, gone []Profile) {
	add := func(format string, args ...any) { p.Steps = append(p.Steps, fmt.Sprintf(format, args...)) }
	t, account := o.target()
	def := o.byName(home.Default)
	if len(def.Services) > 0 {
		add("default: enable %s, so that the survivor comes back whatever happens", def.Services[0])
	}
	if p.Action == Migrate {
		add("write %s: what there is now, for the way back", manifestPath(o.Default))
	}
	if len(def.Services) == 0 && t != nil {
		as := ""
		if t.System && account != "" {
			as = " as " + account
		}
		add("default: install %s%s", t, as)
	}
	for _, s := range gone {
		add("%s: stop and remove %s", s.Name, footprint(s))
	}
	add("default: set gateway.multiplex_profiles: true in %s", o.Default.Config())
	switch {
	case t == nil && def.PID > 0:
		add("default: restart its gateway, process %d, detached", def.PID)
	case t == nil:
		add("default: start its gateway, detached")
	default:
		add("default: restart its gateway under %s", t)
	}
	add("wait until it says that it serves %d profiles", len(o.Profiles))
}

// footprint names what a profile has, e.g. "systemd (user) and process 12".
func footprint(p Profile) string {
	var parts []string
	for _, s := range p.Services {
		parts = append(parts, s.String())
	}
	if p.PID > 0 {
		parts = append(parts, fmt.Sprintf("process %d", p.PID))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, " and ")
}

// Standalone plans the way back.
func (o Observed) Standalone() Plan {
	p := o.plan(Restore)
	m := o.Manifest
	switch {
	case o.Refusal != "":
		p.Blockers = append(p.Blockers, Finding{Kind: "host", Message: o.Refusal})
		return p
	case o.ManifestErr != nil:
		p.Blockers = append(p.Blockers, Finding{Kind: "manifest", Message: o.ManifestErr.Error()})
		return p
	case m == nil && o.record != nil && o.record.Last:
		p.Action, m = Finish, &o.record.Manifest
	case m == nil && !o.FlagOn && len(o.Served) < 2:
		p.Action = Nothing
		p.Notices = append(p.Notices, Finding{Kind: "already", Message: "every profile has its own gateway, or none; there is no migration to take back"})
		return p
	case m == nil:
		p.Blockers = append(p.Blockers, Finding{
			Kind: "no-manifest", Message: manifestPath(o.Default) + " is not there: nobody knows which gateways there were",
			Fix: "unset gateway.multiplex_profiles, restart the default gateway, and install a service for each profile",
		})
		return p
	}
	o.checkReturn(&p, *m)
	o.returnSteps(&p, *m)
	return p
}

func (o Observed) returnSteps(p *Plan, m Manifest) {
	add := func(format string, args ...any) { p.Steps = append(p.Steps, fmt.Sprintf(format, args...)) }
	if p.Action == Restore {
		was := "as it was"
		if o.record == nil {
			was = fmt.Sprint(m.FlagWas)
		}
		add("default: put gateway.multiplex_profiles back, %s, in %s", was, o.Default.Config())
		add("default: take the other profiles out of %s", filepath.Base(statePath(o.Default)))
		for _, s := range m.Secondaries {
			how := "start " + s.Name + "'s gateway again, detached"
			if len(s.Services) > 0 {
				how = s.Name + ": install and start " + footprint(Profile{Services: s.Services})
			}
			add("%s", how)
		}
		add("remove %s", manifestPath(o.Default))
	}
	switch t, _ := m.target(); {
	case len(m.Default.Services) > 0:
		add("default: restart its gateway under %s, last", m.Default.Services[0])
	case m.Default.PID > 0:
		add("default: restart its gateway, detached, last")
	case t != nil:
		add("default: stop and remove %s, which it did not have", t)
	default:
		add("default: stop its gateway, which did not run")
	}
}
