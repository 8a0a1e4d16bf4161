// SPDX-License-Identifier: MIT

//go:build unix

package installer

import (
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

// observed installs a service and looks at it after a change.
func observed(t *testing.T, change func(*played)) (*world, Observed) {
	t.Helper()
	w := newWorld(t)
	w.mustInstall(t, systemWide, Options{})
	if change != nil {
		w.change(change)
	}
	w.calls = nil
	o, err := w.host().Observe(t.Context(), w.request(t, systemWide, Options{}).Target, Desired{})
	if err != nil {
		t.Fatal(err)
	}
	w.calls = slices.DeleteFunc(w.calls, func(c string) bool { return strings.HasPrefix(c, "loginctl") })
	return w, o
}

// TestRestart: which commands a restart gives, for each way a service may be.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*played)
		want   []string
		did    string
	}{
		"drains and waits for the manager (H#12438)": {nil, []string{"kill hermes-gateway.service USR1"}, "restarted"},
		"does not heed the drain": {
			func(p *played) { p.Pinned = true },
			[]string{"kill hermes-gateway.service USR1", "reset-failed hermes-gateway.service", "announce", "stop hermes-gateway.service", "start hermes-gateway.service"},
			"restarted",
		},
		"stopped": {func(p *played) { p.PID = 0 }, []string{"reset-failed hermes-gateway.service", "start hermes-gateway.service"}, "restarted"},
		"start-limited (basecamp-cli#775)": {
			func(p *played) { p.PID, p.Failed = 0, "start-limit-hit" },
			[]string{"reset-failed hermes-gateway.service", "start hermes-gateway.service"},
			"restarted",
		},
		"silent and without a sign of life": {func(p *played) { p.Silent, p.Alive = true, 200 }, []string{"kill hermes-gateway.service TERM", "kill hermes-gateway.service KILL"}, "restarted"},
		"silent, but the manager heard it":  {func(p *played) { p.Silent, p.Alive, p.Pinned = true, 10, true }, []string{"kill hermes-gateway.service USR1"}, ""},
		"no sign of life, but it answers":   {func(p *played) { p.Alive = 500 }, []string{"kill hermes-gateway.service USR1"}, "restarted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, o := observed(t, c.change)
			h := w.host()
			h.Run = signals(w)
			out, err := h.Restart(t.Context(), o)
			if c.did == "" { // what is not known to be wedged is never killed
				if i := slices.IndexFunc(w.calls, func(s string) bool { return strings.Contains(s, "KILL") }); i >= 0 {
					t.Errorf("killed: %v", w.calls)
				}
				return
			}
			if err != nil || out.Did != c.did || out.PID == 0 || out.PID == o.Props.PID {
				t.Errorf("%+v, %v", out, err)
			}
			if !slices.Equal(w.calls, c.want) {
				t.Errorf("got %q, want %q", w.calls, c.want)
			}
		})
	}
}

// TestRestartFromInside: a command that runs in the gateway's own service only asks (H#100179), and
// stop, uninstall and install are refused there (H#109473).
func TestRestartFromInside(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cgroup", "ancestor"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w, o := observed(t, nil)
			h := w.host()
			if how == "cgroup" {
				testkit.WriteTree(t, w.root, map[string]string{
					fmt.Sprintf("proc/%d/cgroup", o.Props.PID): "2:cpu:/x\n1:name=systemd:/docker/1/system.slice/hermes-gateway.service\n",
					"proc/self/cgroup":                         "2:cpu:/y\n1:name=systemd:/docker/1/system.slice/hermes-gateway.service/sub\n",
				})
			} else {
				h.PID = 42
				testkit.WriteTree(t, w.root, map[string]string{"proc/42/stat": "42 (a ) b) S 41 0", "proc/41/stat": fmt.Sprintf("41 (sh) S %d 0", o.Props.PID)})
			}
			out, err := h.Restart(t.Context(), o)
			if err != nil || out.Did != "asked" || out.Ask == nil || len(w.calls) > 0 { // told first: it ends with the service
				t.Fatalf("%+v %v %q", out, err, w.calls)
			}
			if err := out.Ask(t.Context()); err != nil || !slices.Equal(w.calls, []string{"kill hermes-gateway.service"}) {
				t.Errorf("%v %q", err, w.calls)
			}
			w.change(func(p *played) { p.PID = o.Props.PID }) // it has not ended yet
			var refused *Refusal
			if _, err := h.Stop(t.Context(), o); !errors.As(err, &refused) || refused.Reason != "inside" {
				t.Errorf("stop: %v", err)
			}
			if _, err := h.Uninstall(t.Context(), o.Target, false, false); !errors.As(err, &refused) || refused.Reason != "inside" {
				t.Errorf("uninstall: %v", err)
			}
			w.older(t)
			if _, err := h.Install(t.Context(), w.request(t, systemWide, Options{})); !errors.As(err, &refused) || refused.Reason != "inside" {
				t.Errorf("install: %v", err)
			}
			if p := w.load(); p.PID != o.Props.PID {
				t.Error("it was stopped")
			}
		})
	}
}

// TestReport14Parked: a service that ended with 78 is not started for ever, and why it ended is shown.
func TestReport14Parked(t *testing.T) {
	t.Parallel()
	w, o := observed(t, func(p *played) { p.PID, p.Failed, p.Exit, p.Reason = 0, "exit-code", 78, "two profiles have one token" })
	if o.State != Parked || !strings.Contains(o.Reason, "two profiles have one token") {
		t.Errorf("%s: %s", o.State, o.Reason)
	}
	for name, do := range map[string]func() error{
		"start":   func() error { _, err := w.host().Start(t.Context(), o); return err },
		"restart": func() error { _, err := w.host().Restart(t.Context(), o); return err },
	} {
		err := do()
		if parked, ok := errors.AsType[*ParkedError](err); !ok || exitcode.Of(err) != exitcode.Config || !strings.Contains(parked.Error(), "two profiles have one token") {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.change(func(p *played) { p.Reason = "" }) // it is put right
	if out, err := w.host().Start(t.Context(), o); err != nil || out.Did != "started" {
		t.Errorf("%+v %v", out, err)
	}
}

// TestReport31Absent: a service that is not there, one that is not loaded and one that is stopped are
// three things, and start heals the last two (O#21077).
func TestReport31Absent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o, err := w.host().Observe(t.Context(), w.request(t, systemWide, Options{}).Target, Desired{})
	if err != nil || o.State != Absent {
		t.Fatalf("%s %v", o.State, err)
	}
	for name, do := range map[string]func() error{
		"start":   func() error { _, err := w.host().Start(t.Context(), o); return err },
		"stop":    func() error { _, err := w.host().Stop(t.Context(), o); return err },
		"restart": func() error { _, err := w.host().Restart(t.Context(), o); return err },
	} {
		if refused, ok := errors.AsType[*Refusal](do()); !ok || refused.Reason != "absent" {
			t.Errorf("%s: %v", name, do())
		}
	}
	if p := w.load(); p.PID != 0 {
		t.Error("something was started in the foreground or the background")
	}
	w.mustInstall(t, systemWide, Options{NoStart: true})
	w.change(func(p *played) { p.Loaded = "" })
	if o, err = w.host().Observe(t.Context(), o.Target, Desired{}); err != nil || o.State != Stopped {
		t.Errorf("%s %v", o.State, err)
	}
	if out, err := w.host().Start(t.Context(), o); err != nil || out.PID == 0 {
		t.Errorf("%+v %v", out, err)
	}
}

// TestStopTellsOfSockets: a socket that is still on starts the service again, which nobody who
// stopped it expects.
func TestStopTellsOfSockets(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{"": "", "inactive": "", "active": "hermes-gateway.socket is still on, and starts it when somebody asks there; systemctl stop hermes-gateway.socket"} {
		w, _ := observed(t, nil)
		w.socket = state
		o, err := w.host().Observe(t.Context(), w.request(t, systemWide, Options{}).Target, Desired{})
		if err != nil {
			t.Fatal(err)
		}
		if out, err := w.host().Stop(t.Context(), o); err != nil || out.Comment != want || out.Did != "stopped" {
			t.Errorf("%q: %+v %v", state, out, err)
		}
	}
}

// TestRootIsWarned: a service of root's is installed as it was asked for, with a word about it.
func TestRootIsWarned(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"root": true, "ada": false} {
		w := newWorld(t)
		rep, err := w.host().Preview(t.Context(), w.request(t, Choice{Scope: service.System, User: name, Home: "/home/ada/.hermes"}, Options{}))
		if got := strings.Contains(strings.Join(rep.Plan.Notices, "|"), "it runs as root"); err != nil || got != want {
			t.Errorf("%s: %v %v", name, rep.Plan.Notices, err)
		}
	}
}

// TestStopFails: a stop that failed is an error, and uninstall then removes nothing.
func TestStopFails(t *testing.T) {
	t.Parallel()
	w, o := observed(t, nil)
	before := w.snapshot(t)
	w.fail["stop"] = "Job for hermes-gateway.service timed out."
	if _, err := w.host().Stop(t.Context(), o); err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("stop: %v", err)
	}
	if _, err := w.host().Uninstall(t.Context(), o.Target, false, false); err == nil || !strings.Contains(err.Error(), "everything is undone") {
		t.Errorf("uninstall: %v", err)
	}
	after := w.snapshot(t)
	if len(after) != len(before) || after["runs"] != "true" {
		t.Errorf("something was removed: %v", after)
	}
	// One that says it stopped and did not.
	delete(w.fail, "stop")
	w.after = func(w *world, argv []string) {
		if argv[1] == "stop" {
			w.change(func(p *played) { p.PID = o.Props.PID })
		}
	}
	if _, err := w.host().Stop(t.Context(), o); err == nil || !strings.Contains(err.Error(), "still runs") {
		t.Errorf("stop: %v", err)
	}
}

// TestAnotherRuns: a gateway that somebody runs by hand is in the way, and is told before anything
// is touched.
func TestAnotherRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.host()
	h.Gateway = foreground{}
	before := w.snapshot(t)
	_, err := h.Install(t.Context(), w.request(t, systemWide, Options{}))
	if refused, ok := errors.AsType[*Refusal](err); !ok || refused.Code != exitcode.Locked || !strings.Contains(err.Error(), "4711") {
		t.Errorf("%v", err)
	}
	if after := w.snapshot(t); len(after) != len(before) {
		t.Errorf("something was touched: %v", after)
	}
}

// TestReportsOfPlaces: wrong places for a service are told before anything is touched.
func TestReportsOfPlaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(w *world, r *Request)
		reason string
	}{
		"Report9 temporary home (Cotal#1715)":        {func(_ *world, r *Request) { r.Target.Home.Dir = "/tmp/x/.hermes" }, "temporary"},
		"temporary program":                          {func(_ *world, r *Request) { r.Spec.Exec[0] = "/var/tmp/go-build1/hermes-appliance" }, "temporary"},
		"Report6 unreachable as the user (H#6989)":   {func(w *world, _ *Request) { w.fail["reach"] = "1234" }, "unreachable"},
		"Report48 another home's unit (wazuh#38749)": {func(_ *world, r *Request) { r.Standing = &Found{File: testUnit, Home: "/srv/other"} }, "other-home"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.request(t, systemWide, Options{})
			c.change(w, &r)
			before := w.snapshot(t)
			_, err := w.host().Install(t.Context(), r)
			if refused, ok := errors.AsType[*Refusal](err); !ok || refused.Reason != c.reason || refused.Fix == "" {
				t.Errorf("%v", err)
			}
			if after := w.snapshot(t); len(after) != len(before) {
				t.Errorf("something was touched: %v", after)
			}
		})
	}
}

// TestReport8AdoptsTheHome: without a home of its own a command works on the one that the unit is
// pinned to, under whatever name (H#6729, H#109476); another one by name is refused.
func TestReport8AdoptsTheHome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	testkit.WriteTree(t, w.root, map[string]string{
		"srv/hermes/": "",
		testUnit:      "[Service]\nUser=bob\nExecStart=/x gateway run\nEnvironment=HERMES_HOME=/srv/hermes\n",
		"etc/systemd/system/hermes-gateway-strange.service": "[Service]\nEnvironment=\"HERMES_HOME=/home/ada/.hermes/profiles/work\"\n",
		"etc/systemd/system/hermes-gatewayd.service":        "[Service]\nEnvironment=HERMES_HOME=/no/gateway\n",
		"home/ada/.hermes/profiles/work/config.yaml":        "",
	})
	target, standing, err := w.host().Resolve(t.Context(), Choice{Scope: service.System})
	if err != nil || target.Home.Dir != "/srv/hermes" || target.Name != "hermes-gateway" || target.Account.Name != "bob" || standing == nil {
		t.Errorf("%+v %+v %v", target, standing, err)
	}
	target, standing, err = w.host().Resolve(t.Context(), Choice{Scope: service.System, Home: "/home/ada/.hermes", Profile: "work"})
	if err != nil || target.Name != "hermes-gateway-strange" || standing == nil {
		t.Errorf("by its home: %+v %+v %v", target, standing, err)
	}
	target, standing, err = w.host().Resolve(t.Context(), systemWide)
	if err != nil || standing == nil || standing.Home == target.Home.Dir {
		t.Fatalf("%+v %+v %v", target, standing, err)
	}
	r := w.request(t, systemWide, Options{Force: true})
	if _, err := w.host().Install(t.Context(), r); err == nil || !strings.Contains(err.Error(), "/srv/hermes") {
		t.Errorf("a unit of another home was taken: %v", err)
	}
	if _, err := w.host().Uninstall(t.Context(), r.Target, true, false); err == nil || !strings.Contains(err.Error(), "/srv/hermes") {
		t.Errorf("a unit of another home was removed: %v", err)
	}
}

// TestReport38EnabledForReal: a command that says it enabled and did not is a failure (cloudflared#211).
func TestReport38EnabledForReal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.snapshot(t)
	w.after = func(w *world, argv []string) {
		if argv[1] == "enable" {
			os.Remove(wantsLink(w.dir(nil), "hermes-gateway.service"))
			os.Remove(filepath.Dir(wantsLink(w.dir(nil), "x")))
		}
	}
	if _, err := w.host().Install(t.Context(), w.request(t, systemWide, Options{})); err == nil || !strings.Contains(err.Error(), "it is not") {
		t.Errorf("%v", err)
	}
	if after := w.snapshot(t); len(after) != len(before) {
		t.Errorf("not undone: %v", after)
	}
}

// TestReport5LeakedRuntimeDir: what sudo leaks of another user is ignored (H#86558), and either
// socket will do (H#17243).
func TestReport5LeakedRuntimeDir(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.uid, w.user = ada(), false
	w.env = map[string]string{"XDG_RUNTIME_DIR": "/proc"}
	h := w.host()
	if h.UID != os.Getuid() && os.Getuid() != 0 {
		t.Fatal("the test's user is not the one of the world")
	}
	if os.Getuid() == 0 && h.owns("/proc") {
		t.Error("another user's directory is taken for ours")
	}
	if h.busReady() {
		t.Error("ready without a socket")
	}
	w.bus(true)
	if !h.busReady() || !slices.ContainsFunc(h.userEnv(), func(v string) bool {
		return strings.HasPrefix(v, "XDG_RUNTIME_DIR=") && strings.HasSuffix(v, fmt.Sprint(h.UID))
	}) {
		t.Errorf("not ready with the manager's own socket: %v", h.userEnv())
	}
	for _, v := range h.userEnv() {
		if strings.HasPrefix(v, "DBUS_") {
			t.Errorf("an address of a bus that is not there: %s", v)
		}
	}
}
