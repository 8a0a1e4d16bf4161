// SPDX-License-Identifier: MIT

package sandbox

import (
	"context"
	"errors"
	"time"
)

// KillNow sends SIGKILL to the command's whole tree, without asking politely first, until
// none of it is left: what a hard exit does, or a caller whose patience with [Process.Kill]
// is over. It returns as Kill does.
func (p *Process) KillNow(ctx context.Context) error {
	p.killing.Store(true)
	t := target{user: p.x.User, mark: p.mark, born: "0"}
	select {
	case <-p.begun:
		if p.pid == 0 {
			return nil
		}
		t.sid, t.born = p.pid, p.born
	default: // the mark finds it all the same
	}
	var rest []left
	for until := time.Now().Add(KillDeadline); ; {
		var err error
		rest, err = p.c.signalAll(ctx, t, rest)
		switch {
		case err != nil && !errors.Is(err, ErrPidsExhausted):
			return gone(err)
		case err == nil && len(rest) == 0:
			return nil
		case err != nil && time.Now().After(until):
			return p.c.restart(ctx)
		case time.Now().After(until):
			return p.c.leftError(rest)
		}
	}
}
