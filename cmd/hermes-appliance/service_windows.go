// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/windows/svc"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// supervised runs the program; started by the service control manager, it is told by that when to
// stop, and tells it how it ended.
func supervised(ctx context.Context, run func(context.Context) int) int {
	is, err := svc.IsWindowsService()
	if err != nil || !is {
		return run(ctx)
	}
	h := &handler{ctx: ctx, run: run}
	if err := svc.Run("", h); err != nil { // the name does not count in a process of its own
		fmt.Fprintln(os.Stderr, "service control manager:", err)
		return int(exitcode.Error)
	}
	return h.code
}

// handler is what the service control manager talks to.
type handler struct {
	ctx  context.Context //nolint:containedctx // the manager's calls have none
	run  func(context.Context) int
	code int
}

// Execute runs the program until it ends, or the manager wants it to. Ended with an error, the
// manager starts it again; of 78 it hears nothing, for it would do that for ever.
func (h *handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (own bool, code uint32) {
	ctx, stop := context.WithCancel(h.ctx)
	defer stop()
	ended := make(chan int, 1)
	go func() { ended <- h.run(ctx) }()
	now := svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	status <- now
	for {
		select {
		case h.code = <-ended:
			if h.code == int(exitcode.Config) {
				return true, 0
			}
			return true, uint32(h.code)
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- now
			case svc.Stop, svc.Shutdown:
				hint := uint32(service.ShutdownWatchdog.Milliseconds())
				now = svc.Status{State: svc.StopPending, WaitHint: hint}
				status <- now
				stop()
			default:
			}
		}
	}
}
