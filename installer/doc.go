// SPDX-License-Identifier: MIT

// Package installer puts the gateway's service on a host and takes it off again. What shall be
// (Desired) and what is (Observe) give a plan that is pure, printable and empty when nothing is
// to do; carrying it out is a journal of reversible steps, each with a condition that must hold
// after it, so that a failure or a crash at any point leaves the host as it was. It starts,
// stops and restarts the service, too, and says how it is.
//
// It never overwrites what somebody else wrote, never asks for more rights than it was started
// with, never asks questions, and knows nothing of the runtime: how a running gateway is, a
// [Gateway] tells it.
package installer

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// Kind is a family of service managers.
type Kind string

// The managers.
const (
	Systemd Kind = "systemd"
	Launchd Kind = "launchd"
	Tasks   Kind = "tasks" // the Windows Task Scheduler
	SCM     Kind = "scm"   // the Windows Service Control Manager
	OpenRC  Kind = "openrc"
	SysV    Kind = "sysv"
)

// Account is a user of the host.
type Account struct {
	Name, Group, Home string
	UID, GID          int
	SID               string // on Windows; "" elsewhere
}

// ErrNoAccount says that a host has no user of a name.
var ErrNoAccount = errors.New("no such user")

// Command is a program to run, with its whole environment.
type Command struct {
	Argv []string
	Env  []string
	As   *Account // whose rights it has; nil = those of this process
}

// Result is how a program ended.
type Result struct {
	Out, Err string // what it printed
	Code     int
}

// Runner runs a program to its end. The error says that it could not be started, or that ctx
// ended first; a code other than 0 is none.
type Runner func(ctx context.Context, c Command) (Result, error)

// Detached is a program that is to outlive this one, with its whole environment.
type Detached struct {
	Argv, Env []string
	Dir       string
	Out, Err  string // files that get what it prints; "" = nobody does
}

// Spawner starts one, in a session of its own, and returns its process.
type Spawner func(ctx context.Context, d Detached) (pid int, err error)

// Identity is what a running gateway says of itself.
type Identity struct {
	PID      int
	Degraded string // why it is not well; "" = it is
}

var (
	// ErrNotRunning says that nothing listens on a home's control socket.
	ErrNotRunning = errors.New("no gateway answers")
	// ErrSilent says that something listens there, took the question, and did not answer in time.
	ErrSilent = errors.New("the gateway does not answer")
)

// Gateway asks the gateway of a home.
type Gateway interface {
	// Identify asks who it is. The error is [ErrNotRunning], [ErrSilent], or that of the
	// connection.
	Identify(ctx context.Context, homeDir string) (Identity, error)
	// Announce notes for the gateway that the stop that follows is a planned one.
	Announce(homeDir string, pid int) error
	// LastBeat is the process that last wrote the heartbeat of a home, and how long ago; 0 =
	// unknown.
	LastBeat(homeDir string) (pid int, age time.Duration)
	// LastReason is why the last one ended, as it wrote it; "" = unknown.
	LastReason(homeDir string) string
}

// Host is the machine as the installer sees it. Every field but Root, Offline, Files and Before
// must be set. Its methods are not for concurrent use on one service; several processes wait
// for each other.
type Host struct {
	OS      string // as runtime.GOOS
	Root    string // "" = /; every path is below it
	Offline bool   // an image is being made: only files below Root are read and written
	UID     int
	PID     int // of this process
	Getenv  func(string) string
	Lookup  func(ctx context.Context, name string) (Account, error) // wraps [ErrNoAccount]
	Run     Runner
	Spawn   Spawner
	Gateway Gateway
	Now     func() time.Time
	// Monotonic is the clock of systemd's monotonic stamps, see [Monotonic].
	Monotonic func() (now time.Duration, ok bool)
	Sleep     func(ctx context.Context, d time.Duration) error // between two looks
	Files     atomicfile.Writer
	// Before is called ahead of every step of a run, and between its parts; an error makes the
	// step fail. nil = no hook. It exists for tests that fail or kill a run at every point.
	Before func(at string) error
}

// at is a point at which a test may end a run.
func (h Host) at(point string) error {
	if h.Before == nil {
		return nil
	}
	return h.Before(point)
}

// path is where a path of the host really is.
func (h Host) path(p string) string {
	if h.Root == "" {
		return p
	}
	return filepath.Join(h.Root, p)
}

// inside is the reverse of path.
func (h Host) inside(p string) string {
	if rel, ok := strings.CutPrefix(p, h.Root); h.Root != "" && ok {
		return "/" + strings.TrimPrefix(rel, "/")
	}
	return p
}

// Target is one service of one home: whose it is and what it is called.
type Target struct {
	Kind    Kind          `json:"manager"`
	Scope   service.Scope `json:"scope"`
	Name    string        `json:"name"`
	Home    home.Home     `json:"-"`
	Account Account       `json:"-"`

	image bool   // an image is being made
	data  string // %ProgramFiles% of Windows
}

// Unit is what the manager calls the service.
func (t Target) Unit() string {
	switch t.Kind {
	case Launchd:
		return service.Spec{Name: t.Name}.Label()
	case Tasks:
		return service.Spec{Name: t.Name}.TaskName()
	case SCM:
		return service.Spec{Name: t.Name}.SCMName()
	case OpenRC, SysV:
		return t.Name
	case Systemd:
	}
	return t.Name + ".service"
}

// dir is where the manager looks for definitions, as a path of the host.
func (t Target) dir() string {
	switch {
	case t.Kind == Launchd:
		return filepath.Join(t.Account.Home, "Library", "LaunchAgents")
	case t.Kind == Tasks:
		return filepath.Join(t.Home.Dir, service.TaskDir)
	case t.Kind == SCM:
		return scmDir(t.data)
	case t.Kind == OpenRC || t.Kind == SysV:
		return "/etc/init.d"
	case t.Scope == service.User:
		return filepath.Join(t.Account.Home, ".config", "systemd", "user")
	}
	return "/etc/systemd/system"
}

// file is the main file of the definition, as a path of the host.
func (t Target) file() string {
	name := t.Unit()
	switch t.Kind {
	case Launchd:
		name += ".plist"
	case Tasks:
		name += ".xml"
	case SCM:
		name += ".scm"
	case Systemd, OpenRC, SysV:
	}
	return filepath.Join(t.dir(), name)
}

// systemState is where the journals and notes of system services are.
const systemState = "/var/lib/hermes-appliance"

// stateDir is where the journal and the notes of a service are kept, as a path of the host.
// That of a system service belongs to root: the home belongs to its user, and root must not
// carry out what that user wrote.
func (t Target) stateDir() string {
	if t.Kind == SCM {
		return scmDir(t.data)
	}
	if t.Scope == service.System || t.image {
		return systemState
	}
	return t.Home.State()
}

func (t Target) journal() string {
	return filepath.Join(t.stateDir(), "service-"+t.Name+".journal")
}

func (t Target) notes() string {
	return filepath.Join(t.stateDir(), "service-"+t.Name+".json")
}
