// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// Restart lets running turns finish, then waits for the service to be ready in a new process
// (services spec §2.5). From inside the service there is only [Outcome.Ask] to call: waiting for
// its own end would be for ever (H#100179). It never runs a gateway itself.
func (h Host) Restart(ctx context.Context, o Observed) (Outcome, error) {
	out := Outcome{Unit: o.Unit(), Was: o.Props.PID, PID: o.Props.PID, Did: "nothing"}
	if err := h.installed(o); err != nil {
		return out, err
	}
	m := h.manager(o.Target)
	if o.Props.Running() && h.insideOf(o.Target, o.Props) {
		out.Ask = func(ctx context.Context) error { return m.Signal(ctx, o.Unit(), "SIGUSR1") }
		out.Did, out.Comment = "asked", "this command runs inside the service; it restarts when the running turns are done"
		return out, nil
	}
	if o.Props.Stale || !o.Props.Known {
		if err := m.Reload(ctx); err != nil {
			return out, err
		}
	}
	how, err := h.restart(ctx, o.Target)
	if err != nil {
		return out, err
	}
	if err := h.ready(ctx, o.Target, o.Props.PID); err != nil {
		return out, err
	}
	out.Comment = how
	return h.after(ctx, o.Target, out, "restarted")
}

// Times of a restart.
const (
	killGrace    = 5 * time.Second  // from one signal to a wedged gateway to the next
	drainBudget  = 90 * time.Second // for a drain, where the manager does not say how long a stop may take
	respawnTime  = 30 * time.Second // for the manager to start it again by itself, beside its start time
	budgetMargin = 15 * time.Second
)

// restart makes the service run in a new process and says how.
func (h Host) restart(ctx context.Context, t Target) (how string, err error) {
	m := h.manager(t)
	p, err := m.Show(ctx, t.Unit())
	if err != nil {
		return "", err
	}
	if p.PID == 0 {
		return h.bringBack(ctx, t, p)
	}
	if t.Kind == Tasks || t.Kind == SCM { // Windows has no signals
		if err := h.stop(ctx, t); err != nil {
			return "", err
		}
		return "", m.Start(ctx, t.Unit())
	}
	_, answer := h.identify(ctx, t.Home.Dir)
	if h.wedged(t, p, answer) {
		return h.replaceWedged(ctx, t, p)
	}
	if err := m.Signal(ctx, t.Unit(), "SIGUSR1"); err != nil {
		return "", err
	}
	budget := p.StopTime + budgetMargin
	if p.StopTime == 0 {
		budget = drainBudget
	}
	now, gone, err := h.until(ctx, t, budget, func(n Props) bool { return n.PID != p.PID })
	if err != nil {
		return "", err
	}
	if !gone { // it did not heed the drain
		if err := m.ResetFailed(ctx, t.Unit()); err != nil {
			return "", err
		}
		if err := h.stop(ctx, t); err != nil {
			return "", err
		}
		return "it did not finish in time and was stopped", h.explain(ctx, t, m.Start(ctx, t.Unit()))
	}
	how, err = h.bringBack(ctx, t, now)
	if how == "" {
		how = "running turns were finished first"
	}
	return how, err
}

// until looks at the unit until something holds, or the time is over.
func (h Host) until(ctx context.Context, t Target, d time.Duration, ok func(Props) bool) (p Props, done bool, err error) {
	for range int(d/look) + 1 {
		if p, err = h.manager(t).Show(ctx, t.Unit()); err != nil {
			return p, false, err
		}
		if ok(p) {
			return p, true, nil
		}
		if err := h.Sleep(ctx, look); err != nil {
			return p, false, err
		}
	}
	return p, false, nil
}

// bringBack waits for the manager to start a service that ended, and starts it itself only where
// the manager will not: a second start beside the manager's own would end the new process.
func (h Host) bringBack(ctx context.Context, t Target, p Props) (how string, err error) {
	m := h.manager(t)
	pending := func(p Props) bool {
		return p.Active == "activating" || p.Active == "deactivating" || p.Active == "reloading"
	}
	if pending(p) || p.PID > 0 {
		if p, _, err = h.until(ctx, t, p.StartTime+respawnTime, func(n Props) bool { return n.Running() || !pending(n) && n.PID == 0 }); err != nil {
			return "", err
		}
	}
	switch {
	case t.Kind == Launchd && pending(p): // registered is not supervised: it takes a kick
		how = "launchd did not start it by itself"
	case p.Running() || pending(p):
		return "", nil
	case p.Active == "failed" && p.Exit == int(exitcode.Config):
		// It may have been put right meanwhile: one more start tells, and its refusal says why.
		how = "it had ended with 78"
	case p.Result == "start-limit-hit":
		how = "it had been started too often"
	default:
		how = "it did not run"
	}
	if err := m.ResetFailed(ctx, t.Unit()); err != nil {
		return how, err
	}
	return how, h.explain(ctx, t, m.Start(ctx, t.Unit()))
}

// replaceWedged ends a gateway that answers nobody, politely first.
func (h Host) replaceWedged(ctx context.Context, t Target, p Props) (string, error) {
	m := h.manager(t)
	for _, sig := range []string{"SIGTERM", "SIGKILL"} {
		if err := m.Signal(ctx, t.Unit(), sig); err != nil {
			return "", err
		}
		now, gone, err := h.until(ctx, t, killGrace, func(n Props) bool { return n.PID != p.PID })
		if err != nil {
			return "", err
		}
		if gone {
			_, err := h.bringBack(ctx, t, now)
			return "it was wedged and was ended with " + sig, err
		}
	}
	return "", fmt.Errorf("%s: process %d is wedged and does not end with SIGKILL either", t.Unit(), p.PID)
}
