// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/approval"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/mcp"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/profile"
	"github.com/hermes-appliance/hermes-appliance/appliance/sandbox"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal/docker"
)

// Runtime is what all profiles of a running gateway share: the registry of children, the
// connections to models, the container engine, the hosts of MCP servers, the turns. None of it
// holds anything of one profile that another could be handed. It is safe for concurrent use.
type Runtime struct {
	Turns *gateway.Turns

	env       *Environments
	log       *slog.Logger // hides in a profile's records its secrets
	veils     *veils
	now       func() time.Time
	version   string
	processes *process.Registry
	models    *model.Client
	servers   *mcp.Host
	grants    approval.Sessions
	pid       int
	chores    sync.WaitGroup // what runs beside the turns

	base context.Context //nolint:containedctx // what turns run under: they outlive the request that started them
	stop context.CancelCauseFunc

	mu       sync.Mutex
	closed   bool
	tenants  map[profile.Key]*Tenant
	leaving  map[profile.Key]bool // profiles that are gone, while what they had open is ended
	engine   *sandbox.Engine      // nil = not needed yet
	engineMu sync.Mutex
}

// RuntimeOptions are what the process hands in.
type RuntimeOptions struct {
	Environments *Environments
	Log          *slog.Logger
	Now          func() time.Time
	Version      string
	PID          int              // of this process: commands must not end it
	Active       func(active int) // told how many turns run; nil = nobody

	veils *veils // those that Log has; nil = it has none yet
}

// NewRuntime returns a runtime that serves no profile yet. Values of ctx are kept; its end is
// not: Close ends everything.
func NewRuntime(ctx context.Context, o RuntimeOptions) *Runtime {
	base, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &Runtime{
		Turns: gateway.NewTurns(o.Now, o.Active), env: o.Environments, now: o.Now, version: o.Version, pid: o.PID,
		models: model.New(nil), base: base, stop: stop, tenants: map[profile.Key]*Tenant{}, leaving: map[profile.Key]bool{},
	}
	if r.log, r.veils = o.Log, o.veils; r.veils == nil {
		r.veils = &veils{}
		r.log = r.veils.logger(o.Log)
	}
	r.processes = process.New(r.log)
	r.servers = mcp.New(base, mcp.Config{Processes: r.processes, Log: r.log, Version: o.Version, Sample: r.sample})
	return r
}

// Tenant returns the profile with the given id, "" for the one the process was started for. It
// is opened when it first does something. The error wraps [home.ErrNoProfile]; without
// gateway.multiplex_profiles every profile but the launch profile is one that does not exist
// here.
func (r *Runtime) Tenant(id string) (*Tenant, error) {
	h := r.env.o.Launch
	if id != "" {
		var err error
		if h, err = h.NamedProfile(id); err != nil {
			r.missed(h, err)
			return nil, err
		}
	}
	key := profile.KeyOf(h.Dir)
	if key != r.env.host.LaunchKey() && !r.env.host.Multiplex() {
		return nil, fmt.Errorf("%w: %s is not served: gateway.multiplex_profiles is off", home.ErrNoProfile, id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, gateway.ErrDraining
	}
	if t := r.tenants[key]; t != nil {
		return t, nil // under whichever of its names it came first: a link is no second profile
	}
	if r.leaving[key] {
		return nil, fmt.Errorf("%w: %s was deleted and is not let go of yet; try again in a moment", home.ErrNoProfile, id)
	}
	r.dropDeleted()
	t := newTenant(r, h, key)
	r.tenants[key] = t
	return t, nil
}

// Multiplexed reports whether the gateway serves every profile of its home.
func (r *Runtime) Multiplexed() bool { return r.env.host.Multiplex() }

// Profiles are the ids of the profiles that are served.
func (r *Runtime) Profiles() ([]string, error) {
	launch := r.env.o.Launch
	if !r.env.host.Multiplex() {
		return []string{launch.Profile}, nil
	}
	homes, err := launch.Profiles()
	if err != nil {
		return nil, err
	}
	out := []string{home.Default}
	for _, h := range homes {
		out = append(out, h.Profile)
	}
	return out, nil
}

// chore runs something beside the turns, with the values of ctx, until the gateway stops; then
// nothing is begun any more.
func (r *Runtime) chore(ctx context.Context, run func(ctx context.Context)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.chores.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				r.log.ErrorContext(ctx, "panic beside the turns", "panic", fmt.Sprint(p))
			}
		}()
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		defer cancel(nil)
		defer context.AfterFunc(r.base, func() { cancel(gateway.ErrDraining) })()
		run(ctx)
	})
}

// containers connects to the container engine, once. A failure is not remembered.
func (r *Runtime) containers(ctx context.Context) (*sandbox.Engine, error) {
	r.engineMu.Lock()
	defer r.engineMu.Unlock()
	if r.engine != nil {
		return r.engine, nil
	}
	e, err := sandbox.Dial(ctx, sandbox.Options{Getenv: r.env.Getenv, Log: r.log})
	if err == nil {
		r.engine = e
	}
	return e, err
}

// endLeft ends, beside everything else, what a gateway of this home that was killed left running
// in containers.
func (r *Runtime) endLeft(ctx context.Context) {
	if len(r.processes.Left()) == 0 {
		return
	}
	r.chore(ctx, func(ctx context.Context) {
		engine, err := r.containers(ctx)
		n := 0
		if err == nil {
			n, err = docker.EndLeft(ctx, engine, r.processes)
		}
		if n > 0 {
			r.log.WarnContext(ctx, "ended commands that a killed gateway had left in containers", "commands", n)
		}
		if err != nil {
			r.log.WarnContext(ctx, "commands that a killed gateway had left in containers may go on until those are used", "error", err)
		}
	})
}

// Close ends what the profiles have: their turns are over by now, or are ended here. Commands
// and servers are killed with their trees; when ctx ends first, without grace. It returns what
// could not be ended.
func (r *Runtime) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	tenants := r.tenants
	r.tenants = map[profile.Key]*Tenant{}
	r.mu.Unlock()
	err := r.Turns.Stop(ctx, "the gateway is stopping")
	err = errors.Join(err, r.servers.Close(ctx))
	for _, t := range tenants {
		err = errors.Join(err, t.close(ctx))
	}
	r.stop(gateway.ErrDraining)
	err = errors.Join(err, r.processes.Kill(ctx))
	r.processes.Fence()
	r.chores.Wait() // their context is over, and their children are gone
	r.engineMu.Lock()
	if r.engine != nil {
		err = errors.Join(err, r.engine.Close(ctx))
	}
	r.engineMu.Unlock()
	r.models.Close()
	return err
}

// KillNow is the hard exit: every command is killed at once, within half a second, and none
// can be started any more. It takes no lock that could be stuck.
func (r *Runtime) KillNow() { r.processes.KillNow() }
