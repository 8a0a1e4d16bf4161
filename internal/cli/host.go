// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/control"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// serviceOptions choose a service of the host.
type serviceOptions struct {
	homeOptions
	user, system bool
	runAs, root  string
	json         bool
	looks        bool // nothing is changed
	installs     bool // a service that is not there yet may be meant
	verb         string
}

func (o *serviceOptions) register(cmd *cobra.Command) {
	o.homeOptions.register(cmd)
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.user, "user", false, "the service of this user's own manager")
	f.BoolVar(&o.system, "system", false, "the service of the machine (default for root)")
	f.BoolVar(&o.json, "json", false, "print JSON")
}

// host is the real one.
func (o *serviceOptions) host(env Env) installer.Host {
	h := installer.Host{
		OS: runtime.GOOS, Root: o.root, Offline: o.root != "", UID: os.Geteuid(), PID: os.Getpid(), Getenv: env.Getenv,
		Run: installer.Exec, Spawn: installer.Spawn, Gateway: runningGateway{env}, Now: env.Now, Monotonic: installer.Monotonic,
		Sleep: func(ctx context.Context, d time.Duration) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(d):
				return nil
			}
		},
	}
	h.Lookup = func(ctx context.Context, name string) (installer.Account, error) { return lookup(ctx, h, name) }
	return h
}

// lookup finds a user: in the files of an image, else as the system does it. Users of a directory
// service are only known to getent, as this program is static.
func lookup(ctx context.Context, h installer.Host, name string) (installer.Account, error) {
	if h.Offline {
		passwd, err := os.ReadFile(filepath.Join(h.Root, "etc", "passwd"))
		group, err2 := os.ReadFile(filepath.Join(h.Root, "etc", "group"))
		if err := errors.Join(err, err2); err != nil {
			return installer.Account{}, err
		}
		return installer.ParsePasswd(string(passwd), string(group), name)
	}
	find := user.Lookup
	if _, err := strconv.Atoi(name); err == nil {
		find = user.LookupId
	}
	u, err := find(name)
	if err != nil && runtime.GOOS != "windows" {
		res, rerr := h.Run(ctx, installer.Command{Argv: []string{"getent", "passwd", name}, Env: []string{"PATH=/usr/bin:/bin"}})
		if rerr == nil && res.Code == 0 {
			return installer.ParsePasswd(res.Out, "", name)
		}
	}
	if err != nil {
		return installer.Account{}, fmt.Errorf("%w: %w", installer.ErrNoAccount, err)
	}
	a := installer.Account{Name: u.Username, Home: u.HomeDir, Group: u.Gid}
	if g, err := user.LookupGroupId(u.Gid); err == nil {
		a.Group = g.Name
	}
	if runtime.GOOS == "windows" { // it numbers nobody
		a.SID = u.Uid
		return a, nil
	}
	if a.UID, err = strconv.Atoi(u.Uid); err == nil {
		a.GID, err = strconv.Atoi(u.Gid)
	}
	return a, err
}

// resolve finds out which service is meant.
func (o *serviceOptions) resolve(ctx context.Context, env Env) (h installer.Host, t installer.Target, standing *installer.Found, err error) {
	if o.user && o.system {
		return h, t, nil, usagef("--user and --system exclude each other")
	}
	if o.root != "" {
		if o.root, err = filepath.Abs(o.root); err != nil {
			return h, t, nil, err
		}
		if o.root == "/" {
			return h, t, nil, usagef("--root is the directory of an image; without it the service is installed on this machine")
		}
		if info, err := os.Stat(o.root); err != nil || !info.IsDir() {
			return h, t, nil, usagef("--root %s: there is no such directory; unpack the image there first", o.root)
		}
	}
	h = o.host(env)
	c := installer.Choice{User: o.runAs, Home: o.home, Profile: o.profile, Look: o.looks, Stands: !o.installs, Verb: o.verb}
	if c.Home == "" && o.root == "" {
		c.Home = env.Getenv(home.EnvHome)
	}
	if c.Home != "" && o.root == "" {
		if c.Home, err = filepath.Abs(c.Home); err != nil {
			return h, t, nil, err
		}
	}
	if c.Home != "" && !filepath.IsAbs(c.Home) {
		return h, t, nil, usagef("--home %s: with --root it is a path of the image, from its root on", c.Home)
	}
	switch {
	case o.user:
		c.Scope = service.User
	case o.system:
		c.Scope = service.System
	}
	t, standing, err = h.Resolve(ctx, c)
	return h, t, standing, err
}

// runningGateway asks the gateways of this host.
type runningGateway struct{ env Env }

func temp(env Env) string {
	if dir := env.Getenv("TMPDIR"); dir != "" {
		return dir
	}
	return "/tmp"
}

func (g runningGateway) Identify(ctx context.Context, dir string) (installer.Identity, error) {
	var s gateway.Status
	err := control.Call(ctx, home.Home{Dir: dir, Profile: home.Default}, temp(g.env), "status", &s)
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded):
		return installer.Identity{}, installer.ErrSilent
	case errors.Is(err, control.ErrNotRunning):
		return installer.Identity{}, installer.ErrNotRunning
	default:
		return installer.Identity{}, err
	}
	id := installer.Identity{PID: s.PID}
	if s.Phase != gateway.Up {
		id.Degraded = strings.TrimSuffix(string(s.Phase)+": "+s.Reason, ": ")
	}
	return id, nil
}

func (g runningGateway) Announce(dir string, pid int) error {
	h := home.Home{Dir: dir, Profile: home.Default}
	r := gateway.Record{PID: pid}
	if known, err := gateway.ReadRecord(h); err == nil && known.PID == pid {
		r = known
	}
	return gateway.PlannedStop.Leave(h, r, g.env.Now())
}

func (g runningGateway) LastBeat(dir string) (pid int, age time.Duration) {
	pid, at, err := gateway.ReadBeat(home.Home{Dir: dir, Profile: home.Default})
	if err != nil {
		return 0, 0
	}
	return pid, g.env.Now().Sub(at)
}

func (g runningGateway) LastReason(dir string) string {
	s, err := gateway.ReadStatus(home.Home{Dir: dir, Profile: home.Default})
	if err != nil {
		return ""
	}
	return s.Reason
}

// watchdog is how long a service may give no sign of life; it gives one every 30 seconds.
const watchdog = 120 * time.Second

// asked is what a person says of a service; what is empty stays as it is.
type asked struct {
	hardening string
	socket    *bool
}

// spec describes the service of a home.
func (o *serviceOptions) spec(ctx context.Context, h installer.Host, t installer.Target, env Env, a asked) (service.Spec, error) {
	program, err := o.program(h)
	if err != nil {
		return service.Spec{}, err
	}
	s := service.Spec{
		Name: t.Name, Scope: t.Scope, Home: t.Home.Dir, Exec: []string{program, "gateway", "run"}, Watchdog: watchdog,
		Hardening: service.Hardening(a.hardening), Path: searchPath(o.root, t),
		Before: []string{program, "migrate", "--home", t.Home.Dir, "--quiet"},
	}
	if t.Home.Profile == home.Default {
		s.Before = append(s.Before, "--all-profiles")
	}
	if a.hardening == "" {
		s.Hardening = h.Hardening(t)
	}
	if t.Scope == service.System {
		s.Account, s.Group, s.AccountHome, s.UID = t.Account.Name, t.Account.Group, t.Account.Home, t.Account.UID
	}
	real := home.Home{Dir: filepath.Join(o.root, t.Home.Dir), Profile: t.Home.Profile}
	if s.Sockets, err = o.sockets(ctx, h, t, real, a.socket); err != nil {
		return s, err
	}
	c, err := config.Load(real, config.Options{AdminDir: home.AdminDir(env.Getenv)})
	if err != nil {
		return s, nil //nolint:nilerr // the migration that comes first says what is wrong with it
	}
	if d, err := c.With(nil).Duration("gateway", "restart_drain_timeout"); err == nil {
		s.Drain = d
	}
	if dir, err := c.With(nil).String("terminal", "cwd"); err == nil && filepath.IsAbs(dir) && filepath.Clean(dir) == dir {
		if info, err := os.Stat(filepath.Join(o.root, dir)); err == nil && info.IsDir() {
			s.Writable = []string{dir}
		}
	}
	return s, nil
}

// program is this one, as the service finds it.
func (o *serviceOptions) program(h installer.Host) (string, error) {
	bin, err := os.Executable()
	if err == nil {
		bin, err = filepath.EvalSymlinks(bin)
	}
	if err != nil || o.root == "" {
		return bin, err
	}
	for _, path := range []string{strings.TrimPrefix(bin, o.root), "/usr/local/bin/" + Name, "/usr/bin/" + Name} {
		if info, err := os.Stat(filepath.Join(o.root, path)); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", &installer.Refusal{
		Reason: "no-program", File: filepath.Join(h.Root, "usr/local/bin", Name), Msg: "the image does not have this program",
		Fix: "copy it there first", Code: exitcode.Usage,
	}
}

// searchPath is the service's PATH: what the account has of the usual places, then the system's.
// Nothing of it comes from the shell that happens to install the service.
func searchPath(root string, t installer.Target) []string {
	var out []string
	for _, dir := range []string{
		filepath.Join(t.Home.Dir, "node", "bin"), filepath.Join(t.Home.Dir, "node_modules", ".bin"),
		filepath.Join(t.Account.Home, ".local", "bin"), filepath.Join(t.Account.Home, ".cargo", "bin"),
		filepath.Join(t.Account.Home, "go", "bin"), filepath.Join(t.Account.Home, ".npm-global", "bin"), "/opt/homebrew/bin",
	} {
		if info, err := os.Stat(filepath.Join(root, dir)); err == nil && info.IsDir() && filepath.IsAbs(dir) && !strings.Contains(dir, ":") {
			out = append(out, dir)
		}
	}
	if t.Kind == installer.Tasks || t.Kind == installer.SCM {
		return nil // it has that of Windows
	}
	return append(out, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
}
