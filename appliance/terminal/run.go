// SPDX-License-Identifier: MIT

package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
)

// input is what a command reads; nothing is no input at all.
func input(b []byte) io.Reader {
	if len(b) == 0 {
		return nil
	}
	return bytes.NewReader(b)
}

// Running is a command that runs, or has run. It is safe for concurrent use.
type Running struct {
	s        *Shell
	job      Job
	session  string
	explicit bool // its directory was its own
	dir      string
	filter   *filter // nil = it reports no directory
	out      *sink
	started  time.Time
	limit    time.Duration
	gone     bool // the place was recreated for it
	lost     bool // the place was emptied before it
	epoch    int
	mark     string // the file that says, there, that nobody waits for it any more; "" = none
	spill    *spilled
	yielded  atomic.Bool

	once  sync.Once
	moved string
	known bool
}

// Started is when it was started.
func (r *Running) Started() time.Time { return r.started }

// PID is its process id on this machine; 0 = it has none here.
func (r *Running) PID() int { return r.job.PID() }

// Dir is where it was started.
func (r *Running) Dir() string { return r.dir }

// Recreated reports whether the place had to be brought back for it.
func (r *Running) Recreated() bool { return r.gone }

// Done is closed when it has exited and what it printed is read.
func (r *Running) Done() <-chan struct{} { return r.job.Done() }

// Wait waits for its end. The error is that of ctx, or says why its end is not known.
func (r *Running) Wait(ctx context.Context) (process.Exit, error) {
	exit, err := r.job.Wait(ctx)
	if err == nil {
		r.settle(exit.Killed)
	}
	return exit, err
}

// Kill ends it and all that it started.
func (r *Running) Kill(ctx context.Context) error { return r.job.Kill(ctx) }

// Stdin is its input, if it was started by Start or has a terminal, else nil.
func (r *Running) Stdin() io.WriteCloser { return r.job.Stdin() }

// Follow makes w get what it prints from now on, after what it has printed so far as far as
// that was kept.
func (r *Running) Follow(w io.Writer) { r.out.follow(w) }

// settle takes what the command reported at its end. One that was killed reports nothing,
// even if it still could.
func (r *Running) settle(killed bool) {
	r.once.Do(func() {
		if r.filter == nil {
			return
		}
		dir, ok := r.filter.finish(killed)
		if !ok || killed {
			return
		}
		if rest, lost := strings.CutPrefix(dir, lostMark); lost {
			dir = rest
			r.s.lost(r.epoch)
			r.lost = r.s.Describe().Remote
		}
		r.moved, r.known = dir, true
		if r.explicit || dir == noDir || r.yielded.Load() {
			return
		}
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		if e := r.s.sessions[r.session]; e != nil {
			e.dir = dir
		}
	})
}

// sink is where output goes: a bounded capture until somebody follows it.
type sink struct {
	mu sync.Mutex
	c  *process.Capture
	w  io.Writer // nil = c
}

func (k *sink) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.w != nil {
		return k.w.Write(p)
	}
	return k.c.Write(p)
}

func (k *sink) follow(w io.Writer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w.Write(k.c.Bytes()) //nolint:errcheck // a follower that fails gets no more either way
	k.w = w
}

// launch starts a command.
func (s *Shell) launch(ctx context.Context, c Command, k process.Kind) (*Running, error) {
	if strings.ContainsRune(c.Text, 0) || strings.ContainsRune(c.Dir, 0) {
		return nil, errors.New("a command cannot hold a zero byte")
	}
	if c.PTY && !s.Describe().PTY {
		return nil, ErrNoPTY
	}
	r := &Running{s: s, session: c.Session, explicit: c.Dir != "", out: &sink{c: process.NewCapture(s.c.Limit)}}
	if k == process.Foreground {
		r.spill = s.c.Spill.open(r.out.c)
	}
	if !c.Plain {
		c.Text = Background(c.Text)
	}
	var password *string
	if s.c.Sudo != nil && !c.PTY && k == process.Foreground && usesSudo(c.Text) {
		if p, ok := s.c.Sudo(ctx); ok && !strings.ContainsAny(p, "\n\x00") {
			password = &p
		}
	}
	var err error
	r.job, r.gone, err = s.spawn(ctx, func(m mode) (Spawn, error) { return r.prepare(ctx, c, k, m, password) })
	if err != nil {
		r.spill.close(s.c.Log)
		return nil, err
	}
	r.started = time.Now()
	return r, nil
}

// prepare makes what is to be started. It may be called again, for another place.
func (r *Running) prepare(ctx context.Context, c Command, k process.Kind, m mode, password *string) (Spawn, error) {
	s := r.s
	env, scoped, exclude, err := s.env(ctx, k)
	if err != nil {
		return Spawn{}, err
	}
	w := wrapper{scoped: scoped, exclude: exclude, sudo: password != nil}
	s.mu.Lock()
	e := s.session(c.Session)
	w.marker = marker(e.id)
	if m == snap {
		w.snap, w.base = s.snapshot(e.id), s.snapshot(s.id)
		w.yielded = w.snap + ".tmp." + randomID()
	}
	r.dir, r.epoch, r.mark = e.dir, s.epoch, w.yielded
	if r.dir == "" {
		r.dir = s.start()
	}
	s.mu.Unlock()
	if m == login {
		w.login = s.c.Login
	}
	if r.explicit {
		r.dir = c.Dir
	}
	kept := k == process.Background
	sp := Spawn{Name: "command", Kind: k, Login: m == login, Env: env, PTY: c.PTY, Stdout: r.out, Script: w.command(c.Text, r.dir, r.explicit, kept)}
	if len(sp.Script) > maxScript {
		return sp, fmt.Errorf("%w: with what goes around it %d bytes, at most %d; write it to a file and run that", ErrTooLong, len(sp.Script), maxScript)
	}
	if kept {
		sp.StdinPipe = true
		return sp, nil
	}
	eol := "\n"
	if c.PTY {
		eol = "\r\n"
	}
	r.filter = newFilter(r.out, w.marker, eol)
	sp.Stdout, sp.Stdin = r.filter, input(c.Stdin)
	if password != nil {
		sp.Stdin = io.MultiReader(strings.NewReader(*password+"\n"), bytes.NewReader(c.Stdin))
	}
	return sp, nil
}

// Start starts a command that nobody waits for.
func (s *Shell) Start(ctx context.Context, c Command) (*Running, error) {
	return s.launch(ctx, c, process.Background)
}

// Run runs a command and waits for it.
func (s *Shell) Run(ctx context.Context, c Command) (Result, error) {
	if ctx.Err() != nil {
		return Result{Code: CodeInterrupted, Interrupted: true, Output: "[Command interrupted]", Dir: s.Dir(c.Session)}, nil
	}
	r, err := s.launch(ctx, c, process.Foreground)
	switch {
	case errors.Is(err, process.ErrFenced):
		return Result{Code: CodeInterrupted, NotStarted: true, Output: process.ErrFenced.Error(), Dir: s.Dir(c.Session)}, nil
	case err != nil && ctx.Err() != nil:
		return Result{Code: CodeInterrupted, Interrupted: true, Output: "[Command interrupted]", Dir: s.Dir(c.Session)}, nil
	case err != nil:
		return Result{}, err
	}
	defer r.spill.close(s.c.Log)
	r.limit = c.Timeout
	return r.wait(ctx, c)
}

// wait is the wait of a turn.
func (r *Running) wait(ctx context.Context, c Command) (Result, error) {
	var deadline <-chan time.Time
	if c.Timeout > 0 {
		deadline = r.s.c.After(c.Timeout)
	}
	tick := time.NewTicker(r.s.c.ActivityEvery)
	defer tick.Stop()
	res := Result{Recreated: r.gone}
	for {
		select {
		case <-r.job.Done():
			return r.over(ctx, res)
		case <-tick.C:
			r.active(c.Activity)
			continue
		case <-c.Yield:
			r.yield(ctx)
			r.job.SetKind(process.Background)
			res.Yielded, res.Dir = r, r.s.Dir(c.Session)
			res.Output = text(r.out.c)
			return res, nil
		case <-deadline:
			res.TimedOut = true
		case <-ctx.Done():
			res.Interrupted = true
		}
		select { // it may have ended at the same moment
		case <-r.job.Done():
			res.TimedOut, res.Interrupted = false, false
			return r.over(ctx, res)
		default:
		}
		return r.stop(ctx, res)
	}
}

// yield makes it a command that nobody waits for. It will not move its session, nor write
// the session's snapshot over what later commands have put there.
func (r *Running) yield(ctx context.Context) {
	r.yielded.Store(true)
	if r.mark == "" {
		return
	}
	out, err := r.s.exec(ctx, Script{Text: "umask 077; : > " + Quote(r.mark), Timeout: probeTimeout}, true)
	if err != nil || out.Code != 0 {
		r.s.c.Log.Debug("yielded command may write its snapshot", "code", out.Code, "error", err)
	}
}

// stop kills what was waited for. The result comes at the backstop even if the kill does not.
func (r *Running) stop(ctx context.Context, res Result) (Result, error) {
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), backstop)
	killed := make(chan error, 1)
	go func() {
		defer cancel()
		err := r.job.Kill(end)
		if err != nil {
			r.job.KillNow()
		}
		killed <- err
	}()
	select {
	case err := <-killed:
		if err != nil {
			r.s.c.Log.Warn("command not killed", "backend", r.s.Describe().Backend, "error", err)
		}
		select {
		case <-r.job.Done():
		case <-end.Done():
		}
	case <-end.Done():
	}
	r.settle(true)
	note := "[Command interrupted]"
	res.Code = CodeInterrupted
	if res.TimedOut {
		res.Code = CodeTimeout
		note = fmt.Sprintf("[Command timed out after %s]", seconds(r.limit))
	}
	res.Dir = r.s.Dir(r.session)
	res.Total, res.Spill = r.out.c.Total(), r.spill.name()
	res.Output = join(obituary(text(r.out.c)), note)
	return res, nil
}

// obituary takes off what a shell that is killed with its child says when it learns of that
// end before its own: nothing the command printed, and only said when the timing is so.
func obituary(out string) string {
	for {
		begin := strings.LastIndexByte(strings.TrimSuffix(out, "\n"), '\n') + 1
		switch strings.TrimSuffix(out[begin:], "\n") { // the filter may still hold the line's end
		case "Terminated", "Killed":
			out = out[:begin]
		default:
			return out
		}
	}
}

// over is the end of a command that came by itself.
func (r *Running) over(ctx context.Context, res Result) (Result, error) {
	exit, err := r.job.Wait(context.WithoutCancel(ctx))
	r.settle(exit.Killed)
	res.Recreated = res.Recreated || r.lost
	res.Total, res.Spill = r.out.c.Total(), r.spill.name()
	res.Output = text(r.out.c)
	res.Dir = r.s.Dir(r.session)
	if err != nil {
		return res, err
	}
	res.Code, res.Held, res.StdinErr = exit.Code, exit.Held, exit.Stdin
	if r.known && r.moved == noDir {
		res.NoDir = true
		res.Output = join(res.Output, fmt.Sprintf("[Working directory does not exist: %s]", r.dir))
	} else if r.known {
		res.Dir, res.DirObserved = r.moved, true
	}
	if res.StdinErr != nil {
		res.Output = join(res.Output, fmt.Sprintf("[stdin write failed: %v]", res.StdinErr))
	}
	return res, nil
}

// active tells the caller that the command is still running.
func (r *Running) active(f func(time.Duration) error) {
	if f == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			r.s.c.Log.Debug("activity callback failed", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	if err := f(time.Since(r.started)); err != nil {
		r.s.c.Log.Debug("activity callback failed", "error", err, "stack", string(debug.Stack()))
	}
}

// text is what was kept of an output, with the replacement character for what is no UTF-8.
func text(c *process.Capture) string { return valid(c.Bytes()) }

// valid replaces every byte that is not part of a character.
func valid(b []byte) string { return string(bytes.ToValidUTF8(b, []byte("\uFFFD"))) }

func join(out, note string) string {
	if out == "" || strings.HasSuffix(out, "\n") {
		return out + note
	}
	return out + "\n" + note
}

// seconds prints a time the way a person gave it: 180s, 0.5s.
func seconds(d time.Duration) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", d.Seconds()), "0"), ".") + "s"
}
