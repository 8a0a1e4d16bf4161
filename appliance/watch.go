// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// How long the gateway gives itself (services spec §2.8). A manager that watches too gives it
// longer: what hung is known before the process is killed.
const (
	startLimit = 100 * time.Second // from the claim to the first turn, waits of a storm left out
	stopLimit  = 60 * time.Second  // of a stop, after the drain
	dieLimit   = time.Second       // of each step of a hard exit
)

// Files of diagnoses, in the home's logs.
const (
	exitLog = "gateway-exit-diag.log"
	stopLog = "gateway-shutdown-watchdog.log"
)

// watch arms the watchdog over the start, or over the stop; nil if the process cannot be ended
// from here.
func (s *server) watch(what, file string, limit time.Duration) *gateway.Deadman {
	if s.o.Exit == nil {
		return nil
	}
	return gateway.NewDeadman(limit, func(stacks []byte) {
		s.die(fmt.Sprintf("the %s hangs", what), file, stacks)
	})
}

// die ends a process that cannot end itself: commands first, then what a person needs to know,
// then the claim, so that the next gateway finds its way free. Whatever hangs may hang any of
// it, so each step has its second and no more.
func (s *server) die(what, file string, stacks []byte) {
	step := func(f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		select {
		case <-done:
		case <-time.After(dieLimit):
		}
	}
	if rt := s.runtime.Load(); rt != nil {
		rt.KillNow()
	}
	step(func() { s.keep(file, stacks) })
	step(func() {
		s.o.Log.Error("the process hangs; every command is killed and it ends now", "what", what, "file", filepath.Join(s.home.Dir, "logs", file))
		if s.o.Dump != nil {
			s.o.Dump.Write(stacks) //nolint:errcheck // nowhere left to say it
		}
	})
	step(func() {
		s.state.Update(func(st *gateway.Status) {
			st.Phase, st.Reason = gateway.Degraded, what
		})
		s.state.Flush() //nolint:errcheck // nowhere left to say it
	})
	step(func() { s.claim.Release() }) //nolint:errcheck // the kernel frees the lock with the process
	s.o.Exit(int(exitcode.Error))
}

// keep writes a diagnosis into the home's logs and returns where it is.
func (s *server) keep(file string, stacks []byte) {
	dir := filepath.Join(s.home.Dir, "logs")
	files := atomicfile.Writer{}
	if err := files.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		s.o.Log.Warn("no directory for logs", "error", err)
		return
	}
	if err := files.Write(filepath.Join(dir, file), stacks, atomicfile.Options{Mode: 0o600}); err != nil {
		s.o.Log.Warn("diagnosis not written", "error", err)
	}
}

// diagnose keeps what a wedged gateway was doing.
func (s *server) diagnose(err error) {
	s.state.Update(func(st *gateway.Status) { st.Phase, st.Reason = gateway.Degraded, err.Error() })
	if w, ok := errors.AsType[*gateway.WedgedError](err); ok {
		s.keep(exitLog, w.Stack)
		s.o.Log.Error("the gateway does not answer itself; what it was doing is in the file", "file", filepath.Join(s.home.Dir, "logs", exitLog), "error", err)
	}
}

// liveness is how the gateway watches itself while it serves. Where the manager watches, too,
// three failed rounds are over before it kills what it has not heard of.
func (s *server) liveness() gateway.Liveness {
	l := gateway.Liveness{Every: 30 * time.Second, Timeout: 10 * time.Second, Log: s.o.Log, Alive: s.o.Alive}
	if w := s.o.Watchdog / 5; w > 0 {
		l.Every, l.Timeout = min(l.Every, w), min(l.Timeout, w)
	}
	return l
}

// breathe tells the manager during a stop that the process lives, until the returned function
// is called; the watchdog over the stop ends one that does not.
func (s *server) breathe(ctx context.Context) (stop func()) {
	if s.o.Alive == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		tick := time.NewTicker(s.liveness().Every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				s.o.Alive()
			}
		}
	}()
	return cancel
}
