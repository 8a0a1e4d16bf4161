// SPDX-License-Identifier: MIT

//go:build unix

package installer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestLaunchdInstall: the order of commands of a first installation (services spec §1.4), and
// that a job which somebody disabled is enabled first.
func TestLaunchdInstall(t *testing.T) {
	t.Parallel()
	for _, gui := range []bool{true, false} {
		f := &fakeLaunchd{gui: gui, disabled: true}
		h := newLaunchd(t, f)
		rep, err := h.Install(t.Context(), f.request(t, h))
		if err != nil || rep.Observed.State != Ready || rep.Observed.Props.PID != f.pid {
			t.Fatalf("%v %+v", err, rep.Observed)
		}
		job := f.domain() + "/" + label
		if want := []string{"enable " + job, "enable " + job, "bootstrap " + f.domain() + " " + plist}; !slices.Equal(f.calls, want) {
			t.Errorf("got %q, want %q", f.calls, want)
		}
		data, err := os.ReadFile(filepath.Join(f.root, plist))
		p := provenance(Launchd, data)
		if err != nil || !p.Ours || p.Edited || p.Home != "/Users/ada/.hermes" {
			t.Errorf("%v %+v\n%s", err, p, data)
		}
		if p := provenance(Launchd, append(data, ' ')); !p.Edited {
			t.Error("an edit is not seen")
		}
		if rep, err := h.Preview(t.Context(), f.request(t, h)); err != nil || rep.Plan.Pending() {
			t.Errorf("a second time: %v %q", err, steps(rep.Plan))
		}
		f.lag, f.calls = 3, nil
		if _, err := h.Uninstall(t.Context(), f.request(t, h).Target, false, false); err != nil || f.loaded != "" || f.leaving != 0 {
			t.Errorf("uninstall: %v %q, loaded %q", err, f.calls, f.loaded)
		}
	}
}

// launchdStarts are the answers of launchctl and what is done about each.
func launchdStarts() map[string]struct {
	f    fakeLaunchd
	want []string // verbs
	beside,
	fails string
} {
	type row = struct {
		f    fakeLaunchd
		want []string
		beside,
		fails string
	}
	return map[string]row{
		"not loaded":                   {fakeLaunchd{}, []string{"enable", "bootstrap"}, "", ""},
		"registered already":           {fakeLaunchd{codes: []int{5}}, []string{"enable", "bootstrap", "bootout", "bootstrap"}, "", ""},
		"no domain at first":           {fakeLaunchd{codes: []int{125}}, []string{"enable", "bootstrap", "bootout", "bootstrap"}, "", ""},
		"the old way works":            {fakeLaunchd{codes: []int{5, 5}, oldWay: true}, []string{"enable", "bootstrap", "bootout", "bootstrap", "load"}, "", ""},
		"says yes and does nothing":    {fakeLaunchd{lies: true, oldWay: true}, []string{"enable", "bootstrap", "load"}, "", ""},
		"manages no jobs":              {fakeLaunchd{codes: []int{5, 5}}, []string{"enable", "bootstrap", "bootout", "bootstrap", "load", "spawn"}, "exit 5", ""},
		"has no domain":                {fakeLaunchd{codes: []int{125, 125}}, []string{"enable", "bootstrap", "bootout", "bootstrap", "load", "spawn"}, "exit 125", ""},
		"registers and never starts":   {fakeLaunchd{codes: []int{5, 5}, oldWay: true, idle: true}, []string{"enable", "bootstrap", "bootout", "bootstrap", "load", "bootout", "spawn"}, "exit 5", ""},
		"says yes, and no way works":   {fakeLaunchd{lies: true}, []string{"enable", "bootstrap", "load", "spawn"}, "not registered", ""},
		"cannot even be told to":       {fakeLaunchd{codes: []int{125, 125}, foreign: 125}, []string{"enable", "bootstrap", "bootout", "bootstrap", "load", "spawn"}, "exit 125", ""},
		"nothing can be started":       {fakeLaunchd{codes: []int{5, 5}, unspawns: true}, []string{"enable", "bootstrap", "bootout", "bootstrap", "load"}, "", "beside launchd"},
		"another failure is a failure": {fakeLaunchd{codes: []int{78}}, []string{"enable", "bootstrap"}, "", "Bootstrap failed"},
	}
}

// TestReport20_LaunchdStart: H#42006, H#42914, H#95758, H#11323. Exit 5 and 125 are told apart by
// trying; what supervises nothing is said loudly and noted where upstream looks.
func TestReport20_LaunchdStart(t *testing.T) {
	t.Parallel()
	for name, c := range launchdStarts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &c.f
			h := newLaunchd(t, f)
			r := f.request(t, h)
			d, err := h.Desired(r.Spec, r.Target, Options{})
			if err != nil {
				t.Fatal(err)
			}
			testkit.WriteTree(t, f.root, map[string]string{plist: string(d.Files[0].Data)})
			err = h.manager(r.Target).Start(t.Context(), label)
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("%v", err)
			}
			var verbs []string
			for _, call := range f.calls {
				verbs = append(verbs, strings.Fields(call)[0])
			}
			if !slices.Equal(verbs, c.want) {
				t.Errorf("got %q, want %q", verbs, c.want)
			}
			data, err := os.ReadFile(filepath.Join(f.root, "Users/ada/.hermes/.gateway-launchd-unsupported"))
			if c.beside == "" {
				if err == nil {
					t.Errorf("marked: %s", data)
				}
				return
			}
			var k map[string]any
			if err != nil || json.Unmarshal(data, &k) != nil || k["written_at"] != "2023-11-14T22:13:20Z" || !strings.Contains(fmt.Sprint(k["reason"]), c.beside) {
				t.Errorf("%v %s", err, data)
			}
			got := f.spawned[0]
			if !slices.Equal(got.Argv, []string{"/opt/hermes-appliance", "gateway", "run"}) || slices.Contains(got.Env, "HERMES_SUPERVISED_CHILD=1") ||
				!slices.Contains(got.Env, "HERMES_HOME=/Users/ada/.hermes") || !slices.Contains(got.Env, "HOME=/Users/ada") || !strings.HasSuffix(got.Err, "/logs/gateway.error.log") {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestReport20_LaunchdBeside: a gateway beside launchd is installed, looked at, restarted, stopped
// and taken off as well, every time with the words that nobody starts it again; and once launchd
// takes the job it is an ordinary one.
func TestReport20_LaunchdBeside(t *testing.T) {
	t.Parallel()
	const loud = "will NOT be started again"
	f := &fakeLaunchd{codes: []int{125, 125}, foreign: 125}
	h := newLaunchd(t, f)
	rep, err := h.Install(t.Context(), f.request(t, h))
	if err != nil || rep.Observed.State != Degraded || !strings.Contains(rep.Observed.Reason, loud) || rep.Observed.Props.PID != f.beside || len(rep.Warnings) != 1 || !strings.Contains(rep.Warnings[0], loud) {
		t.Fatalf("%v %+v", err, rep)
	}
	if rep, err := h.Preview(t.Context(), f.request(t, h)); err != nil || rep.Plan.Pending() {
		t.Errorf("a second time: %v %q", err, steps(rep.Plan))
	}
	look := func() Observed {
		t.Helper()
		o, err := h.Observe(t.Context(), f.request(t, h).Target, Desired{})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	f.codes, f.calls = []int{125, 125}, nil
	was := f.beside
	out, err := h.Restart(t.Context(), look())
	if err != nil || out.PID == was || !strings.Contains(out.Comment, loud) || f.calls[0] != fmt.Sprintf("kill -USR1 %d", was) {
		t.Errorf("%v %+v %q", err, out, f.calls)
	}
	f.silent, f.script.beat, f.script.beatAge = true, f.beside, 2*time.Minute
	if o := look(); o.State != Wedged {
		t.Errorf("%s %s", o.State, o.Reason)
	}
	f.codes, f.calls = []int{125, 125}, nil
	if out, err := h.Restart(t.Context(), look()); err != nil || !strings.Contains(strings.Join(f.calls, "|"), "kill -TERM") || !strings.Contains(strings.Join(f.calls, "|"), "kill -KILL") {
		t.Errorf("%v %+v %q", err, out, f.calls)
	}
	if _, err := h.Stop(t.Context(), look()); err != nil || f.beside != 0 {
		t.Errorf("stop: %v, %d", err, f.beside)
	}
	if o := look(); o.State != Disabled || !strings.Contains(o.Reason, loud) {
		t.Errorf("stopped: %s %s", o.State, o.Reason)
	}
	f.foreign = 0 // somebody logged in on the screen
	if out, err := h.Start(t.Context(), look()); err != nil || strings.Contains(out.Comment, loud) || f.pid == 0 {
		t.Errorf("%v %+v", err, out)
	}
	if o := look(); o.State != Ready || o.Props.Unsupervised != "" {
		t.Errorf("%s %s", o.State, o.Reason)
	}
	f.codes = nil
	if _, err := h.Uninstall(t.Context(), f.request(t, h).Target, false, false); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(f.root, "Users/ada/.hermes/.gateway-launchd-unsupported")); err == nil {
		t.Error("the marker is still there")
	}
}

// TestLaunchdBesideIsNotAnother: a marker of a process that is gone does not make another one the
// service's.
func TestLaunchdBesideIsNotAnother(t *testing.T) {
	t.Parallel()
	f := &fakeLaunchd{}
	h := newLaunchd(t, f)
	testkit.WriteTree(t, f.root, map[string]string{"Users/ada/.hermes/.gateway-launchd-unsupported": `{"written_at":"x","reason":"y","pid":4}`, plist: "x"})
	f.beside = 5
	p, err := h.manager(f.request(t, h).Target).Show(t.Context(), label)
	if err != nil || p.PID != 0 || p.Unsupervised != "y" {
		t.Errorf("%+v %v", p, err)
	}
	f.silent, f.script.beat = true, 5
	if p, err := h.manager(f.request(t, h).Target).Show(t.Context(), label); err != nil || p.PID != 0 {
		t.Errorf("%+v %v", p, err)
	}
}

// TestReport21_LaunchdReload: H#28632, H#69098, H#88848. A definition that changed is loaded by a
// job of its own; a process other than the old one counts, and without one it is done from here.
func TestReport21_LaunchdReload(t *testing.T) {
	t.Parallel()
	for _, submits := range []string{"", "refused", "dead"} {
		t.Run(submits, func(t *testing.T) {
			t.Parallel()
			f := &fakeLaunchd{gui: true, submits: submits}
			h := newLaunchd(t, f)
			if _, err := h.Install(t.Context(), f.request(t, h)); err != nil {
				t.Fatal(err)
			}
			was := f.pid
			f.calls = nil
			r := f.request(t, h)
			r.Spec.Exec = []string{"/opt/new/hermes-appliance", "gateway", "run"}
			rep, err := h.Install(t.Context(), r)
			if err != nil || rep.Observed.State != Ready || f.pid == was || !strings.Contains(f.text, "/opt/new/") {
				t.Fatalf("%v %+v", err, rep.Observed)
			}
			all := strings.Join(f.calls, "|")
			if i := strings.Index(all, "submit"); i < 0 || !strings.HasPrefix(all, "announce") || (submits == "") == strings.Contains(all[i:], "|bootout") {
				t.Errorf("got %q", f.calls)
			}
		})
	}
}

// TestReport22_ReloadScript: the job itself: it waits until the old one is gone, it goes on to the
// old way of loading, and it takes itself off at the end, whatever happened.
func TestReport22_ReloadScript(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	testkit.Need(t, "posix", err == nil, "there is no sh")
	for name, c := range map[string]struct{ bootstrap, want string }{
		"loads":       {"0", "bootout|print|print|print|enable|bootstrap|remove"},
		"the old way": {"5", "bootout|print|print|print|enable|bootstrap|load|remove"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			testkit.WriteTree(t, dir, map[string]string{
				"bin/sleep": "#!/bin/sh\n",
				"bin/launchctl": "#!/bin/sh\necho \"$*\" >>'" + dir + "/calls'\ncase $1 in\n" +
					"print) [ \"$(grep -c ^print '" + dir + "/calls')\" -lt 3 ] || exit 113 ;;\nbootstrap) exit " + c.bootstrap + " ;;\nesac\n",
			})
			for _, p := range []string{"sleep", "launchctl"} {
				if err := os.Chmod(filepath.Join(dir, "bin", p), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), sh, "-c", reload, "sh", "gui/501", label, "/a b/x.plist", label+".reload")
			cmd.Env = []string{"PATH=" + filepath.Join(dir, "bin") + ":/usr/bin:/bin"}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			data, err := os.ReadFile(filepath.Join(dir, "calls"))
			if err != nil {
				t.Fatal(err)
			}
			var verbs []string
			for line := range strings.Lines(string(data)) {
				verbs = append(verbs, strings.Fields(line)[0])
			}
			if got := strings.Join(verbs, "|"); got != c.want || !strings.Contains(string(data), "bootstrap gui/501 /a b/x.plist\n") ||
				!strings.HasSuffix(string(data), "remove "+label+".reload\n") {
				t.Errorf("got %s", data)
			}
		})
	}
}

// TestReport31_LaunchdKick: O#21077. Start tells {not loaded, loaded and stopped, running} apart, a
// job without a process is not one that runs (services spec §2.6), and a restart kicks one that
// does not come back.
func TestReport31_LaunchdKick(t *testing.T) {
	t.Parallel()
	f := &fakeLaunchd{gui: true, idle: true}
	h := newLaunchd(t, f)
	r := f.request(t, h)
	r.Options.NoStart = true
	if _, err := h.Install(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	f.load("gui/501/" + label)
	o, err := h.Observe(t.Context(), r.Target, Desired{})
	if err != nil || o.Props.Running() || o.State != Restarting || o.Props.Exit != 78 {
		t.Errorf("%v %+v", err, o)
	}
	f.calls = nil
	if _, err := h.Start(t.Context(), o); err != nil || !slices.Contains(f.calls, "kickstart gui/501/"+label) {
		t.Errorf("%v %q", err, f.calls)
	}
	if o, err = h.Observe(t.Context(), r.Target, Desired{}); err != nil || o.State != Ready {
		t.Fatalf("%v %s", err, o.State)
	}
	f.calls = nil // it ends when asked, and nothing brings it back
	if out, err := h.Restart(t.Context(), o); err != nil || out.PID == o.Props.PID ||
		!slices.Equal(f.calls, []string{"kill SIGUSR1 gui/501/" + label, "enable gui/501/" + label, "kickstart gui/501/" + label}) {
		t.Errorf("%v %+v %q", err, out, f.calls)
	}
}

// TestReport32_LaunchdDisabled: O PR#31353. What an earlier unload left disabled is enabled before it
// is loaded: launchd takes no job that is.
func TestReport32_LaunchdDisabled(t *testing.T) {
	t.Parallel()
	f := &fakeLaunchd{gui: true}
	h := newLaunchd(t, f)
	if _, err := h.Install(t.Context(), f.request(t, h)); err != nil {
		t.Fatal(err)
	}
	f.loaded, f.pid, f.disabled, f.calls = "", 0, true, nil
	o, err := h.Observe(t.Context(), f.request(t, h).Target, Desired{})
	if err != nil || o.State != Disabled {
		t.Fatalf("%v %s", err, o.State)
	}
	if _, err := h.Start(t.Context(), o); err != nil || f.pid == 0 || f.disabled {
		t.Errorf("%v %q", err, f.calls)
	}
}

// TestLaunchdStop: the exit codes of an unload, and a job that does not leave.
func TestLaunchdStop(t *testing.T) {
	t.Parallel()
	s := &script{answers: map[string][]Result{"launchctl print ": {{Code: 113}}}}
	h := s.host(t, "darwin")
	m := h.manager(s.request(t, h).Target)
	for code, fine := range map[int]bool{0: true, 3: true, 36: true, 113: true, 125: true, 5: true, 1: false} {
		s.answers["launchctl bootout"] = []Result{{Code: code}}
		if err := m.Stop(t.Context(), label); (err == nil) != fine {
			t.Errorf("bootout exit %d: %v", code, err)
		}
	}
	s.answers["launchctl print "] = []Result{{Out: "x = {\n}\n"}}
	s.answers["launchctl bootout"] = []Result{{Code: 5}}
	if err := m.Stop(t.Context(), label); err == nil || errors.Is(err, ErrStopping) {
		t.Errorf("it is still there and cannot be unloaded: %v", err)
	}
	s.answers["launchctl bootout"] = []Result{{}}
	if err := m.Stop(t.Context(), label); !errors.Is(err, ErrStopping) {
		t.Errorf("it never leaves: %v", err)
	}
}

// TestLaunchdUndone: where nothing can be started, beside launchd either, nothing is left.
func TestLaunchdUndone(t *testing.T) {
	t.Parallel()
	f := &fakeLaunchd{codes: []int{5, 5}, foreign: 125, unspawns: true}
	h := newLaunchd(t, f)
	before := testkit.ReadTree(t, f.root)
	_, err := h.Install(t.Context(), f.request(t, h))
	if err == nil || !strings.Contains(err.Error(), "everything is undone") {
		t.Fatalf("%v", err)
	}
	after := testkit.ReadTree(t, f.root)
	for name := range after {
		if _, was := before[name]; !was && !strings.HasSuffix(name, "service.lock") && !strings.HasSuffix(name, ".appliance/") && !strings.HasSuffix(name, "/logs/") {
			t.Errorf("%s is left", name)
		}
	}
}
