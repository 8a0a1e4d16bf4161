// SPDX-License-Identifier: MIT

package generation

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// Gateway is a running gateway.
type Gateway struct {
	Home       home.Home
	PID        int
	StartTime  int64  // with PID it names a process; 0 = unknown
	Version    string // of its program
	Supervisor string // who starts it again; "" = nobody, it was started by hand
	Ready      bool   // it serves
}

func (g Gateway) same(o Gateway) bool { return g.PID == o.PID && g.StartTime == o.StartTime }

// Fleet is the gateways that run on a home and its profiles.
type Fleet interface {
	// Running returns those that answer.
	Running(ctx context.Context) ([]Gateway, error)
	// Ask returns the gateway of one home; ok is false if none answers.
	Ask(ctx context.Context, h home.Home) (g Gateway, ok bool, err error)
	// Drain has a gateway finish its turns and end, to be started again by its supervisor. It
	// does not wait, and returns how long that may take.
	Drain(ctx context.Context, g Gateway) (time.Duration, error)
	// Revive has the service manager start the gateway of a home that nobody starts again any
	// more. It is no error where there is no service.
	Revive(ctx context.Context, h home.Home) error
}

// poll is how often a gateway is asked whether it is there.
const poll = 200 * time.Millisecond

// restart drains one gateway and waits until its successor of a version serves. The process
// must be another one and must say the version itself: that a restart was asked for proves
// nothing (services spec §2.10).
func restart(ctx context.Context, f Fleet, old Gateway, version string, patience time.Duration) error {
	drain, err := f.Drain(ctx, old)
	if err != nil {
		return fmt.Errorf("the gateway of %s (process %d) could not be asked to restart: %w", old.Home.Dir, old.PID, err)
	}
	return await(ctx, f, old, version, drain+patience)
}

// await waits for a gateway that is not old, has a version, and serves.
func await(ctx context.Context, f Fleet, old Gateway, version string, patience time.Duration) error {
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last string
	for {
		g, ok, err := f.Ask(ctx, old.Home)
		switch {
		case err != nil:
			last = err.Error()
		case !ok:
			last = "no gateway answered"
		case g.same(old):
			last = fmt.Sprintf("process %d did not end", g.PID)
		case g.Version != version:
			last = fmt.Sprintf("process %d runs version %s", g.PID, g.Version)
		case !g.Ready:
			last = fmt.Sprintf("process %d was still starting", g.PID)
		default:
			return nil
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			if err := outer.Err(); err != nil {
				return err
			}
			return fmt.Errorf("the gateway of %s did not come up with version %s within %s: %s", old.Home.Dir, version, patience.Round(time.Second), last)
		}
	}
}
