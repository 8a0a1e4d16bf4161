// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/control"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer/generation"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// runningFleet is the gateways of a home and its profiles, as an activation sees them.
type runningFleet struct {
	env   Env
	store generation.Store
}

func tempDir(env Env) string {
	if dir := env.Getenv("TMPDIR"); dir != "" {
		return dir
	}
	return "/tmp"
}

// Running implements generation.Fleet.
func (f *runningFleet) Running(ctx context.Context) ([]generation.Gateway, error) {
	root := f.store.Home.Root()
	profiles, err := root.Profiles()
	if err != nil {
		return nil, err
	}
	var out []generation.Gateway
	for _, h := range append([]home.Home{root}, profiles...) {
		g, ok, err := f.Ask(ctx, h)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, g)
		}
	}
	return out, nil
}

// Ask implements generation.Fleet. A gateway without a control socket is known by its files,
// and counts as one that nobody starts again.
func (f *runningFleet) Ask(ctx context.Context, h home.Home) (g generation.Gateway, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var who struct {
		Supervisor string `json:"supervisor"`
	}
	var s gateway.Status
	if err = control.Call(ctx, h, tempDir(f.env), "identify", &who); err == nil {
		err = control.Call(ctx, h, tempDir(f.env), "status", &s)
	}
	if err == nil {
		return generation.Gateway{
			Home: h, PID: s.PID, StartTime: s.StartTime, Version: s.Version, Supervisor: who.Supervisor,
			Ready: s.Phase == gateway.Up || s.Phase == gateway.Degraded,
		}, true, nil
	}
	if !errors.Is(err, control.ErrNotRunning) {
		return g, false, err
	}
	r, ok, err := gateway.Running(h)
	if err != nil || !ok {
		return g, false, err
	}
	g = generation.Gateway{Home: h, PID: r.PID, StartTime: r.StartTime}
	if s, err := gateway.ReadStatus(h); err == nil && s.PID == r.PID {
		g.Version = s.Version
	}
	return g, true, nil
}

// Drain implements generation.Fleet.
func (f *runningFleet) Drain(ctx context.Context, g generation.Gateway) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var answer struct {
		Drain float64 `json:"drain_timeout"`
	}
	err := control.Call(ctx, g.Home, tempDir(f.env), "pause-for-update", &answer)
	if errors.Is(err, control.ErrNotRunning) {
		return 0, nil // it ended by itself
	}
	return time.Duration(answer.Drain * float64(time.Second)), err
}

// Revive implements generation.Fleet: a unit that systemd gave up, or that exit 78 parked, is
// started.
func (f *runningFleet) Revive(ctx context.Context, h home.Home) error {
	all, err := f.store.List()
	if err != nil || len(all) == 0 {
		return err
	}
	for _, u := range all[len(all)-1].Units {
		if filepath.Ext(u.Path) != ".service" {
			continue
		}
		data, err := os.ReadFile(u.Path)
		if err != nil || service.Inspect(string(data)).Home != h.Dir {
			continue
		}
		name := filepath.Base(u.Path)
		if err := errors.Join(tellSystemd(ctx, f.env, u.Path, "reset-failed", name), tellSystemd(ctx, f.env, u.Path, "start", "--no-block", name)); err != nil {
			return err
		}
	}
	return nil
}

// reloadUnits has systemd read its units again. Other managers read theirs when they start one.
func reloadUnits(ctx context.Context, env Env, units []string) error {
	done := map[bool]bool{}
	for _, u := range units {
		if !strings.Contains(filepath.ToSlash(u), "/systemd/") || done[userUnit(u)] {
			continue
		}
		done[userUnit(u)] = true
		if err := tellSystemd(ctx, env, u, "daemon-reload"); err != nil {
			return err
		}
	}
	return nil
}

func userUnit(path string) bool { return strings.Contains(filepath.ToSlash(path), "/systemd/user/") }

// tellSystemd runs one command of the manager that a unit is for. Where systemd does not run it
// has nothing to be told.
func tellSystemd(ctx context.Context, env Env, unit string, args ...string) error {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return nil // an image that is being made, a container
	}
	args = append([]string{"--no-ask-password"}, args...)
	if userUnit(unit) {
		args = append([]string{"--user"}, args...)
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemctl", args...)
	for _, name := range []string{"PATH", "HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"} {
		if v := env.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// otherGateways lists processes of a program that serve homes which are not among those of
// known, as far as the system shows them.
func otherGateways(program string, known []generation.Gateway) []int {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return nil
	}
	var out []int
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || strings.TrimSuffix(target, " (deleted)") != program {
			continue
		}
		dir := filepath.Dir(link)
		argv, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		words := strings.Split(string(argv), "\x00")
		pid, perr := strconv.Atoi(filepath.Base(dir))
		if err != nil || perr != nil || len(words) < 2 || words[1] != "up" && words[1] != "gateway" ||
			slices.ContainsFunc(known, func(g generation.Gateway) bool { return g.PID == pid }) {
			continue
		}
		out = append(out, pid)
	}
	slices.Sort(out)
	return out
}
