// SPDX-License-Identifier: MIT

//go:build unix

package installer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

const (
	label   = "ai.hermes.gateway"
	printed = "ai.hermes.gateway = {\n\tstate = running\n\tpid = 77\n\tlast exit code = (never exited)\n}\n"
)

// TestLaunchdInstall: the order of commands of a first installation (services spec §1.4).
func TestLaunchdInstall(t *testing.T) {
	t.Parallel()
	none := Result{Code: 113, Err: "Could not find service"}
	s := &script{id: Identity{}, answers: map[string][]Result{
		"launchctl print gui/501/" + label:  {none},
		"launchctl print user/501/" + label: {none},
		"launchctl managername":             {{Out: "Aqua\n"}},
		"launchctl print-disabled":          {{Out: "\t\"ai.hermes.gateway\" => disabled\n"}, {Out: "\t\"ai.hermes.gateway\" => enabled\n"}},
	}}
	h := s.host(t, "darwin")
	inner := h.Run
	h.Run = func(ctx context.Context, c Command) (Result, error) {
		res, err := inner(ctx, c)
		if c.Argv[1] == "bootstrap" {
			s.id.PID = 77
			s.answers["launchctl print gui/501/"+label] = []Result{{Out: printed}}
		}
		return res, err
	}
	rep, err := h.Install(t.Context(), s.request(t, h))
	if err != nil || rep.Observed.State != Ready || rep.Observed.Props.PID != 77 {
		t.Fatalf("%v %+v", err, rep.Observed)
	}
	verbs := slices.DeleteFunc(slices.Clone(s.calls), func(c string) bool {
		return strings.HasPrefix(c, "launchctl print") || strings.HasPrefix(c, "launchctl managername")
	})
	want := []string{
		"launchctl enable gui/501/ai.hermes.gateway", "launchctl enable gui/501/ai.hermes.gateway",
		"launchctl bootstrap gui/501 /Users/ada/Library/LaunchAgents/ai.hermes.gateway.plist",
	}
	if !slices.Equal(verbs, want) {
		t.Errorf("got %q, want %q", verbs, want)
	}
	path := filepath.Join(s.root, "Users/ada/Library/LaunchAgents/ai.hermes.gateway.plist")
	data, err := os.ReadFile(path)
	p := provenance(Launchd, data)
	if err != nil || !p.Ours || p.Edited || p.Home != "/Users/ada/.hermes" {
		t.Errorf("%v %+v\n%s", err, p, data)
	}
	if p := provenance(Launchd, append(data, ' ')); !p.Edited {
		t.Error("an edit is not seen")
	}
	if rep, err := h.Preview(t.Context(), s.request(t, h)); err != nil || rep.Plan.Pending() {
		t.Errorf("a second time: %v %q", err, steps(rep.Plan))
	}
}

// TestLaunchdStart: the exit codes of launchctl and what is done about each.
func TestLaunchdStart(t *testing.T) {
	t.Parallel()
	gone := Result{Code: 113}
	for name, c := range map[string]struct {
		answers map[string][]Result
		want    []string // the last commands
		fails   string
	}{
		"not loaded":                   {map[string][]Result{"launchctl print ": {gone}}, []string{"bootstrap"}, ""},
		"loaded":                       {map[string][]Result{"launchctl print ": {{Out: "x"}}}, []string{"kickstart"}, ""},
		"registered already (H#42006)": {map[string][]Result{"launchctl print ": {gone}, "launchctl bootstrap": {{Code: 5}, {}}}, []string{"bootstrap", "bootout", "bootstrap"}, ""},
		"cannot be managed":            {map[string][]Result{"launchctl print ": {gone}, "launchctl bootstrap": {{Code: 5}}}, []string{"bootstrap", "bootout", "bootstrap"}, "manages no jobs"},
		"no domain":                    {map[string][]Result{"launchctl print ": {gone}, "launchctl bootstrap": {{Code: 125}}}, []string{"bootstrap"}, "manages no jobs"},
		"another failure":              {map[string][]Result{"launchctl print ": {gone}, "launchctl bootstrap": {{Code: 78, Err: "bad plist"}}}, []string{"bootstrap"}, "bad plist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{answers: c.answers}
			h := s.host(t, "darwin")
			m := h.manager(s.request(t, h).Target)
			s.calls = nil
			err := m.Start(t.Context(), label)
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("%v", err)
			}
			var verbs []string
			for _, call := range s.calls[len(s.calls)-len(c.want):] {
				verbs = append(verbs, strings.Fields(call)[1])
			}
			if !slices.Equal(verbs, c.want) {
				t.Errorf("got %q, want %q", s.calls, c.want)
			}
		})
	}
}

// TestLaunchdRegisteredIsNotRunning: a job without a process is not one that runs (services spec §2.6).
func TestLaunchdRegisteredIsNotRunning(t *testing.T) {
	t.Parallel()
	s := &script{answers: map[string][]Result{"launchctl print gui": {{Out: "x = {\n\tstate = spawn scheduled\n\tlast exit code = 78\n}\n"}}}}
	h := s.host(t, "darwin")
	target := s.request(t, h).Target
	p, err := h.manager(target).Show(t.Context(), label)
	if err != nil || p.Running() || p.Active != "activating" || p.Exit != 78 {
		t.Errorf("%+v %v", p, err)
	}
	for code, fine := range map[int]bool{0: true, 3: true, 113: true, 125: true, 1: false} {
		s.answers["launchctl bootout"] = []Result{{Code: code}}
		if err := h.manager(target).Stop(t.Context(), label); (err == nil) != fine {
			t.Errorf("bootout exit %d: %v", code, err)
		}
	}
}

// TestTasks: registered anew each time, never changed in place (services spec §1.5), and a task
// that somebody switched off counts as one that does not start (H#113670).
func TestTasks(t *testing.T) {
	t.Parallel()
	missing := Result{Code: 1, Err: "ERROR: The system cannot find the file specified."}
	there := Result{Out: "<Task><WorkingDirectory>/Users/ada/.hermes</WorkingDirectory></Task>"}
	s := &script{id: Identity{PID: 9}, answers: map[string][]Result{"schtasks /Query": {missing}}}
	h := s.host(t, "windows")
	h.Root = s.root
	s.id.PID = 0
	inner := h.Run
	h.Run = func(ctx context.Context, c Command) (Result, error) {
		res, err := inner(ctx, c)
		switch c.Argv[1] {
		case "/Run":
			s.id.PID = 9
		case "/Create":
			s.answers["schtasks /Query"] = []Result{there}
		case "/Delete":
			s.answers["schtasks /Query"] = []Result{missing}
		case "/End":
			s.id.PID = 0
		}
		return res, err
	}
	r := s.request(t, h)
	if r.Target.Scope != service.User || r.Target.Unit() != "Hermes_Gateway" {
		t.Fatalf("%+v", r.Target)
	}
	if _, err := h.Install(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	changes := func() []string {
		out := slices.DeleteFunc(slices.Clone(s.calls), func(c string) bool { return strings.HasPrefix(c, "schtasks /Query") })
		s.calls = nil
		return out
	}
	create := "schtasks /Create /TN Hermes_Gateway /XML /Users/ada/.hermes/gateway-service/Hermes_Gateway.xml /F"
	if got, want := changes(), []string{create, "schtasks /Run /TN Hermes_Gateway"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if rep, err := h.Preview(t.Context(), s.request(t, h)); err != nil || rep.Plan.Pending() {
		t.Errorf("a second time: %v %q", err, steps(rep.Plan))
	}
	r.Spec.Exec[0] = "/opt/new/hermes-appliance"
	changes()
	if _, err := h.Install(t.Context(), r); err == nil || !strings.Contains(err.Error(), "process") {
		t.Logf("the same process: %v", err) // the played task does not change its process
	}
	if got := changes(); !slices.Contains(got, "schtasks /Delete /TN Hermes_Gateway /F") || !slices.Contains(got, create) {
		t.Errorf("not registered anew: %q", got)
	}
	s.answers["schtasks /Query"] = []Result{{Out: "<Settings><Enabled>false</Enabled></Settings>/Users/ada/.hermes"}}
	if p, err := h.manager(r.Target).Show(t.Context(), "Hermes_Gateway"); err != nil || p.Enabled {
		t.Errorf("switched off: %+v %v", p, err)
	}
}

// TestTasksDenied: "access denied" in the languages of schtasks.
func TestTasksDenied(t *testing.T) {
	t.Parallel()
	for _, said := range []string{
		"ERROR: Access is denied.", "FEHLER: Zugriff verweigert", "ERREUR : Accès refusé.", "ERROR: Acceso denegado.", "ERRORE: Accesso negato.",
		"ERRO: Acesso negado.", "ОШИБКА: Отказано в доступе.",
	} {
		if !denied(&commandError{[]string{"schtasks"}, Result{Code: 1, Err: said}}) {
			t.Errorf("%q is not understood", said)
		}
	}
	if denied(&commandError{[]string{"schtasks"}, Result{Code: 1, Err: "The network path was not found."}}) || denied(errors.New("x")) {
		t.Error("anything is taken for it")
	}
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
