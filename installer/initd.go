// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// initd tells OpenRC and SysV init: rc-update or update-rc.d for what starts by itself, the
// script for the rest. These managers know no processes; the pid file of the home tells.
type initd struct {
	h Host
	t Target
}

func (m *initd) run(ctx context.Context, argv ...string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	_, err := m.h.command(ctx, m.h.plainEnv(), argv...)
	return err
}

func (m *initd) Reload(context.Context) error { return nil } // they read the script each time

func (m *initd) Enable(ctx context.Context, units ...string) error {
	if m.t.Kind == OpenRC {
		return m.run(ctx, append([]string{"rc-update", "add"}, append(units, "default")...)...)
	}
	return m.run(ctx, append([]string{"update-rc.d"}, append(units, "defaults")...)...)
}

func (m *initd) Disable(ctx context.Context, units ...string) error {
	if m.t.Kind == OpenRC {
		return m.run(ctx, append([]string{"rc-update", "del"}, append(units, "default")...)...)
	}
	return m.run(ctx, append([]string{"update-rc.d", "-f"}, append(units, "remove")...)...)
}

func (m *initd) verb(ctx context.Context, unit, verb string) error {
	if m.t.Kind == OpenRC {
		return m.run(ctx, "rc-service", unit, verb)
	}
	return m.run(ctx, filepath.Join("/etc/init.d", unit), verb)
}

func (m *initd) Start(ctx context.Context, unit string) error { return m.verb(ctx, unit, "start") }
func (m *initd) Stop(ctx context.Context, unit string) error  { return m.verb(ctx, unit, "stop") }

func (m *initd) ResetFailed(ctx context.Context, unit string) error {
	if m.t.Kind != OpenRC {
		return nil
	}
	return m.run(ctx, "rc-service", "--ifexists", unit, "zap") // of one that crashed it forgets that
}

func (m *initd) Signal(ctx context.Context, _, signal string) error {
	p, err := m.Show(ctx, m.t.Unit())
	if err != nil || p.PID == 0 {
		return errors.Join(err, fmt.Errorf("%s: no process to tell", m.t.Unit()))
	}
	return m.run(ctx, "kill", "-"+strings.TrimPrefix(signal, "SIG"), fmt.Sprint(p.PID))
}

func (m *initd) Show(ctx context.Context, unit string) (Props, error) {
	p := Props{Known: m.h.exists(m.t.file()), Active: "inactive"}
	if m.t.Kind == OpenRC {
		p.Enabled = m.h.exists("/etc/runlevels/default/" + unit)
	} else {
		links, err := filepath.Glob(m.h.path("/etc/rc[2345].d/S[0-9][0-9]" + unit))
		if err != nil {
			return p, err
		}
		p.Enabled = len(links) > 0
	}
	if !p.Known {
		return p, nil
	}
	argv := []string{filepath.Join("/etc/init.d", unit), "status"}
	if m.t.Kind == OpenRC {
		argv = []string{"rc-service", unit, "status"}
	}
	res, err := m.h.Run(ctx, Command{Argv: argv, Env: m.h.plainEnv()})
	if err != nil {
		return p, err
	}
	if res.Code == 0 { // its keeper runs; whether it has a process now, the gateway tells
		p.Active, p.Sub = "activating", "auto-restart"
	}
	if id, err := m.h.Gateway.Identify(ctx, m.t.Home.Dir); err == nil {
		p.Active, p.Sub, p.PID = "active", "running", id.PID
	}
	return p, nil
}
