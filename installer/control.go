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
	"github.com/hermes-appliance/hermes-appliance/service"
)

// ParkedError says that the service ended with 78: starting it again will not help.
type ParkedError struct {
	Unit, Reason string
}

func (e *ParkedError) Error() string {
	return fmt.Sprintf("%s ended with %d, so starting it again will not help: %s\nput that right, then: hermes-appliance start", e.Unit, int(exitcode.Config), e.Reason)
}

// ExitCode is [exitcode.Config].
func (e *ParkedError) ExitCode() exitcode.Code { return exitcode.Config }

// explain adds to a failed start why the service ended.
func (h Host) explain(ctx context.Context, t Target, failed error) error {
	if failed == nil {
		return nil
	}
	actx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	p, err := h.manager(t).Show(actx, t.Unit())
	if err != nil {
		return failed
	}
	tail := h.journalTail(ctx, t, 5)
	if p.Exit == int(exitcode.Config) {
		why := h.Gateway.LastReason(t.Home.Dir)
		if line := tail[strings.LastIndexByte(tail, '\n')+1:]; why == "" {
			why = line
		}
		if tail != "" {
			why = tail
		}
		return &ParkedError{t.Unit(), why}
	}
	if p.Result != "" && p.Result != "success" {
		failed = fmt.Errorf("%w\nresult %s, exit %d", failed, p.Result, p.Exit)
	}
	if tail != "" {
		failed = fmt.Errorf("%w\n%s", failed, tail)
	}
	return failed
}

// settleTime is how long a started service may take to answer on its control socket.
const settleTime = 60 * time.Second

// ready waits until the service runs in a process other than old, and that process answers for
// the home. It does not wait for one that failed for good.
func (h Host) ready(ctx context.Context, t Target, old int) error {
	m := h.manager(t)
	var last error
	for range int(settleTime / look) {
		p, err := m.Show(ctx, t.Unit())
		switch {
		case err != nil:
			last = err
		case p.Exit == int(exitcode.Config) && p.Active == "failed", p.Result == "start-limit-hit":
			return h.explain(ctx, t, fmt.Errorf("%s is %s", t.Unit(), p.Active))
		case !p.Running() || old != 0 && p.PID == old:
			last = fmt.Errorf("%s is %s (%s), process %d", t.Unit(), p.Active, p.Sub, p.PID)
		default:
			id, err := h.identify(ctx, t.Home.Dir)
			if err == nil && id.PID == p.PID {
				if t.Kind != Tasks && p.Unsupervised == "" || h.stays(ctx, t, p.PID) {
					return nil
				}
				err = fmt.Errorf("process %d ended at once", p.PID)
			}
			if last = err; err == nil {
				last = fmt.Errorf("process %d answers for %s, not the service's process %d", id.PID, t.Home.Dir, p.PID)
			}
		}
		if err := h.Sleep(ctx, look); err != nil {
			return errors.Join(err, last)
		}
	}
	return h.explain(ctx, t, fmt.Errorf("it does not become ready: %w", last))
}

// stays reports whether a process that no manager vouches for goes on to answer for two seconds.
func (h Host) stays(ctx context.Context, t Target, pid int) bool {
	for range int(2 * time.Second / look) {
		if h.Sleep(ctx, look) != nil {
			return false
		}
		if id, err := h.identify(ctx, t.Home.Dir); err != nil || id.PID != pid {
			return false
		}
	}
	return true
}

// stop stops the service, having told it that this is planned.
func (h Host) stop(ctx context.Context, t Target) error {
	m := h.manager(t)
	p, err := m.Show(ctx, t.Unit())
	if err != nil {
		return err
	}
	if p.PID > 0 {
		if err := h.Gateway.Announce(t.Home.Dir, p.PID); err != nil {
			return fmt.Errorf("the gateway was not told that the stop is planned, so it is not stopped: %w", err)
		}
	}
	return m.Stop(ctx, t.Unit())
}

// Outcome is what a verb did.
type Outcome struct {
	Unit    string `json:"unit"`
	Was     int    `json:"was,omitempty"` // main process before
	PID     int    `json:"pid,omitempty"` // and after
	Did     string `json:"did"`           // started, stopped, restarted, asked, nothing
	Comment string `json:"comment,omitempty"`
	// Ask is what is left to do where all that was done is to ask, nil = nothing: the answer ends
	// this process, too, so its result is to be told first.
	Ask func(ctx context.Context) error `json:"-"`
}

// installed refuses a service that is not there.
func (h Host) installed(o Observed) error {
	switch {
	case o.State == Absent:
		return &Refusal{Reason: "absent", Msg: fmt.Sprintf("no service is installed for %s", o.Home.Dir), Fix: "hermes-appliance install", Code: exitcode.Error}
	case o.Props.Masked:
		return &Refusal{Reason: "masked", File: o.File.Path, Msg: "the service is masked", Fix: o.Fix, Code: exitcode.Managed}
	case !o.Reached && o.unasked != nil:
		return &Refusal{Reason: "no-manager", Msg: o.unasked.Error(), Fix: "loginctl enable-linger " + o.Account.Name + ", or log in as that user", Code: exitcode.Error}
	}
	return nil
}

// Start starts the service and waits until it is ready. It heals what keeps it from starting: a
// definition that the manager has not read, a count of failures. The error may be a
// [*ParkedError].
func (h Host) Start(ctx context.Context, o Observed) (Outcome, error) {
	out := Outcome{Unit: o.Unit(), Was: o.Props.PID, Did: "nothing", PID: o.Props.PID}
	if err := h.installed(o); err != nil {
		return out, err
	}
	if o.Props.Running() {
		out.Comment = strings.TrimSuffix("it runs already; "+o.Props.warning(), "; ")
		return out, nil
	}
	m := h.manager(o.Target)
	if o.Props.Stale || !o.Props.Known {
		if err := m.Reload(ctx); err != nil {
			return out, err
		}
	}
	if err := m.ResetFailed(ctx, o.Unit()); err != nil {
		return out, err
	}
	if err := h.explain(ctx, o.Target, m.Start(ctx, o.Unit())); err != nil {
		return out, err
	}
	if err := h.ready(ctx, o.Target, 0); err != nil {
		return out, err
	}
	return h.after(ctx, o.Target, out, "started")
}

func (h Host) after(ctx context.Context, t Target, out Outcome, did string) (Outcome, error) {
	p, err := h.manager(t).Show(ctx, t.Unit())
	out.PID, out.Did = p.PID, did
	out.Comment = strings.Trim(out.Comment+"; "+p.warning(), "; ")
	return out, err
}

// Stop stops the service. It comes back with the machine, if it is enabled.
func (h Host) Stop(ctx context.Context, o Observed) (Outcome, error) {
	out := Outcome{Unit: o.Unit(), Was: o.Props.PID, PID: o.Props.PID, Did: "nothing"}
	if err := h.installed(o); err != nil {
		return out, err
	}
	own := o.ownSockets() // whoever asks there would start it again
	if o.Props.PID == 0 && o.Props.Active != "activating" && o.Props.Active != "active" && len(own) == 0 {
		out.Comment = strings.TrimSuffix("it does not run; "+h.awake(ctx, o), "; ")
		return out, nil
	}
	if h.insideOf(o.Target, o.Props) {
		return out, insideRefusal("stop")
	}
	if err := errors.Join(h.closeSockets(ctx, o.Target, own), h.stop(ctx, o.Target)); err != nil {
		return out, err
	}
	p, err := h.manager(o.Target).Show(ctx, o.Unit())
	if err == nil && p.PID > 0 {
		err = fmt.Errorf("%s: it was stopped and process %d still runs", o.Unit(), p.PID)
	}
	out.PID, out.Did, out.Comment = p.PID, "stopped", h.awake(ctx, o)
	return out, err
}

// awake names what goes on and starts a stopped service again.
func (h Host) awake(ctx context.Context, o Observed) string {
	var on []string
	for _, unit := range o.Props.Wakers {
		if p, err := h.manager(o.Target).Show(ctx, unit); err == nil && p.Active == "active" {
			on = append(on, unit)
		}
	}
	if len(on) == 0 {
		return ""
	}
	flag := map[service.Scope]string{service.User: " --user"}[o.Scope]
	return fmt.Sprintf("%s is still on, and starts it when somebody asks there; systemctl%s stop %s", strings.Join(on, ", "), flag, strings.Join(on, " "))
}

func insideRefusal(verb string) error {
	return &Refusal{
		Reason: "inside", Msg: "this command runs inside the gateway's own service and would end with it",
		Fix: "run hermes-appliance " + verb + " from a shell outside", Code: exitcode.Error,
	}
}

// insideOf reports whether this process runs inside the service.
func (h Host) insideOf(t Target, p Props) bool {
	for pid := h.PID; p.PID > 0 && pid > 1; {
		if pid == p.PID {
			return true
		}
		stat := h.read("/proc/" + strconv.Itoa(pid) + "/stat")
		fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			break
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil || parent == pid {
			break
		}
		pid = parent
	}
	service, self := "", ""
	if p.PID > 0 {
		service, self = cgroup(h.read("/proc/"+strconv.Itoa(p.PID)+"/cgroup")), cgroup(h.read("/proc/self/cgroup"))
	}
	return strings.Contains(service+"/", "/"+t.Unit()+"/") && (self == service || strings.HasPrefix(self, service+"/"))
}

// cgroup is the control group that systemd put a process into, as the kernel tells it.
func cgroup(text string) string {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && (parts[1] == "name=systemd" || parts[0] == "0" && parts[1] == "") {
			return parts[2]
		}
	}
	return ""
}
