// SPDX-License-Identifier: MIT

package installer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
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
	cmd.WaitDelay = 5 * time.Second // a grandchild may hold the pipes, which is no failure
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	res := Result{Out: printed(out.b.Bytes()), Err: printed(errs.b.Bytes())}
	if ctx.Err() != nil {
		return res, ctx.Err()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		res.Code = exit.ExitCode()
		return res, nil
	}
	return res, err
}

// Spawn is the [Spawner] that really starts programs. The files of what they print are made if
// need be, for nobody else to read.
func Spawn(ctx context.Context, d Detached) (pid int, err error) {
	start := func(breakaway bool) (*exec.Cmd, error) {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), d.Argv[0], d.Argv[1:]...)
		cmd.Env, cmd.Dir = append([]string{}, d.Env...), d.Dir
		apart(cmd, breakaway)
		for path, out := range map[string]*io.Writer{d.Out: &cmd.Stdout, d.Err: &cmd.Stderr} {
			if path == "" {
				continue
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
			if err != nil {
				return nil, err
			}
			defer f.Close() //nolint:errcheck // the child has its own
			*out = f
		}
		return cmd, cmd.Start()
	}
	cmd, err := start(true)
	if err != nil { // a job that lets nobody out
		if cmd, err = start(false); err != nil {
			return 0, err
		}
	}
	pid = cmd.Process.Pid
	return pid, cmd.Process.Release()
}

// limited keeps the first megabyte.
type limited struct{ b bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.b.Write(p[:min(len(p), max(0, 1<<20-l.b.Len()))])
	return len(p), nil
}
