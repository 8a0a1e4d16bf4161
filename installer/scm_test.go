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

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// fakeSCM is a service control manager that is played.
type fakeSCM struct {
	script

	t      *testing.T
	line   string // that the service runs; "" = there is none
	start  string
	pid    int
	next   int
	code   int
	lag    int // how often a service that was told to stop is still stopping
	refuse map[string]Result
	calls  []string
}

func newSCM(t *testing.T, f *fakeSCM) Host {
	t.Helper()
	f.t, f.next = t, 100
	h := f.script.host(t, "windows")
	testkit.WriteTree(t, f.root, map[string]string{"ProgramFiles/": ""})
	h.Run, h.Gateway, h.UID = f.run, f, -1
	h.Getenv = func(n string) string { return map[string]string{"USERNAME": "ada", "ProgramFiles": "/ProgramFiles"}[n] }
	return h
}

func (f *fakeSCM) Identify(context.Context, string) (Identity, error) {
	if f.pid == 0 || f.lag > 0 {
		return Identity{}, ErrNotRunning
	}
	return Identity{PID: f.pid}, nil
}
func (f *fakeSCM) Announce(string, int) error { f.calls = append(f.calls, "announce"); return nil }

func (f *fakeSCM) run(_ context.Context, c Command) (Result, error) {
	argv := c.Argv
	verb := argv[1]
	if verb != "qc" && verb != "queryex" {
		f.calls = append(f.calls, strings.Join(argv[:2], " "))
	}
	if res, ok := f.refuse[verb]; ok {
		return res, nil
	}
	switch argv[0] {
	case "reg.exe", "icacls.exe":
		return Result{}, nil
	case "sc.exe":
	default:
		f.t.Errorf("an unknown program: %q", argv)
	}
	if argv[2] != "Hermes_Gateway" {
		f.t.Errorf("another service: %q", argv)
	}
	return f.sc(verb, argv[3:]), nil
}

func (f *fakeSCM) sc(verb string, args []string) Result {
	missing := Result{Code: 1060, Out: "[SC] OpenService FEHLER 1060:\n"}
	if f.line == "" && verb != "create" {
		return missing
	}
	after := func(name string) (string, bool) {
		i := slices.Index(args, name)
		if i < 0 {
			return "", false
		}
		return args[i+1], true
	}
	switch verb {
	case "create", "config":
		if (verb == "create") != (f.line == "") {
			f.t.Errorf("%s of a service with the line %q", verb, f.line)
		}
		if line, ok := after("binPath="); ok {
			f.line = line
		}
		if start, ok := after("start="); ok {
			f.start = start
		}
	case "description", "failure", "failureflag":
	case "qc":
		code := map[string]string{"delayed-auto": "2   AUTO_START  (DELAYED)", "demand": "3   DEMAND_START"}[f.start]
		return Result{Out: "[SC] QueryServiceConfig ERFOLG\r\n\r\nSERVICE_NAME: Hermes_Gateway\r\n        TYP                : 10  WIN32_OWN_PROCESS\r\n        STARTTYP           : " + code +
			"\r\n        FEHLERSTEUERUNG    : 1   NORMAL\r\n        BINÄRER_PFADNAME   : " + f.line + "\r\n        LADEGRUPPE         : \r\n"}
	case "queryex":
		state := "1  STOPPED"
		switch {
		case f.lag > 0:
			f.lag--
			state = "3  STOP_PENDING"
		case f.pid > 0:
			state = "4  RUNNING\r\n                                (STOPPABLE, NOT_PAUSABLE)"
		}
		return Result{Out: fmt.Sprintf("\r\nSERVICE_NAME: Hermes_Gateway\r\n        TYPE   : 10  WIN32_OWN_PROCESS\r\n        STATE  : %s\r\n        WIN32_EXIT_CODE : 1066  (0x42a)\r\n"+
			"        SERVICE_EXIT_CODE : %d  (0x4b)\r\n        CHECKPOINT : 0x0\r\n        WAIT_HINT : 0x0\r\n        PID : %d\r\n        FLAGS : \r\n", state, f.code, f.pid)}
	case "start":
		f.next++
		f.pid = f.next
	case "stop":
		f.pid, f.lag = 0, 2
	case "delete":
		f.line = ""
	default:
		f.t.Errorf("an unknown verb: %s", verb)
	}
	return Result{}
}

func (f *fakeSCM) request(t *testing.T, h Host, program string) Request {
	t.Helper()
	target, standing, err := h.Resolve(t.Context(), Choice{Scope: service.System, Home: "/Users/ada/.hermes"})
	if err != nil {
		t.Fatal(err)
	}
	spec := service.Spec{Name: target.Name, Scope: target.Scope, Home: target.Home.Dir, Exec: []string{program, "gateway", "run"}, Account: `PC\ada`}
	return Request{Target: target, Standing: standing, Spec: spec}
}

// TestSCM: the life of a service of the Windows Service Control Manager, with answers in another
// language than ours.
func TestSCM(t *testing.T) {
	t.Parallel()
	f := &fakeSCM{}
	h := newSCM(t, f)
	r := f.request(t, h, "/opt/hermes-appliance")
	rep, err := h.Install(t.Context(), r)
	if err != nil || rep.Observed.State != Ready || rep.Observed.Props.PID != f.pid || !rep.Observed.Props.Enabled {
		t.Fatalf("%v %+v", err, rep.Observed)
	}
	want := []string{"sc.exe create", "sc.exe description", "sc.exe failure", "sc.exe failureflag", "reg.exe add", "icacls.exe /Users/ada/.hermes", "sc.exe config", "sc.exe start"}
	if !slices.Equal(f.calls, want) || f.line != "/opt/hermes-appliance gateway run --home /Users/ada/.hermes" {
		t.Errorf("got %q, %s", f.calls, f.line)
	}
	// Whoever names no scope means the one that stands.
	target, standing, err := h.Resolve(t.Context(), Choice{Home: "/Users/ada/.hermes"})
	if err != nil || target.Kind != SCM || standing == nil || !standing.Ours || standing.Home != "/Users/ada/.hermes" {
		t.Errorf("%v %+v %+v", err, target, standing)
	}
	if rep, err := h.Preview(t.Context(), f.request(t, h, "/opt/hermes-appliance")); err != nil || rep.Plan.Pending() {
		t.Errorf("a second time: %v %q", err, steps(rep.Plan))
	}
	was := f.pid
	f.calls = nil
	if rep, err := h.Install(t.Context(), f.request(t, h, "/opt/new/hermes-appliance")); err != nil || rep.Observed.State != Ready || f.pid == was || !strings.HasPrefix(f.line, "/opt/new/") {
		t.Errorf("%v %q", err, f.calls)
	}
	if f.start != "delayed-auto" {
		t.Errorf("it does not start by itself any more: %s", f.start)
	}
	if f.calls[0] != "sc.exe config" || slices.Contains(f.calls, "sc.exe create") {
		t.Errorf("got %q", f.calls)
	}
	f.pid, f.code = 0, 75
	if o, err := h.Observe(t.Context(), target, Desired{}); err != nil || o.State != Stopped || o.Props.Exit != 75 {
		t.Errorf("%v %+v", err, o)
	}
	if _, err := h.Uninstall(t.Context(), target, false, false); err != nil || f.line != "" {
		t.Errorf("%v, %s", err, f.line)
	}
	if _, err := os.Stat(filepath.Join(f.root, "ProgramFiles/hermes-appliance/Hermes_Gateway.scm")); err == nil {
		t.Error("the file is left")
	}
}

// TestReport30_SCMOwner: H#97208, H#100645. Nothing is told to a service that runs something else.
func TestReport30_SCMOwner(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`C:\Windows\system32\svchost.exe -k netsvcs -p`, "/opt/hermes-appliance gateway run --home /Users/bob/.hermes", "/opt/hermes-appliance gateway run",
	} {
		f := &fakeSCM{line: line, start: "demand", pid: 5}
		h := newSCM(t, f)
		target := f.request(t, h, "/opt/hermes-appliance").Target
		m := h.manager(target)
		for name, do := range map[string]func() error{
			"stop": func() error { return m.Stop(t.Context(), target.Unit()) }, "start": func() error { return m.Start(t.Context(), target.Unit()) },
			"enable": func() error { return m.Enable(t.Context(), target.Unit()) }, "disable": func() error { return m.Disable(t.Context(), target.Unit()) },
			"reload":    func() error { return m.Reload(t.Context()) },
			"uninstall": func() error { _, err := h.Uninstall(t.Context(), target, false, false); return err },
		} {
			var r *Refusal
			if err := do(); !errors.As(err, &r) || r.Reason != "foreign" || r.Code != exitcode.Managed {
				t.Errorf("%s: %s: %v", line, name, err)
			}
		}
		if _, err := h.Install(t.Context(), f.request(t, h, "/opt/hermes-appliance")); err == nil || f.line != line || f.pid != 5 {
			t.Errorf("install: %v, now %s", err, f.line)
		}
		if slices.ContainsFunc(f.calls, func(c string) bool { return c != "announce" }) {
			t.Errorf("it was told %q", f.calls)
		}
	}
}

// TestSCMUndone: whatever fails, nothing is left; without the rights it is said how to get them.
func TestSCMUndone(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"create", "failureflag", "add", "start"} {
		f := &fakeSCM{refuse: map[string]Result{verb: {Code: 5, Out: "Zugriff verweigert"}}}
		h := newSCM(t, f)
		_, err := h.Install(t.Context(), f.request(t, h, "/opt/hermes-appliance"))
		if err == nil || f.line != "" || !strings.Contains(err.Error(), "as administrator") {
			t.Errorf("%s: %v, %q", verb, err, f.line)
		}
		if _, err := os.Stat(filepath.Join(f.root, "ProgramFiles/hermes-appliance/Hermes_Gateway.scm")); err == nil {
			t.Errorf("%s: the file is left", verb)
		}
	}
}
