// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer"
	"github.com/hermes-appliance/hermes-appliance/installer/doctor"
)

// serviceCheck looks at the service of a home, if one is installed.
func serviceCheck(h home.Home, env Env) doctor.Check {
	return doctor.Check{Name: "service", Run: func(ctx context.Context) []doctor.Finding {
		var o statusOptions
		o.home = h.Dir
		_, seen, err := o.look(ctx, env)
		if err != nil {
			return []doctor.Finding{{Level: doctor.Warning, Message: "it cannot be looked at: " + err.Error()}}
		}
		return serviceFindings(seen)
	}}
}

// serviceFindings judge what was seen; nil is a home without a service, which is in order.
func serviceFindings(o *installer.Observed) []doctor.Finding {
	if o == nil {
		return fine("none is installed")
	}
	f := doctor.Finding{Level: doctor.Warning, Message: fmt.Sprintf("%s is %s", o.Unit(), o.State), Fix: o.Fix}
	if o.Reason != "" {
		f.Message += ": " + o.Reason
	}
	switch o.State {
	case installer.Ready, installer.Starting, installer.Managed:
		f.Level, f.Fix = doctor.OK, ""
	case installer.Absent, installer.Foreign, installer.Stopped, installer.Restarting:
		f.Level = doctor.Note
	case installer.Parked, installer.Failed, installer.Wedged, installer.StartLimited:
		f.Level = doctor.Problem
	case installer.ReadOnly, installer.Disabled, installer.Unloaded, installer.Degraded:
	}
	out := []doctor.Finding{f}
	if o.Linger == "no" {
		out = append(out, doctor.Finding{Level: doctor.Warning, Message: "it ends with the last session of its user, and does not start with the machine (H#1005)", Fix: "hermes-appliance install"})
	}
	for _, n := range o.Notices {
		out = append(out, doctor.Finding{Level: doctor.Note, Message: n})
	}
	return out
}
