// SPDX-License-Identifier: MIT

// Package sandbox keeps the container that a profile's commands run in: it finds, makes,
// starts, replaces and reaps it over the Docker Engine API (podman through its compatible
// socket), runs commands in it, and ends whole trees of them inside it. It never forks a
// client program, never replaces a container whose image the user has not chosen, never
// removes one before its successor runs, never weakens a network lockdown, and never judges
// the state of a container by what a command printed.
//
// # Which container belongs to a profile
//
// A container is a profile's if its labels name this program, the task, the profile and the
// home. The image is no part of that: a container made from another image than the one that
// is wanted now is found, and then kept (nobody chose the image) or replaced (somebody did).
// Containers that upstream made carry no home; one is taken over only if what it mounts
// proves that it is this home's. The name of a container follows from its identity, so the
// engine itself lets only one of two racing processes make it.
//
// # How a command is run and killed
//
// Every command runs below a small shell that leads a session of its own, tells its process
// id before the command starts and the exit code when it has ended. What arrives before the
// first is the engine's word and never the command's. Ending the client of an exec ends
// nothing in the container (moby/moby#35703), so a kill is another exec that signals the
// session, every process that carries the command's mark in its environment, and all their
// children, looks again until none is left, and says so if that fails.
//
// A process that has left the session, lost its parent and emptied its environment cannot
// be told from a stranger, as in package process. The shell of a kill has the rights of the
// user it signals and no more: a privileged one would hand them to whoever replaced /bin/sh.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/moby/moby/client"
)

// Options say where the engine is and who is told what it does.
type Options struct {
	// Host is the address of the engine as DOCKER_HOST has it: unix://, npipe:// or tcp://.
	// "" = look for it, see [Discover].
	Host string
	// Getenv looks up the variables that say where an engine is: DOCKER_HOST, DOCKER_CONTEXT,
	// DOCKER_CONFIG, DOCKER_CERT_PATH, DOCKER_TLS_VERIFY, CONTAINER_HOST, XDG_RUNTIME_DIR and
	// HOME. nil = none is set.
	Getenv func(string) string
	// Log hears of notable events; nil = nobody.
	Log *slog.Logger
	// Progress hears of a pull as it goes on, from one goroutine at a time; nil = nobody.
	Progress func(Progress)
	// Self is the id of the container that this process runs in, "" = find out. Where the
	// engine knows it, paths of this process are translated to the engine's.
	Self string
}

// Progress is one step of a pull.
type Progress struct {
	Image  string
	Layer  string // "" = the image as a whole
	Status string // the engine's words
	Done   int64  // bytes
	Total  int64  // bytes, 0 = unknown
}

// DialTimeout is how long [Dial] waits for the engine to answer.
const DialTimeout = 15 * time.Second

// Deadlines of the engine's work. Each is a limit of its own below the caller's context.
const (
	CreateTimeout = 120 * time.Second // create, start and prove a container
	PullTimeout   = 900 * time.Second
	RemoveTimeout = 60 * time.Second
	StopGrace     = 10 * time.Second // from SIGTERM to SIGKILL when a container is stopped
	CloseTimeout  = 15 * time.Second // for all containers that are being torn down
)

// Engine is a connection to a container engine. It is safe for concurrent use. The caller
// closes it.
type Engine struct {
	api  *client.Client
	o    Options
	host string

	private  string        // random
	patience time.Duration // see orphaned
	closing  time.Duration // CloseTimeout; tests give more
	self     *self         // nil = this process is not in a container of this engine

	mu     sync.Mutex
	locks  map[string]*sync.Mutex // by container name: one Ensure at a time in this process
	closed bool
	work   sync.WaitGroup
}

// Dial connects to an engine and agrees on a version of its API. The error is an
// [*EngineError] of [ErrUnreachable] where no engine answers; its text says what to do.
func Dial(ctx context.Context, o Options) (*Engine, error) {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	host := o.Host
	if host == "" {
		var err error
		if host, err = Discover(o.Getenv); err != nil {
			return nil, err
		}
	}
	api, err := connect(host, o.Getenv)
	if err != nil {
		return nil, &EngineError{Kind: ErrUnreachable, Op: "connect to " + host, Err: err}
	}
	e := &Engine{api: api, o: o, host: host, private: random(), patience: orphaned, closing: CloseTimeout, locks: map[string]*sync.Mutex{}}
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	if _, err := api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return nil, errors.Join(e.failed("reach the container engine", err), api.Close())
	}
	if e.self, err = e.findSelf(ctx); err != nil {
		return nil, errors.Join(err, api.Close())
	}
	return e, nil
}

// Host is the address of the engine.
func (e *Engine) Host() string { return e.host }

// lock returns the lock of a container name.
func (e *Engine) lock(name string) *sync.Mutex {
	e.mu.Lock()
	defer e.mu.Unlock()
	l, ok := e.locks[name]
	if !ok {
		l = &sync.Mutex{}
		e.locks[name] = l
	}
	return l
}

// log returns the logger, or one that nobody hears.
func (e *Engine) log() *slog.Logger {
	if e.o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return e.o.Log
}

// Close waits until every released container is torn down, at most [CloseTimeout] and as
// long as ctx lives, and disconnects. Containers that are kept run on.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	done := make(chan struct{})
	go func() { e.work.Wait(); close(done) }()
	ctx, cancel := context.WithTimeout(ctx, e.closing)
	defer cancel()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("sandboxes are still being torn down: %w", ctx.Err())
	}
	return errors.Join(err, e.api.Close())
}
