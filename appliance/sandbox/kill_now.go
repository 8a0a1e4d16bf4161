// SPDX-License-Identifier: MIT

package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
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
			return p.c.gone(ctx, err)
		case err == nil && len(rest) == 0:
			return nil
		case err != nil && time.Now().After(until):
			return p.c.restart(ctx)
		case time.Now().After(until):
			return p.c.leftError(rest)
		}
	}
}

// EndLeft ends the tree of a command by its mark, as [Container.KillMark] does, for whoever knows
// no more than the id of the container: an earlier process ran it there. A container that is gone
// or does not run has no processes, and one that is not this program's is left alone.
func (e *Engine) EndLeft(ctx context.Context, id, mark string) error {
	c, err := e.inspect(ctx, id)
	switch {
	case errdefs.IsNotFound(err):
		return nil
	case err != nil:
		return e.failed("look at the sandbox "+id, err)
	case c.id != id || c.labels[labelAgent] != "1" || !c.running() && c.state != container.StatePaused:
		return nil
	}
	return (&Container{e: e, id: c.id, name: c.name, image: c.image}).KillMark(ctx, mark, "")
}
