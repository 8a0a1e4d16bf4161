// SPDX-License-Identifier: MIT

//go:build unix

package installer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// steps are the steps that people are told of.
func steps(p Plan) []string {
	out := []string{}
	for _, s := range p.Steps {
		if !s.Op.silent() && !s.Quiet && s.Op != OpMkdir {
			line, _, _ := strings.Cut(s.String(), "  (")
			out = append(out, strings.Join(strings.Fields(strings.ReplaceAll(line, "/etc/systemd/system/hermes-gateway.service", "U")), " "))
		}
	}
	return out
}

func TestPlan(t *testing.T) {
	t.Parallel()
	installed := func(t testing.TB, w *world) { w.mustInstall(t, systemWide, Options{}) }
	for name, c := range map[string]struct {
		make   func(t testing.TB, w *world)
		opt    Options
		want   []string
		reason string // of the refusal
	}{
		"fresh":     {func(testing.TB, *world) {}, Options{}, []string{"create U", "create U.d/10-hardening.conf", "reload hermes-gateway.service", "enable hermes-gateway.service", "linger ada", "start hermes-gateway.service"}, ""},
		"no start":  {func(testing.TB, *world) {}, Options{NoStart: true}, []string{"create U", "create U.d/10-hardening.conf", "reload hermes-gateway.service", "enable hermes-gateway.service", "linger ada"}, ""},
		"no enable": {func(testing.TB, *world) {}, Options{NoEnable: true, NoStart: true}, []string{"create U", "create U.d/10-hardening.conf", "reload hermes-gateway.service", "linger ada"}, ""},
		"current":   {installed, Options{}, []string{}, ""},
		"older":     {func(t testing.TB, w *world) { installed(t, w); w.older(t) }, Options{}, []string{"replace U", "reload hermes-gateway.service", "restart hermes-gateway.service"}, ""},
		"stopped":   {func(t testing.TB, w *world) { installed(t, w); w.change(func(p *played) { p.PID = 0 }) }, Options{}, []string{"start hermes-gateway.service"}, ""},
		"not enabled": {func(t testing.TB, w *world) {
			installed(t, w)
			os.Remove(wantsLink(w.dir(nil), "hermes-gateway.service"))
		}, Options{}, []string{"enable hermes-gateway.service"}, ""},
		"linger off": {func(t testing.TB, w *world) { installed(t, w); os.RemoveAll(filepath.Join(w.root, "var/lib/systemd")) }, Options{}, []string{"linger ada"}, ""},
		"relaxed for good": {func(t testing.TB, w *world) {
			installed(t, w)
			os.Remove(filepath.Join(w.root, testUnit+".d/10-hardening.conf"))
			w.change(func(p *played) { p.Loaded = w.text(w.dir(nil), filepath.Base(testUnit)) })
		}, Options{}, []string{}, ""},
		"drop-in replaced": {func(t testing.TB, w *world) {
			installed(t, w)
			testkit.WriteTree(t, w.root, map[string]string{testUnit + ".d/10-hardening.conf": "[Service]\n"})
			w.change(func(p *played) { p.Loaded = w.text(w.dir(nil), filepath.Base(testUnit)) })
		}, Options{}, []string{}, ""},
		"edited":          {edited, Options{}, nil, "edited"},
		"edited, forced":  {edited, Options{Force: true}, []string{"create U.bak-HASH", "replace U", "reload hermes-gateway.service", "restart hermes-gateway.service"}, ""},
		"foreign":         {foreign, Options{}, nil, "foreign"},
		"foreign, forced": {foreign, Options{Force: true, NoStart: true}, []string{"create U.bak-HASH", "replace U", "create U.d/10-hardening.conf", "reload hermes-gateway.service", "enable hermes-gateway.service", "linger ada"}, ""},
		"masked":          {func(t testing.TB, w *world) { os.Symlink("/dev/null", filepath.Join(w.root, testUnit)) }, Options{}, nil, "masked"},
		"nix store": {func(t testing.TB, w *world) {
			os.Symlink("/nix/store/x/hermes-gateway.service", filepath.Join(w.root, testUnit))
		}, Options{Force: true}, nil, "managed"},
		"managed home": {func(t testing.TB, w *world) {
			testkit.WriteTree(t, w.root, map[string]string{"home/ada/.hermes/.managed": "nixos"})
		}, Options{Force: true}, nil, "managed"},
		"managed by env": {func(t testing.TB, w *world) { w.env["HERMES_MANAGED"] = "true" }, Options{Force: true}, nil, "managed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.make(t, w)
			before := w.snapshot(t)
			rep, err := w.host().Preview(t.Context(), w.request(t, systemWide, c.opt))
			if refusal, ok := errors.AsType[*Refusal](err); c.reason != "" && (!ok || refusal.Reason != c.reason || refusal.Fix == "" || refusal.Code != exitcode.Managed) || c.reason == "" && err != nil {
				t.Fatalf("got %v, want a refusal %q", err, c.reason)
			}
			if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
				t.Errorf("a preview changed something:\n%s", diff)
			}
			if c.reason != "" {
				_, err := w.host().Install(t.Context(), w.request(t, systemWide, c.opt))
				if _, ok := errors.AsType[*Refusal](err); !ok {
					t.Errorf("install: %v", err)
				}
				if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
					t.Errorf("a refused install changed something:\n%s", diff)
				}
				return
			}
			got := steps(rep.Plan)
			for i, s := range got {
				if head, _, ok := strings.Cut(s, backupMark); ok {
					got[i] = head + ".bak-HASH"
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if _, err := json.Marshal(rep); err != nil {
				t.Error(err)
			}
		})
	}
}

func edited(t testing.TB, w *world) {
	w.mustInstall(t, systemWide, Options{})
	path := filepath.Join(w.root, testUnit)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	testkit.WriteTree(t, w.root, map[string]string{testUnit: string(data) + "# mine\n"})
	w.change(func(p *played) { p.Loaded = w.text(w.dir(nil), filepath.Base(testUnit)) })
}

const upstream = "[Unit]\nDescription=Hermes\n[Service]\nExecStart=\"/usr/bin/hermes\" \"gateway\" \"run\"\n" +
	"Environment=\"HERMES_HOME=/home/ada/.hermes\" 'GREETING=two words' BARE=1\nEnvironment=OPENAI_API_KEY=sk-very-secret\nExecStartPre=/bin/x --token=abc\n"

func foreign(t testing.TB, w *world) {
	testkit.WriteTree(t, w.root, map[string]string{testUnit: upstream})
	w.change(func(p *played) { p.Loaded = w.text(w.dir(nil), filepath.Base(testUnit)) })
}

// TestDiffMasked: what somebody else's unit holds may be secret.
func TestDiffMasked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign(t, w)
	rep, err := w.host().Preview(t.Context(), w.request(t, systemWide, Options{Force: true}))
	if err != nil {
		t.Fatal(err)
	}
	diff := rep.Plan.Diff()
	for _, secret := range []string{"sk-very-secret", "two words", "words", "BARE=1", "abc"} {
		if strings.Contains(diff, secret) {
			t.Errorf("%q is shown:\n%s", secret, diff)
		}
	}
	for _, want := range []string{"--- a" + testUnit, "+++ b" + testUnit, "OPENAI_API_KEY=***", "HERMES_HOME=/home/ada/.hermes", "+RestartPreventExitStatus=78"} {
		if !strings.Contains(diff, want) {
			t.Errorf("lacks %q:\n%s", want, diff)
		}
	}
	out, err := json.Marshal(rep)
	if err != nil || strings.Contains(string(out), "sk-very") || strings.Contains(string(out), "c2stdmVye") {
		t.Errorf("%v: the secret is in the JSON: %s", err, out)
	}
}

// TestForceKeepsACopy: what is replaced by force is beside it, byte for byte, readable by root only.
func TestForceKeepsACopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign(t, w)
	w.mustInstall(t, systemWide, Options{Force: true})
	copies, err := filepath.Glob(filepath.Join(w.root, testUnit+backupMark+"*"))
	if err != nil || len(copies) != 1 {
		t.Fatalf("%v %v", copies, err)
	}
	data, err := os.ReadFile(copies[0])
	if info, _ := os.Stat(copies[0]); err != nil || string(data) != upstream || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v: %s", err, info, data)
	}
	target := w.request(t, systemWide, Options{}).Target
	if _, err := w.host().Uninstall(t.Context(), target, false, false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(copies[0]); err != nil {
		t.Errorf("without --purge the copy is gone: %v", err)
	}
	if _, err := w.host().Uninstall(t.Context(), target, true, false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(copies[0]); err == nil {
		t.Error("with --purge the copy is still there")
	}
}

// TestPurgeKeepsWhatIsNotOurs: neither a mask nor a file that is merely called like a copy is
// taken away.
func TestPurgeKeepsWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustInstall(t, systemWide, Options{})
	own := testUnit + backupMark + "before-the-holidays"
	testkit.WriteTree(t, w.root, map[string]string{own: "mine\n"})
	target := w.request(t, systemWide, Options{}).Target
	rep, err := w.host().Uninstall(t.Context(), target, true, false)
	if err != nil || !rep.Applied || !strings.Contains(strings.Join(rep.Plan.Kept, "|"), "before-the-holidays (not ours)") {
		t.Errorf("%v %v", rep.Plan.Kept, err)
	}
	if got := w.text(w.dir(nil), filepath.Base(own)); got != "mine\n" {
		t.Errorf("a person's own copy: %q", got)
	}
	mask := filepath.Join(w.root, testUnit)
	if err := os.Symlink("/dev/null", mask); err != nil {
		t.Fatal(err)
	}
	if rep, err = w.host().Uninstall(t.Context(), target, true, false); err != nil || rep.Applied || !strings.Contains(strings.Join(rep.Plan.Kept, "|"), "masked") {
		t.Errorf("masked: %+v %v", rep.Plan, err)
	}
	if to, err := os.Readlink(mask); to != "/dev/null" {
		t.Errorf("the mask: %q %v", to, err)
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	ours := Seen{Exists: true, Prov: service.Provenance{Ours: true}}
	loaded := func(active, sub, result string, exit int) facts {
		return facts{file: ours, reached: true, props: Props{Known: true, Enabled: true, Active: active, Sub: sub, Result: result, Exit: exit, PID: map[bool]int{true: 7}[active == "active"]}, id: Identity{PID: 7}}
	}
	with := func(f facts, change func(*facts)) facts { change(&f); return f }
	up := loaded("active", "running", "success", 0)
	for name, c := range map[string]struct {
		f    facts
		want State
	}{
		"nothing":              {facts{}, Absent},
		"managed":              {facts{manager: "nixos", file: ours}, Managed},
		"upstream's":           {facts{file: Seen{Exists: true}}, Foreign},
		"in the store":         {facts{file: Seen{Exists: true, Owner: "nix store"}}, ReadOnly},
		"masked":               {facts{file: Seen{Link: "/dev/null"}, props: Props{Known: true, Masked: true}}, ReadOnly},
		"no manager":           {facts{file: ours}, Unloaded},
		"not read yet":         {facts{file: ours, reached: true}, Unloaded},
		"stopped":              {loaded("inactive", "dead", "success", 0), Stopped},
		"stopped and disabled": {with(loaded("inactive", "dead", "success", 0), func(f *facts) { f.props.Enabled = false }), Disabled},
		"starting":             {loaded("activating", "start", "success", 0), Starting},
		"restarting":           {loaded("activating", "auto-restart", "exit-code", 75), Restarting},
		"given up":             {loaded("failed", "failed", "start-limit-hit", 1), StartLimited},
		"parked":               {loaded("failed", "failed", "exit-code", 78), Parked},
		"failed":               {loaded("failed", "failed", "signal", 0), Failed},
		"ready":                {up, Ready},
		"silent once":          {with(up, func(f *facts) { f.answer = ErrSilent }), Degraded},
		"wedged":               {with(up, func(f *facts) { f.answer, f.wedged = ErrSilent, true }), Wedged},
		"no socket":            {with(up, func(f *facts) { f.answer = ErrNotRunning }), Degraded},
		"somebody else's":      {with(up, func(f *facts) { f.id.PID = 8 }), Degraded},
		"draining":             {with(up, func(f *facts) { f.id.Degraded = "draining" }), Degraded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, reason, fix := c.f.state(Target{Kind: Systemd, Scope: service.System, Name: "hermes-gateway"})
			if got != c.want {
				t.Errorf("got %s (%s), want %s", got, reason, c.want)
			}
			if bad := got != Ready && got != Starting && got != Stopped && got != Disabled && got != Unloaded && got != Absent; bad && (reason == "" || fix == "") {
				t.Errorf("%s without a reason or a fix: %q %q", got, reason, fix)
			}
		})
	}
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env           map[string]string
		scope         service.Scope
		asked, pinned string
		uid           int
		want, reason  string
	}{
		"asked":                   {nil, service.System, "bob", "ada", 0, "bob", ""},
		"of the unit":             {map[string]string{"SUDO_USER": "bob"}, service.System, "", "ada", 0, "ada", ""},
		"who called sudo":         {map[string]string{"SUDO_USER": "ada", "USER": "root"}, service.System, "", "", 0, "ada", ""},
		"login":                   {map[string]string{"LOGNAME": "ada"}, service.System, "", "", 0, "ada", ""},
		"root by accident":        {map[string]string{"USER": "root"}, service.System, "", "", 0, "", "root"},
		"root by name":            {map[string]string{"USER": "root"}, service.System, "root", "", 0, "root", ""},
		"nobody":                  {nil, service.System, "", "", 0, "", "no-user"},
		"unknown":                 {nil, service.System, "mallory", "", 0, "", "unknown-user"},
		"a user is who runs this": {map[string]string{"USER": "bob", "SUDO_USER": "bob"}, service.User, "", "", ada(), "ada", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.env, w.uid = c.env, c.uid
			a, err := w.host().account(t.Context(), c.scope, c.asked, c.pinned)
			refusal, _ := errors.AsType[*Refusal](err)
			if c.reason == "" && (err != nil || a.Name != c.want) || c.reason != "" && (refusal == nil || refusal.Reason != c.reason || refusal.Code != exitcode.Usage) {
				t.Errorf("got %+v, %v", a, err)
			}
		})
	}
}

func TestDetect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		os    string
		env   map[string]string
		files map[string]string
		kind  Kind
		want  string // reason of the refusal
		code  exitcode.Code
		fix   string
	}{
		"mac":                        {"darwin", nil, nil, Launchd, "", 0, ""},
		"windows":                    {"windows", nil, nil, Tasks, "", 0, ""},
		"systemd":                    {"linux", nil, map[string]string{"run/systemd/system/": ""}, Systemd, "", 0, ""},
		"rpm-ostree is no systemd":   {"linux", nil, map[string]string{"usr/bin/rpm-ostree": "", ".dockerenv": ""}, "", "container", exitcode.OK, "--restart"},
		"wsl with systemd":           {"linux", map[string]string{"WSL_DISTRO_NAME": "x"}, map[string]string{"run/systemd/system/": ""}, Systemd, "", 0, ""},
		"wsl without":                {"linux", map[string]string{"WSL_DISTRO_NAME": "x"}, nil, "", "wsl", exitcode.Error, "wsl --shutdown"},
		"termux":                     {"linux", map[string]string{"TERMUX_VERSION": "1"}, nil, "", "termux", exitcode.Error, "Termux:Boot"},
		"s6":                         {"linux", nil, map[string]string{"proc/1/comm": "s6-svscan\n", "run/s6/basedir": "", ".dockerenv": ""}, "", "s6", exitcode.OK, "s6-svc"},
		"s6 elsewhere than at pid 1": {"linux", nil, map[string]string{"proc/1/comm": "sh\n", "run/s6/basedir": "", ".dockerenv": ""}, "", "container", exitcode.OK, "--restart"},
		"container":                  {"linux", map[string]string{"container": "podman"}, nil, "", "container", exitcode.OK, "--restart"},
		"openrc":                     {"linux", nil, map[string]string{"run/openrc/": ""}, OpenRC, "", 0, ""},
		"sysv":                       {"linux", nil, map[string]string{"etc/init.d/": "", "usr/sbin/update-rc.d": ""}, SysV, "", 0, ""},
		"nothing":                    {"linux", nil, nil, "", "no-manager", exitcode.Error, "gateway run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			testkit.WriteTree(t, dir, c.files)
			h := Host{OS: c.os, Root: dir, Getenv: func(n string) string { return c.env[n] }}
			kind, err := h.Detect()
			refusal, _ := errors.AsType[*Refusal](err)
			if kind != c.kind || c.want != "" && (refusal == nil || refusal.Reason != c.want || refusal.Code != c.code || !strings.Contains(refusal.Fix, c.fix)) || c.want == "" && err != nil {
				t.Errorf("got %q, %v", kind, err)
			}
		})
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"1min 10s": "1m10s", "2min": "2m0s", "1.5s": "1.5s", "infinity": "0s", "": "0s", "90": "0s", "1h 200ms": "1h0m0.2s"} {
		if got := fmt.Sprint(span(text)); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// notices are what a person is told of a service as it is.
func (w *world) notices(t testing.TB, c Choice) string {
	t.Helper()
	h := w.host()
	target, _, err := h.Resolve(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	o, err := h.Observe(t.Context(), target, Desired{})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(o.Notices, "\n")
}

// TestReport9StandingUnit (Cotal#1715): a unit that is there already and pinned to a home that will
// be gone is named, with what to do about it.
func TestReport9StandingUnit(t *testing.T) {
	t.Parallel()
	for home, want := range map[string]bool{"/tmp/x/.hermes": true, "/var/tmp/h": true, "/srv/hermes": false, "/tmpfiles/h": false} {
		w := newWorld(t)
		testkit.WriteTree(t, w.root, map[string]string{testUnit: "[Service]\nUser=ada\nExecStart=/x gateway run\nEnvironment=HERMES_HOME=" + home + "\n"})
		got := w.notices(t, Choice{Scope: service.System})
		if strings.Contains(got, "pinned to "+home+", which does not survive") != want {
			t.Errorf("%s: %q", home, got)
		}
	}
}

// TestReport35WSL (O#143110): on WSL a user's service is told to be a system one, elsewhere not.
func TestReport35WSL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wsl   string
		scope service.Scope
		want  bool
	}{{"Debian", service.User, true}, {"Debian", service.System, false}, {"", service.User, false}} {
		w := newWorld(t)
		w.env["WSL_DISTRO_NAME"] = c.wsl
		choice := systemWide
		if c.scope == service.User {
			w.uid, choice = ada(), Choice{Scope: service.User}
			w.env["USER"], w.env["SUDO_USER"] = "ada", ""
		}
		if got := w.notices(t, choice); strings.Contains(got, "install --system") != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
