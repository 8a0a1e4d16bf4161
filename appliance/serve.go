// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/control"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
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
	Listen       func(ctx context.Context, address string) (net.Listener, error)

	Ready func(s gateway.Status) // the platforms were tried; nil = nobody is told
	Alive func()                 // the gateway answers its own probes; nil = nobody is told
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
	claim, err := gateway.NewClaim(h, o.Argv)
	if err != nil {
		return err
	}
	defer func() {
		if err := claim.Release(); err != nil {
			o.Log.Warn("the home was not given back cleanly", "error", err)
		}
	}()
	s := &server{o: o, home: h, claim: claim, pause: make(chan struct{})}
	first := gateway.Status{Record: claim.Record, Phase: gateway.Starting, Notices: o.Notices, Version: o.Version, Revision: o.Revision}
	s.state = gateway.NewStateFile(h, first, o.Log, o.Now)
	defer func() {
		if err := s.state.Flush(); err != nil {
			o.Log.Warn("state file not written", "error", err)
		}
	}()
	if !s.calm(ctx) {
		s.state.Update(func(st *gateway.Status) { st.Phase = gateway.Stopped })
		return nil
	}
	s.rt = NewRuntime(ctx, RuntimeOptions{
		Environments: o.Environments, Log: o.Log, Now: o.Now, Version: o.Version, PID: claim.Record.PID,
		Active: func(n int) { s.state.Update(func(s *gateway.Status) { s.Agents = n }) },
	})
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
	o     ServeOptions
	home  home.Home
	claim *gateway.Claim
	state *gateway.StateFile
	rt    *Runtime
	api   *listener
	hooks *listener     // nil = webhooks are off
	pause chan struct{} // closed when an updater asks for a drain
	once  sync.Once
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
	s.platforms(ctx)
	profiles, err := s.rt.Profiles()
	if err != nil {
		s.o.Log.Warn("profiles cannot be listed", "error", err)
	}
	s.state.Update(func(st *gateway.Status) { st.Phase, st.Profiles = gateway.Up, profiles })
	if err := s.state.Flush(); err != nil {
		s.o.Log.Warn("state file not written", "error", err)
	}
	if s.o.Ready != nil {
		s.o.Ready(s.state.Status())
	}
	s.rt.tidyCheckpoints()
	s.o.Log.Info("gateway is up", "home", s.home.Dir, "profiles", profiles)
	why := s.announced(s.wait(ctx))
	s.o.Log.Info("gateway is stopping", "reason", why)
	stopErr := s.stop(ctx, why)
	if sock != nil {
		if err := sock.Close(); err != nil {
			s.o.Log.Warn("control socket", "error", err)
		}
	}
	if stopErr != nil {
		return stopErr
	}
	return why
}

// wait returns why the gateway ends: nil for a stop.
func (s *server) wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wedged := make(chan error, 1)
	go func() {
		l := gateway.Liveness{Log: s.o.Log, Alive: s.o.Alive}
		wedged <- l.Run(ctx, s.probes())
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

// diagnose keeps what a wedged gateway was doing.
func (s *server) diagnose(err error) {
	s.state.Update(func(st *gateway.Status) { st.Phase, st.Reason = gateway.Degraded, err.Error() })
	var w *gateway.WedgedError
	if !errors.As(err, &w) {
		return
	}
	dir := filepath.Join(s.home.Dir, "logs")
	files := atomicfile.Writer{}
	if err := files.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		s.o.Log.Warn("no directory for logs", "error", err)
		return
	}
	path := filepath.Join(dir, "gateway-exit-diag.log")
	if err := files.Write(path, w.Stack, atomicfile.Options{Mode: 0o600}); err != nil {
		s.o.Log.Warn("diagnosis not written", "error", err)
		return
	}
	s.o.Log.Error("the gateway does not answer itself; what it was doing is in the file", "file", path, "error", err)
}

// stop ends everything within its budget: intake, turns, what they started, databases. A stop
// that hangs ends hard: every command is killed first.
func (s *server) stop(ctx context.Context, why error) error {
	s.state.Update(func(st *gateway.Status) { st.Phase = gateway.Draining })
	drain := time.Duration(0)
	var stop *StopError
	if errors.As(why, &stop) && stop.Code == exitcode.Restart {
		drain = s.drainTime()
	}
	base := context.WithoutCancel(ctx)
	done := make(chan error, 1)
	go func() {
		if drain > 0 {
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
		done <- errors.Join(err, s.rt.Close(cctx))
	}()
	select {
	case err := <-done:
		if err != nil {
			s.o.Log.Warn("stopped, but not cleanly", "error", err)
		}
		return nil
	case <-time.After(drain + turnGrace + 2*closeGrace):
		s.rt.KillNow()
		return &StopError{exitcode.Error, fmt.Sprintf("the stop took longer than %s; ended hard", drain+turnGrace+2*closeGrace)}
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
