// SPDX-License-Identifier: MIT

package terminal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
)

// Exec runs a script in a bash of its own, without snapshot and profile.
func (s *Shell) Exec(ctx context.Context, sc Script) (Output, error) { return s.exec(ctx, sc, true) }

func (s *Shell) exec(ctx context.Context, sc Script, open bool) (Output, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed && open {
		return Output{}, ErrClosed
	}
	text := sc.Text
	if sc.Dir != "" {
		text = "builtin cd -- " + quoteDir(sc.Dir) + " || builtin exit 126\n" + text
	}
	if len(text) > maxScript {
		return Output{}, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLong, len(text), maxScript)
	}
	env, _, _, err := s.env(ctx, process.Foreground)
	if err != nil {
		return Output{}, err
	}
	stdout, stderr := process.NewCapture(0), process.NewCapture(0)
	sp := Spawn{Name: "bash", Kind: process.Foreground, Script: text, Env: env, Stdin: input(sc.Stdin), Stdout: stdout, Stderr: stderr}
	exit, err := s.await(ctx, sp, sc.Timeout)
	if errors.Is(err, ErrGone) && open {
		s.mu.Lock()
		epoch := s.epoch
		s.mu.Unlock()
		if err := s.restore(ctx, epoch); err != nil {
			return Output{}, err
		}
		sp.Stdin = input(sc.Stdin)
		exit, err = s.await(ctx, sp, sc.Timeout)
	}
	out := Output{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: exit.Code}
	if err == nil {
		err = exit.Stdin
	}
	return out, err
}

// errSlow says that a shell of our own took too long.
var errSlow = errors.New("took too long")

// await runs a bash to its end or kills it.
func (s *Shell) await(ctx context.Context, sp Spawn, limit time.Duration) (process.Exit, error) {
	job, err := s.c.Host.Spawn(ctx, sp)
	if err != nil {
		return process.Exit{}, err
	}
	inner := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		inner, cancel = context.WithTimeoutCause(ctx, limit, errSlow)
		defer cancel()
	}
	exit, err := job.Wait(inner)
	if err != nil && inner.Err() != nil {
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), backstop)
		defer stop()
		if kerr := job.Kill(end); kerr != nil {
			s.c.Log.Warn("command not killed", "backend", s.Describe().Backend, "error", kerr)
		}
	}
	return exit, err
}
