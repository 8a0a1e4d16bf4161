// SPDX-License-Identifier: MIT

package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// managed is a Systemd over directories of the test's own, with a systemctl that notes what it
// is asked.
type managed struct {
	*Systemd

	t    *testing.T
	dir  string
	ran  []string
	fail string // a command that begins like this exits 1
}

func newManaged(t *testing.T) *managed {
	t.Helper()
	m := &managed{t: t, dir: t.TempDir()}
	testkit.WriteTree(t, m.dir, map[string]string{"sys/": "", "user/": "", ".hermes/profiles/work/": "", ".hermes/profiles/fun/": "", "other/profiles/work/": ""})
	m.Systemd = &Systemd{
		SystemDir: filepath.Join(m.dir, "sys"), UserDir: filepath.Join(m.dir, "user"), Default: m.home(home.Default), Platform: filepath.Join(m.dir, ".hermes"),
		Lookup: func(name string) (int, error) {
			if name == "ada" {
				return 1000, nil
			}
			return 0, errors.New("unknown user")
		},
		Systemctl: func(_ context.Context, args ...string) (string, int, error) {
			line := strings.Join(slices.DeleteFunc(args, func(a string) bool { return a == "--no-ask-password" }), " ")
			m.ran = append(m.ran, line)
			switch {
			case m.fail != "" && strings.HasPrefix(line, m.fail):
				return "it is broken", 1, nil
			case strings.Contains(line, "is-system-running"):
				return "degraded\n", 1, nil
			case strings.Contains(line, "ActiveState"):
				return "ActiveState=active\nUnitFileState=disabled\n", 0, nil
			}
			return "", 0, nil
		},
	}
	return m
}

func (m *managed) home(name string) home.Home {
	if name == home.Default {
		return home.Home{Dir: filepath.Join(m.dir, ".hermes"), Profile: name}
	}
	return home.Home{Dir: filepath.Join(m.dir, ".hermes", "profiles", name), Profile: name}
}

// unit is a unit file that pins a home, "" = none.
func unit(pinned, account string) string {
	text := "[Service]\nExecStart=/bin/x\n"
	if pinned != "" {
		text += fmt.Sprintf("Environment=\"PATH=/bin\" \"HERMES_HOME=%s\"\n", pinned)
	}
	if account != "" {
		text += "User=" + account + "\n"
	}
	return text
}

// TestReport12_UnitsByTheirHome: H#109476. A unit belongs to the home that it pins, whatever its
// name; one that pins nothing, or a home that is nobody's here, to the home of its name.
func TestReport12_UnitsByTheirHome(t *testing.T) {
	t.Parallel()
	m := newManaged(t)
	work, fun, def := m.home("work").Dir, m.home("fun").Dir, m.home(home.Default).Dir
	other := filepath.Join(m.dir, "other", "profiles", "work")
	testkit.WriteTree(t, m.dir, map[string]string{
		"user/hermes-gateway.service":             unit(work, ""),       // the bare name, from before profiles had names
		"user/hermes-gateway-fun.service":         unit("", ""),         // by name
		"sys/hermes-gateway-fun.service":          unit(fun, "ada"),     // and by home
		"sys/hermes-gateway-work.service":         unit(other, "zoe"),   // another installation's
		"sys/hermes-gateway-0123abcd.service":     unit(def, ""),        // a hash of long ago
		"sys/hermes-gatewayd.service":             unit(work, ""),       // not of the family
		"sys/hermes-serve.service":                unit(work, ""),       // of another one
		"sys/hermes-gateway-x.service":            unit("/nowhere", ""), // nobody's
		"sys/hermes-gateway-fun.service.d/a.conf": "[Service]\nNice=1\n",
	})
	if err := os.Symlink("/nix/store/gone", filepath.Join(m.dir, "user/hermes-gateway-work.service")); err != nil {
		t.Fatal(err)
	}
	uid := func(u *int) string {
		if u == nil {
			return "?"
		}
		return fmt.Sprint(*u)
	}
	for name, want := range map[string][]string{
		home.Default: {"system hermes-gateway-0123abcd.service ada? 0 pins " + def},
		"work": {
			"user hermes-gateway-work.service foreign it is a link to /nix/store/gone", "user hermes-gateway.service pins " + work,
			"system hermes-gateway-work.service as zoe ? pins " + other,
		},
		"fun": {"user hermes-gateway-fun.service", "system hermes-gateway-fun.service as ada 1000 pins " + fun + " files 2"},
	} {
		units, err := m.Units(t.Context(), m.home(name))
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, u := range units {
			s := scopeName(u.Service) + " " + u.Name
			if u.Account != "" {
				s += " as " + u.Account + " " + uid(u.UID)
			} else if u.System {
				s += " ada? " + uid(u.UID)
			}
			if u.Home != "" {
				s += " pins " + u.Home
			}
			if u.Foreign != "" {
				s += " foreign " + u.Foreign
			}
			if len(u.Files) > 1 {
				s += fmt.Sprintf(" files %d", len(u.Files))
			}
			if !u.Active || !u.Disabled { // as the played manager says
				t.Errorf("%s: active %v, disabled %v", u.Name, u.Active, u.Disabled)
			}
			got = append(got, s)
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestUninstallAndInstall: exactly the files that were there come back; drop-ins that somebody
// wrote never go.
func TestUninstallAndInstall(t *testing.T) {
	t.Parallel()
	m := newManaged(t)
	ours := service.Unit{Home: "h", Options: []service.Option{{Section: "Service", Name: "Nice", Value: "2"}}}.String()
	socket := service.Unit{Home: "h", Options: []service.Option{{Section: "Socket", Name: "Service", Value: "hermes-gateway-work.service"}}}.String()
	testkit.WriteTree(t, m.dir, map[string]string{
		"sys/hermes-gateway-work.service": unit(m.home("work").Dir, "ada"), "sys/hermes-gateway-work.service.d/10-hardening.conf": ours,
		"sys/hermes-gateway-work.socket": socket, "sys/hermes-gateway-x.socket": "[Socket]\nService=hermes-gateway-work.service\n",
		"sys/hermes-gateway-work.service.d/mine.conf": "[Service]\nNice=1\n", "sys/hermes-gateway-fun.service": unit(m.home("fun").Dir, ""),
	})
	before := testkit.ReadTree(t, m.dir)
	s, work := Service{"systemd", true}, m.home("work")
	units, err := m.Units(t.Context(), work)
	if err != nil || len(units) != 1 || len(units[0].Files) != 4 {
		t.Fatalf("%+v, %v", units, err)
	}
	m.ran = nil
	if err := m.Uninstall(t.Context(), work, s); err != nil {
		t.Fatal(err)
	}
	want := []string{"stop hermes-gateway-work.socket", "stop hermes-gateway-work.service", "disable hermes-gateway-work.socket", "disable hermes-gateway-work.service", "daemon-reload", "reset-failed hermes-gateway-work.service"}
	if !reflect.DeepEqual(m.ran, want) {
		t.Errorf("ran %q", m.ran)
	}
	left := testkit.ReadTree(t, m.dir)
	if len(left) != 3 || left["sys/hermes-gateway-x.socket"] == "" || left["sys/hermes-gateway-work.service.d/mine.conf"] == "" || left["sys/hermes-gateway-fun.service"] == "" {
		t.Errorf("left %v", left)
	}
	if err := m.Uninstall(t.Context(), work, s); err != nil {
		t.Errorf("of nothing: %v", err)
	}
	m.ran = nil
	if err := m.Systemd.Install(t.Context(), s, units[0].Files); err != nil {
		t.Fatal(err)
	}
	if want := []string{"daemon-reload", "enable hermes-gateway-work.service hermes-gateway-work.socket"}; !reflect.DeepEqual(m.ran, want) {
		t.Errorf("ran %q", m.ran)
	}
	if diff := cmp.Diff(before, testkit.ReadTree(t, m.dir)); diff != "" {
		t.Errorf("not as before:\n%s", diff)
	}
}

// TestManagerFails: a stop that fails is reported and removes nothing; an installation that
// fails leaves nothing; what somebody wrote meanwhile is never overwritten.
func TestManagerFails(t *testing.T) {
	t.Parallel()
	s := Service{"systemd", false}
	for name, row := range map[string]struct {
		fail string
		do   func(m *managed, files []File) error
		left int
	}{
		"stop":          {"--user stop", func(m *managed, _ []File) error { return m.Uninstall(m.t.Context(), m.home("work"), s) }, 1},
		"disable":       {"--user disable", func(m *managed, _ []File) error { return m.Uninstall(m.t.Context(), m.home("work"), s) }, 1},
		"enable":        {"--user enable", func(m *managed, _ []File) error { return m.Enable(m.t.Context(), m.home("work"), s) }, 1},
		"start":         {"--user start", func(m *managed, _ []File) error { return m.Start(m.t.Context(), m.home("work"), s) }, 1},
		"start nothing": {"", func(m *managed, _ []File) error { return m.Start(m.t.Context(), m.home("fun"), s) }, 1},
		"install: reload": {"--user daemon-reload", func(m *managed, files []File) error {
			return errors.Join(os.Remove(files[0].Path), m.Systemd.Install(m.t.Context(), s, files))
		}, 0},
		"install: enable": {"--user enable", func(m *managed, files []File) error {
			return errors.Join(os.Remove(files[0].Path), m.Systemd.Install(m.t.Context(), s, files))
		}, 0},
		"install over another's": {"", func(m *managed, files []File) error {
			files[0].Data = []byte("else")
			return m.Systemd.Install(m.t.Context(), s, files)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManaged(t)
			testkit.WriteTree(t, m.dir, map[string]string{"user/hermes-gateway-work.service": unit(m.home("work").Dir, "")})
			units, err := m.Units(t.Context(), m.home("work"))
			if err != nil {
				t.Fatal(err)
			}
			m.fail = row.fail
			err = row.do(m, units[0].Files)
			if err == nil || row.fail != "" && !strings.Contains(err.Error(), "it is broken") {
				t.Errorf("got %v", err)
			}
			if got := testkit.ReadTree(t, m.dir); len(got) != row.left {
				t.Errorf("left %v", got)
			}
		})
	}
}

// TestReady: who may change which units, and what helps who may not.
func TestReady(t *testing.T) {
	t.Parallel()
	sys, usr := Service{"systemd", true}, Service{"systemd", false}
	for name, row := range map[string]struct {
		s          Service
		uid, owner int
		fail, want string // want: in the error; "" = none
	}{
		"root, system":              {sys, 0, 1000, "", ""},
		"user, system":              {sys, 1000, 1000, "", "sudo"},
		"user, own":                 {usr, 1000, 1000, "", ""},
		"root, a user's":            {usr, 0, 1000, "", "as that user"},
		"no manager (H#43748)":      {usr, 1000, 1000, "--user is-system-running", "loginctl enable-linger 1000"},
		"no manager of the machine": {sys, 0, 0, "is-system-running", "does not answer"},
		"launchd":                   {Service{"launchd", false}, 0, 0, "", "launchd"},
	} {
		m := newManaged(t)
		m.UID, m.Owner, m.fail = row.uid, &row.owner, row.fail
		err := m.Ready(t.Context(), row.s)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %q", name, err, row.want)
		}
	}
	m := newManaged(t)
	for account, ok := range map[string]bool{"ada": true, "": false, "zoe": false} {
		if err := m.Account(account); (err == nil) != ok {
			t.Errorf("account %q: %v", account, err)
		}
	}
}

// TestInside: a command knows when it runs in the control group of a gateway.
func TestInside(t *testing.T) {
	t.Parallel()
	m := newManaged(t)
	testkit.WriteTree(t, m.dir, map[string]string{"sys/hermes-gateway-work.service": unit(m.home("work").Dir, "")})
	for cgroup, want := range map[string]bool{
		"0::/system.slice/hermes-gateway-work.service":     true,
		"0::/system.slice/hermes-gateway-work.service/x":   true,
		"0::/system.slice/hermes-gateway-work.service.bak": false,
		"0::/user.slice": false,
	} {
		if m.Cgroup = cgroup; m.Inside(m.home("work")) != want || m.Inside(m.home("fun")) {
			t.Errorf("%s: %v", cgroup, !want)
		}
	}
}
