// SPDX-License-Identifier: MIT

package installer

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"time"
)

// Exec is the [Runner] that really runs programs. What they print is kept up to a megabyte.
func Exec(ctx context.Context, c Command) (Result, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Env = append([]string{}, c.Env...) // never nil: that would be this process's own
	if c.As != nil {
		if err := as(cmd, *c.As); err != nil {
			return Result{}, err
		}
	}
	var out, errs limited
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 2 * time.Second // a grandchild may hold the pipes
	err := cmd.Run()
	res := Result{Out: out.b.String(), Err: errs.b.String()}
	if ctx.Err() != nil {
		return res, ctx.Err()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		res.Code = exit.ExitCode()
		return res, nil
	}
	return res, err
}

// limited keeps the first megabyte.
type limited struct{ b bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.b.Write(p[:min(len(p), max(0, 1<<20-l.b.Len()))])
	return len(p), nil
}
