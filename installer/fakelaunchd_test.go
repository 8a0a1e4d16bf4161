// SPDX-License-Identifier: MIT

//go:build unix

package installer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/service"
)

const (
	label = "ai.hermes.gateway"
	plist = "/Users/ada/Library/LaunchAgents/ai.hermes.gateway.plist"
)

// fakeLaunchd is a launchd that is played, with its quirks. It takes no command that the real one
// would not take in exactly this form.
type fakeLaunchd struct {
	script // how the host is made, and what the heartbeat says

	t        *testing.T
	gui      bool   // somebody is logged in on the screen
	loaded   string // DOMAIN/LABEL of the job; "" = none is
	text     string // that it read when it was loaded
	disabled bool
	pid      int // of the job
	next     int // process
	beside   int // process that was started beside it
	silent   bool

	codes    []int  // what bootstrap answers before it does anything
	lies     bool   // bootstrap says 0 and registers nothing
	oldWay   bool   // load -w works
	idle     bool   // a job is registered and no process comes; kickstart brings it
	foreign  int    // the domain cannot be told to enable anything: what it answers
	lag      int    // how often print still shows a job that was told to leave
	submits  string // "" = they work, "refused", "dead" = they say so and do nothing
	leaving  int
	calls    []string
	spawned  []Detached
	unspawns bool // nothing can be started beside it
}

func newLaunchd(t *testing.T, f *fakeLaunchd) Host {
	t.Helper()
	f.t, f.next = t, 100
	h := f.script.host(t, "darwin")
	h.Run, h.Gateway = f.run, f
	h.Spawn = func(_ context.Context, d Detached) (int, error) {
		if f.unspawns {
			return 0, os.ErrPermission
		}
		f.calls = append(f.calls, "spawn")
		f.spawned = append(f.spawned, d)
		f.next++
		f.beside = f.next
		return f.next, nil
	}
	h.Now = func() time.Time { return time.Unix(1700000000, 0) }
	return h
}

func (f *fakeLaunchd) Identify(context.Context, string) (Identity, error) {
	switch {
	case f.pid == 0 && f.beside == 0:
		return Identity{}, ErrNotRunning
	case f.silent:
		return Identity{}, ErrSilent
	}
	return Identity{PID: max(f.pid, f.beside)}, nil
}

func (f *fakeLaunchd) Announce(string, int) error { f.calls = append(f.calls, "announce"); return nil }

func (f *fakeLaunchd) domain() string {
	if f.gui {
		return "gui/501"
	}
	return "user/501"
}

func (f *fakeLaunchd) run(_ context.Context, c Command) (Result, error) {
	if len(c.Env) == 0 || len(c.Argv) < 2 {
		f.t.Errorf("a command without an environment or a verb: %q", c.Argv)
	}
	argv := slices.Clone(c.Argv)
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], f.root, "")
	}
	if argv[1] != "print" && argv[1] != "print-disabled" && argv[1] != "managername" {
		f.calls = append(f.calls, strings.TrimPrefix(strings.Join(argv, " "), "launchctl "))
	}
	if argv[0] == "kill" {
		return f.killed(argv[1:])
	}
	if argv[0] != "launchctl" {
		f.t.Errorf("an unknown program: %q", argv)
	}
	return f.ctl(argv[1], argv[2:]), nil
}

// killed plays kill -SIGNAL PROCESS.
func (f *fakeLaunchd) killed(args []string) (Result, error) {
	if len(args) != 2 || args[1] != fmt.Sprint(f.beside) {
		f.t.Errorf("kill %q; beside launchd runs %d", args, f.beside)
	}
	if args[0] == "-KILL" || !f.silent {
		f.beside, f.silent = 0, false
	}
	return Result{}, nil
}

// want checks that a command has exactly these arguments.
func (f *fakeLaunchd) want(args []string, want ...string) {
	if !slices.Equal(args, want) {
		f.t.Errorf("got arguments %q, want %q", args, want)
	}
}

func (f *fakeLaunchd) ctl(verb string, args []string) Result {
	job := f.domain() + "/" + label
	gone := Result{Code: 113, Err: "Could not find service"}
	switch verb {
	case "managername":
		f.want(args)
		return Result{Out: map[bool]string{true: "Aqua\n", false: "Background\n"}[f.gui]}
	case "print":
		if len(args) != 1 || !strings.HasSuffix(args[0], "/501/"+label) {
			f.t.Errorf("print %q", args)
		}
		return f.print(args[0], gone)
	case "print-disabled":
		f.want(args, f.domain())
		return Result{Code: f.foreign, Out: "\t\"" + label + "\" => " + map[bool]string{true: "disabled", false: "enabled"}[f.disabled] + "\n"}
	case "enable", "disable":
		f.want(args, job)
		if f.foreign == 0 {
			f.disabled = verb == "disable"
		}
		return Result{Code: f.foreign}
	case "bootstrap":
		f.want(args, f.domain(), plist)
		return f.bootstrap(job)
	case "load":
		f.want(args, "-w", plist)
		if f.oldWay {
			f.load(job)
		}
		return Result{} // whatever happened
	case "bootout":
		f.want(args, job)
		if f.loaded == "" {
			return gone
		}
		f.loaded, f.pid, f.leaving = "", 0, f.lag
		return Result{}
	case "kickstart":
		f.want(args, job)
		if f.loaded == "" {
			return gone
		}
		f.spawn()
		return Result{}
	case "kill":
		f.want(args[1:], job)
		f.pid = 0
		if f.loaded != "" && !f.idle {
			f.spawn()
		}
		return Result{}
	case "submit":
		f.want(args, "-l", label+".reload", "--", "/bin/sh", "-c", reload, "sh", f.domain(), label, plist, label+".reload")
		return f.submit(job)
	case "remove":
		f.want(args, label+".reload")
		return Result{Code: 3}
	}
	f.t.Errorf("an unknown verb: %s %q", verb, args)
	return Result{Code: 64}
}

func (f *fakeLaunchd) print(job string, gone Result) Result {
	if f.leaving > 0 {
		f.leaving--
		return Result{Out: label + " = {\n\tstate = running\n\tpid = 99\n}\n"}
	}
	if job != f.loaded || f.loaded == "" {
		return gone
	}
	if f.pid == 0 {
		return Result{Out: label + " = {\n\tstate = spawn scheduled\n\tlast exit code = 78: EX_CONFIG\n}\n"}
	}
	return Result{Out: fmt.Sprintf("%s = {\n\tstate = running\n\tpid = %d\n\tlast exit code = (never exited)\n}\n", label, f.pid)}
}

func (f *fakeLaunchd) bootstrap(job string) Result {
	switch {
	case len(f.codes) > 0:
		code := f.codes[0]
		f.codes = f.codes[1:]
		return Result{Code: code, Err: "Bootstrap failed"}
	case f.leaving > 0:
		return Result{Code: 37, Err: "Operation already in progress"}
	case f.loaded != "":
		return Result{Code: 5, Err: "Bootstrap failed: 5: Input/output error"}
	case f.disabled:
		return Result{Code: 119, Err: "Service is disabled"}
	case f.lies:
		return Result{}
	}
	f.load(job)
	return Result{}
}

func (f *fakeLaunchd) load(job string) {
	data, err := os.ReadFile(filepath.Join(f.root, plist))
	if err != nil {
		f.t.Error(err)
	}
	f.loaded, f.text = job, string(data)
	if !f.idle {
		f.spawn()
	}
}

// spawn starts a process, if there is a directory for its output.
func (f *fakeLaunchd) spawn() {
	if j, err := service.ReadLaunchd([]byte(f.text)); err != nil {
		f.t.Error(err)
	} else if _, err := os.Stat(filepath.Join(f.root, filepath.Dir(j.Err))); err != nil {
		f.pid = 0
		return
	}
	f.next++
	f.pid = f.next
}

func (f *fakeLaunchd) submit(job string) Result {
	switch f.submits {
	case "refused":
		return Result{Code: 1, Err: "submit: not allowed"}
	case "dead":
	default:
		f.loaded, f.pid = "", 0
		f.load(job)
	}
	return Result{}
}
