// SPDX-License-Identifier: MIT

package process

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// pipeSize bounds what can still be in a pipe when its reader's time is over (pipe(7)).
const pipeSize = 64 << 10

// streams are a child's three standard streams and our ends of them.
type streams struct {
	child [3]*os.File
	close []*os.File // the child's ends that are ours to close after the spawn
	outs  []*output
	in    *input

	stdin, stdout *os.File // the caller's
}

func newStreams(c Cmd) (*streams, error) {
	if c.Stdin != nil && c.StdinPipe || c.Stdout != nil && c.StdoutPipe || c.Stderr != nil && c.Merge {
		return nil, errors.New("one stream was given two ends")
	}
	s := &streams{}
	err := s.open(c)
	if err != nil {
		s.closeChildEnds()
		s.abandon()
		return nil, err
	}
	return s, nil
}

func (s *streams) open(c Cmd) (err error) {
	switch f, isFile := c.Stdin.(*os.File); {
	case c.StdinPipe:
		s.child[0], s.stdin, err = s.pipe(0)
	case isFile:
		s.child[0] = f
	case c.Stdin == nil:
		err = s.null(0)
	default:
		in := &input{r: c.Stdin, done: make(chan struct{})}
		if s.child[0], in.w, err = s.pipe(0); err == nil {
			s.in = in
		}
	}
	if err != nil {
		return err
	}
	if c.StdoutPipe {
		s.stdout, s.child[1], err = s.pipe(1)
	} else {
		err = s.output(1, c.Stdout)
	}
	if err != nil {
		return err
	}
	if c.Merge {
		s.child[2] = s.child[1]
		return nil
	}
	return s.output(2, c.Stderr)
}

func (s *streams) output(fd int, w io.Writer) (err error) {
	if w == nil {
		return s.null(fd)
	}
	if f, ok := w.(*os.File); ok {
		s.child[fd] = f
		return nil
	}
	o := &output{w: w, done: make(chan struct{})}
	if o.r, s.child[fd], err = s.pipe(fd); err == nil {
		s.outs = append(s.outs, o)
	}
	return err
}

// pipe makes a pipe of which the child gets the reading end (fd 0) or the writing end.
func (s *streams) pipe(fd int) (r, w *os.File, err error) {
	if r, w, err = os.Pipe(); err != nil {
		return nil, nil, err
	}
	if fd == 0 {
		s.close = append(s.close, r)
	} else {
		s.close = append(s.close, w)
	}
	return r, w, nil
}

func (s *streams) null(fd int) (err error) {
	if s.child[fd], err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		s.close = append(s.close, s.child[fd])
	}
	return err
}

func (s *streams) closeChildEnds() {
	closeAll(s.close)
	s.close = nil
}

// abandon closes our ends of streams that were never copied.
func (s *streams) abandon() {
	for _, o := range s.outs {
		closeAll([]*os.File{o.r})
	}
	if s.in != nil {
		closeAll([]*os.File{s.in.w})
	}
	closeAll([]*os.File{s.stdin, s.stdout})
	s.outs, s.in, s.stdin, s.stdout = nil, nil, nil, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close() //nolint:errcheck // a pipe or the null device: nothing is buffered
		}
	}
}

func (s *streams) copy() {
	for _, o := range s.outs {
		go o.copy()
	}
	if s.in != nil {
		go s.in.copy()
	}
}

// finish is called when the child has exited. It ends the copying within DrainTime and
// what a writer of the caller takes.
func (s *streams) finish() Exit {
	var exit Exit
	end := time.Now().Add(DrainTime)
	for _, o := range s.outs {
		o.until(end)
	}
	if s.in != nil {
		exit.Stdin = s.in.until(end)
	}
	for _, o := range s.outs {
		<-o.done
		exit.Held = exit.Held || o.held
		exit.Output = errors.Join(exit.Output, o.err)
	}
	return exit
}

// output copies what the child writes.
type output struct {
	r    *os.File
	w    io.Writer
	done chan struct{}
	held bool
	err  error // of w, which then gets nothing more, but the child can still write
}

func (o *output) copy() {
	defer close(o.done)
	defer o.r.Close() //nolint:errcheck // a pipe that was only read
	buf := make([]byte, 32<<10)
	for {
		n, err := o.r.Read(buf)
		o.write(buf[:n])
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			o.held = true
			o.rest(buf)
			return
		default: // the end, or closed by until
			o.held = o.held || errors.Is(err, os.ErrClosed)
			return
		}
	}
}

// rest takes what is in the pipe: a slow writer must not cost what the child wrote in time.
func (o *output) rest(buf []byte) {
	for left := pipeSize; left > 0; {
		n, err := ReadReady(o.r, buf[:min(left, len(buf))])
		o.write(buf[:n])
		left -= n
		if err != nil {
			o.held = o.held && !errors.Is(err, io.EOF)
			return
		}
	}
}

func (o *output) write(p []byte) {
	if len(p) == 0 || o.err != nil {
		return
	}
	n, err := o.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	o.err = err
}

// until makes the reading end at the given time. Where a pipe knows no deadlines (Windows)
// it is closed then.
func (o *output) until(end time.Time) {
	if errors.Is(o.r.SetReadDeadline(end), os.ErrNoDeadline) {
		time.AfterFunc(time.Until(end), func() { closeAll([]*os.File{o.r}) })
	}
}

// input writes what the child reads.
type input struct {
	w    *os.File
	r    io.Reader
	done chan struct{} // closed when all is written, or err is set
	err  error
}

func (i *input) copy() {
	defer i.w.Close() //nolint:errcheck // a pipe: nothing is buffered
	_, err := io.Copy(i.w, i.r)
	if !unwanted(err) {
		i.err = err
	}
	close(i.done) // before the child sees the end of its input and exits, so that until sees it too
}

// until waits for the end of the writing, but not beyond the given time: the source may be
// one that never ends.
func (i *input) until(end time.Time) error {
	if errors.Is(i.w.SetWriteDeadline(end), os.ErrNoDeadline) {
		time.AfterFunc(time.Until(end), func() { closeAll([]*os.File{i.w}) })
	}
	timer := time.NewTimer(time.Until(end) + 10*time.Millisecond)
	defer timer.Stop()
	select {
	case <-i.done:
		return i.err
	case <-timer.C:
	}
	select {
	case <-i.done: // both, and select takes either
		return i.err
	default:
		closeAll([]*os.File{i.w}) // so that it fails at its next write
		return nil
	}
}

// unwanted reports whether a child ended, or closed its input, before it had read it all.
func unwanted(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed)
}
