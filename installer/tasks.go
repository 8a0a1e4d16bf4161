// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// tasks tells the Windows Task Scheduler (services spec §1.5). It does not say which process a
// task runs; the gateway does. Where no task can be registered an entry in the user's Startup
// folder does its work, never both (H#80569).
type tasks struct {
	h Host
	t Target
}

// tasksTime is how long schtasks may take; it hangs where the service behind it does.
const tasksTime = 15 * time.Second

func (m *tasks) ctl(ctx context.Context, args ...string) (Result, error) {
	cctx, cancel := context.WithTimeout(ctx, tasksTime)
	defer cancel()
	argv := append([]string{"schtasks"}, args...)
	res, err := m.h.Run(cctx, Command{Argv: argv, Env: m.h.plainEnv()})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return res, fmt.Errorf("%s: no answer in %d seconds: %w", strings.Join(argv, " "), int(tasksTime.Seconds()), errHangs)
	}
	if err == nil && res.Code != 0 {
		err = &commandError{argv, res}
	}
	return res, err
}

// errHangs says that the service behind schtasks does not answer.
var errHangs = errors.New("the task scheduler hangs")

// cancelled is the code of somebody who does not allow more rights.
const cancelled = 1223

// denied reports whether an answer says that access is denied, in the languages that schtasks
// speaks, or that somebody did not allow it.
func denied(err error) bool {
	c, ok := errors.AsType[*commandError](err)
	if !ok {
		return false
	}
	text := strings.ToLower(c.res.Err + c.res.Out)
	for _, words := range []string{
		"access is denied", "zugriff verweigert", "accès refusé", "acceso denegado", "accesso negato", "acesso negado", "отказано в доступе", "拒绝访问", "アクセスが拒否", "0x80070005",
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return c.res.Code == cancelled
}

func (m *tasks) registered(ctx context.Context, unit string) (Result, bool, error) {
	res, err := m.ctl(ctx, "/Query", "/TN", unit, "/XML")
	if _, ok := errors.AsType[*commandError](err); ok && !denied(err) {
		return res, false, nil
	}
	return res, err == nil, err
}

// names is as much of the service as the names of its files need.
func (t Target) names() service.Spec { return service.Spec{Name: t.Name, Home: t.Home.Dir} }

// launcher is the script that a task runs.
func (t Target) launcher() string { return filepath.Join(t.dir(), t.Unit()+".js") }

// stopFile tells the launcher not to start the gateway again.
func (t Target) stopFile() string { return t.names().StopFile() }

// startup is the entry in the user's Startup folder.
func (t Target) startup() string {
	return filepath.Join(t.Account.Home, "AppData", "Roaming", "Microsoft", "Windows", "Start Menu", "Programs", "Startup",
		t.names().Startup().Name)
}

// entry reports whether the Startup folder starts this service. What another program put there
// under its name starts another.
func (m *tasks) entry() bool {
	return m.h.read(m.t.startup()) == strings.TrimSpace(m.t.names().Startup().Data)
}

// byStartup in [Props].Sub says that the Startup folder starts it.
const byStartup = "startup"

func (m *tasks) Show(ctx context.Context, unit string) (Props, error) {
	p := Props{Known: m.h.exists(m.t.file()), Active: "inactive"}
	entry := m.entry()
	res, ok, err := m.registered(ctx, unit)
	if err != nil && !entry {
		return p, err
	}
	p.Enabled = entry
	if ok {
		xml := taskXML(res.Out)
		// One that somebody switched off is not one that starts; one that differs from its file was
		// never registered with what this version knows (H#113670).
		p.Known, p.Enabled = true, !xml.off()
		p.Stale = xml.differs(taskXML(utf16Text([]byte(m.h.read(m.t.file()))))) != ""
	} else if entry {
		p.Sub = byStartup
	}
	id, err := m.h.identify(ctx, m.t.Home.Dir)
	if errors.Is(err, ErrSilent) {
		id.PID, _ = m.h.Gateway.LastBeat(m.t.Home.Dir)
	}
	if id.PID > 0 {
		p.Active, p.PID = "active", id.PID
	}
	return p, nil
}

// Reload registers a task that is registered anew, from its file.
func (m *tasks) Reload(ctx context.Context) error {
	if _, ok, err := m.registered(ctx, m.t.Unit()); err != nil && m.entry() {
		return nil // the entry only names the launcher
	} else if err != nil || !ok {
		return err
	}
	return m.Enable(ctx, m.t.Unit())
}

// Enable registers the task anew: a change of one that is there would keep old settings. Where
// that is refused, the Startup folder gets an entry, unless a task is, or may be, still
// registered.
func (m *tasks) Enable(ctx context.Context, units ...string) error {
	for _, u := range units {
		_, ok, err := m.registered(ctx, u)
		if ok {
			if _, err := m.ctl(ctx, "/Delete", "/TN", u, "/F"); err != nil {
				return fmt.Errorf("%w\na task of that name is registered and cannot be replaced; do it from a terminal that was started as administrator", err)
			}
		}
		if err == nil || denied(err) || errors.Is(err, errHangs) {
			err = m.create(ctx, u)
		}
		switch {
		case err == nil:
			if err := m.unstart(); err != nil {
				return fmt.Errorf("the task is registered, and the entry in the Startup folder still fires at logon: %w", err)
			}
			continue
		case ctx.Err() != nil:
			return err
		case m.mayStand(ctx, u):
			return fmt.Errorf("%w\na task of that name is registered, so the Startup folder gets no entry: it would be started twice", err)
		}
		f := m.t.names().Startup()
		path := m.h.path(m.t.startup())
		if merr := os.MkdirAll(filepath.Dir(path), 0o700); merr != nil {
			return errors.Join(err, merr)
		}
		if werr := m.h.Files.Write(path, []byte(f.Data), atomicfile.Options{Mode: 0o600}); werr != nil {
			return errors.Join(err, werr)
		}
	}
	return nil
}

// create registers a task. The definition says how its user logs on; some versions want to hear
// it again, and none wants both words (H#89807).
func (m *tasks) create(ctx context.Context, unit string) (err error) {
	base := []string{"/Create", "/TN", unit, "/XML", m.h.path(m.t.file()), "/F"}
	for _, more := range [][]string{nil, {"/RU", taskName(m.h, m.t.Account), "/NP"}, {"/RU", taskName(m.h, m.t.Account), "/IT"}} {
		_, cerr := m.ctl(ctx, append(append([]string{}, base...), more...)...)
		if cerr == nil {
			return nil
		}
		if err == nil {
			err = cerr // what the plain form was told says most
		}
		if denied(cerr) || errors.Is(cerr, errHangs) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// mayStand reports whether a task is registered, as the scheduler says, or where it does not as
// the file says that it keeps of each.
func (m *tasks) mayStand(ctx context.Context, unit string) bool {
	_, ok, err := m.registered(ctx, unit)
	if err == nil {
		return ok
	}
	return m.h.exists(filepath.Join(m.h.Getenv("SystemRoot"), "System32", "Tasks", unit))
}

// unstart takes the entry out of the Startup folder.
func (m *tasks) unstart() error { return m.h.gone(m.t.startup()) }

func (m *tasks) Disable(ctx context.Context, units ...string) error {
	for _, u := range units {
		_, ok, err := m.registered(ctx, u)
		if err != nil && !m.h.exists(m.t.startup()) {
			return err
		}
		if ok {
			if _, err := m.ctl(ctx, "/Delete", "/TN", u, "/F"); err != nil {
				return err
			}
		}
		if err := m.unstart(); err != nil {
			return fmt.Errorf("it still fires at logon: %w", err)
		}
	}
	return nil
}

// Start runs the task, or what the Startup folder would.
func (m *tasks) Start(ctx context.Context, unit string) error {
	if err := m.h.unmark(m.t); err != nil {
		return err
	}
	_, ok, err := m.registered(ctx, unit)
	if ok || !m.entry() {
		if err == nil {
			_, err = m.ctl(ctx, "/Run", "/TN", unit)
		}
		return err
	}
	env := m.h.plainEnv() // and what a logon sets beside it
	for _, name := range []string{
		"APPDATA", "LOCALAPPDATA", "COMPUTERNAME", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "PATHEXT", "ProgramData", "ProgramFiles", "SystemDrive", "TMP", "WINDIR",
	} {
		if v := m.h.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	_, err = m.h.Spawn(ctx, Detached{Argv: m.t.names().StartupCommand(), Env: env, Dir: m.h.path(m.t.Home.Dir)})
	return err
}

// Stop ends the launcher, which would start the gateway again, and then the process that answers
// for the home: never one that is only known by a number or a name (H#97208).
func (m *tasks) Stop(ctx context.Context, unit string) error {
	if err := m.h.Files.Write(m.h.path(m.t.stopFile()), nil, atomicfile.Options{Mode: 0o600}); err != nil {
		return err
	}
	if _, ok, err := m.registered(ctx, unit); err == nil && ok {
		if _, err := m.ctl(ctx, "/End", "/TN", unit); err != nil {
			return err
		}
	}
	p, err := m.Show(ctx, unit)
	if err != nil || p.PID == 0 {
		return err
	}
	pid := p.PID
	if _, err := m.h.command(ctx, m.h.plainEnv(), "taskkill", "/PID", strconv.Itoa(pid), "/T", "/F"); err != nil {
		return err
	}
	for range int(patience / look) {
		if id, err := m.h.Gateway.Identify(ctx, m.t.Home.Dir); err != nil || id.PID != pid {
			return nil //nolint:nilerr // nobody answers any more
		}
		if err := m.h.Sleep(ctx, look); err != nil {
			return err
		}
	}
	return fmt.Errorf("process %d: %w", pid, ErrStopping)
}

func (m *tasks) Signal(context.Context, string, string) error {
	return errors.New("the task scheduler sends no signals; stop and start instead")
}

func (m *tasks) ResetFailed(context.Context, string) error { return nil }

// taskUser is whom the definition names. A SID is right in every network; a workgroup has none
// of its own (H#89807).
func taskUser(h Host, a Account) string {
	if a.SID != "" {
		return a.SID
	}
	return taskName(h, a)
}

// taskName is DOMAIN\name, or MACHINE\name in a workgroup.
func taskName(h Host, a Account) string {
	if strings.Contains(a.Name, `\`) {
		return a.Name
	}
	for _, name := range []string{"USERDOMAIN", "COMPUTERNAME"} {
		if d := h.Getenv(name); d != "" && !strings.EqualFold(d, "WORKGROUP") {
			return d + `\` + a.Name
		}
	}
	return a.Name
}
