// SPDX-License-Identifier: MIT

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// world is a host that exists on disk alone, so that a process can be killed in the middle of
// changing it. Every operation can be failed, or the process ended, before it and after it.
type world struct {
	dir  string
	hook func(at string) error

	refusal string
	notOK   map[Service]error
	account error
	inside  []string
	uid     int
	foreign string
	pinned  map[string]string // homes that units pin, by profile
	owner   map[string]*int   // of a profile's process, where it is not uid
	park    bool              // a gateway that the state file claims for the multiplexer does not start
	mute    bool              // the default gateway never says what it serves
	facts   map[string]Facts
	bad     map[string]error
}

// unitState is a unit of the fake manager; its text stands in a file of its own.
type unitState struct {
	Enabled, Active bool
	Account         string
}

type procState struct {
	PID  int
	Unit string // scope of the unit that runs it; "" = detached
}

// seed describes what a profile has at first.
type seed struct {
	user, system, detached bool
	off                    bool // its units do not start by themselves
}

func newWorld(t testing.TB, seeds map[string]seed) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), park: true}
	testkit.WriteTree(t, w.dir, map[string]string{
		"home/config.yaml": "# top\nmodel: x   # keep\nmultiplex_profiles: false\n", "home/SOUL.md": "s", "units/": "", "procs/": "",
	})
	for _, name := range []string{"default", "work", "fun"} {
		s, ok := seeds[name]
		if !ok {
			continue
		}
		h := w.home(name)
		if name != "default" {
			testkit.WriteTree(t, h.Dir, map[string]string{"config.yaml": "a: " + name + "\n", "SOUL.md": name})
		}
		for scope, on := range map[string]bool{"user": s.user, "system": s.system} {
			if on {
				w.put(w.unit(name, scope), "# hand edited\nunit of "+name+"\n")
				w.save(w.unit(name, scope)+".state", unitState{Enabled: !s.off, Account: map[string]string{"system": "ada"}[scope]})
			}
		}
		ctx := t.Context()
		switch {
		case s.detached:
			w.must(w.Spawn(ctx, h))
		case s.system:
			w.must(w.Start(ctx, h, Service{"systemd", true}))
		case s.user:
			w.must(w.Start(ctx, h, Service{"systemd", false}))
		}
	}
	return w
}

func (w *world) must(err error) {
	if err != nil {
		panic(err)
	}
}

func (w *world) root() home.Home {
	return home.Home{Dir: filepath.Join(w.dir, "home"), Profile: home.Default}
}

func (w *world) home(name string) home.Home {
	if name == home.Default {
		return w.root()
	}
	return home.Home{Dir: filepath.Join(w.dir, "home", "profiles", name), Profile: name}
}

func (w *world) unit(name, scope string) string {
	return filepath.Join(w.dir, "units", name+"."+scope+".service")
}
func (w *world) proc(name string) string { return filepath.Join(w.dir, "procs", name) }

func (w *world) put(path, text string) { w.must(os.WriteFile(path, []byte(text), 0o600)) }

func (w *world) save(path string, v any) {
	data, err := json.Marshal(v)
	w.must(err)
	w.put(path, string(data))
}

func (w *world) load(path string, v any) bool {
	data, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(data, v) == nil
}

// op runs an operation between two points at which it can be failed.
func (w *world) op(name string, do func() error) error {
	if w.hook != nil {
		if err := w.hook(name + " before"); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	if w.hook != nil {
		return w.hook(name + " after")
	}
	return nil
}

func scopeName(s Service) string {
	if s.System {
		return "system"
	}
	return "user"
}

func (w *world) Refusal() string { return w.refusal }
func (w *world) UID() int        { return w.uid }

func (w *world) Process(h home.Home) (Process, bool, error) {
	var p procState
	if !w.load(w.proc(h.Profile), &p) {
		return Process{}, false, nil
	}
	uid := &w.uid
	if o, ok := w.owner[h.Profile]; ok {
		uid = o
	}
	return Process{p.PID, uid}, true, nil
}

func (w *world) Units(_ context.Context, h home.Home) (out []Unit, err error) {
	for _, scope := range []string{"user", "system"} {
		path := w.unit(h.Profile, scope)
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var s unitState
		w.load(path+".state", &s)
		pinned := h.Dir
		if p, ok := w.pinned[h.Profile]; ok {
			pinned = p
		}
		u := Unit{
			Service: Service{"systemd", scope == "system"}, Name: filepath.Base(path), Account: s.Account, UID: &w.uid, Home: pinned, Active: s.Active, Disabled: !s.Enabled,
			Files: []File{{path, 0o600, data}},
		}
		if h.Profile != home.Default {
			u.Foreign = w.foreign
		}
		if s.Account == "nobody-knows" {
			u.UID = nil
		}
		out = append(out, u)
	}
	return out, nil
}

func (w *world) Ready(_ context.Context, s Service) error { return w.notOK[s] }
func (w *world) Account(string) error                     { return w.account }
func (w *world) Inside(h home.Home) bool                  { return slices.Contains(w.inside, h.Profile) }

func (w *world) Enable(_ context.Context, h home.Home, s Service) error {
	return w.op("enable "+h.Profile, func() error {
		var u unitState
		path := w.unit(h.Profile, scopeName(s)) + ".state"
		w.load(path, &u)
		u.Enabled = true
		w.save(path, u)
		return nil
	})
}

func (w *world) Disable(_ context.Context, h home.Home, unit Unit) error {
	return w.op("disable "+h.Profile, func() error {
		var u unitState
		path := w.unit(h.Profile, scopeName(unit.Service)) + ".state"
		w.load(path, &u)
		u.Enabled = false
		w.save(path, u)
		return nil
	})
}

func (w *world) Install(_ context.Context, h home.Home, s Service, account string, files []File) error {
	return w.op("install "+h.Profile, func() error {
		text := "rendered for " + h.Profile + " as " + account + "\n"
		if len(files) > 0 {
			text = string(files[0].Data)
		}
		path := w.unit(h.Profile, scopeName(s))
		w.put(path, text)
		w.save(path+".state", unitState{Enabled: true, Account: account})
		return nil
	})
}

func (w *world) Start(_ context.Context, h home.Home, s Service) error {
	return w.op("start "+h.Profile, func() error { return w.start(h, s) })
}

func (w *world) start(h home.Home, s Service) error {
	path := w.unit(h.Profile, scopeName(s)) + ".state"
	var u unitState
	if !w.load(path, &u) {
		return fmt.Errorf("unit of %s is not installed", h.Profile)
	}
	if err := w.run(h, scopeName(s)); err != nil {
		return err
	}
	u.Active = true
	w.save(path, u)
	return nil
}

// run is a gateway that starts: one of a profile parks itself if a multiplexer says it serves it.
func (w *world) run(h home.Home, unit string) error {
	var p procState
	if w.load(w.proc(h.Profile), &p) {
		return fmt.Errorf("a gateway of %s runs already", h.Profile)
	}
	var st struct {
		Profiles []string `json:"served_profiles"`
	}
	if w.load(statePath(w.root()), &st) && w.park && h.Profile != home.Default && slices.Contains(st.Profiles, h.Profile) {
		return errors.New("exit 78: served by the multiplexer")
	}
	pid := int(time.Now().UnixNano() % 1e9)
	if h.Profile == home.Default {
		w.serve(pid)
	}
	w.save(w.proc(h.Profile), procState{pid, unit})
	return nil
}

// serve is what a default gateway writes of itself.
func (w *world) serve(pid int) {
	profiles, platforms := []string{"default"}, map[string]any{"telegram": map[string]any{"state": "connected"}}
	if on, err := w.On(); err == nil && on {
		homes, err := w.root().Profiles()
		w.must(err)
		for _, h := range homes {
			profiles = append(profiles, h.Profile)
			platforms[h.Profile+":telegram"] = map[string]any{"state": "connected"}
		}
	}
	if w.mute {
		profiles = nil
	}
	w.save(statePath(w.root()), map[string]any{
		"pid": pid, "writer_pid": pid, "served_profiles": profiles, "platforms": platforms, "unknown": "stays", "desired_state": "running",
	})
}

func (w *world) stop(h home.Home, unit string) {
	var p procState
	if w.load(w.proc(h.Profile), &p) && (unit == "" || p.Unit == unit) {
		w.must(os.Remove(w.proc(h.Profile)))
		for _, scope := range []string{"user", "system"} {
			var u unitState
			if path := w.unit(h.Profile, scope) + ".state"; p.Unit == scope && w.load(path, &u) {
				u.Active = false
				w.save(path, u)
			}
		}
	}
}

func (w *world) Restart(_ context.Context, h home.Home, s Service) error {
	return w.op("restart "+h.Profile, func() error {
		w.stop(h, "")
		return w.start(h, s)
	})
}

func (w *world) Uninstall(_ context.Context, h home.Home, s Service) error {
	return w.op("uninstall "+h.Profile, func() error {
		w.stop(h, scopeName(s))
		path := w.unit(h.Profile, scopeName(s))
		return errors.Join(os.RemoveAll(path), os.RemoveAll(path+".state"))
	})
}

func (w *world) StopProcess(_ context.Context, h home.Home) error {
	return w.op("stop "+h.Profile, func() error { w.stop(h, ""); return nil })
}

func (w *world) Spawn(_ context.Context, h home.Home) error {
	return w.op("spawn "+h.Profile, func() error { return w.run(h, "") })
}

func (w *world) inspect(_ context.Context, h home.Home) (Facts, error) {
	return w.facts[h.Profile], w.bad[h.Profile]
}

// fleet is what a command would make of the world.
func (w *world) fleet() Fleet {
	f := Fleet{
		Default: w.root(), Host: w, Flag: w, Inspect: w.inspect, Poll: time.Millisecond, Wait: 20 * time.Millisecond,
		Now: func() time.Time { return time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC) },
	}
	if w.hook != nil {
		f.Files.Before = func(op atomicfile.Op, path string) error { return w.hook(string(op) + " " + filepath.Base(path)) }
	}
	return f
}

func multiplex(o Observed) Plan  { return o.Multiplex(false) }
func standalone(o Observed) Plan { return o.Standalone() }

// apply is one whole command.
func (w *world) apply(ctx context.Context, plan func(Observed) Plan) (Plan, Result, error) {
	f := w.fleet()
	o, err := f.Observe(ctx)
	if err != nil {
		return Plan{}, Result{}, err
	}
	p := plan(o)
	r, err := f.Apply(ctx, p, plan)
	return p, r, err
}

// lasting is everything on disk that a way back must bring back, byte for byte: no locks, and
// not what gateways write of themselves.
func (w *world) lasting(t testing.TB) map[string]string {
	t.Helper()
	all := testkit.ReadTree(t, w.dir)
	for name := range all {
		if strings.HasSuffix(name, ".lock") || strings.HasSuffix(name, "/lock") || strings.HasSuffix(name, "gateway_state.json") {
			delete(all, name)
		}
		if strings.HasPrefix(name, "procs/") {
			var p procState
			w.load(filepath.Join(w.dir, name), &p)
			all[name] = "runs by " + p.Unit
		}
	}
	return all
}
