// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
)

// beating shows upstream's programs, and this one's other commands, that the gateway lives, until
// the returned function is called. What is written is written aside: on some disks that takes a
// minute, and the manager must hear of a healthy process all the same.
func (s *server) beating(ctx context.Context) (stop func()) {
	heart, err := gateway.NewHeart(ctx, s.home, s.o.Now(), func() { s.rt.Turns.Active() })
	if err != nil {
		s.o.Log.Info("no liveness socket; nobody will take this gateway for wedged by its heartbeat", "error", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if err := heart.Beat(s.o.Now()); err != nil {
				s.o.Log.Debug("heartbeat not written", "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-s.beats:
			}
		}
	}()
	return func() {
		cancel()
		if err := heart.Close(); err != nil {
			s.o.Log.Warn("liveness socket", "error", err)
		}
		select {
		case <-done:
		case <-time.After(closeGrace):
		}
	}
}

// alive is called after every good round of probes.
func (s *server) alive() {
	if s.o.Alive != nil {
		s.o.Alive()
	}
	select {
	case s.beats <- struct{}{}:
	default: // one is being written
	}
}
