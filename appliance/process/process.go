// SPDX-License-Identifier: MIT

// Package process starts the children of the appliance, each in a session of its own, keeps
// a live registry of them, and ends whole trees of them within known deadlines, up to the
// one-way fence and the immediate kill of a hard exit. It never reads the appliance's own
// environment, never logs arguments, environments or output, and never signals the
// appliance's own process, group or session, pid 1 or below, or a pid that it has not proved
// to be the child's.
//
// # What belongs to a tree
//
// A child leads a session and a group whose number is its pid. While it is not reaped that
// number cannot be used again, so the child is left a zombie for as long as a kill is under
// way, and the whole group is signalled at once. What has left the group is found in the
// process table and signalled one by one, through a pidfd (Linux) whose holder's start time
// is compared after it was opened. A process belongs to the child if
//   - it is in the child's session, and the child is not reaped or the process started
//     before that, or
//   - its environment at exec carries the child's mark ([Mark]), however often it forked,
//     called setsid or lost its parent, or
//   - an earlier look of the same kill found it, with the same start time, or
//   - its parent belongs to the child.
//
// # Limits
//
// A process that has left the session, lost its parent and also emptied its environment
// cannot be told from a stranger; it lives on, as does one that another user owns (sudo). An
// immediate kill signals before it looks, and so loses the parents of such a process. A
// program that forks and exits faster than the table is read may win until the deadline.
// The cgroup of the service is the net below. PR_SET_CHILD_SUBREAPER is not used: it is a
// property of the whole process and would make the appliance the reaper of strangers; nor
// is Pdeathsig, which is bound to a thread. Ignoring SIGCHLD in the appliance would void the
// guarantee about numbers. On darwin a pid is compared and signalled in two steps, and the
// system hides the environment of its own programs; on the other BSDs only the group is
// reached. On Windows a tree is a job object: a grandchild that is started before the child
// was put into the job is missed, and the polite signal is CTRL_BREAK.
package process

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
)

// Mark is the variable that this package adds to the environment of each child, with a
// random value by which descendants are found again. Whoever saves a child's environment
// for a later child (a shell snapshot) must leave it out.
const Mark = "HERMES_APPLIANCE_SPAWN"

// Deadlines of a kill.
const (
	Grace        = time.Second            // from the polite signal to SIGKILL, unless Cmd.Grace says otherwise
	KillDeadline = 2 * time.Second        // from SIGKILL to giving up on what is left
	HardDeadline = 500 * time.Millisecond // the whole of an immediate kill
	DrainTime    = 300 * time.Millisecond // for output that a descendant keeps open after the child has exited
)

var (
	// ErrFenced says that the appliance is exiting: the command was not started, or was
	// killed before anybody saw it.
	ErrFenced = errors.New("host is exiting: command not started")
	// ErrNoEnv says that a command had no environment at all. It was not started: the
	// child would have inherited the appliance's.
	ErrNoEnv = errors.New("no environment given")
	// ErrProtected says that a signal was refused because it would have reached the
	// appliance itself, its group or session, or pid 1 or below.
	ErrProtected = errors.New("refused to signal a protected process")
)

// LeftError says that processes of a tree outlived its kill.
type LeftError struct {
	Name string
	PIDs []int
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("%s: still alive after SIGKILL: %v", e.Name, e.PIDs)
}

// Kind says how long a command is meant to live, and so who kills it when.
type Kind int32

// The kinds of commands.
const (
	Foreground Kind = iota // ends with the turn that waits for it
	Background             // was left running by a turn
	Server                 // lives as long as the appliance: an MCP or language server
)

func (k Kind) String() string {
	switch k {
	case Foreground:
		return "foreground"
	case Background:
		return "background"
	case Server:
		return "server"
	}
	return fmt.Sprintf("kind %d", int32(k))
}

// Cmd is what to start.
type Cmd struct {
	Name string // in logs, errors and Live; "" = the base name of Args[0]
	Kind Kind

	// Args[0] is a path, relative to Dir, or a name that is looked up in the PATH of Env,
	// never in the appliance's own PATH; relative and empty entries of it are skipped.
	Args []string
	Env  []string // complete; nil is refused, empty is allowed; Mark is added
	Dir  string   // "" = the appliance's own

	// Stdin is written to the child byte for byte, then closed. nil = the null device. An
	// *os.File is handed to the child itself and stays the caller's to close. A Reader
	// that blocks for ever keeps its goroutine, but holds up nothing else.
	Stdin io.Reader
	// Stdout and Stderr must not block for ever. nil = the null device. An *os.File is
	// handed to the child itself and stays the caller's to close.
	Stdout, Stderr io.Writer
	Merge          bool // stderr goes where stdout goes, in order; Stderr must be nil
	// Terminal says that Stdin is a terminal (an *os.File), which becomes the child's
	// controlling one. Refused on Windows.
	Terminal bool

	// StdinPipe and StdoutPipe give the caller the other end: see [Child.Stdin] and
	// [Child.Stdout].
	StdinPipe, StdoutPipe bool

	Grace time.Duration // 0 = the constant Grace
}

// Exit is how a child ended.
type Exit struct {
	Code   int            // its exit code; 128 + the signal when one ended it
	Signal syscall.Signal // 0 = it exited by itself
	Killed bool           // a kill of this package came before its exit
	Held   bool           // a descendant still held the output open when reading stopped
	Stdin  error          // writing its input failed; an input it did not want is no failure
	Output error          // a writer of the caller failed; the rest of that stream was thrown away
}
