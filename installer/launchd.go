// SPDX-License-Identifier: MIT

package installer

import (
	"context"
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
	launchdBusy      = 36  // it goes on with what it was told
)

func notLoaded(code int) bool {
	return code == launchdNoProcess || code == launchdNoService || code == launchdNoDomain
}

// unmanaged are what a domain answers in which launchd takes no jobs, among other things.
func unmanaged(code int) bool { return code == launchdIO || code == launchdNoDomain }

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
	off, err := m.must(ctx, unmanaged, "print-disabled", d)
	if err != nil {
		return p, err
	}
	p.Enabled = p.Known && off.Code == 0 && !strings.Contains(off.Out, `"`+unit+`" => disabled`) && !strings.Contains(off.Out, `"`+unit+`" => true`)
	if off.Code != 0 {
		p.Unsupervised = fmt.Sprintf("launchctl print-disabled %s: exit %d", d, off.Code)
	}
	res, err := m.must(ctx, notLoaded, "print", d+"/"+unit)
	if err != nil {
		return p, err
	}
	if res.Code == 0 {
		readJob(&p, res.Out)
	}
	if p.PID == 0 {
		m.detached(ctx, &p)
	}
	return p, nil
}

// readJob reads what launchd says of a job.
func readJob(p *Props, out string) {
	p.Active, p.Sub = "activating", "auto-restart" // registered is not running: that takes a process
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		value, _, _ = strings.Cut(value, ": ") // 78: EX_CONFIG
		n, err := strconv.Atoi(value)
		switch {
		case err != nil:
		case name == "pid" && n > 0 && p.PID == 0:
			p.PID, p.Active, p.Sub = n, "active", "running"
		case name == "last exit code":
			p.Exit = n
		}
	}
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
		if _, err := m.must(ctx, unmanaged, verb, d+"/"+u); err != nil { // the start tells what it means
			return err
		}
	}
	return nil
}
