// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/control"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// ServeOptions are what the process hands in.
type ServeOptions struct {
	Environments *Environments
	Log          *slog.Logger
	Now          func() time.Time
	Argv         []string
	Version      string
	Revision     string
	Temp         string          // directory for what cannot stand in the home
	Notices      []string        // what a person should know, e.g. that the config is newer
	Restart      <-chan struct{} // somebody asks for a drain and a restart (SIGUSR1); nil = nobody
	// Listen returns the listener of a platform ("api_server", "webhook") at an address. A held
	// one is the service manager's, has an address of its own, and takes a deadline: it goes on
	// to take connections while the gateway restarts.
	Listen func(ctx context.Context, platform, address string) (l net.Listener, held bool, err error)

	Ready    func(s gateway.Status) // the platforms were tried; nil = nobody is told
	Alive    func()                 // the gateway answers its own probes; nil = nobody is told
	Waiting  func(d time.Duration)  // it becomes ready that much later; nil = nobody is told
	Watchdog time.Duration          // the manager ends a process whose Alive it did not hear for that long; 0 = it does not
	Exit     func(code int)         // ends the process at once; nil = a start or stop that hangs is nobody's business
	Dump     io.Writer              // gets what a process was doing that is ended at once; nil = nobody
}

// StopError says that the gateway ended and what its supervisor is to do about it.
type StopError struct {
	Code   exitcode.Code
	Reason string
}

func (e *StopError) Error() string { return e.Reason }

// ExitCode is the code of the process.
func (e *StopError) ExitCode() exitcode.Code { return e.Code }

// Budgets of a stop.
const (
	turnGrace  = 10 * time.Second // from the interrupt of a turn to the end of its context
	closeGrace = 10 * time.Second // for terminals, servers and databases
)

// Serve runs the gateway of a home until ctx ends, a restart is asked for, or it does not
// answer any more. It returns nil after a stop; a [*StopError] with 75 if it is to be started
// again; a [*home.LockedError] if another gateway runs there. Commands that it started are gone
// when it returns.
func Serve(ctx context.Context, o ServeOptions) error {
	h := o.Environments.o.Launch
	hide := &veils{}
	o.Log = hide.logger(o.Log)
	s := &server{o: o, home: h, pause: make(chan struct{}), beats: make(chan struct{}, 1)}
	// Last of all, so that it also sees a home that cannot be given back.
	defer func() { s.stopping.Stop() }()
	claim, err := gateway.NewClaim(h, o.Argv)
	if err != nil {
		return err
	}
	defer func() {
		if err := claim.Release(); err != nil {
			o.Log.Warn("the home was not given back cleanly", "error", err)
		}
	}()
	s.claim = claim
	first := gateway.Status{Record: claim.Record, Phase: gateway.Starting, Notices: o.Notices, Version: o.Version, Revision: o.Revision}
	s.state = gateway.NewStateFile(h, first, o.Log, o.Now)
	defer func() {
		if err := s.state.Flush(); err != nil {
			o.Log.Warn("state file not written", "error", err)
		}
	}()
	s.starting = s.watch("start", exitLog, startLimit)
	if !s.calm(ctx) {
		s.starting.Stop()
		s.state.Update(func(st *gateway.Status) { st.Phase = gateway.Stopped })
		return nil
	}
	s.rt = NewRuntime(ctx, RuntimeOptions{
		Environments: o.Environments, Log: o.Log, Now: o.Now, Version: o.Version, PID: claim.Record.PID, veils: hide,
		Active: func(n int) { s.state.Update(func(s *gateway.Status) { s.Agents = n }) },
	})
	s.runtime.Store(s.rt)
	s.reap()
	err = s.run(ctx)
	s.state.Update(func(st *gateway.Status) {
		st.Phase = gateway.Stopped
		for name, p := range st.Platforms {
			if p.State == "connected" { // what failed goes on saying why
				st.Platforms[name] = gateway.PlatformState{State: "stopped", Updated: o.Now().Format(time.RFC3339)}
			}
		}
		if err != nil {
			st.Reason = err.Error()
		}
		var stop *StopError
		st.Restart = errors.As(err, &stop) && stop.Code == exitcode.Restart
	})
	return err
}

// server is a gateway that runs.
type server struct {
	o      ServeOptions
	home   home.Home
	claim  *gateway.Claim
	state  *gateway.StateFile
	rt     *Runtime
	api    *listener
	hooks  *listener     // nil = webhooks are off
	pause  chan struct{} // closed when an updater asks for a drain
	beats  chan struct{} // the heart is to beat
	wedged bool          // it does not answer itself: nothing is waited for
	once   sync.Once

	runtime            atomic.Pointer[Runtime] // rt, once it is there
	starting, stopping *gateway.Deadman        // nil = nobody watches
}

// calm waits out a storm of restarts; false = the gateway was told to stop meanwhile.
func (s *server) calm(ctx context.Context) bool {
	wait, err := gateway.Storm{}.Start(s.home, s.o.Now())
	if err != nil {
		s.o.Log.Warn("starts are not counted", "error", err)
	}
	if wait == 0 {
		return true
	}
	s.o.Log.Warn("too many starts in a short time: waiting", "seconds", wait.Seconds())
	s.starting.Kick(wait + startLimit)
	if s.o.Waiting != nil {
		s.o.Waiting(wait + startLimit)
	}
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}

// run starts the parts in order, waits, and stops them in reverse.
func (s *server) run(ctx context.Context) error {
	sock, err := control.Listen(context.WithoutCancel(ctx), s.home, s.o.Temp, s.verbs(), s.o.Log)
	if err != nil {
		s.o.Log.Warn("no control socket; commands read the state file instead", "error", err)
	}
	defer s.beating(ctx)()
	s.platforms(ctx)
	profiles, err := s.rt.Profiles()
	if err != nil {
		s.o.Log.Warn("profiles cannot be listed", "error", err)
	}
	s.state.Update(func(st *gateway.Status) { st.Phase, st.Profiles = gateway.Up, profiles })
	if err := s.state.Flush(); err != nil {
		s.o.Log.Warn("state file not written", "error", err)
	}
	s.starting.Stop()
	if s.o.Ready != nil {
		s.o.Ready(s.state.Status())
	}
	s.rt.endLeft(ctx)
	s.rt.tidyCheckpoints()
	s.o.Log.Info("gateway is up", "home", s.home.Dir, "profiles", profiles)
	why := s.announced(s.wait(ctx))
	reason := "it was told to stop"
	if why != nil {
		reason = why.Error()
	}
	s.o.Log.Info("gateway is stopping", "reason", reason)
	s.stop(ctx, why)
	if sock != nil {
		if err := sock.Close(); err != nil {
			s.o.Log.Warn("control socket", "error", err)
		}
	}
	return why
}

// wait returns why the gateway ends: nil for a stop.
func (s *server) wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wedged := make(chan error, 1)
	go func() {
		wedged <- s.liveness().Run(ctx, s.probes())
	}()
	select {
	case <-ctx.Done():
		return nil
	case <-s.o.Restart:
		return &StopError{exitcode.Restart, "a restart was asked for"}
	case <-s.pause:
		return &StopError{exitcode.Restart, "paused for an update"}
	case err := <-wedged:
		if err == nil {
			return nil
		}
		s.diagnose(err)
		s.wedged = true
		return &StopError{exitcode.Restart, "wedged: " + err.Error()}
	}
}

// announced tells a stop that somebody asked for from one that just happened. Only s6 needs to
// know: it parks a service that exits 0, and brings one back that fails.
func (s *server) announced(why error) error {
	if why != nil {
		return why
	}
	planned := false
	for _, m := range []gateway.Marker{gateway.PlannedStop, gateway.Takeover} {
		ok, err := m.Take(s.home, s.claim.Record, s.o.Now())
		if err != nil {
			s.o.Log.Warn("a marker cannot be read", "marker", string(m), "error", err)
		}
		planned = planned || ok
	}
	if !planned && s.supervisor() == "s6" {
		return &StopError{exitcode.Error, "stopped by a signal that nobody announced"}
	}
	return nil
}

// probes are what must answer.
func (s *server) probes() []gateway.Probe {
	out := []gateway.Probe{{Name: "the turns", Ask: func(context.Context) error { s.rt.Turns.Active(); return nil }}}
	if s.api != nil {
		out = append(out, gateway.Probe{Name: "the api server", Ask: s.api.probe})
	}
	return out
}

// stop ends everything within its budget: intake, turns, what they started, databases. The
// watchdog over it stays armed until the process has given its home back.
func (s *server) stop(ctx context.Context, why error) {
	s.state.Update(func(st *gateway.Status) { st.Phase = gateway.Draining })
	drain := time.Duration(0)
	if stop, ok := errors.AsType[*StopError](why); ok && stop.Code == exitcode.Restart && !s.wedged {
		drain = s.drainTime()
	}
	s.stopping = s.watch("stop", stopLog, drain+stopLimit)
	base := context.WithoutCancel(ctx)
	defer s.breathe(base)()
	if !s.handOver(base, max(handOverLeast, min(drain, handOverMost))) && drain > 0 {
		s.takeAgain()
		dctx, cancel := context.WithTimeout(base, drain)
		if err := s.rt.Turns.Drain(dctx); err != nil {
			s.o.Log.Warn("turns still run after the drain; they are interrupted", "running", s.rt.Turns.Active())
		}
		cancel()
	}
	tctx, cancel := context.WithTimeout(base, turnGrace)
	err := s.rt.Turns.Stop(tctx, "the gateway is stopping")
	cancel()
	cctx, cancel := context.WithTimeout(base, closeGrace)
	defer cancel()
	if s.api != nil {
		err = errors.Join(err, s.api.shutdown(cctx))
	}
	if s.hooks != nil {
		err = errors.Join(err, s.hooks.shutdown(cctx))
	}
	if err = errors.Join(err, s.rt.Close(cctx)); err != nil {
		s.o.Log.Warn("stopped, but not cleanly", "error", err)
	}
}

// reap ends what a gateway of this home that was killed left running, removes what it left of
// writes, and has every command written down for the next one.
func (s *server) reap() {
	list := filepath.Join(s.home.State(), "gateway.commands")
	if err := s.claim.Sweep(list); err != nil {
		s.o.Log.Warn("staged files of a killed gateway stay", "error", err)
	}
	n, err := s.rt.processes.Keep(list)
	if err != nil {
		s.o.Log.Warn("commands are not written down: should this process be killed, they outlive it", "error", err)
	}
	if n > 0 {
		s.o.Log.Warn("ended commands that a killed gateway had left", "processes", n)
	}
}

// drainTime is how long running turns may take before a restart.
func (s *server) drainTime() time.Duration {
	c, err := s.o.Environments.configs.Load(s.home, s.o.Environments.configOptions())
	if err != nil || !c.Has("gateway", "restart_drain_timeout") {
		return 0
	}
	d, err := c.With(nil).Duration("gateway", "restart_drain_timeout")
	if err != nil {
		return 0
	}
	return d
}

// verbs are what the control socket answers.
func (s *server) verbs() map[string]control.Verb {
	return map[string]control.Verb{
		"identify": func(context.Context) (any, error) {
			st := s.state.Status()
			return map[string]any{
				"kind": st.Kind, "pid": st.PID, "start_time": st.StartTime, "hermes_home": st.Home, "profile": s.home.Profile,
				"supervisor": s.supervisor(), "code_sha": st.Revision, "code_version": st.Version, "served_profiles": st.Profiles,
			}, nil
		},
		"status": func(context.Context) (any, error) { return s.state.Status(), nil },
		"pause-for-update": func(context.Context) (any, error) {
			st := s.state.Status()
			already := st.Phase != gateway.Up && st.Phase != gateway.Starting
			s.once.Do(func() { close(s.pause) })
			return map[string]any{
				"pausing": true, "already_stopping": already, "pid": st.PID, "drain_timeout": s.drainTime().Seconds(),
			}, nil
		},
		"rescan-profiles": func(context.Context) (any, error) {
			profiles, err := s.rt.Profiles()
			if err == nil {
				s.state.Update(func(st *gateway.Status) { st.Profiles = profiles })
			}
			return map[string]any{"served_profiles": profiles}, err
		},
	}
}

// supervisor names what started this process.
func (s *server) supervisor() string {
	env := s.o.Environments.Getenv
	switch {
	case env("HERMES_S6_SUPERVISED_CHILD") != "":
		return "s6"
	case env("INVOCATION_ID") != "":
		return "systemd"
	case env("XPC_SERVICE_NAME") != "" && env("XPC_SERVICE_NAME") != "0":
		return "launchd"
	case env("HERMES_GATEWAY_EXTERNAL_SUPERVISOR") != "":
		return "external"
	}
	return ""
}
