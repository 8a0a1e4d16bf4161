// SPDX-License-Identifier: MIT

// Package terminal runs the agent's commands: each one is a fresh bash in a backend (this
// machine, a container, another host), and what a shell would remember from one to the next
// is carried by a snapshot file in the backend and by the directory that each command reports
// at its end. It gives the backends what they share ([Shell] on top of a [Host]) and the logic
// of the tools terminal and process_manage ([Tools]). It never decides what a command may see
// (the environment is handed in) or do (that is approved before), never keeps a value that is
// one call's alone, and never signals a process itself.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
)

// Exit codes that a [Result] has for reasons of its own. A command may exit with any of them
// itself: the flags of the Result tell.
const (
	CodeTimeout     = 124 // Result.TimedOut
	CodeNoDir       = 126 // Result.NoDir
	CodeInterrupted = 130 // Result.Interrupted, or the appliance is exiting
)

// Backend is a place where commands run, as the tools see it. [Shell] is one.
type Backend interface {
	Describe() Description
	// Run runs a command to its end, its time-out, its interruption (the end of ctx) or until
	// it is asked to yield. A command that ran is no error, whatever became of it.
	Run(ctx context.Context, c Command) (Result, error)
	// Start starts a command that nobody waits for. It has no time-out.
	Start(ctx context.Context, c Command) (*Running, error)
	// Exec runs a script without a session, with every byte as it is.
	Exec(ctx context.Context, s Script) (Output, error)
	// Dir is where the next command of a session runs.
	Dir(session string) string
	// Release forgets sessions. Their commands go on.
	Release(ctx context.Context, sessions ...string)
	// Close ends the backend and removes what it has left in the place where it ran.
	Close(ctx context.Context) error
}

// Description says where commands run.
type Description struct {
	Backend string // local, docker, …
	Target  string // what a person calls the place: a container's name, user@host; "" = this machine
	Home    string // the home directory there; "" = unknown
	PTY     bool   // a command can have a terminal
	Remote  bool   // paths there are not paths of this machine
}

// Command is a command of the agent.
type Command struct {
	Text    string // what bash evaluates
	Session string // whose directory, exports, functions and aliases it continues; "" = one for all
	Dir     string // "" = where the session is; otherwise for this command only, and it must exist

	Stdin []byte // exact; empty = none. With PTY it is typed
	PTY   bool   // it has a terminal; the result has the terminal's line ends
	// Plain turns the rewriting of "A && B &" off: see [Background].
	Plain bool

	// Timeout ends a command that Run waits for; 0 = never.
	Timeout time.Duration
	// Yield asks Run, by being closed, to hand the live command over instead of waiting on.
	Yield <-chan struct{}
	// Activity is called while Run waits, with the time that has passed. What it returns, or
	// a panic, is logged and changes nothing.
	Activity func(elapsed time.Duration) error
}

// Result is what became of a command that Run waited for.
type Result struct {
	Output string // both streams in their order, bounded, valid UTF-8
	Code   int

	Dir         string // where the session is now, or for Command.Dir where the command ended
	DirObserved bool   // the command said so itself; one that was killed does not

	TimedOut    bool
	Interrupted bool
	NoDir       bool // the directory does not exist there; nothing ran
	NotStarted  bool // the appliance is exiting; nothing ran
	Recreated   bool // the environment was gone and is a new one since this call

	Held     bool  // a process that it left behind still held its output
	StdinErr error // writing its input failed; an input that it did not read is no failure

	Total int64  // bytes that it printed
	Spill string // the file, on this machine, with all of them when Output has not; "" = none

	Yielded *Running // it still runs, and is the caller's now
}

// Script is what Exec runs.
type Script struct {
	Text    string
	Dir     string        // "" = the backend's own
	Stdin   []byte        // empty = none
	Timeout time.Duration // 0 = until ctx ends
}

// Output is what a script printed, byte for byte.
type Output struct {
	Stdout, Stderr []byte
	Code           int
}

// Env is the environment of one command.
type Env struct {
	Vars []string // KEY=VALUE: complete on this machine, what is carried over elsewhere
	// Scoped are names of which each call has its own value, or none: a profile's
	// passthrough, the screen. A snapshot never keeps them.
	Scoped []string
}

// EnvFunc gives the environment of the next command. It is asked each time, so that a
// changed secret counts at once. An error is the command's refusal.
type EnvFunc func(ctx context.Context, k process.Kind) (Env, error)

// Host is what a backend brings: it starts bash. It is safe for concurrent use.
type Host interface {
	Describe() Description
	// Spawn starts bash. The error is a [*ConnError] if the place cannot be reached, wraps
	// [ErrGone] if what it held is lost, and wraps [process.ErrFenced] if the appliance is
	// exiting; in every case nothing runs.
	Spawn(ctx context.Context, s Spawn) (Job, error)
	// Restore brings a place back that Spawn found gone, once, as another one.
	Restore(ctx context.Context) error
	// Close ends it. Commands that still run are its to end.
	Close(ctx context.Context) error
}

// Spawn is a bash to start.
type Spawn struct {
	Name   string // for logs
	Kind   process.Kind
	Login  bool
	Script string // the argument of -c
	Dir    string // a directory to start in; "" = one that exists
	Env    []string

	Stdin          io.Reader // nil = none; every byte, then the end
	StdinPipe      bool      // Job.Stdin is wanted instead
	Stdout, Stderr io.Writer // Stderr nil = where Stdout goes, in order
	PTY            bool      // a terminal; Stderr is nil
}

// Job is a bash that runs.
type Job interface {
	process.Killer
	PID() int // 0 = no process of this machine
	// Done is closed when it has exited and its output was read, but for what descendants
	// hold open.
	Done() <-chan struct{}
	// Wait waits for Done. The error is that of ctx, or says why the end is not known.
	Wait(ctx context.Context) (process.Exit, error)
	// Stdin is its input if Spawn.StdinPipe was set or it has a terminal, else nil.
	Stdin() io.WriteCloser
	// SetKind says that it now lives on other terms.
	SetKind(k process.Kind)
}

var (
	// ErrGone says that the place where commands ran does not exist any more.
	ErrGone = errors.New("the environment is gone")
	// ErrClosed says that the backend was closed.
	ErrClosed = errors.New("the terminal was closed")
	// ErrNoPTY says that there are no terminals in that place.
	ErrNoPTY = errors.New("this backend has no terminal to give: run it without pty")
	// ErrTooLong says that a command is longer than an argument of a program can be.
	ErrTooLong = errors.New("the command is too long")
)

// ConnError says that a place cannot be reached: a fault of its infrastructure, not of the
// command.
type ConnError struct {
	Backend string
	Reason  string
	Hint    string // what to do about it; "" = nothing known
	Err     error
}

func (e *ConnError) Error() string {
	s := fmt.Sprintf("%s backend: %s", e.Backend, e.Reason)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *ConnError) Unwrap() error { return e.Err }
