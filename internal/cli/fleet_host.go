// SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer/fleet"
)

// gatewayHost is this machine: units by systemd, processes by their records.
type gatewayHost struct {
	*fleet.Systemd

	env     Env
	environ *appliance.Environments // of the home that this process was started for
	refusal string
}

func newGatewayHost(env Env, e *appliance.Environments, root home.Home) gatewayHost {
	owner := fleet.Owner(root.Dir)
	s := &fleet.Systemd{
		SystemDir: "/etc/systemd/system", Default: root, UID: os.Getuid(), Owner: owner, Lookup: accountID,
	}
	own, account := owner == nil || *owner == s.UID, env.Getenv("HOME")
	if !own { // root looks at the units of the user whose home this is
		if u, err := user.LookupId(strconv.Itoa(*owner)); err == nil {
			account = u.HomeDir
		}
	}
	s.UserDir = userUnits(env, account, own)
	s.Platform = filepath.Join(account, ".hermes")
	if data, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		s.Cgroup = strings.TrimSpace(string(data))
	}
	s.Systemctl = func(ctx context.Context, args ...string) (string, int, error) { return systemctl(ctx, env, args) }
	g := gatewayHost{Systemd: s, env: env, environ: e}
	g.refusal = g.refuse()
	return g
}

// refuse says why gateways are not moved by this command on this host, "" = they are.
func (g gatewayHost) refuse() string {
	first, _ := os.ReadFile("/proc/1/comm") //nolint:errcheck // there is none on other systems
	_, err := os.Stat("/run/s6/basedir")
	switch {
	case runtime.GOOS == "windows":
		return "on Windows the tasks of the profiles are not moved yet: remove them, set gateway.multiplex_profiles: true and restart the default gateway"
	case runtime.GOOS == "darwin":
		return "on macOS the agents of the profiles are not moved yet: remove them, set gateway.multiplex_profiles: true and restart the default gateway"
	case strings.TrimSpace(string(first)) == "s6-svscan" && err == nil:
		return "in a container under s6 set gateway.multiplex_profiles: true and restart the container"
	}
	return g.otherManager()
}

func (g gatewayHost) Refusal() string { return g.refusal }

func (g gatewayHost) UID() int { return g.Systemd.UID }

// Process is who gateway.pid names, if that lives and is of this home: a profile that was copied
// has the file of another one.
func (g gatewayHost) Process(h home.Home) (fleet.Process, bool, error) {
	r, live, err := gateway.Running(h)
	if err != nil || !live || r.Home != "" && !sameDir(r.Home, h.Dir) {
		return fleet.Process{}, false, err
	}
	return fleet.Process{PID: r.PID, UID: processUser(r.PID)}, true, nil
}

// processUser is whose process it is, nil where that cannot be told. The owner of its directory
// in /proc is no answer: that of a process that cannot be traced is root's.
func processUser(pid int) *int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Uid:" {
			if uid, err := strconv.Atoi(f[1]); err == nil {
				return &uid
			}
		}
	}
	return nil
}

func sameDir(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// How long a gateway has to end, and to claim its home.
const (
	stopPatience  = 60 * time.Second
	spawnPatience = 60 * time.Second
	lookAgain     = 100 * time.Millisecond
)

// StopProcess announces the stop, so that it counts as planned, and sends SIGTERM; what does not
// end is killed. The process is looked at again before each signal: a pid is used again.
func (g gatewayHost) StopProcess(ctx context.Context, h home.Home) error {
	r, live, err := gateway.Running(h)
	if err != nil || !live {
		return err
	}
	if err := gateway.PlannedStop.Leave(h, r, g.env.Now()); err != nil {
		return fmt.Errorf("the stop cannot be announced to process %d: %w", r.PID, err)
	}
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Kill} {
		if !r.Alive() {
			return nil
		}
		p, err := os.FindProcess(r.PID)
		if err != nil {
			return err
		}
		if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("process %d: %w", r.PID, err)
		}
		if err := g.until(ctx, stopPatience, func() bool { return !r.Alive() }); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("process %d does not end", r.PID)
}

// until looks again until ok, or the patience or ctx is over.
func (g gatewayHost) until(ctx context.Context, patience time.Duration, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !ok() {
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Spawn starts this program for a home. Its environment is built for that home: nothing of the
// profile that this command was started for reaches it (isolation spec R9, R11).
func (g gatewayHost) Spawn(ctx context.Context, h home.Home) error {
	snapshot, err := g.environ.Snapshot(ctx, h)
	if err != nil {
		return err
	}
	vars, err := g.environ.Policy().Build("host", snapshot)
	if err != nil {
		return err
	}
	bin, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), bin, "gateway", "run", "--home", h.Dir)
	cmd.Env = append(vars, home.EnvHome+"="+h.Dir, "HERMES_GATEWAY_DETACHED=1")
	cmd.Dir = h.Dir
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	gone := false
	var why error
	err = g.until(ctx, spawnPatience, func() bool {
		select {
		case why = <-ended:
			gone = true
			return true
		default:
		}
		r, live, err := gateway.Running(h)
		return err == nil && live && r.PID == cmd.Process.Pid
	})
	if gone {
		return errors.Join(fmt.Errorf("the gateway of %s ended at once; see %s", h.Dir, gatewayLog(h)), why)
	}
	return err
}

// systemctl runs it with what it needs to find its manager and nothing else.
func systemctl(ctx context.Context, env Env, args []string) (string, int, error) {
	cmd := exec.CommandContext(ctx, "systemctl", args...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=" + env.Getenv("HOME")}
	if dir := runtimeDir(env); dir != "" {
		cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+dir)
		if info, err := os.Stat(filepath.Join(dir, "bus")); err == nil && info.Mode()&os.ModeSocket != 0 {
			cmd.Env = append(cmd.Env, "DBUS_SESSION_BUS_ADDRESS=unix:path="+filepath.Join(dir, "bus"))
		}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		return out.String(), exit.ExitCode(), nil
	}
	return out.String(), 0, err
}

// runtimeDir is where the user's manager listens. One that su or sudo left behind belongs to
// somebody else and is none (H#86558, H#43748).
func runtimeDir(env Env) string {
	uid := os.Getuid()
	for _, dir := range []string{env.Getenv("XDG_RUNTIME_DIR"), fmt.Sprintf("/run/user/%d", uid)} {
		if owner := fleet.Owner(dir); dir != "" && owner != nil && *owner == uid {
			return dir
		}
	}
	return ""
}
