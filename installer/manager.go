// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Props is what a manager says of a unit.
type Props struct {
	Known    bool   `json:"known"`              // the manager has heard of it
	Masked   bool   `json:"masked,omitempty"`   // somebody made it unstartable
	Enabled  bool   `json:"enabled"`            // it starts by itself, for good
	Active   string `json:"active"`             // systemd's words: active, activating, deactivating, inactive, failed
	Sub      string `json:"sub,omitempty"`      // running, auto-restart …
	Result   string `json:"result,omitempty"`   // success, exit-code, start-limit-hit …
	Exit     int    `json:"exit,omitempty"`     // of the last main process
	PID      int    `json:"pid,omitempty"`      // of the main process; 0 = none
	Restarts int    `json:"restarts,omitempty"` // by the manager, in a row
	Stale    bool   `json:"stale,omitempty"`    // its files changed since the manager read them
	// Unsupervised is why no manager starts it by itself or again; "" = one does.
	Unsupervised string `json:"unsupervised,omitempty"`
	// Wakers are units that start it when they are active: a socket that somebody asks, say.
	Wakers []string `json:"triggered_by,omitempty"`

	StopTime  time.Duration `json:"-"` // how long the manager waits for a stop; 0 = unknown
	StartTime time.Duration `json:"-"` // and for a start
	Watchdog  time.Duration `json:"-"` // 0 = off
	Alive     time.Duration `json:"-"` // since the last sign of life; 0 = unknown
}

// Running reports whether there is a main process that the manager takes for started.
func (p Props) Running() bool { return p.Active == "active" && p.PID > 0 }

// warning is what a person must be told of a service that nobody supervises.
func (p Props) warning() string {
	if p.Unsupervised == "" {
		return ""
	}
	return "it will NOT start by itself and will NOT be started again when it ends: " + p.Unsupervised
}

// Manager is what the installer asks of a service manager. An error says which command failed
// and what it printed.
type Manager interface {
	Show(ctx context.Context, unit string) (Props, error)
	Reload(ctx context.Context) error // read the files again
	Enable(ctx context.Context, units ...string) error
	Disable(ctx context.Context, units ...string) error
	Start(ctx context.Context, unit string) error // returns when it is started, or failed
	Stop(ctx context.Context, unit string) error
	Signal(ctx context.Context, unit, signal string) error // the main process only
	ResetFailed(ctx context.Context, unit string) error
}

// manager returns the manager of a target.
func (h Host) manager(t Target) Manager {
	switch t.Kind {
	case Launchd:
		return &launchd{h: h, t: t}
	case Tasks:
		return &tasks{h: h, t: t}
	case SCM:
		return &scm{h: h, t: t}
	case OpenRC, SysV:
		return &initd{h: h, t: t}
	case Systemd:
	}
	return &systemd{h: h, user: t.Scope == "user"}
}

// commandError is a manager's command that failed.
type commandError struct {
	argv []string
	res  Result
}

func (e *commandError) Error() string {
	said := strings.TrimSpace(e.res.Err)
	if said == "" {
		said = strings.TrimSpace(e.res.Out)
	}
	if said == "" {
		said = "it printed nothing"
	}
	return fmt.Sprintf("%s: exit %d: %s", strings.Join(e.argv, " "), e.res.Code, said)
}

// command runs a program whose success is exit 0.
func (h Host) command(ctx context.Context, env []string, argv ...string) (Result, error) {
	res, err := h.Run(ctx, Command{Argv: argv, Env: env})
	if err != nil {
		return res, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	if res.Code != 0 {
		return res, &commandError{argv, res}
	}
	return res, nil
}

// plainEnv is the environment of the programs of the host that are asked: their answers are read,
// so they are to be in one language.
func (h Host) plainEnv() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	if h.OS == "windows" {
		env = nil
		for _, name := range []string{"PATH", "SystemRoot", "USERPROFILE", "USERNAME", "USERDOMAIN", "TEMP"} {
			if v := h.Getenv(name); v != "" {
				env = append(env, name+"="+v)
			}
		}
	}
	return env
}
