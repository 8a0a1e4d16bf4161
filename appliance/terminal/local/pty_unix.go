// SPDX-License-Identifier: MIT

//go:build unix

package local

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
)

const hasPTY = true

// ptyJob is a child with a terminal of its own. We hold the other end.
type ptyJob struct {
	*process.Child
	master *os.File
	copied chan struct{} // closed when the output is read
	done   chan struct{} // closed when the child has exited as well
	held   bool
	outErr error
}

// startPTY starts a command on a new terminal, which becomes its controlling one.
func startPTY(r *process.Registry, cmd process.Cmd, stdin io.Reader) (terminal.Job, error) {
	master, tty, err := pty.Open()
	if err != nil {
		return nil, err
	}
	defer tty.Close() //nolint:errcheck // the child has its own
	if err := pty.Setsize(master, &pty.Winsize{Rows: 30, Cols: 120}); err != nil {
		return nil, errors.Join(err, master.Close())
	}
	out := cmd.Stdout
	cmd.Stdin, cmd.StdinPipe, cmd.Stdout, cmd.Stderr = tty, false, tty, nil
	cmd.Merge, cmd.Terminal = true, true
	child, err := r.Start(cmd)
	if err != nil {
		return nil, errors.Join(told(err), master.Close())
	}
	j := &ptyJob{Child: child, master: master, copied: make(chan struct{}), done: make(chan struct{})}
	if stdin != nil {
		go io.Copy(master, stdin) //nolint:errcheck // a terminal that is gone takes no more
	}
	go j.copy(out)
	go func() {
		<-child.Done() // what is printed later than this after its end is lost, as with a pipe
		if err := master.SetReadDeadline(time.Now().Add(process.DrainTime)); err != nil {
			time.AfterFunc(process.DrainTime, func() { master.Close() }) //nolint:errcheck // nothing is buffered
		}
		<-j.copied
		master.Close() //nolint:errcheck // nothing is buffered
		close(j.done)
	}()
	return j, nil
}

// ttySize bounds what can still be in a terminal when its reader's time is over.
const ttySize = 64 << 10

// copy reads the terminal until nobody has it open any more, which is an error of its own
// (EIO), or until its time is over. It leaves the terminal open: to close it is to hang up on a
// child that lives on without.
func (j *ptyJob) copy(w io.Writer) {
	defer close(j.copied)
	buf := make([]byte, 32<<10)
	for {
		n, err := j.master.Read(buf)
		j.pass(w, buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = j.rest(w, buf)
		}
		if err != nil {
			j.held = !errors.Is(err, syscall.EIO) && !errors.Is(err, io.EOF)
			return
		}
	}
}

// rest takes what is in the terminal: a slow reader must not cost what was printed in time.
func (j *ptyJob) rest(w io.Writer, buf []byte) error {
	for left := ttySize; left > 0; {
		n, err := process.ReadReady(j.master, buf[:min(left, len(buf))])
		j.pass(w, buf[:n])
		if left -= n; err != nil {
			return err
		}
	}
	return os.ErrDeadlineExceeded
}

func (j *ptyJob) pass(w io.Writer, p []byte) {
	if len(p) > 0 && j.outErr == nil {
		_, j.outErr = w.Write(p)
	}
}

// Done is closed when the child has exited and its terminal is read.
func (j *ptyJob) Done() <-chan struct{} { return j.done }

// Wait waits for Done.
func (j *ptyJob) Wait(ctx context.Context) (process.Exit, error) {
	exit, err := j.Child.Wait(ctx)
	if err != nil {
		return exit, err
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		return process.Exit{}, context.Cause(ctx)
	}
	exit.Held, exit.Output = j.held, j.outErr
	return exit, nil
}

// Stdin is the keyboard. Closing it types the end of input; the terminal stays.
func (j *ptyJob) Stdin() io.WriteCloser { return keyboard{j.master} }

type keyboard struct{ f *os.File }

func (k keyboard) Write(p []byte) (int, error) { return k.f.Write(p) }

// Close types ^D, which a terminal takes for the end where a line is empty.
func (k keyboard) Close() error {
	_, err := k.f.Write([]byte{4})
	return err
}
