// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/childenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/sandbox"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal/docker"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal/local"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// terminals is where a profile's commands run. A backend is made when the first command comes
// and again when the profile's terminal settings change; one that fails is not remembered.
type terminals struct {
	t     *Tenant
	files atomicfile.Writer
	procs *terminal.Procs

	mu      sync.Mutex
	backend terminal.Backend
	policy  *config.Terminal
	made    string // the settings it was made from
}

// at returns the backend of the profile's settings of now. A policy that cannot be read is an
// error: nothing runs under another one (P8).
func (x *terminals) at(ctx context.Context, b bound) (terminal.Backend, *config.Terminal, error) {
	policy, err := x.settings(b)
	if err != nil {
		return nil, nil, err
	}
	backend, old, err := x.take(ctx, policy)
	if old != nil { // without the lock: it runs a command, and a place that hangs holds up nobody else
		if err := old.Close(ctx); err != nil {
			x.t.rt.log.Warn("an old terminal was not closed", "profile", x.t.home.Profile, "error", err)
		}
	}
	return backend, policy, err
}

// take returns the backend of a policy, and the one whose place it took.
func (x *terminals) take(ctx context.Context, policy *config.Terminal) (backend, old terminal.Backend, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.procs == nil {
		x.procs = terminal.NewProcs(terminal.ProcsConfig{Log: x.t.log(), Now: x.t.rt.now})
	}
	now := fingerprint(policy)
	if x.backend != nil && x.made == now {
		return x.backend, nil, nil
	}
	host, err := x.host(ctx, policy)
	if err != nil {
		return nil, nil, err
	}
	dir, err := x.t.dir("cache")
	if err != nil {
		return nil, nil, err
	}
	c := terminal.Config{
		Host: host, Log: x.t.log(), Temp: "/tmp",
		Env:   func(ctx context.Context, k process.Kind) (terminal.Env, error) { return x.env(ctx, k, policy) },
		Login: terminal.LoginFiles(policy.Strings("shell_init_files"), policy.Bool("auto_source_bashrc")),
		Spill: &terminal.Spill{Dir: filepath.Join(dir, "terminal-output"), Now: x.t.rt.now},
	}
	if policy.Backend() == "local" {
		c.Dir, c.Temp = policy.Text("cwd"), x.temp(policy, dir)
	}
	old = x.backend
	x.backend, x.policy, x.made = terminal.New(c), policy, now
	return x.backend, old, nil
}

func (x *terminals) settings(b bound) (*config.Terminal, error) {
	env := x.t.rt.env
	in := config.TerminalInput{UserHome: env.Getenv("HOME"), Lookup: func(name string) (string, bool) {
		v, ok := b.scope.Lookup(name)
		return v.Text.Reveal(), ok
	}}
	if x.t.key == env.host.LaunchKey() {
		in.Launch = env.lookup
	}
	return env.configs.Terminal(x.t.home, env.configOptions(), in)
}

// fingerprint changes when a setting does.
func fingerprint(policy *config.Terminal) string {
	vars := policy.Vars()
	var b strings.Builder
	for _, name := range policy.Names() {
		b.WriteString(strconv.Quote(name) + strconv.Quote(vars[name]))
	}
	b.WriteString(string(policy.Pin()))
	return b.String()
}

// host is the place that the profile's backend names. One that is not there yet is refused: a
// profile that asked for a sandbox never gets this machine instead (O#84942).
func (x *terminals) host(ctx context.Context, policy *config.Terminal) (terminal.Host, error) {
	rt := x.t.rt
	switch backend := policy.Backend(); backend {
	case "local":
		return local.New(local.Config{Registry: rt.processes, Temp: "/", Home: rt.env.Getenv("HOME")}), nil
	case "docker":
		engine, err := rt.containers(ctx)
		if err != nil {
			return nil, docker.Explain(err)
		}
		spec, err := x.t.sandboxSpec(policy)
		if err != nil {
			return nil, err
		}
		x.pending(ctx, engine, spec)
		if policy.Bool("docker_orphan_reaper") {
			if n, err := engine.Reap(ctx, spec, rt.now()); err != nil {
				rt.log.Warn("old containers were not removed", "profile", x.t.home.Profile, "error", err)
			} else if n > 0 {
				rt.log.Info("removed containers that had stopped long ago", "profile", x.t.home.Profile, "count", n)
			}
		}
		return docker.New(docker.Config{Engine: engine, Spec: spec, Registry: rt.processes, Log: x.t.log()}), nil
	default:
		return nil, fmt.Errorf("terminal.backend: %s cannot be used here yet; use local or docker", backend)
	}
}

// pending logs that a sandbox waits for its owner's word: a gateway never decides (migrations
// spec §5).
func (x *terminals) pending(ctx context.Context, engine *sandbox.Engine, spec sandbox.Spec) {
	if s, err := engine.Pending(ctx, spec); err == nil && s != nil {
		x.t.rt.log.Warn("the sandbox was made from another image than the default of now; it is kept until you decide",
			"profile", x.t.home.Profile, "decide", "hermes-appliance sandbox status")
	}
}

// temp is where local commands keep their snapshots.
func (x *terminals) temp(policy *config.Terminal, cache string) string {
	system := "/tmp"
	usable := func(dir string) bool {
		info, err := os.Stat(dir)
		return err == nil && info.IsDir()
	}
	lookup := func(name string) string {
		if v, ok := policy.Get(name); ok {
			return v
		}
		return x.t.rt.env.Getenv(name)
	}
	if err := x.files.Mkdir(filepath.Join(cache, "terminal"), 0o700); err != nil {
		x.t.log().Warn("no directory for shell snapshots in the home", "error", err)
	}
	return local.TempDir(lookup, x.t.home.Dir, system, usable)
}

// sessionVars is what commands may know of their conversation.
type sessionVars struct{ id, platform string }

type sessionKey struct{}

// env builds the environment of the next command of a backend made from policy: what a container
// gets is not decided by settings of later, which may say that commands run here.
func (x *terminals) env(ctx context.Context, k process.Kind, policy *config.Terminal) (terminal.Env, error) {
	s, err := x.t.rt.env.Snapshot(ctx, x.t.home)
	if err != nil {
		return terminal.Env{}, err
	}
	if v, ok := ctx.Value(sessionKey{}).(sessionVars); ok {
		s.SessionEngaged, s.SessionPlatform = true, v.platform
		s.Session = []childenv.Var{
			{Name: "HERMES_SESSION_ID", Value: v.id, Origin: childenv.Session},
			{Name: "HERMES_SESSION_PLATFORM", Value: v.platform, Origin: childenv.Session},
		}
	}
	kind := "terminal"
	switch {
	case policy.Backend() != "local":
		kind = "terminal-remote"
		s.Forward = slices.Concat(policy.Strings("docker_forward_env"), s.Target.Passthrough)
	case k == process.Background:
		kind = "background"
	}
	vars, err := x.t.rt.env.policy.Build(kind, s)
	if err != nil {
		return terminal.Env{}, err
	}
	if kind == "terminal-remote" {
		for name, value := range policy.Table("docker_env") {
			vars = append(vars, name+"="+value)
		}
	}
	scoped := slices.Clone(s.Target.Passthrough)
	for _, kv := range vars {
		name, _, _ := strings.Cut(kv, "=")
		if x.t.rt.env.policy.Transient(name, s.Target) != "" {
			scoped = append(scoped, name)
		}
	}
	for _, v := range s.Target.Vars {
		if v.Origin == childenv.Source { // what a vault holds is not written to a snapshot's file
			scoped = append(scoped, v.Name)
		}
	}
	return terminal.Env{Vars: vars, Scoped: scoped}, nil
}

// lifetime is how long a session keeps its shell while nobody uses it.
func (x *terminals) lifetime() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.policy == nil {
		return defaultLifetime
	}
	return x.policy.Seconds("lifetime_seconds")
}

// defaultLifetime counts until the profile's settings have been read.
const defaultLifetime = 5 * time.Minute

// busy are the sessions that have a background command running.
func (x *terminals) busy() map[string]bool {
	x.mu.Lock()
	procs := x.procs
	x.mu.Unlock()
	if procs == nil {
		return nil
	}
	return procs.Busy()
}

// forget forgets the shells of sessions; their commands go on.
func (x *terminals) forget(ctx context.Context, sessions ...string) {
	x.mu.Lock()
	backend := x.backend
	x.mu.Unlock()
	if backend != nil {
		backend.Release(ctx, sessions...)
	}
}

// end ends the background commands of a session that nobody comes back to, unless they were
// started to stay.
func (x *terminals) end(ctx context.Context, session string) {
	x.mu.Lock()
	procs := x.procs
	x.mu.Unlock()
	if procs == nil {
		return
	}
	if err := procs.EndSession(ctx, session); err != nil {
		x.t.rt.log.Warn("a session's commands were not ended", "profile", x.t.home.Profile, "session", session, "error", err)
	}
}

func (x *terminals) close(ctx context.Context) error {
	x.mu.Lock()
	backend := x.backend
	x.backend = nil
	x.mu.Unlock()
	if backend == nil {
		return nil
	}
	return errors.Join(backend.Close(ctx))
}
