// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// Times of launchd.
const (
	appears = 15 * time.Second // for a job's process to be there
	leaves  = 40 * time.Second // for a job that was told to stop: its own 25 seconds and some room
)

// Start loads the job, or kicks one that is loaded. Exit 5 is "registered already" or "this
// domain cannot be managed", 125 the latter or "not loaded": one unload and a second try tell,
// then the old way of loading, of which only a process counts. Where launchd takes no jobs at all
// the gateway is started beside it, which is said loudly (H#42006, H#42914, H#95758).
func (m *launchd) Start(ctx context.Context, unit string) error {
	// Where its output goes: without the directory launchd does not start it, and says 78.
	if err := os.MkdirAll(m.h.path(filepath.Join(m.t.Home.Dir, "logs")), 0o700); err != nil {
		return err
	}
	d, err := m.domain(ctx, unit)
	if err != nil {
		return err
	}
	if _, err := m.must(ctx, unmanaged, "enable", d+"/"+unit); err != nil {
		return err
	}
	loaded, err := m.ctl(ctx, "print", d+"/"+unit)
	if err != nil {
		return err
	}
	if loaded.Code == 0 {
		if _, err := m.must(ctx, nil, "kickstart", d+"/"+unit); err != nil {
			return err
		}
		return m.h.unmark(m.t)
	}
	why, err := m.bootstrap(ctx, d, unit)
	if err != nil {
		return err
	}
	if why == "" {
		return m.h.unmark(m.t)
	}
	if _, err := m.ctl(ctx, "load", "-w", m.h.path(m.t.file())); err != nil { // whatever it answers
		return err
	}
	p, runs, err := m.until(ctx, d, unit, appears, func(p Props) bool { return p.PID > 0 })
	switch {
	case err != nil:
		return err
	case runs:
		return m.h.unmark(m.t)
	case p.Active != "": // registered, and no process: it must not come back beside the other one
		if _, err := m.ctl(ctx, "bootout", d+"/"+unit); err != nil {
			return err
		}
	}
	return m.detach(ctx, why)
}

// bootstrap loads the job; why says how launchd does not, "" = it is registered.
func (m *launchd) bootstrap(ctx context.Context, d, unit string) (why string, err error) {
	args := []string{"bootstrap", d, m.h.path(m.t.file())}
	res, err := m.ctl(ctx, args...)
	if err == nil && unmanaged(res.Code) {
		if _, err = m.must(ctx, func(c int) bool { return notLoaded(c) || c == launchdIO || c == launchdBusy }, "bootout", d+"/"+unit); err == nil {
			res, err = m.ctl(ctx, args...)
		}
	}
	switch {
	case err != nil:
		return "", err
	case unmanaged(res.Code):
		return fmt.Sprintf("launchctl bootstrap %s: exit %d: launchd manages no jobs in this session", d, res.Code), nil
	case res.Code != 0:
		return "", &commandError{append([]string{"launchctl"}, args...), res}
	}
	// That it said so is no proof (H#88848).
	_, there, err := m.until(ctx, d, unit, appears, func(p Props) bool { return p.Active != "" })
	if err == nil && !there {
		why = fmt.Sprintf("launchctl bootstrap %s: exit 0, and the job is not registered", d)
	}
	return why, err
}

// until looks at what launchd itself says of a job until something holds. An Active of "" is a
// job that is not registered.
func (m *launchd) until(ctx context.Context, d, unit string, most time.Duration, ok func(Props) bool) (p Props, done bool, err error) {
	for range int(most/look) + 1 {
		res, err := m.must(ctx, notLoaded, "print", d+"/"+unit)
		if err != nil {
			return p, false, err
		}
		p = Props{}
		if res.Code == 0 {
			readJob(&p, res.Out)
		}
		if ok(p) {
			return p, true, nil
		}
		if err := m.h.Sleep(ctx, look); err != nil {
			return p, false, err
		}
	}
	return p, false, nil
}

// Stop unloads the job, which would be started again otherwise, and waits until it is gone: what
// is loaded too early after that is refused. One that was started beside launchd is told itself.
func (m *launchd) Stop(ctx context.Context, unit string) error {
	d, err := m.domain(ctx, unit)
	if err != nil {
		return err
	}
	p := Props{}
	m.detached(ctx, &p)
	res, err := m.must(ctx, func(c int) bool { return notLoaded(c) || c == launchdBusy || c == launchdIO }, "bootout", d+"/"+unit)
	if err != nil {
		return err
	}
	if res.Code == launchdIO { // a domain that cannot be managed has nothing loaded
		there, err := m.ctl(ctx, "print", d+"/"+unit)
		if err != nil || there.Code == 0 {
			return errors.Join(err, &commandError{[]string{"launchctl", "bootout", d + "/" + unit}, res})
		}
	}
	if p.PID > 0 {
		return m.end(ctx, p.PID)
	}
	_, gone, err := m.until(ctx, d, unit, leaves, func(p Props) bool { return p.Active == "" })
	if err == nil && !gone {
		err = fmt.Errorf("%s: %w; launchctl print %s/%s shows when it has", unit, ErrStopping, d, unit)
	}
	return err
}

// end tells a process that nobody supervises to stop, and waits for it.
func (m *launchd) end(ctx context.Context, pid int) error {
	if err := m.kill(ctx, pid, "TERM"); err != nil {
		return err
	}
	for range int(stopTime / look) {
		p := Props{}
		if m.detached(ctx, &p); p.PID != pid {
			return nil
		}
		if err := m.h.Sleep(ctx, look); err != nil {
			return err
		}
	}
	return fmt.Errorf("process %d: %w", pid, ErrStopping)
}

func (m *launchd) kill(ctx context.Context, pid int, signal string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := m.h.command(ctx, m.h.plainEnv(), "kill", "-"+signal, strconv.Itoa(pid))
	return err
}

// Signal reaches the main process, whoever started it.
func (m *launchd) Signal(ctx context.Context, unit, signal string) error {
	p := Props{}
	if m.detached(ctx, &p); p.PID > 0 {
		return m.kill(ctx, p.PID, strings.TrimPrefix(signal, "SIG"))
	}
	d, err := m.domain(ctx, unit)
	if err != nil {
		return err
	}
	_, err = m.must(ctx, nil, "kill", signal, d+"/"+unit)
	return err
}

// ResetFailed has nothing to do: launchd never gives up.
func (m *launchd) ResetFailed(context.Context, string) error { return nil }

// reload unloads a job and loads it again. It is a job of its own, so that neither the end of
// this command's terminal nor that of the gateway, whose helpers end with it, can come between
// the two halves (H#28632, H#69098). A submitted job is started again until it is removed, which
// is the last thing it does.
const reload = `launchctl bootout "$1/$2"
i=0
while launchctl print "$1/$2" >/dev/null 2>&1 && [ "$i" -lt 40 ]; do sleep 1; i=$((i+1)); done
launchctl enable "$1/$2"
launchctl bootstrap "$1" "$3" || launchctl load -w "$3"
launchctl remove "$4"`

// replace has launchd run the definition that is on the disk in place of the one it has read.
// What counts is a process other than the old one; if there is none, the two halves are done
// from here.
func (m *launchd) replace(ctx context.Context, unit string, old int) error {
	d, err := m.domain(ctx, unit)
	if err != nil {
		return err
	}
	loaded, err := m.ctl(ctx, "print", d+"/"+unit)
	if err != nil {
		return err
	}
	helper := unit + ".reload"
	if loaded.Code == 0 {
		if old > 0 {
			if err := m.h.Gateway.Announce(m.t.Home.Dir, old); err != nil {
				return fmt.Errorf("the gateway was not told that the stop is planned, so it is not stopped: %w", err)
			}
		}
		if _, err := m.ctl(ctx, "remove", helper); err != nil { // of a run that was cut off; mostly there is none
			return err
		}
		res, err := m.ctl(ctx, "submit", "-l", helper, "--", "/bin/sh", "-c", reload, "sh", d, unit, m.h.path(m.t.file()), helper)
		if err != nil {
			return err
		}
		if res.Code == 0 {
			_, runs, err := m.until(ctx, d, unit, leaves+appears, func(p Props) bool { return p.PID > 0 && p.PID != old })
			if err != nil || runs {
				return err
			}
			if _, err := m.ctl(ctx, "remove", helper); err != nil {
				return err
			}
		}
	}
	return errors.Join(m.h.stop(ctx, m.t), m.Start(ctx, unit))
}

// marker says that a gateway was started beside launchd. The first two are upstream's.
type marker struct {
	WrittenAt string `json:"written_at"`
	Reason    string `json:"reason"`
	PID       int    `json:"pid"`
}

func (t Target) marker() string { return filepath.Join(t.Home.Dir, ".gateway-launchd-unsupported") }

// unmark takes back what starts and stops noted in the home: that launchd does not supervise the
// gateway, that the launcher of Windows is not to start it again.
func (h Host) unmark(t Target) error {
	path := t.marker()
	switch t.Kind {
	case Launchd:
	case Tasks:
		path = t.stopFile()
	case Systemd, OpenRC, SysV, SCM:
		return nil
	}
	return h.gone(path)
}

// gone removes a file that need not be there.
func (h Host) gone(path string) error {
	if err := h.Files.Remove(h.path(path)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// detached adds what is known of a gateway that was started beside launchd. Its process is the
// one that the marker names, if that answers for the home, or is silent and gave the last sign of
// life there: a number alone may be another program's by now.
func (m *launchd) detached(ctx context.Context, p *Props) {
	var k marker
	if json.Unmarshal([]byte(m.h.read(m.t.marker())), &k) != nil {
		return
	}
	p.Unsupervised, p.Enabled = k.Reason, false
	id, err := m.h.identify(ctx, m.t.Home.Dir)
	pid := id.PID
	if errors.Is(err, ErrSilent) {
		pid, _ = m.h.Gateway.LastBeat(m.t.Home.Dir)
	} else if err != nil {
		return
	}
	if pid > 0 && pid == k.PID {
		p.PID, p.Active, p.Sub = pid, "active", "detached"
	}
}

// detach starts the gateway beside launchd, as its definition says.
func (m *launchd) detach(ctx context.Context, why string) error {
	data, err := os.ReadFile(m.h.path(m.t.file()))
	if err != nil {
		return err
	}
	j, err := service.ReadLaunchd(data)
	if err != nil {
		return fmt.Errorf("%s: %w", m.t.file(), err)
	}
	env := []string{"HOME=" + m.t.Account.Home, "USER=" + m.t.Account.Name, "LOGNAME=" + m.t.Account.Name, "HERMES_GATEWAY_DETACHED=1"}
	for _, e := range j.Env {
		if !strings.HasPrefix(e, "HERMES_SUPERVISED_CHILD=") { // nobody does
			env = append(env, e)
		}
	}
	if err := os.MkdirAll(m.h.path(filepath.Dir(j.Out)), 0o700); err != nil {
		return err
	}
	pid, err := m.h.Spawn(ctx, Detached{Argv: j.Exec, Env: env, Dir: m.h.path(j.Dir), Out: m.h.path(j.Out), Err: m.h.path(j.Err)})
	if err != nil {
		return fmt.Errorf("%s; and it could not be started beside launchd: %w", why, err)
	}
	text, err := json.Marshal(marker{m.h.Now().UTC().Format(time.RFC3339), why, pid})
	if err != nil {
		return err
	}
	return m.h.Files.Write(m.h.path(m.t.marker()), append(text, '\n'), atomicfile.Options{Mode: 0o600})
}
