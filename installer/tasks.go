// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"html"
	"strings"
	"time"
	"unicode/utf16"
)

// tasks tells the Windows Task Scheduler (services spec §1.5). It does not say which process a
// task runs; the gateway does.
type tasks struct {
	h Host
	t Target
}

// tasksTime is how long schtasks may take; it hangs where the service behind it does.
const tasksTime = 15 * time.Second

func (m *tasks) ctl(ctx context.Context, args ...string) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, tasksTime)
	defer cancel()
	argv := append([]string{"schtasks"}, args...)
	res, err := m.h.Run(ctx, Command{Argv: argv, Env: m.h.plainEnv()})
	if err == nil && res.Code != 0 {
		err = &commandError{argv, res}
	}
	return res, err
}

// denied reports whether an answer says that access is denied, in the languages that schtasks
// speaks.
func denied(err error) bool {
	c, ok := errors.AsType[*commandError](err)
	if !ok {
		return false
	}
	text := strings.ToLower(c.res.Err + c.res.Out)
	for _, words := range []string{"access is denied", "zugriff verweigert", "accès refusé", "acceso denegado", "accesso negato", "acesso negado", "отказано в доступе", "拒绝访问", "アクセスが拒否"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

func (m *tasks) registered(ctx context.Context, unit string) (Result, bool, error) {
	res, err := m.ctl(ctx, "/Query", "/TN", unit, "/XML")
	if _, ok := errors.AsType[*commandError](err); ok && !denied(err) {
		return res, false, nil
	}
	return res, err == nil, err
}

func (m *tasks) Show(ctx context.Context, unit string) (Props, error) {
	p := Props{Known: m.h.exists(m.t.file()), Active: "inactive"}
	res, ok, err := m.registered(ctx, unit)
	if err != nil {
		return p, err
	}
	// A task that was registered by hand, or switched off, is not one that starts (H#113670).
	p.Enabled = ok && !strings.Contains(res.Out, "<Settings><Enabled>false") && strings.Contains(res.Out, m.t.Home.Dir)
	if id, err := m.h.Gateway.Identify(ctx, m.t.Home.Dir); err == nil {
		p.Active, p.PID = "active", id.PID
	}
	return p, nil
}

// Reload registers a task that is registered anew, from its file.
func (m *tasks) Reload(ctx context.Context) error {
	if _, ok, err := m.registered(ctx, m.t.Unit()); err != nil || !ok {
		return err
	}
	return m.Enable(ctx, m.t.Unit())
}

// Enable registers the task anew: a change of one that is there would keep old settings.
func (m *tasks) Enable(ctx context.Context, units ...string) error {
	for _, u := range units {
		if _, ok, err := m.registered(ctx, u); err != nil {
			return err
		} else if ok {
			if _, err := m.ctl(ctx, "/Delete", "/TN", u, "/F"); err != nil {
				return err
			}
		}
		_, err := m.ctl(ctx, "/Create", "/TN", u, "/XML", m.h.path(m.t.file()), "/F")
		if denied(err) {
			return fmt.Errorf("%w\nregister it from a terminal that was started as administrator", err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *tasks) Disable(ctx context.Context, units ...string) error {
	for _, u := range units {
		if _, ok, err := m.registered(ctx, u); err != nil || !ok {
			return err
		}
		if _, err := m.ctl(ctx, "/Delete", "/TN", u, "/F"); err != nil {
			return err
		}
	}
	return nil
}

func (m *tasks) Start(ctx context.Context, unit string) error {
	_, err := m.ctl(ctx, "/Run", "/TN", unit)
	return err
}

func (m *tasks) Stop(ctx context.Context, unit string) error {
	_, err := m.ctl(ctx, "/End", "/TN", unit)
	return err
}

func (m *tasks) Signal(context.Context, string, string) error {
	return errors.New("the task scheduler sends no signals; stop and start instead")
}

func (m *tasks) ResetFailed(context.Context, string) error { return nil }

// taskUser is DOMAIN\name.
func taskUser(h Host, a Account) string {
	if d := h.Getenv("USERDOMAIN"); d != "" && !strings.Contains(a.Name, `\`) {
		return d + `\` + a.Name
	}
	return a.Name
}

// taskHome is the directory that a task's definition works in.
func taskHome(data []byte) string {
	var units []uint16
	for i := 0; i+1 < len(data); i += 2 {
		units = append(units, binary.LittleEndian.Uint16(data[i:]))
	}
	_, rest, ok := strings.Cut(string(utf16.Decode(units)), "<WorkingDirectory>")
	dir, _, ok2 := strings.Cut(rest, "</WorkingDirectory>")
	if !ok || !ok2 {
		return ""
	}
	return html.UnescapeString(dir)
}
