// SPDX-License-Identifier: MIT

package secret

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
)

// mostLeft bounds what a command can have left in a pipe (pipe(7)).
const mostLeft = 64 << 10

// outputs are the pipes of a command's outputs. They are not left to package exec: that one
// closes them a while after the command's end, read or not, and half an answer looks like a
// whole one.
type outputs []*output

// output copies one pipe.
type output struct {
	r, w    *os.File
	to      io.Writer
	reading func() // nil = nobody is told
	done    chan struct{}
}

// outputs has a command that is about to start write to out and errs.
func (x Exec) outputs(cmd *exec.Cmd, out, errs io.Writer) (all outputs, err error) {
	for to, stream := range map[io.Writer]*io.Writer{out: &cmd.Stdout, errs: &cmd.Stderr} {
		o := &output{to: to, reading: x.reading, done: make(chan struct{})}
		if o.r, o.w, err = os.Pipe(); err != nil {
			all.finish()
			return nil, err
		}
		all, *stream = append(all, o), o.w
	}
	return all, nil
}

// begin copies, now that the command has its ends of the pipes.
func (all outputs) begin() {
	for _, o := range all {
		o.w.Close() //nolint:errcheck // nothing was written
		o.w = nil
		go o.copy()
	}
}

// finish is called when the command is over, or was never there: what it wrote is read to the
// last byte, what a descendant goes on to write is not waited for beyond [drain].
func (all outputs) finish() {
	until := time.Now().Add(drain)
	for _, o := range all {
		switch {
		case o.w != nil: // never begun
			o.w.Close() //nolint:errcheck // nothing was written
			close(o.done)
		case errors.Is(o.r.SetReadDeadline(until), os.ErrNoDeadline): // Windows
			time.AfterFunc(drain, func() { o.r.Close() }) //nolint:errcheck // it was only read
		}
	}
	for _, o := range all {
		<-o.done
		o.r.Close() //nolint:errcheck // it was only read
	}
}

func (o *output) copy() {
	defer close(o.done)
	for buf := make([]byte, 32<<10); ; {
		if o.reading != nil {
			o.reading()
		}
		n, err := o.r.Read(buf)
		if _, full := o.to.Write(buf[:n]); full != nil {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			o.rest(buf)
		}
		if err != nil {
			return
		}
	}
}

// rest takes what is in the pipe when the time is over, without waiting: this process may have
// stood still meanwhile.
func (o *output) rest(buf []byte) {
	for left := mostLeft; left > 0; {
		n, err := process.ReadReady(o.r, buf[:min(left, len(buf))])
		if err != nil {
			return
		}
		if _, err := o.to.Write(buf[:n]); err != nil {
			return
		}
		left -= n
	}
}
