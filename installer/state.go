// SPDX-License-Identifier: MIT

package installer

import (
	"fmt"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// State is how a service is (services spec §7.2).
type State string

// The states.
const (
	Absent       State = "absent"             // no definition
	Foreign      State = "foreign"            // a definition that we did not write
	ReadOnly     State = "readonly"           // one that cannot be written here
	Managed      State = "managed"            // the home is somebody else's to configure
	Disabled     State = "installed-disabled" // it does not run and will not start by itself
	Unloaded     State = "installed-unloaded" // the manager has not read the definition, or is not there
	Stopped      State = "stopped"
	Starting     State = "starting"
	Ready        State = "ready"
	Degraded     State = "degraded"
	Wedged       State = "wedged"
	Restarting   State = "restart-pending" // it ended and the manager is about to start it again
	StartLimited State = "start-limited"   // it ended too often and the manager gave up
	Parked       State = "parked"          // it ended with 78: starting it again will not help
	Failed       State = "failed"
)

// facts are what the state is told from.
type facts struct {
	manager string // of the home, "" = nobody
	file    Seen   // the main file
	reached bool   // the manager answers
	props   Props
	answer  error // of the gateway; nil = it answered
	id      Identity
	wedged  bool // two witnesses say so
}

// state tells the state, why, and what helps.
func (f facts) state(t Target) (s State, reason, fix string) {
	ctl := "systemctl "
	if t.Scope == "user" {
		ctl += "--user "
	}
	switch {
	case !f.file.Exists && f.file.Link == "" && !f.props.Known:
		return Absent, "", "hermes-appliance install"
	case f.manager != "":
		return Managed, "the home is managed by " + f.manager, "change the service in the configuration of " + f.manager
	case f.props.Masked || f.file.Link == "/dev/null":
		return ReadOnly, "it is masked", ctl + "unmask " + t.Unit()
	case sealed(f.file.Owner):
		return ReadOnly, f.file.Owner, "change it where it comes from"
	case !f.file.Prov.Ours:
		return Foreign, "its definition was not written by hermes-appliance", "hermes-appliance install --force keeps a copy and replaces it"
	case !f.reached:
		return Unloaded, "the service manager cannot be asked", ""
	case !f.props.Known:
		return Unloaded, "the service manager has not read the definition", "hermes-appliance start"
	}
	return f.running(t, ctl)
}

// sealed tells what nobody can write from what only this user cannot.
func sealed(owner string) bool {
	return owner != "" && owner != "read-only file" && owner != "read-only directory"
}

// running tells the state of a service that its manager knows.
func (f facts) running(t Target, ctl string) (s State, reason, fix string) {
	p := f.props
	switch p.Active {
	case "failed":
		switch {
		case p.Exit == int(exitcode.Config):
			return Parked, fmt.Sprintf("it ended with %d: starting it again will not help", p.Exit), "hermes-appliance config check, then hermes-appliance start"
		case p.Result == "start-limit-hit":
			return StartLimited, "it ended too often", ctl + "reset-failed " + t.Unit() + ", then hermes-appliance start"
		}
		return Failed, fmt.Sprintf("result %s, exit %d", p.Result, p.Exit), "hermes-appliance logs, then hermes-appliance start"
	case "activating":
		if p.Sub == "auto-restart" {
			return Restarting, fmt.Sprintf("it ended with %d and is started again", p.Exit), "hermes-appliance logs"
		}
		return Starting, "", ""
	case "deactivating":
		return Stopped, "it is still stopping", ""
	case "active":
		switch {
		case f.wedged:
			return Wedged, "it answers nobody, and gave no sign of life to its manager", "hermes-appliance restart"
		case f.answer != nil:
			return Degraded, f.answer.Error(), "hermes-appliance restart"
		case p.PID > 0 && f.id.PID > 0 && f.id.PID != p.PID:
			return Degraded, fmt.Sprintf("process %d answers for this home, not the service's process %d", f.id.PID, p.PID), "stop the other one"
		case f.id.Degraded != "":
			return Degraded, f.id.Degraded, "hermes-appliance status"
		}
		return Ready, "", ""
	}
	if !p.Enabled {
		return Disabled, "", "hermes-appliance install enables it"
	}
	return Stopped, "", "hermes-appliance start"
}
