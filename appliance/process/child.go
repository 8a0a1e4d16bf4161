// SPDX-License-Identifier: MIT

package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Child is a started command. It is safe for concurrent use.
type Child struct {
	name    string
	grace   time.Duration
	log     *slog.Logger
	entry   *Entry
	book    *ledger
	proc    *os.Process
	tree    *tree
	streams *streams

	killed atomic.Bool
	exited chan struct{} // closed when the child itself has exited
	turn   chan struct{} // held by a kill under way, and to reap the child
	done   chan struct{} // closed when exit is set
	exit   Exit
}

// Start starts a command. It fails with [ErrFenced] once the fence is closed, even if that
// happened while it started.
func (r *Registry) Start(c Cmd) (*Child, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("no command given")
	}
	if c.Name == "" {
		c.Name = filepath.Base(c.Args[0])
	}
	if c.Env == nil {
		return nil, fmt.Errorf("%s: %w", c.Name, ErrNoEnv)
	}
	e, err := r.Enter(c.Kind, c.Name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	mark, book := rand.Text(), r.ledger.Load()
	book.begin(mark)
	child, err := start(c, mark)
	if err != nil {
		book.end(mark)
		e.Leave()
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	child.book = book
	if err := r.publish(e, child); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	book.runs(mark, child.proc.Pid)
	r.log.Debug("command started", "name", c.Name, "kind", c.Kind.String(), "pid", child.proc.Pid)
	return child, nil
}

// publish makes a started child a live one. One that raced the fence is killed, and its
// streams are closed before anything of the caller's is touched.
func (r *Registry) publish(e *Entry, c *Child) error {
	c.entry, c.log = e, r.log
	err := e.Publish(c)
	if err == nil {
		c.streams.copy()
	} else {
		c.streams.abandon()
	}
	go c.watch()
	return err
}

// Run starts a command and waits for it. When ctx ends first the tree is killed, with
// grace, and the error is the cause of ctx; Exit then says how far it came.
func (r *Registry) Run(ctx context.Context, c Cmd) (Exit, error) {
	if ctx.Err() != nil {
		return Exit{}, context.Cause(ctx)
	}
	child, err := r.Start(c)
	if err != nil {
		return Exit{}, err
	}
	exit, err := child.Wait(ctx)
	if err == nil {
		return exit, nil
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), child.grace+2*KillDeadline)
	defer cancel()
	killErr := child.Kill(after)
	exit, waitErr := child.Wait(after)
	return exit, errors.Join(err, killErr, waitErr)
}

func start(c Cmd, mark string) (*Child, error) {
	path, err := lookup(c.Args[0], c.Env, c.Dir)
	if err != nil {
		return nil, err
	}
	s, err := newStreams(c)
	if err != nil {
		return nil, err
	}
	t := newTree(mark)
	attr, err := t.attr(c.Terminal)
	var p *os.Process
	if err == nil {
		p, err = os.StartProcess(path, c.Args, &os.ProcAttr{Dir: c.Dir, Env: marked(c.Env, t.id), Files: s.child[:], Sys: attr})
	}
	s.closeChildEnds()
	if err == nil {
		err = t.attach(p)
	}
	if err != nil {
		s.abandon()
		return nil, err
	}
	if c.Grace == 0 {
		c.Grace = Grace
	}
	return &Child{
		name: c.Name, grace: c.Grace, proc: p, tree: t, streams: s,
		exited: make(chan struct{}), turn: make(chan struct{}, 1), done: make(chan struct{}),
	}, nil
}

// lookup finds the program in the child's own PATH.
func lookup(name string, env []string, dir string) (string, error) {
	if filepath.Base(name) != name {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		path, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		return exec.LookPath(path)
	}
	for _, d := range filepath.SplitList(get(env, "PATH")) {
		if !filepath.IsAbs(d) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(d, name)); err == nil {
			return path, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

func get(env []string, name string) string {
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		if k == name || runtime.GOOS == "windows" && strings.EqualFold(k, name) {
			return v
		}
	}
	return ""
}

// marked returns env with the child's mark. An older mark is kept behind it: the child of an
// appliance that is itself somebody's child belongs to both trees.
func marked(env []string, id string) []string {
	out := make([]string, 0, len(env)+1)
	var value strings.Builder
	value.WriteString(id)
	for _, kv := range env {
		if old, ok := strings.CutPrefix(kv, Mark+"="); ok {
			value.WriteString("," + old)
			continue
		}
		out = append(out, kv)
	}
	return append(out, Mark+"="+value.String())
}

// watch sees the child to its end.
func (c *Child) watch() {
	c.tree.wait(c.proc)
	close(c.exited)
	exit := c.streams.finish()
	c.turn <- struct{}{} // a kill under way needs the zombie
	state, err := c.tree.reap(c.proc)
	<-c.turn
	exit.Killed = c.killed.Load()
	exit.Code = -1
	if err != nil {
		c.log.Warn("exit status lost", "name", c.name, "pid", c.proc.Pid, "error", err)
	} else {
		exit.Code = state.ExitCode()
		if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			exit.Signal = ws.Signal()
			exit.Code = 128 + int(exit.Signal)
		}
	}
	c.exit = exit
	c.book.end(c.tree.id) // first: who knows of the end may read the list
	c.entry.Leave()
	close(c.done)
}

// PID is the child's process id, and on Unix the number of its group and session.
func (c *Child) PID() int { return c.proc.Pid }

// Done is closed when the child has exited and its output has been read.
func (c *Child) Done() <-chan struct{} { return c.done }

// Stdin is the child's input if Cmd.StdinPipe was set, else nil. The caller closes it.
func (c *Child) Stdin() io.WriteCloser {
	if c.streams.stdin == nil {
		return nil
	}
	return c.streams.stdin
}

// Stdout is the child's output if Cmd.StdoutPipe was set, else nil. The caller reads it and
// closes it. It ends when no process holds the other end any more, which may be long after
// the child has exited: Kill ends that.
func (c *Child) Stdout() io.ReadCloser {
	if c.streams.stdout == nil {
		return nil
	}
	return c.streams.stdout
}

// Wait waits until the child has exited and its output is read. It does not wait longer
// than DrainTime for descendants that keep the output open; what they write later fails.
// When ctx ends first Wait returns its cause, and the child runs on.
func (c *Child) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-c.done:
		return c.exit, nil
	default:
	}
	select {
	case <-c.done:
		return c.exit, nil
	case <-ctx.Done():
		return Exit{}, context.Cause(ctx)
	}
}

// SetKind says that the child now lives on other terms: see [Entry.SetKind].
func (c *Child) SetKind(k Kind) { c.entry.SetKind(k) }

// Kill ends the whole tree: the polite signal, the grace, SIGKILL, until nothing of it is
// alive or KillDeadline is over, which gives a [LeftError]. When ctx ends the rest of the
// grace is skipped. It may be called at any time, also for what a child that has exited left
// behind, and again.
func (c *Child) Kill(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		c.KillNow() // the kill under way sees the effect
		c.turn <- struct{}{}
	}
	defer func() { <-c.turn }()

	known := members{}
	if c.over() && len(c.alive(known)) == 0 {
		return nil
	}
	c.note()
	c.alive(known) // before the first signal tears parents and children apart
	c.tree.ask(known)
	gone := c.gone(known, ctx.Done())
	c.tree.force(known) // also if all seem gone: not every system can tell
	if gone {
		return nil
	}
	pause := time.Millisecond
	for deadline := time.Now().Add(KillDeadline); ; {
		late := time.Now().After(deadline) // before the last look: the machine may have stood still since the one before
		left := c.alive(known)
		if len(left) == 0 {
			return nil
		}
		if late {
			c.log.Warn("processes outlived their kill", "name", c.name, "pids", left)
			return &LeftError{Name: c.name, PIDs: left}
		}
		c.tree.force(known)
		time.Sleep(pause)
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// gone waits at most for the grace until nothing of the tree is alive.
func (c *Child) gone(known members, hurry <-chan struct{}) bool {
	grace := time.NewTimer(c.grace)
	defer grace.Stop()
	exited := c.exited
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if len(c.alive(known)) == 0 {
			return true
		}
		select {
		case <-exited:
			exited = nil // look again at once, but only once
		case <-time.After(pause):
		case <-grace.C:
			return false
		case <-hurry:
			return false
		}
	}
}

// alive returns the pids of the tree that are alive. Where there is no process table to look
// at, that is the child itself or nothing.
func (c *Child) alive(known members) []int {
	if pids, ok := c.tree.alive(known); ok {
		return pids
	}
	if c.over() {
		return nil
	}
	return []int{c.proc.Pid}
}

func (c *Child) over() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// note remembers that a kill came before the exit.
func (c *Child) note() {
	if !c.over() {
		c.killed.Store(true)
	}
}

// KillNow sends SIGKILL to the whole tree, without grace. It returns when nothing of it can
// be found any more, after HardDeadline at the latest; what is still there then is looked for
// KillDeadline longer.
func (c *Child) KillNow() {
	deadline := time.Now().Add(HardDeadline)
	c.note()
	c.tree.strike(deadline)
	within(deadline, func() { sweep([]*tree{c.tree}, deadline.Add(KillDeadline)) })
}
