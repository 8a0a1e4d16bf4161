// SPDX-License-Identifier: MIT

package cli

import (
	"testing"

	"github.com/hermes-appliance/hermes-appliance/installer"
	"github.com/hermes-appliance/hermes-appliance/installer/doctor"
)

func TestDoctorService(t *testing.T) {
	t.Parallel()
	if found := serviceFindings(nil); len(found) != 1 || found[0].Level != doctor.OK {
		t.Errorf("none: %+v", found)
	}
	for state, want := range map[installer.State]doctor.Level{
		installer.Absent: doctor.Note, installer.Foreign: doctor.Note, installer.ReadOnly: doctor.Warning, installer.Managed: doctor.OK,
		installer.Disabled: doctor.Warning, installer.Unloaded: doctor.Warning, installer.Stopped: doctor.Note, installer.Starting: doctor.OK,
		installer.Ready: doctor.OK, installer.Degraded: doctor.Warning, installer.Wedged: doctor.Problem, installer.Restarting: doctor.Note,
		installer.StartLimited: doctor.Problem, installer.Parked: doctor.Problem, installer.Failed: doctor.Problem,
	} {
		if found := serviceFindings(&installer.Observed{State: state, Fix: "do it"}); len(found) != 1 || found[0].Level != want || want == doctor.Problem && found[0].Fix == "" {
			t.Errorf("%s: %+v, want %s", state, found, want)
		}
	}
	// H#1005, H#43748: a user's service that ends with the session is told of.
	found := serviceFindings(&installer.Observed{State: installer.Ready, Linger: "no", Notices: []string{"two scopes"}})
	if len(found) != 3 || found[1].Level != doctor.Warning || found[2].Message != "two scopes" {
		t.Errorf("linger: %+v", found)
	}
}
