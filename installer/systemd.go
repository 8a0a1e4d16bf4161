// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// systemd tells systemd through systemctl, which finds its way to the manager over the bus or
// its private socket, whichever there is (H#17243).
type systemd struct {
	h    Host
	user bool
}

// patience is how long a command may take that only asks or reloads.
const patience = 30 * time.Second

// startTime is how long a start may take: the unit's own limit of 120 s and some room.
const startTime = 135 * time.Second

// stopTime is how long is waited for a stop; the manager goes on with it after that.
const stopTime = 90 * time.Second

func (m *systemd) ctl(ctx context.Context, d time.Duration, args ...string) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	argv := []string{"systemctl", "--no-ask-password", "--no-pager"}
	env := m.h.plainEnv()
	if m.user {
		argv = append(argv, "--user")
		env = m.h.userEnv()
	}
	return m.h.command(ctx, env, append(argv, args...)...)
}

func (m *systemd) Reload(ctx context.Context) error {
	_, err := m.ctl(ctx, patience, "daemon-reload")
	return err
}

func (m *systemd) Enable(ctx context.Context, units ...string) error {
	_, err := m.ctl(ctx, patience, append([]string{"enable"}, units...)...)
	return err
}

func (m *systemd) Disable(ctx context.Context, units ...string) error {
	_, err := m.ctl(ctx, patience, append([]string{"disable"}, units...)...)
	return err
}

func (m *systemd) Start(ctx context.Context, unit string) error {
	_, err := m.ctl(ctx, startTime, "start", unit)
	return err
}

// ErrStopping says that a service is still stopping after all the time that a command waits.
var ErrStopping = errors.New("it is still stopping")

func (m *systemd) Stop(ctx context.Context, unit string) error {
	_, err := m.ctl(ctx, stopTime, "stop", unit)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%s: %w; systemctl status %s shows when it has", unit, ErrStopping, unit)
	}
	if c, ok := errors.AsType[*commandError](err); ok && strings.Contains(c.res.Err, "not loaded") {
		return nil // what the manager does not know does not run
	}
	return err
}

func (m *systemd) Signal(ctx context.Context, unit, signal string) error {
	_, err := m.ctl(ctx, patience, "kill", "--kill-who=main", "--signal="+signal, unit)
	return err
}

func (m *systemd) ResetFailed(ctx context.Context, unit string) error {
	_, err := m.ctl(ctx, patience, "reset-failed", unit)
	if c, ok := errors.AsType[*commandError](err); ok && strings.Contains(c.res.Err, "not loaded") {
		return nil
	}
	return err
}

// shown are the properties that are asked for.
const shown = "LoadState,UnitFileState,ActiveState,SubState,Result,ExecMainStatus,ExecMainCode,MainPID,NRestarts,NeedDaemonReload," +
	"TimeoutStopUSec,TimeoutStartUSec,WatchdogUSec,WatchdogTimestampMonotonic,TriggeredBy"

func (m *systemd) Show(ctx context.Context, unit string) (Props, error) {
	res, err := m.ctl(ctx, patience, "show", "--property="+shown, unit)
	if err != nil {
		return Props{}, err
	}
	v := map[string]string{}
	for line := range strings.Lines(res.Out) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), "=")
		v[name] = value
	}
	if v["ActiveState"] == "" {
		return Props{}, fmt.Errorf("systemctl show %s: no ActiveState in its answer", unit)
	}
	number := func(name string) int {
		n, err := strconv.Atoi(v[name])
		if err != nil {
			return 0
		}
		return n
	}
	p := Props{
		Known: v["LoadState"] != "not-found", Masked: v["LoadState"] == "masked", Enabled: v["UnitFileState"] == "enabled",
		Active: v["ActiveState"], Sub: v["SubState"], Result: v["Result"], PID: number("MainPID"), Restarts: number("NRestarts"),
		Stale:    v["NeedDaemonReload"] == "yes",
		Wakers:   strings.Fields(v["TriggeredBy"]),
		StopTime: span(v["TimeoutStopUSec"]), StartTime: span(v["TimeoutStartUSec"]), Watchdog: span(v["WatchdogUSec"]),
	}
	if v["ExecMainCode"] == "1" { // it exited; anything else is a signal's number
		p.Exit = number("ExecMainStatus")
	}
	if last := number("WatchdogTimestampMonotonic"); last > 0 && p.Watchdog > 0 {
		if now, ok := m.h.Monotonic(); ok {
			p.Alive = max(now-time.Duration(last)*time.Microsecond, time.Nanosecond)
		}
	}
	return p, nil
}

// span reads a span of time as systemctl prints it, e.g. "1min 10s"; 0 = none or endless.
func span(text string) time.Duration {
	total := time.Duration(0)
	for part := range strings.FieldsSeq(text) {
		n := strings.TrimRight(part, "abcdefghijklmnopqrstuvwxyz")
		unit := map[string]time.Duration{
			"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "min": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
		}[part[len(n):]]
		f, err := strconv.ParseFloat(n, 64)
		if err != nil || unit == 0 {
			return 0
		}
		total += time.Duration(f * float64(unit))
	}
	return total
}

// journalTail is what the service printed last; "" if the journal does not say.
func (h Host) journalTail(ctx context.Context, t Target, lines int) string {
	return strings.TrimSpace(h.Journal(context.WithoutCancel(ctx), t, lines, time.Time{}, "cat"))
}

// Journal is what the journal has of a service, in a format of journalctl's: the last lines, none
// older than since if that is not zero. It has the words of systemd as well, and so why a process
// ended that could not log anything. "" if there is no journal, or it does not say.
func (h Host) Journal(ctx context.Context, t Target, lines int, since time.Time, format string) string {
	if t.Kind != Systemd {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	argv, env := []string{"journalctl", "--no-pager", "--quiet", "--output=" + format, "--lines=" + strconv.Itoa(lines)}, h.plainEnv()
	if !since.IsZero() {
		argv = append(argv, "--since=@"+strconv.FormatInt(since.Unix(), 10))
	}
	flag := "--unit="
	if t.Scope == "user" {
		flag, env = "--user-unit=", h.userEnv()
	}
	res, err := h.command(ctx, env, append(argv, flag+t.Unit())...)
	if err != nil {
		return ""
	}
	return res.Out
}

// lingerOn reports whether a user's manager runs without a session; known is false where that
// cannot be told.
func (h Host) lingerOn(ctx context.Context, user string) (on, known bool) {
	if h.exists("/var/lib/systemd/linger/" + user) {
		return true, true
	}
	if h.Offline {
		return false, true
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	res, err := h.command(ctx, h.plainEnv(), "loginctl", "show-user", user, "--property=Linger", "--value")
	if c, ok := errors.AsType[*commandError](err); ok {
		// A user who is not logged in and does not linger is unknown to logind.
		return false, strings.Contains(c.res.Err, "not logged in") || strings.Contains(c.res.Err, "No user") || strings.Contains(c.res.Err, "not known")
	}
	return strings.TrimSpace(res.Out) == "yes", err == nil
}

func (h Host) setLinger(ctx context.Context, user string, on bool) error {
	verb := "enable-linger"
	if !on {
		verb = "disable-linger"
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := h.command(ctx, h.plainEnv(), "loginctl", "--no-ask-password", verb, user)
	return err
}

// busReady reports whether the user's manager can be reached: over the bus or over its own
// socket, either will do (H#17243).
func (h Host) busReady() bool {
	dir := h.runtimeDir()
	return dir != "" && (h.exists(dir+"/bus") || h.exists(dir+"/systemd/private"))
}

// runtimeDir is where the sockets of the user's manager are. What sudo and su leak from another
// user is not ours and is ignored (H#86558).
func (h Host) runtimeDir() string {
	for _, dir := range []string{h.Getenv("XDG_RUNTIME_DIR"), "/run/user/" + strconv.Itoa(h.UID)} {
		if dir != "" && h.owns(dir) {
			return dir
		}
	}
	return ""
}

// userEnv is the environment for commands to the user's own manager.
func (h Host) userEnv() []string {
	env := h.plainEnv()
	dir := h.runtimeDir()
	if dir == "" {
		return env
	}
	env = append(env, "XDG_RUNTIME_DIR="+h.path(dir))
	if h.exists(dir + "/bus") {
		env = append(env, "DBUS_SESSION_BUS_ADDRESS=unix:path="+h.path(dir+"/bus"))
	}
	return env
}

// bus waits for the user's manager, which linger starts (H#43748).
func (h Host) bus(ctx context.Context, user string) error {
	for range int(busTime / look) {
		if h.busReady() {
			return nil
		}
		if err := h.Sleep(ctx, look); err != nil {
			return err
		}
	}
	return &Refusal{
		Reason: "no-user-manager", Msg: fmt.Sprintf("the user manager of %s does not come up (no bus and no private socket in /run/user/%d)", user, h.UID),
		Fix: fmt.Sprintf("sudo systemctl start user@%d.service, then run this again; or hermes-appliance gateway run in the foreground", h.UID), Code: exitcode.Error,
	}
}

// busTime is how long a user's manager may take to come up.
const busTime = 20 * time.Second

// linger keeps a user's manager without a session; where that is what the rest needs, its
// failure is a refusal in words of its own.
func (h Host) linger(ctx context.Context, s Step) error {
	err := h.setLinger(ctx, s.User, true)
	if err == nil || s.Soft {
		return err
	}
	return &Refusal{
		Reason: "no-user-manager", Msg: fmt.Sprintf("%s has no user manager in this session, and it cannot be started: %v", s.User, err),
		Fix: "sudo loginctl enable-linger " + s.User + ", then run this again; or hermes-appliance gateway run in the foreground", Code: exitcode.Error,
	}
}

// look is the time between two looks at something that is waited for.
const look = 200 * time.Millisecond
