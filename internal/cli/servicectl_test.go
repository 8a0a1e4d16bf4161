// SPDX-License-Identifier: MIT

package cli

import (
	"errors"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// TestStartable: a config that is merely older keeps nobody from a restart where the service
// brings it up to date itself; what the migration refuses does everywhere.
func TestStartable(t *testing.T) {
	t.Parallel()
	spec := service.Spec{
		Name: service.Base, Scope: service.System, Home: "/srv/h", Exec: []string{"/bin/x", "gateway", "run"},
		Account: "ada", Group: "ada", AccountHome: "/srv", Before: []string{"/bin/x", "migrate", "--home", "/srv/h", "--quiet"},
	}
	plain := spec
	plain.Before = nil
	render := func(kind installer.Kind, s service.Spec) string {
		var f service.File
		var files []service.File
		var err error
		switch kind {
		case installer.Systemd:
			if files, err = s.Systemd(); err == nil {
				f = files[0]
			}
		case installer.OpenRC:
			f, err = s.OpenRC()
		case installer.SysV:
			f, err = s.SysV()
		case installer.Launchd, installer.Tasks, installer.SCM:
			s.Scope, s.Account, s.Group = service.User, "", ""
			f, err = s.Launchd()
		}
		if err != nil {
			t.Fatal(err)
		}
		return f.Data
	}
	for name, c := range map[string]struct {
		kind   installer.Kind
		config string
		spec   service.Spec
		ours   bool
		want   exitcode.Code
	}{
		"systemd":                       {installer.Systemd, "_config_version: 46\n", spec, true, exitcode.OK},
		"openrc":                        {installer.OpenRC, "_config_version: 46\n", spec, true, exitcode.OK},
		"sysv":                          {installer.SysV, "_config_version: 46\n", spec, true, exitcode.OK},
		"launchd":                       {installer.Launchd, "_config_version: 46\n", spec, true, exitcode.Config},
		"windows":                       {installer.Tasks, "_config_version: 46\n", spec, true, exitcode.Config},
		"a unit of before":              {installer.Systemd, "_config_version: 46\n", plain, true, exitcode.Config},
		"a script of before":            {installer.SysV, "_config_version: 46\n", plain, true, exitcode.Config},
		"somebody else's unit":          {installer.Systemd, "_config_version: 46\n", spec, false, exitcode.Config},
		"a config that nobody can read": {installer.Systemd, "_config_version: [\n", spec, true, exitcode.Config},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			testkit.WriteTree(t, dir, map[string]string{"config.yaml": c.config})
			var seen installer.Observed
			seen.Kind, seen.Home = c.kind, home.Home{Dir: dir, Profile: home.Default}
			seen.File.Data, seen.File.Prov.Ours = []byte(render(c.kind, c.spec)), c.ours
			err := startable(seen, Env{Getenv: func(string) string { return "" }, Now: time.Now})
			if got := exitcode.Of(err); got != c.want {
				t.Errorf("exit %d, %v", got, err)
			}
			if c.want == exitcode.Config && c.config == "_config_version: 46\n" && !errors.Is(err, errOlder) {
				t.Errorf("another reason: %v", err)
			}
		})
	}
}

// TestUndone: where there is no service, start, stop and restart did nothing and do not say that
// they did.
func TestUndone(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]exitcode.Code{
		&installer.Refusal{Reason: "container", Msg: "no service", Code: exitcode.OK}:  exitcode.Error,
		&installer.Refusal{Reason: "managed", Msg: "not ours", Code: exitcode.Managed}: exitcode.Managed,
	} {
		if got := undone(err); exitcode.Of(got) != want || got.Error() != err.Error() {
			t.Errorf("%v: %v, exit %d, want %d", err, got, exitcode.Of(got), want)
		}
	}
}
