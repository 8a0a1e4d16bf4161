// SPDX-License-Identifier: MIT

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
)

// Exec is a command to run in a container.
type Exec struct {
	Argv []string // Argv[0] is looked up in the container's PATH; 127 if it is not there
	Env  []string // NAME=VALUE, on top of the container's own; never part of an argument
	Dir  string   // "" = [Container.Workdir]; [ErrNoDir] if it does not exist
	User string   // a name or UID[:GID]; "" = the container's

	// Stdin is sent byte for byte, then closed. nil = no input at all. A Reader that blocks
	// for ever keeps its goroutine, but holds up nothing else.
	Stdin io.Reader
	// Stdout and Stderr must not block for ever, and are not written to after Wait has
	// returned; nil = thrown away. They are called from one goroutine.
	Stdout, Stderr io.Writer
	Merge          bool // what goes to stderr goes to Stdout, in order; Stderr must be nil

	// TTY gives the command a terminal; all output goes to Stdout. 0 = the engine's size.
	TTY           bool
	Height, Width uint

	// Mark is the value of [process.Mark] in its environment, from [NewMark]; "" = a new one.
	Mark string

	inline bool // Argv[0] is a script of ours, for the shell around a command itself
}

// Process is a command that was started. It is safe for concurrent use. It runs on when the
// context of Start ends, and when this program ends; [Process.Kill] ends it.
type Process struct {
	c    *Container
	x    Exec
	id   string // of the exec
	mark string
	conn client.HijackedResponse

	begun chan struct{} // closed when pid and born are set, or done
	once  sync.Once
	pid   int    // in the container; 0 = it never began
	born  string // when, in ticks since boot

	killing atomic.Bool // by Kill

	done chan struct{}
	code int
	err  error
	held bool
}

// attachTimeout is how long an engine may take to say that it begins a command.
const attachTimeout = 30 * time.Second

// Start begins a command. The error, or that of Wait, is an [*EngineError] of [ErrGone],
// [ErrPidsExhausted], [ErrNoDir], [ErrNoShell] or [ErrEngine] where the command did not run.
func (c *Container) Start(ctx context.Context, x Exec) (*Process, error) {
	op := "run a command in the sandbox " + c.name
	if len(x.Argv) == 0 || x.Argv[0] == "" || x.Mark != "" && !reMark.MatchString(x.Mark) || (x.Merge || x.TTY) && x.Stderr != nil {
		return nil, &EngineError{Kind: ErrConfig, Op: op, Msg: "no command, two places for its errors, or a mark that is none"}
	}
	if x.Dir == "" {
		x.Dir = c.workdir
	}
	if x.Mark == "" {
		x.Mark = NewMark()
	}
	p := &Process{c: c, x: x, mark: x.Mark, begun: make(chan struct{}), done: make(chan struct{})}
	created, err := c.e.api.ExecCreate(ctx, c.id, client.ExecCreateOptions{
		User: x.User, TTY: x.TTY, AttachStdin: x.Stdin != nil, AttachStdout: true, AttachStderr: !x.TTY,
		Env: append(slices.Clone(x.Env), process.Mark+"="+p.mark), WorkingDir: "/",
		Cmd: wrap(x, p.mark),
	})
	if err != nil {
		return nil, c.lost(ctx, op, err)
	}
	p.id = created.ID
	attach := client.ExecAttachOptions{TTY: x.TTY}
	if x.TTY {
		attach.ConsoleSize = client.ConsoleSize{Height: x.Height, Width: x.Width}
	}
	// Once the engine was asked it begins the command, whoever still listens.
	actx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attachTimeout)
	defer cancel()
	r, err := c.e.api.ExecAttach(actx, p.id, attach)
	if err != nil {
		return nil, c.lost(ctx, op, err)
	}
	p.conn = r.HijackedResponse
	if x.Stdin != nil {
		go p.feed()
	}
	go p.run(context.WithoutCancel(ctx))
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(err, p.Kill(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// Exec runs a command to its end and returns its exit code. When ctx ends first, the
// command's whole tree is killed before Exec returns the context's error.
func (c *Container) Exec(ctx context.Context, x Exec) (int, error) {
	p, err := c.Start(ctx, x)
	if err != nil {
		return 0, err
	}
	select {
	case <-p.Done():
		return p.Wait()
	case <-ctx.Done():
		err := p.Kill(context.WithoutCancel(ctx))
		<-p.Done()
		return p.code, errors.Join(ctx.Err(), err)
	}
}

// Done is closed when the command has ended and its output was delivered.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end and returns the exit code, 128 and the signal's number if one ended
// it. See [Container.Start] for errors; [ErrCut] says that the command may be running.
func (p *Process) Wait() (int, error) {
	<-p.done
	return p.code, p.err
}

// Held reports, after the end, that a process of the command's still held its output open
// and was not waited for.
func (p *Process) Held() bool { <-p.done; return p.held }

// PID is the number of the command's session in the container, 0 if it did not begin. It
// waits until that is known.
func (p *Process) PID() int { <-p.begun; return p.pid }

// Mark is the value of [process.Mark] in the environment of the command and its children, by
// which [Container.KillMark] finds them also after this program was started anew.
func (p *Process) Mark() string { return p.mark }

// Resize changes the size of the command's terminal.
func (p *Process) Resize(ctx context.Context, height, width uint) error {
	_, err := p.c.e.api.ExecResize(ctx, p.id, client.ExecResizeOptions{Height: height, Width: width})
	return p.c.lost(ctx, "resize a terminal in the sandbox "+p.c.name, err)
}

// feed sends the input. A command that wants no more of it is no failure.
func (p *Process) feed() {
	_, _ = io.Copy(p.conn.Conn, p.x.Stdin) //nolint:errcheck // the command has ended or closed its input
	_ = p.conn.CloseWrite()                //nolint:errcheck // likewise
}

// run delivers the output until the command has ended.
func (p *Process) run(ctx context.Context) {
	defer close(p.done)
	defer p.once.Do(func() { close(p.begun) })
	defer p.conn.Close()
	s := &sorter{nonce: p.mark, out: lane{w: writer(p.x.Stdout)}, err: lane{w: writer(p.x.Stderr)}, tty: p.x.TTY}
	s.began = func(pid int, born string) {
		p.pid, p.born = pid, born
		p.once.Do(func() { close(p.begun) })
	}
	s.ended = func() { _ = p.conn.Conn.SetReadDeadline(time.Now().Add(process.DrainTime)) } //nolint:errcheck // a connection always has deadlines
	err := s.copy(p.conn.Reader)
	var timeout net.Error
	p.held = s.exited && errors.As(err, &timeout) && timeout.Timeout()
	switch {
	case s.output != nil:
		p.err = fmt.Errorf("cannot deliver the output of a command: %w", s.output)
		p.code = s.code
	case s.noDir:
		p.code, p.err = s.code, &EngineError{Kind: ErrNoDir, Op: "run a command in the sandbox " + p.c.name, Msg: p.x.Dir + " is not there, or may not be entered"}
	case s.exited:
		p.code = s.code
	default:
		p.code, p.err = p.verdict(ctx, s, err)
	}
}

func writer(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// How long the engine may take to notice that a command has ended whose stream it closed.
const verdictTime = 10 * time.Second

// How long a container may be called running while its commands are ended or refused.
const endingTime = 10 * time.Second

// verdict asks the engine about a command that did not tell its end: it was killed, it never
// began, it has a terminal, or the connection was cut.
func (p *Process) verdict(ctx context.Context, s *sorter, cause error) (int, error) {
	op := "run a command in the sandbox " + p.c.name
	ctx, cancel := context.WithTimeout(ctx, RemoveTimeout)
	defer cancel()
	for until := time.Now().Add(verdictTime); ; {
		r, err := p.c.e.api.ExecInspect(ctx, p.id, client.ExecInspectOptions{})
		switch {
		case errdefs.IsNotFound(err):
			// The engine forgets commands when their container ends or is removed.
			if p.c.ending(ctx) {
				return 0, &EngineError{Kind: ErrGone, Op: op, Err: err}
			}
			return 0, p.c.lost(ctx, op, err)
		case err != nil:
			return 0, &EngineError{Kind: ErrCut, Op: op, Err: errors.Join(cause, err), Fix: "it may still be running there"}
		case !r.Running && !s.begun:
			return 0, p.c.refused(ctx, op, r.ExitCode, s.early())
		case !r.Running:
			return p.ended(ctx, op, r.ExitCode)
		case time.Now().After(until):
			return 0, &EngineError{Kind: ErrCut, Op: op, Err: cause, Msg: "the connection was cut", Fix: "it may still be running there"}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ended judges a command that began and told no end. With a terminal that is the rule; else
// a signal has ended its shell, or the shell found no process to run the command in.
func (p *Process) ended(ctx context.Context, op string, code int) (int, error) {
	switch {
	case code == 128+9 && !p.killing.Load() && p.c.ending(ctx):
		return code, &EngineError{Kind: ErrGone, Op: op, Msg: "the container ended meanwhile"}
	case p.x.TTY || code > 128 && code < 128+65:
		return code, nil
	}
	return 0, &EngineError{Kind: ErrPidsExhausted, Op: op, Msg: "its shell could start no process", Fix: fixPids}
}

// ending reports whether the container ends now. Its commands end first, so the engine may
// still call it running, for longer on a busy machine. One that runs another command does not end.
func (c *Container) ending(ctx context.Context) bool {
	for until := time.Now().Add(endingTime); ; time.Sleep(20 * time.Millisecond) {
		s, err := c.e.inspect(ctx, c.id)
		if errdefs.IsNotFound(err) || err == nil && !s.running() {
			return true
		}
		if err != nil || time.Now().After(until) || c.answers(ctx) {
			return false
		}
	}
}

// answers reports whether a command can be run: where process 1 is dead none can.
func (c *Container) answers(ctx context.Context) bool {
	x, err := c.e.api.ExecCreate(ctx, c.id, client.ExecCreateOptions{AttachStdout: true, WorkingDir: "/", Cmd: []string{"/bin/sh", "-c", ":"}})
	if err != nil {
		return false
	}
	r, err := c.e.api.ExecAttach(ctx, x.ID, client.ExecAttachOptions{})
	if err != nil {
		return false
	}
	stop := context.AfterFunc(ctx, r.Close)
	defer stop()
	defer r.Close()
	_, _ = io.Copy(io.Discard, r.Reader) //nolint:errcheck // its end is what counts
	for ; ; time.Sleep(10 * time.Millisecond) {
		s, err := c.e.api.ExecInspect(ctx, x.ID, client.ExecInspectOptions{})
		if err != nil || !s.Running {
			return err == nil && s.ExitCode == 0
		}
	}
}

// refused explains a command that the engine could not begin, by the engine's own words.
func (c *Container) refused(ctx context.Context, op string, code int, words string) error {
	switch {
	case strings.Contains(words, `"/bin/sh"`):
		return &EngineError{Kind: ErrNoShell, Op: op, Msg: words, Fix: "use an image with /bin/sh"}
	case c.full(ctx):
		return &EngineError{Kind: ErrPidsExhausted, Op: op, Msg: words, Fix: fixPids}
	case c.ending(ctx):
		return &EngineError{Kind: ErrGone, Op: op, Msg: words}
	case words == "":
		words = fmt.Sprintf("it ended with code %d before it began", code)
	}
	return &EngineError{Kind: ErrEngine, Op: op, Msg: words}
}

const fixPids = "kill something in the sandbox, or raise --pids-limit in terminal.docker_extra_args"

// execNeeds is how many processes and threads an engine may need to begin a command.
const execNeeds = 16

// full reports whether the container has so many processes that the engine could begin no
// other. What the engine says then differs from case to case, so it is counted.
func (c *Container) full(ctx context.Context) bool {
	var s struct {
		Pids struct{ Current, Limit uint64 } `json:"pids_stats"`
	}
	r, err := c.e.api.ContainerStats(ctx, c.id, client.ContainerStatsOptions{})
	if err == nil {
		err = errors.Join(json.NewDecoder(r.Body).Decode(&s), r.Body.Close())
	}
	if err != nil || s.Pids.Limit == 0 {
		return c.fullByTable(ctx) // no limit, or cgroups that the engine cannot read
	}
	return s.Pids.Current+execNeeds >= s.Pids.Limit
}

// fullByTable counts the threads in the host's table of processes.
func (c *Container) fullByTable(ctx context.Context) bool {
	r, err := c.e.api.ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
	if err != nil || r.Container.HostConfig == nil || r.Container.HostConfig.PidsLimit == nil || *r.Container.HostConfig.PidsLimit <= 0 {
		return false
	}
	top, err := c.e.api.ContainerTop(ctx, c.id, client.ContainerTopOptions{Arguments: []string{"-eLo", "pid"}})
	return err == nil && int64(len(top.Processes)+execNeeds) >= *r.Container.HostConfig.PidsLimit
}

// lost makes an error of what the engine answered about this container. Whether it is gone
// is asked, not read out of the text.
func (c *Container) lost(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	own := c.e.failed(op, err)
	if errors.Is(own, ErrUnreachable) || ctx.Err() != nil {
		return own
	}
	s, ierr := c.e.inspect(ctx, c.id)
	if errdefs.IsNotFound(ierr) || ierr == nil && !s.running() {
		return &EngineError{Kind: ErrGone, Op: op, Err: err}
	}
	return own
}
