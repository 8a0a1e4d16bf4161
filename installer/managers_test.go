// SPDX-License-Identifier: MIT

//go:build unix

package installer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// script is a service manager that is played from a list: for a command, what it answers each
// time, the last one for ever.
type script struct {
	answers map[string][]Result
	calls   []string
	id      Identity
	beat    int // the process of the heartbeat
	beatAge time.Duration
	root    string
}

func (s *script) run(_ context.Context, c Command) (Result, error) {
	line := strings.ReplaceAll(strings.Join(c.Argv, " "), s.root, "")
	s.calls = append(s.calls, line)
	for head, list := range s.answers {
		if strings.HasPrefix(line, head) {
			if len(list) > 1 {
				s.answers[head] = list[1:]
			}
			return list[0], nil
		}
	}
	return Result{}, nil
}

func (s *script) Identify(context.Context, string) (Identity, error) {
	if s.id.PID == 0 {
		return Identity{}, ErrNotRunning
	}
	return s.id, nil
}
func (s *script) Announce(string, int) error { s.calls = append(s.calls, "announce"); return nil }
func (s *script) LastReason(string) string   { return "" }
func (s *script) LastBeat(string) (int, time.Duration) {
	return s.beat, s.beatAge
}

func (s *script) host(t *testing.T, goos string) Host {
	t.Helper()
	s.root = t.TempDir()
	testkit.WriteTree(t, s.root, map[string]string{"Users/ada/.hermes/config.yaml": "_config_version: 50\n", "Users/ada/Library/": "", "etc/init.d/": "", "etc/runlevels/default/": "", "var/lib/": ""})
	return Host{
		OS: goos, Root: s.root, UID: 501, Getenv: func(n string) string { return map[string]string{"USERNAME": "ada", "USERDOMAIN": "HOST"}[n] },
		Lookup: func(context.Context, string) (Account, error) {
			return Account{Name: "ada", Group: "staff", Home: "/Users/ada", UID: 501, GID: 20}, nil
		},
		Run: s.run, Gateway: s, Sleep: func(context.Context, time.Duration) error { return nil },
	}
}

func (s *script) request(t *testing.T, h Host) Request {
	t.Helper()
	target, standing, err := h.Resolve(t.Context(), Choice{Home: "/Users/ada/.hermes"})
	if err != nil {
		t.Fatal(err)
	}
	spec := service.Spec{Name: target.Name, Scope: target.Scope, Home: target.Home.Dir, Exec: []string{"/opt/hermes-appliance", "gateway", "run"}}
	if target.Scope == service.System {
		spec.Account, spec.Group, spec.AccountHome = "ada", "staff", "/Users/ada"
	}
	return Request{Target: target, Standing: standing, Spec: spec}
}

// TestOpenRC: the commands of an installation and a removal, and what is in the script.
func TestOpenRC(t *testing.T) {
	t.Parallel()
	for _, kind := range []Kind{OpenRC, SysV} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := &script{answers: map[string][]Result{}}
			h := s.host(t, "linux")
			h.UID = 0
			if kind == OpenRC {
				testkit.WriteTree(t, s.root, map[string]string{"run/openrc/": ""})
			} else {
				testkit.WriteTree(t, s.root, map[string]string{"usr/sbin/update-rc.d": "", "etc/rc2.d/": ""})
			}
			link := map[Kind]string{OpenRC: "etc/runlevels/default/hermes-gateway", SysV: "etc/rc2.d/S01hermes-gateway"}[kind]
			inner := h.Run
			h.Run = func(ctx context.Context, c Command) (Result, error) {
				res, err := inner(ctx, c)
				switch line := strings.Join(c.Argv, " "); {
				case strings.Contains(line, " del ") || strings.HasSuffix(line, " remove"):
					os.Remove(filepath.Join(s.root, link))
				case strings.HasSuffix(line, "default"), strings.HasSuffix(line, "defaults"):
					if err := os.Symlink("x", filepath.Join(s.root, link)); err != nil {
						t.Error(err)
					}
				case strings.HasSuffix(line, " start"):
					s.id.PID = 5
				case strings.HasSuffix(line, " status") && s.id.PID == 0:
					res.Code = 3
				case strings.HasSuffix(line, " stop"):
					s.id.PID = 0
				}
				return res, err
			}
			testkit.WriteTree(t, s.root, map[string]string{filepath.Dir(link) + "/": ""})
			r := s.request(t, h)
			if r.Target.Kind != kind {
				t.Fatalf("%+v", r.Target)
			}
			// What starts by itself is looked up by name: the link must lead somewhere.
			testkit.WriteTree(t, filepath.Join(s.root, filepath.Dir(link)), map[string]string{"x": ""})
			if _, err := h.Install(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if rep, err := h.Preview(t.Context(), s.request(t, h)); err != nil || rep.Plan.Pending() {
				t.Errorf("a second time: %v %q", err, steps(rep.Plan))
			}
			info, err := os.Stat(filepath.Join(s.root, "etc/init.d/hermes-gateway"))
			if err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("%v %v", info, err)
			}
			if _, err := h.Uninstall(t.Context(), r.Target, false, false); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(s.root, "etc/init.d/hermes-gateway")); err == nil {
				t.Error("the script is still there")
			}
			all := strings.Join(s.calls, "\n")
			order := map[Kind][]string{
				OpenRC: {"rc-update add hermes-gateway default", "rc-service hermes-gateway start", "rc-service hermes-gateway stop", "rc-update del hermes-gateway default"},
				SysV:   {"update-rc.d hermes-gateway defaults", "/etc/init.d/hermes-gateway start", "/etc/init.d/hermes-gateway stop", "update-rc.d -f hermes-gateway remove"},
			}[kind]
			at := 0
			for _, want := range order {
				i := strings.Index(all[at:], want)
				if i < 0 {
					t.Fatalf("%q does not come in its turn:\n%s", want, all)
				}
				at += i
			}
		})
	}
}

// TestNames: the names of units, jobs and tasks lead back to the service.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"hermes-gateway", "hermes-gateway-work", "hermes-gateway-0123abcd"} {
		for _, kind := range []Kind{Launchd, Tasks, OpenRC, SysV} {
			if got := bare(kind, Target{Kind: kind, Name: name}.Unit()); got != name {
				t.Errorf("%s %s: got %s", kind, name, got)
			}
		}
	}
	for name, want := range map[string]bool{"hermes-gateway": true, "hermes-gateway-x": true, "hermes-gatewayd": false, "hermes": false} {
		if got := isGateway(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if s := fmt.Sprint(Target{Kind: Systemd, Name: "hermes-gateway"}.Unit()); s != "hermes-gateway.service" {
		t.Error(s)
	}
}
