// SPDX-License-Identifier: MIT

// Package docker is the terminal backend of a profile's container: it gives package sandbox
// the shells that package terminal makes, and takes its answers apart. It never forks a
// client program, never puts a value into an argument or into the container's own
// environment, and never runs a command on this machine because the container is not there.
package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/sandbox"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
)

// Config is what the backend is made of.
type Config struct {
	Engine   *sandbox.Engine
	Spec     sandbox.Spec
	Registry *process.Registry
	Log      *slog.Logger
}

// Host starts bash in a container. The container is found, or made, when the first command
// comes; a failure is not remembered.
type Host struct {
	c Config

	turn chan struct{} // held by who looks for the container

	mu     sync.Mutex
	con    *sandbox.Container // nil = not looked for yet
	own    string             // what the list of commands knows it by; "" = it is kept
	closed bool
}

// New returns the backend. Nothing is started yet.
func New(c Config) *Host { return &Host{c: c, turn: make(chan struct{}, 1)} }

// Describe says which container this is.
func (h *Host) Describe() terminal.Description {
	d := terminal.Description{Backend: "docker", PTY: true, Remote: true}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.con != nil {
		d.Target = h.con.Name()
	}
	return d
}

// Container returns the container, which is found or made if need be.
func (h *Host) Container(ctx context.Context) (*sandbox.Container, error) {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-h.turn }()
	h.mu.Lock()
	con, closed := h.con, h.closed
	h.mu.Unlock()
	if closed {
		return nil, terminal.ErrClosed
	}
	if con != nil {
		return con, nil
	}
	con, state, err := h.c.Engine.Ensure(ctx, h.c.Spec)
	if err != nil {
		return nil, Explain(err)
	}
	if _, err := endLeft(ctx, h.c.Engine, h.c.Registry, con.ID()); err != nil {
		h.c.Log.Warn("commands that a killed gateway had left go on in the sandbox", "container", con.Name(), "error", err)
	}
	own := ""
	if !h.c.Spec.Keep {
		own = sandbox.NewMark()
		h.c.Registry.NoteAway(process.Away{Mark: own, Where: where(ownKind, h.c.Engine, con.ID())})
	}
	h.c.Log.Debug("sandbox ready", "container", con.Name(), "outcome", string(state.Outcome))
	h.mu.Lock()
	h.con, h.own = con, own
	h.mu.Unlock()
	return con, nil
}

// Restore finds, starts or makes the container again.
func (h *Host) Restore(ctx context.Context) error {
	h.mu.Lock()
	h.con = nil
	h.mu.Unlock()
	_, err := h.Container(ctx)
	return err
}

// Close says that the container is not needed any more. What runs in one that is kept goes
// on.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	con, own := h.con, h.own
	h.con, h.closed = nil, true
	h.mu.Unlock()
	if con != nil {
		con.Release(ctx, func() { h.c.Registry.EndAway(own) })
	}
	return nil
}

// Spawn starts bash. It returns when bash has begun.
func (h *Host) Spawn(ctx context.Context, s terminal.Spawn) (terminal.Job, error) {
	entry, err := h.c.Registry.Enter(s.Kind, s.Name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	j, err := h.start(ctx, s)
	if err != nil {
		entry.Leave()
		return nil, err
	}
	j.entry = entry
	err = entry.Publish(j)
	go func() {
		<-j.off
		j.input.close()
		entry.Leave()
		close(j.over)
	}()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return j, nil
}

func (h *Host) start(ctx context.Context, s terminal.Spawn) (*job, error) {
	con, err := h.Container(ctx)
	if err != nil {
		return nil, err
	}
	argv := []string{"bash"}
	if s.Login {
		argv = append(argv, "-l")
	}
	x := sandbox.Exec{
		Argv: append(argv, "-c", s.Script), Env: s.Env, Dir: s.Dir, Mark: sandbox.NewMark(),
		Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, Merge: s.Stderr == nil && !s.PTY,
	}
	j := &job{log: h.c.Log, off: make(chan struct{}), over: make(chan struct{}), kill: func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.WithoutCancel(ctx), killTime)
	}}
	if s.StdinPipe || s.PTY {
		j.input = newPipe(s.PTY)
		x.Stdin = j.input.r
	}
	if s.PTY {
		x.TTY, x.Height, x.Width = true, 30, 120
	}
	h.c.Registry.NoteAway(process.Away{Mark: x.Mark, Where: where(commandKind, h.c.Engine, con.ID())})
	if j.p, err = con.Start(ctx, x); err != nil {
		j.input.close()
		h.ended(x.Mark, err)
		return nil, Explain(err)
	}
	go func() {
		defer close(j.off)
		_, err := j.p.Wait()
		h.ended(x.Mark, err)
	}()
	begun := make(chan int, 1)
	go func() { begun <- j.p.PID() }()
	select {
	case pid := <-begun:
		if pid == 0 {
			j.input.close()
			return nil, neverBegan(j.p)
		}
	case <-ctx.Done():
		j.input.close()
		j.KillNow()
		return nil, context.Cause(ctx)
	}
	if s.PTY && s.Stdin != nil {
		go io.Copy(j.input.w, s.Stdin) //nolint:errcheck // a terminal that is gone takes no more
	}
	return j, nil
}

// neverBegan says why a command did not run.
func neverBegan(p *sandbox.Process) error {
	_, err := p.Wait()
	if err == nil {
		err = errors.New("the command did not begin, and nobody says why")
	}
	return Explain(err)
}

// Explain turns what the engine says, also to somebody who could not reach it in the first
// place, into the words of package terminal. A context that ended stays what it is.
func Explain(err error) error {
	if errors.Is(err, sandbox.ErrGone) {
		return fmt.Errorf("%w: %v", terminal.ErrGone, err) //nolint:errorlint // one chain: the kind is what counts
	}
	var e *sandbox.EngineError
	if !errors.As(err, &e) {
		return err
	}
	shown := *e
	shown.Fix = ""
	hint := e.Fix
	if hint == "" && errors.Is(err, sandbox.ErrPidsExhausted) {
		hint = "end processes there with process_manage, or raise its limit"
	}
	return &terminal.ConnError{Backend: "docker", Reason: shown.Error(), Hint: hint, Err: err}
}

// job is a bash in the container.
type job struct {
	p     *sandbox.Process
	off   chan struct{} // closed when it has ended and is off the list of what a kill leaves behind
	over  chan struct{} // closed when it is no live command of the registry either
	input *pipe         // nil = none
	entry *process.Entry
	log   *slog.Logger
	// kill makes the context of an immediate kill, which gets none.
	kill func() (context.Context, context.CancelFunc)

	mu     sync.Mutex
	killed bool
}

// PID is 0: the number is the container's own.
func (j *job) PID() int { return 0 }

// Done is closed when bash has exited and its output was read.
func (j *job) Done() <-chan struct{} { return j.over }

// Wait waits for Done.
func (j *job) Wait(ctx context.Context) (process.Exit, error) {
	select {
	case <-j.over:
	default:
		select {
		case <-j.over:
		case <-ctx.Done():
			return process.Exit{}, context.Cause(ctx)
		}
	}
	code, err := j.p.Wait()
	j.mu.Lock()
	killed := j.killed
	j.mu.Unlock()
	if err != nil && (!killed || !errors.Is(err, sandbox.ErrGone)) {
		return process.Exit{Code: code, Killed: killed}, Explain(err)
	}
	return process.Exit{Code: code, Killed: killed, Held: j.p.Held()}, nil
}

// Stdin is its input; see [terminal.Job].
func (j *job) Stdin() io.WriteCloser {
	if j.input == nil {
		return nil
	}
	return j.input
}

// SetKind says that it now lives on other terms.
func (j *job) SetKind(k process.Kind) { j.entry.SetKind(k) }

// note remembers that a kill came before the end.
func (j *job) note() {
	select {
	case <-j.p.Done():
	default:
		j.mu.Lock()
		j.killed = true
		j.mu.Unlock()
	}
}

// Kill ends the tree in the container; when ctx ends the rest of the politeness is skipped.
func (j *job) Kill(ctx context.Context) error {
	j.note()
	done := make(chan error, 1)
	go func() { done <- j.p.Kill(context.WithoutCancel(ctx)) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return j.p.KillNow(context.WithoutCancel(ctx))
	}
}

// killTime bounds an immediate kill; a hard exit does not wait for it.
const killTime = 30 * time.Second

// KillNow ends it at once.
func (j *job) KillNow() {
	j.note()
	ctx, cancel := j.kill()
	defer cancel()
	if err := j.p.KillNow(ctx); err != nil {
		j.log.Warn("command in the sandbox not killed", "error", err)
	}
}
