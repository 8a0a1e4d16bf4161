// SPDX-License-Identifier: MIT

//go:build unix

package installer

import (
	"errors"
	"testing"
	"time"
)

// TestReport15_TwoWitnesses: H#12438. Only what two witnesses say is wedged, and no sign that is
// missing, old by a little or of another process is one.
func TestReport15_TwoWitnesses(t *testing.T) {
	t.Parallel()
	const old, fresh = 100 * time.Second, 80 * time.Second
	for name, c := range map[string]struct {
		answer   error
		watchdog time.Duration
		alive    time.Duration
		beat     int
		age      time.Duration
		want     bool
	}{
		"the manager heard nothing":                {ErrSilent, time.Minute, old, 0, 0, true},
		"nor did the home":                         {ErrSilent, time.Minute, old, 7, old, true},
		"a manager that listens, and hears":        {ErrSilent, time.Minute, fresh, 7, old, false},
		"the manager heard nothing, the home did":  {ErrSilent, time.Minute, old, 7, fresh, false},
		"a manager that does not listen":           {ErrSilent, 0, 0, 7, old, true},
		"and a fresh heartbeat":                    {ErrSilent, 0, 0, 7, fresh, false},
		"and a heartbeat of another process":       {ErrSilent, 0, 0, 8, old, false},
		"and no heartbeat":                         {ErrSilent, 0, 0, 0, 0, false},
		"it answers":                               {nil, time.Minute, old, 7, old, false},
		"nobody listens":                           {ErrNotRunning, time.Minute, old, 7, old, false},
		"the question failed":                      {errors.New("refused"), time.Minute, old, 7, old, false},
		"the manager has not heard of it, not yet": {ErrSilent, time.Minute, 0, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{beat: c.beat, beatAge: c.age}
			h := s.host(t, "darwin")
			got := h.wedged(Target{}, Props{PID: 7, Watchdog: c.watchdog, Alive: c.alive}, c.answer)
			if got != c.want {
				t.Errorf("got %v", got)
			}
			if h.wedged(Target{}, Props{Watchdog: c.watchdog, Alive: c.alive}, c.answer) {
				t.Error("wedged without a process")
			}
		})
	}
}

// TestReport15_SleepIsNoSilence: what a machine slept is no silence of its gateway. The manager's
// stamps are compared with the clock that they are from, and with none if that cannot be read.
func TestReport15_SleepIsNoSilence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now   time.Duration
		known bool
		alive int // seconds before bootedFor
		want  bool
	}{
		"a sign ten seconds ago, before and after a sleep": {bootedFor, true, 10, false},
		"a sign long ago":              {bootedFor, true, 200, true},
		"the same, looked at earlier":  {bootedFor - 150*time.Second, true, 200, false},
		"a sign from after the look":   {bootedFor - 300*time.Second, true, 200, false},
		"the clock cannot be read":     {0, false, 200, false},
		"a sign just now, looked late": {bootedFor + 91*time.Second, true, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, o := observed(t, func(p *played) { p.Silent, p.Alive = true, c.alive })
			h := w.host()
			h.Monotonic = func() (time.Duration, bool) { return c.now, c.known }
			o, err := h.Observe(t.Context(), o.Target, Desired{})
			if err != nil || (o.State == Wedged) != c.want {
				t.Errorf("%s, alive %s, %v", o.State, o.Props.Alive, err)
			}
		})
	}
}
