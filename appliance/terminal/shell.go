// SPDX-License-Identifier: MIT

package terminal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
)

// Times of a shell.
const (
	SnapshotTimeout = 30 * time.Second // for the login shell that makes the snapshot
	probeTimeout    = 30 * time.Second // for a plain one, after that has failed
	backstop        = 2 * time.Second  // from a time-out to a result, however the kill goes
	activityEvery   = 10 * time.Second
)

// Config is what a [Shell] is made of.
type Config struct {
	Host Host
	Log  *slog.Logger
	Env  EnvFunc
	Dir  string // where sessions begin; "" = where the host starts bash
	Temp string // a directory there for the snapshots; it exists

	// Login are files that a login shell reads beside bash's own: see [LoginFiles].
	Login []string
	// Snapshot is SnapshotTimeout unless the place needs longer; 0 = that.
	Snapshot time.Duration
	// Sudo is the password for sudo, and false if there is none. nil = none.
	Sudo func(ctx context.Context) (string, bool)

	Limit int    // of Result.Output in bytes; 0 = DefaultLimit
	Spill *Spill // where output beyond it is kept; nil = nowhere

	// ActivityEvery is how often Command.Activity is called; 0 = each 10 s.
	ActivityEvery time.Duration
	// After starts the time of a command that has a time-out, once it runs; nil = time.After.
	After func(time.Duration) <-chan time.Time
}

// DefaultLimit is tool_output.max_bytes where nothing is set.
const DefaultLimit = 50_000

// LoginFiles are the files that a login shell reads besides: those that are configured, or,
// if there are none and auto is set, the usual ones.
func LoginFiles(configured []string, auto bool) []string {
	if len(configured) > 0 || !auto {
		return configured
	}
	return []string{"~/.profile", "~/.bash_profile", "~/.bashrc"}
}

// Shell is the [Backend] that runs each command in a bash of its own on a [Host]. Sessions
// share a place, but neither directory nor exports. It is safe for concurrent use.
type Shell struct {
	c  Config
	id string

	mu       sync.Mutex
	sessions map[string]*session
	exclude  []string // names that were ever scoped
	closed   bool

	warm  sync.Mutex // held by who warms it
	mode  mode       // under mu
	epoch int        // counts the places, under mu
	first string     // where bash was when it was warmed, under mu
}

// mode is how commands are started.
type mode int

const (
	cold  mode = iota
	snap       // plain bash, with the snapshot
	plain      // plain bash, without: the login shell failed
	login      // a login bash each time: the plain one failed as well
)

// session is what is remembered of one.
type session struct {
	id  string
	dir string // "" = where it began
}

// New returns a shell. Nothing is started yet.
func New(c Config) *Shell {
	if c.Limit <= 0 {
		c.Limit = DefaultLimit
	}
	if c.Snapshot == 0 {
		c.Snapshot = SnapshotTimeout
	}
	if c.ActivityEvery == 0 {
		c.ActivityEvery = activityEvery
	}
	if c.After == nil {
		c.After = time.After
	}
	return &Shell{c: c, id: randomID(), sessions: map[string]*session{}}
}

// Describe says where commands run.
func (s *Shell) Describe() Description { return s.c.Host.Describe() }

// Dir is where the next command of a session runs.
func (s *Shell) Dir(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.sessions[name]; e != nil && e.dir != "" {
		return e.dir
	}
	return s.start()
}

// start is where sessions begin. Caller holds mu.
func (s *Shell) start() string {
	if s.c.Dir == "" {
		return s.first
	}
	return s.c.Dir
}

// session returns a session, and makes it.
func (s *Shell) session(name string) *session {
	e := s.sessions[name]
	if e == nil {
		e = &session{id: randomID()}
		s.sessions[name] = e
	}
	return e
}

func (s *Shell) snapshot(id string) string { return path.Join(s.c.Temp, "hermes-snap-"+id+".sh") }

func marker(id string) string { return "__HERMES_CWD_" + id + "__" }

// Release forgets sessions and removes their snapshots.
func (s *Shell) Release(ctx context.Context, names ...string) {
	var ids []string
	s.mu.Lock()
	for _, name := range names {
		if e := s.sessions[name]; e != nil {
			ids = append(ids, e.id)
			delete(s.sessions, name)
		}
	}
	usable := s.mode == snap && !s.closed
	s.mu.Unlock()
	if usable {
		for part := range slices.Chunk(ids, removeAtOnce) {
			s.remove(ctx, part...)
		}
	}
}

// removeAtOnce is how many snapshots one script removes: it must not grow too long.
const removeAtOnce = 200

// Close ends the backend. Snapshots are removed first, as far as that goes.
func (s *Shell) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	ids := []string{s.id}
	for _, e := range s.sessions {
		ids = append(ids, e.id)
	}
	clear(s.sessions)
	usable := s.mode == snap
	s.mu.Unlock()
	if usable {
		for part := range slices.Chunk(ids, removeAtOnce) {
			s.remove(ctx, part...)
		}
	}
	return s.c.Host.Close(ctx)
}

// remove deletes snapshots and what an interrupted write of one has left.
func (s *Shell) remove(ctx context.Context, ids ...string) {
	var b strings.Builder
	b.WriteString("rm -f --")
	for _, id := range ids {
		q := Quote(s.snapshot(id))
		b.WriteString(" " + q + " " + q + ".tmp.*")
	}
	out, err := s.exec(ctx, Script{Text: b.String(), Timeout: probeTimeout}, false)
	if err != nil || out.Code != 0 {
		s.c.Log.Debug("snapshots not removed", "backend", s.Describe().Backend, "code", out.Code, "error", err)
	}
}

// ready warms the shell up: it is not part of any command's time (a first command must not
// find its time gone, OpenHands #9147). It returns how commands are started.
func (s *Shell) ready(ctx context.Context) (mode, error) {
	s.warm.Lock()
	defer s.warm.Unlock()
	s.mu.Lock()
	m, closed := s.mode, s.closed
	s.mu.Unlock()
	if closed {
		return cold, ErrClosed
	}
	if m != cold {
		return m, nil
	}
	m, err := s.init(ctx)
	if err != nil {
		return cold, err
	}
	s.mu.Lock()
	s.mode = m
	s.mu.Unlock()
	return m, nil
}

// init makes the base snapshot with a login shell. If that fails it finds out how commands
// can be started without one.
func (s *Shell) init(ctx context.Context) (mode, error) {
	env, scoped, exclude, err := s.env(ctx, process.Foreground)
	if err != nil {
		return cold, err
	}
	w := wrapper{marker: marker(s.id), snap: s.snapshot(s.id), scoped: scoped, exclude: exclude, login: s.c.Login}
	var sink process.Capture
	f := newFilter(&sink, w.marker, "\n")
	exit, err := s.await(ctx, Spawn{
		Name: "bash", Kind: process.Foreground, Login: true, Script: w.bootstrap(s.c.Dir), Env: env, Stdout: f,
	}, s.c.Snapshot)
	if fatal(err) || ctx.Err() != nil {
		return cold, errors.Join(err, context.Cause(ctx))
	}
	if dir, ok := f.finish(false); err == nil && exit.Code == 0 && ok {
		s.mu.Lock()
		s.first = dir
		s.mu.Unlock()
		s.c.Log.Debug("snapshot made", "backend", s.Describe().Backend, "dir", dir)
		return snap, nil
	}
	s.c.Log.Warn("login shell failed; commands run without its environment", "backend", s.Describe().Backend, "code", exit.Code, "error", err)
	exit, err = s.await(ctx, Spawn{
		Name: "bash", Kind: process.Foreground, Script: "builtin true", Env: env, Stdout: &sink,
	}, probeTimeout)
	switch {
	case fatal(err) || ctx.Err() != nil:
		return cold, errors.Join(err, context.Cause(ctx))
	case err == nil && exit.Code == 0:
		return plain, nil
	case err == nil && exit.Code == 127:
		d := s.Describe()
		return cold, &ConnError{Backend: d.Backend, Reason: "there is no bash where commands run", Hint: "use an image or a host that has bash"}
	}
	return login, nil
}

// fatal reports whether an error says that nothing can run, rather than that something ran
// badly.
func fatal(err error) bool {
	var conn *ConnError
	return errors.As(err, &conn) || errors.Is(err, ErrGone) || errors.Is(err, process.ErrFenced)
}

// env asks for the environment of a command.
func (s *Shell) env(ctx context.Context, k process.Kind) (vars, scoped, exclude []string, err error) {
	e, err := s.c.Env(ctx, k)
	if err != nil {
		return nil, nil, nil, err
	}
	scoped = names(e.Scoped)
	s.mu.Lock()
	s.exclude = names(slices.Concat(s.exclude, scoped)) // once excluded, always
	exclude = s.exclude
	s.mu.Unlock()
	if e.Vars == nil {
		e.Vars = []string{}
	}
	return e.Vars, scoped, exclude, nil
}

// spawn warms the shell and starts what prepare returns. A place that is gone is restored once,
// and the shell in it warmed anew.
func (s *Shell) spawn(ctx context.Context, prepare func(mode) (Spawn, error)) (job Job, recreated bool, err error) {
	for try := 0; ; try++ {
		s.mu.Lock()
		epoch := s.epoch
		s.mu.Unlock()
		m, err := s.ready(ctx)
		if err == nil {
			var sp Spawn
			if sp, err = prepare(m); err != nil {
				return nil, recreated, err
			}
			job, err = s.c.Host.Spawn(ctx, sp)
		}
		if !errors.Is(err, ErrGone) || try > 0 {
			return job, recreated, err
		}
		if err := s.restore(ctx, epoch); err != nil {
			return nil, false, err
		}
		recreated = true
	}
}

// restore brings the place back, unless another command has done so already.
func (s *Shell) restore(ctx context.Context, epoch int) error {
	s.warm.Lock()
	defer s.warm.Unlock()
	s.mu.Lock()
	done := s.epoch != epoch
	s.mu.Unlock()
	if done {
		return nil
	}
	if err := s.c.Host.Restore(ctx); err != nil {
		return fmt.Errorf("restoring the environment: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renew()
	return nil
}

// renew makes the next command warm the shell anew. Caller holds mu.
func (s *Shell) renew() {
	s.epoch++
	s.mode = cold
	s.id = randomID() // what the old place held under this name is another's
	for _, e := range s.sessions {
		e.id = randomID()
	}
}

// lost is told that a command found no snapshot: the place was emptied under us (a container
// that was restarted, a cleaner of temporary files).
func (s *Shell) lost(epoch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == epoch {
		s.renew()
	}
}
