// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// How long the gateway that is replaced may take to stop, and then to be gone.
const (
	replaceWait = service.ShutdownWatchdog + 10*time.Second // its own watchdog comes first
	replaceKill = 5 * time.Second
)

// replace ends the gateway that runs on a home, if there is one: it is told that it is taken
// over, so that it exits 0, then asked, and killed if it does not end. Without the note it is not
// touched: its manager would take the signal for a failure. What it ran ends with it, or with the
// next gateway's start.
func replace(ctx context.Context, env Env, h home.Home) error {
	r, runs, err := gateway.Running(h)
	if err != nil || !runs || r.PID == os.Getpid() {
		return err
	}
	if r.StartTime == 0 {
		return fmt.Errorf("%s does not say when process %d started, so it cannot be told from another one; stop it yourself", h.Dir, r.PID)
	}
	if err := gateway.Takeover.Leave(h, r, env.Now()); err != nil {
		return fmt.Errorf("the gateway that runs (process %d) was not touched: it cannot be told that it is taken over: %w", r.PID, err)
	}
	for _, step := range []struct {
		sig  os.Signal
		wait time.Duration
	}{{syscall.SIGTERM, replaceWait}, {syscall.SIGKILL, replaceKill}} {
		if err := process.Signal(r.PID, r.StartTime, step.sig); errors.Is(err, process.ErrNoProcess) {
			return nil
		} else if err != nil {
			return fmt.Errorf("end the gateway that runs (process %d): %w", r.PID, err)
		}
		gone, err := gone(ctx, r, step.wait)
		if gone || err != nil {
			return err
		}
	}
	return fmt.Errorf("the gateway that runs (process %d) does not end", r.PID)
}

// gone waits until the process of a record has ended.
func gone(ctx context.Context, r gateway.Record, most time.Duration) (bool, error) {
	end := time.After(most)
	for r.Alive() {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-end:
			return false, nil
		case <-time.After(20 * time.Millisecond):
		}
	}
	return true, nil
}
