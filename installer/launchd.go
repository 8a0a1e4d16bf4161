// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/service"
)

// xmlEnd ends the first line of every property list.
const xmlEnd = "?>\n"

// launchd gives the definition its place and a comment by which it is known again: the hash
// cannot stand in the first line of XML.
func (d *Desired) launchd(s service.Spec) error {
	f, err := s.Launchd()
	if err != nil {
		return err
	}
	first, rest, _ := strings.Cut(f.Data, xmlEnd)
	stamp, _, _ := strings.Cut(service.Stamp(xmlComment.Replace(s.Home), rest), "\n")
	d.add(Definition, filepath.Join(d.dir(), f.Name), first+xmlEnd+"<!-- "+stamp+" -->\n"+rest, 0o644)
	d.Units = []string{d.Unit()}
	return nil
}

// xmlComment and its reverse keep a path from ending the comment that it stands in.
//
//nolint:gochecknoglobals // nothing changes them
var xmlComment, xmlUncomment = strings.NewReplacer("--", "-\u200b-"), strings.NewReplacer("-\u200b-", "--")

// commented reads that comment.
func commented(text string) service.Provenance {
	_, after, ok := strings.Cut(text, xmlEnd+"<!-- ")
	stamp, rest, ok2 := strings.Cut(after, " -->\n")
	if !ok || !ok2 {
		return service.Provenance{}
	}
	p := service.Inspect(stamp + "\n" + rest)
	p.Home = xmlUncomment.Replace(p.Home)
	return p
}

// launchd tells launchd (services spec §1.4). A job that is loaded is one that runs: it is
// kept alive, so stopping is unloading.
type launchd struct {
	h Host
	t Target
}

// Exit codes of launchctl.
const (
	launchdIO        = 5   // registered already, or a domain that cannot be managed
	launchdNoProcess = 3   // not loaded
	launchdNoService = 113 // not loaded
	launchdNoDomain  = 125 // not loaded, or a domain that cannot be managed
)

func notLoaded(code int) bool {
	return code == launchdNoProcess || code == launchdNoService || code == launchdNoDomain
}

func (m *launchd) ctl(ctx context.Context, args ...string) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return m.h.Run(ctx, Command{Argv: append([]string{"launchctl"}, args...), Env: append(m.h.plainEnv(), "HOME="+m.t.Account.Home)})
}

// must is ctl for a command whose success is exit 0 or one of the codes.
func (m *launchd) must(ctx context.Context, fine func(int) bool, args ...string) (Result, error) {
	res, err := m.ctl(ctx, args...)
	if err == nil && res.Code != 0 && (fine == nil || !fine(res.Code)) {
		err = &commandError{append([]string{"launchctl"}, args...), res}
	}
	return res, err
}

// domain is where the job is, or would be: of the graphical session if it is there or there is
// one, else of the user.
func (m *launchd) domain(ctx context.Context, unit string) (string, error) {
	uid := strconv.Itoa(m.h.UID)
	for _, d := range []string{"gui/" + uid, "user/" + uid} {
		res, err := m.ctl(ctx, "print", d+"/"+unit)
		if err != nil {
			return "", err
		}
		if res.Code == 0 {
			return d, nil
		}
	}
	res, err := m.ctl(ctx, "managername")
	if err != nil {
		return "", err
	}
	if strings.Contains(res.Out, "Aqua") {
		return "gui/" + uid, nil
	}
	return "user/" + uid, nil
}

func (m *launchd) Show(ctx context.Context, unit string) (Props, error) {
	p := Props{Known: m.h.exists(m.t.file()), Active: "inactive"}
	d, err := m.domain(ctx, unit)
	if err != nil {
		return p, err
	}
	off, err := m.must(ctx, nil, "print-disabled", d)
	if err != nil {
		return p, err
	}
	p.Enabled = p.Known && !strings.Contains(off.Out, `"`+unit+`" => disabled`) && !strings.Contains(off.Out, `"`+unit+`" => true`)
	res, err := m.must(ctx, notLoaded, "print", d+"/"+unit)
	if err != nil || res.Code != 0 {
		return p, err
	}
	p.Active, p.Sub = "activating", "auto-restart" // registered is not running: that takes a process
	for line := range strings.Lines(res.Out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		n, err := strconv.Atoi(value)
		switch {
		case err != nil:
		case name == "pid" && n > 0 && p.PID == 0:
			p.PID, p.Active, p.Sub = n, "active", "running"
		case name == "last exit code":
			p.Exit = n
		}
	}
	return p, nil
}

func (m *launchd) Reload(context.Context) error { return nil } // bootstrap reads the file

// Enable takes back a "disabled" that an earlier unload may have left (O PR#31353).
func (m *launchd) Enable(ctx context.Context, units ...string) error {
	return m.each(ctx, "enable", units)
}

func (m *launchd) Disable(ctx context.Context, units ...string) error {
	return m.each(ctx, "disable", units)
}

func (m *launchd) each(ctx context.Context, verb string, units []string) error {
	for _, u := range units {
		d, err := m.domain(ctx, u)
		if err != nil {
			return err
		}
		if _, err := m.must(ctx, nil, verb, d+"/"+u); err != nil {
			return err
		}
	}
	return nil
}

// Start loads the job, or kicks one that is loaded. Exit 5 is "registered already" or "this
// domain cannot be managed": one unload and a second try tell which (H#42006).
func (m *launchd) Start(ctx context.Context, unit string) error {
	d, err := m.domain(ctx, unit)
	if err != nil {
		return err
	}
	if _, err := m.must(ctx, nil, "enable", d+"/"+unit); err != nil {
		return err
	}
	loaded, err := m.ctl(ctx, "print", d+"/"+unit)
	if err != nil {
		return err
	}
	if loaded.Code == 0 {
		_, err := m.must(ctx, nil, "kickstart", d+"/"+unit)
		return err
	}
	file := m.h.path(m.t.file())
	res, err := m.ctl(ctx, "bootstrap", d, file)
	if err == nil && res.Code == launchdIO {
		if _, err = m.must(ctx, notLoaded, "bootout", d+"/"+unit); err == nil {
			res, err = m.ctl(ctx, "bootstrap", d, file)
		}
	}
	switch {
	case err != nil:
		return err
	case res.Code == launchdIO || res.Code == launchdNoDomain:
		return fmt.Errorf("launchctl bootstrap %s: exit %d: %w", d, res.Code, errUnmanaged)
	case res.Code != 0:
		return &commandError{[]string{"launchctl", "bootstrap", d, file}, res}
	}
	return nil
}

// errUnmanaged is a session in which launchd takes no jobs.
var errUnmanaged = errors.New("launchd manages no jobs in this session; log in on the screen, or run hermes-appliance gateway run")

func (m *launchd) Stop(ctx context.Context, unit string) error {
	d, err := m.domain(ctx, unit)
	if err != nil {
		return err
	}
	_, err = m.must(ctx, notLoaded, "bootout", d+"/"+unit)
	return err
}

func (m *launchd) Signal(ctx context.Context, unit, signal string) error {
	d, err := m.domain(ctx, unit)
	if err != nil {
		return err
	}
	_, err = m.must(ctx, nil, "kill", signal, d+"/"+unit)
	return err
}

func (m *launchd) ResetFailed(context.Context, string) error { return nil } // launchd never gives up
