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
