// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// scm tells the Windows Service Control Manager through sc.exe. What a service shall be stands in
// a file, as the commands that make it so. Nothing is told to a service that is not shown to be
// this home's first (H#97208).
type scm struct {
	h Host
	t Target
}

// Exit codes of sc.exe.
const (
	scmRunning    = 1056 // it runs already
	scmMissing    = 1060 // there is no such service
	scmNotStarted = 1062
)

// sc runs sc.exe; codes are exit codes beside 0 that are no error.
func (m *scm) sc(ctx context.Context, codes []int, args ...string) (Result, error) {
	return m.run(ctx, append([]string{"sc.exe"}, args...), codes...)
}

func (m *scm) run(ctx context.Context, argv []string, codes ...int) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	res, err := m.h.Run(ctx, Command{Argv: argv, Env: m.h.plainEnv()})
	if err == nil && res.Code != 0 && !slices.Contains(codes, res.Code) {
		err = &commandError{argv, res}
		if denied(err) || res.Code == 5 {
			err = fmt.Errorf("%w\na service of the machine takes a terminal that was started as administrator", err)
		}
	}
	return res, err
}

// fields are the values of sc.exe's answers, in the order in which it prints them: their names
// are in the language of the machine.
func fields(out string) []string {
	var v []string
	for line := range strings.Lines(out) {
		if _, value, ok := strings.Cut(line, ": "); ok {
			v = append(v, strings.TrimSpace(value))
		}
	}
	return v
}

// number is what a value begins with.
func number(v []string, i int) int {
	if i >= len(v) {
		return 0
	}
	first, _, _ := strings.Cut(v[i], " ")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
}

// Places of values in the answers of qc and queryex, after the service's name.
const (
	qcStart, qcLine                   = 2, 4
	exState, exCode, exService, exPID = 2, 3, 4, 7
	startAuto                         = 2
	stateStopped, stateStarting       = 1, 2
	stateStopping                     = 3
	codeOfService                     = 1066 // the service's own exit code counts
)

// configured is how the service is registered; known is false if it is not.
func (m *scm) configured(ctx context.Context, unit string) (v []string, known bool, err error) {
	res, err := m.sc(ctx, []int{scmMissing}, "qc", unit, "8192")
	return fields(res.Out), err == nil && res.Code == 0, err
}

// ours reports whether a registered service runs the gateway of this home: its command line says so.
func (m *scm) ours(v []string) bool {
	if len(v) <= qcLine {
		return false
	}
	end := service.Spec{Exec: []string{"gateway", "run"}, Home: m.t.Home.Dir}.SCMLine()
	return strings.HasSuffix(v[qcLine], " "+end)
}

// mine refuses to touch a service that is not ours; known is false if there is none.
func (m *scm) mine(ctx context.Context, unit string) (known bool, err error) {
	v, known, err := m.configured(ctx, unit)
	if err == nil && known && !m.ours(v) {
		err = &Refusal{
			Reason: "foreign", Msg: fmt.Sprintf("the service %s does not run the gateway of %s", unit, m.t.Home.Dir),
			Fix: "sc.exe qc " + unit + " shows what it runs", Code: exitcode.Managed,
		}
	}
	return known, err
}

func (m *scm) Show(ctx context.Context, unit string) (Props, error) {
	p := Props{Active: "inactive"}
	v, known, err := m.configured(ctx, unit)
	if err != nil || !known {
		return p, err
	}
	p.Known, p.Enabled = true, number(v, qcStart) == startAuto
	commands, rerr := m.commands()
	p.Stale = !m.ours(v) || rerr == nil && v[qcLine] != commands[0][len(commands[0])-1]
	res, err := m.sc(ctx, nil, "queryex", unit)
	if err != nil {
		return p, err
	}
	now := fields(res.Out)
	if p.Exit = number(now, exCode); p.Exit == codeOfService {
		p.Exit = number(now, exService)
	}
	p.PID = number(now, exPID)
	switch number(now, exState) {
	case stateStopped:
		p.PID = 0
	case stateStarting:
		p.Active = "activating"
	case stateStopping:
		p.Active = "deactivating"
	default:
		p.Active = "active"
	}
	return p, nil
}

// commands are those of the file.
func (m *scm) commands() ([][]string, error) {
	data, err := os.ReadFile(m.h.path(m.t.file()))
	if err != nil {
		return nil, err
	}
	out, err := service.ReadSCM(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.t.file(), err)
	}
	return out, nil
}

// Reload makes the service what its file says: without a file there shall be none.
func (m *scm) Reload(ctx context.Context) error {
	unit := m.t.Unit()
	known, err := m.mine(ctx, unit)
	if err != nil {
		return err
	}
	commands, err := m.commands()
	if errors.Is(err, os.ErrNotExist) {
		if !known {
			return nil
		}
		if _, err := m.run(ctx, []string{"icacls.exe", m.t.Home.Dir, "/remove", `NT SERVICE\` + unit, "/Q"}); err != nil {
			return err
		}
		_, err = m.sc(ctx, []int{scmMissing}, "delete", unit)
		return err
	}
	if err != nil {
		return err
	}
	for i, argv := range commands {
		if i == 0 && known {
			argv = slices.Clone(argv)
			argv[1] = "config"
			if at := slices.Index(argv, "start="); at > 0 { // that is somebody's choice by now
				argv = slices.Delete(argv, at, at+2)
			}
		}
		if _, err := m.run(ctx, argv); err != nil {
			return err
		}
	}
	return nil
}

func (m *scm) Enable(ctx context.Context, units ...string) error {
	return m.starts(ctx, "delayed-auto", units)
}

func (m *scm) Disable(ctx context.Context, units ...string) error {
	return m.starts(ctx, "demand", units)
}

func (m *scm) starts(ctx context.Context, how string, units []string) error {
	for _, u := range units {
		known, err := m.mine(ctx, u)
		if err == nil && known {
			_, err = m.sc(ctx, nil, "config", u, "start=", how)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *scm) Start(ctx context.Context, unit string) error {
	if _, err := m.mine(ctx, unit); err != nil {
		return err
	}
	_, err := m.sc(ctx, []int{scmRunning}, "start", unit)
	return err
}

// Stop waits: sc.exe only passes the wish on.
func (m *scm) Stop(ctx context.Context, unit string) error {
	known, err := m.mine(ctx, unit)
	if err != nil || !known {
		return err
	}
	if _, err := m.sc(ctx, []int{scmNotStarted}, "stop", unit); err != nil {
		return err
	}
	for range int(stopTime / look) {
		if p, err := m.Show(ctx, unit); err != nil || p.Active == "inactive" {
			return err
		}
		if err := m.h.Sleep(ctx, look); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %w; sc.exe query %s shows when it has", unit, ErrStopping, unit)
}

// Signal fails: the manager knows no signals.
func (m *scm) Signal(context.Context, string, string) error {
	return errors.New("the service control manager sends no signals; stop and start instead")
}

// ResetFailed has nothing to do: a start by hand is never refused.
func (m *scm) ResetFailed(context.Context, string) error { return nil }

// scmDir is where the files of the machine's services stand on Windows.
func scmDir(programFiles string) string { return filepath.Join(programFiles, service.SCMDir) }
