// SPDX-License-Identifier: MIT

package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/redact"
)

const (
	maxFrame = 16 << 20               // of a message from a server
	maxJunk  = 10_000                 // lines in a row that are no messages
	polite   = 500 * time.Millisecond // from the end of its input to the first signal
)

// stdioLink is a child that speaks MCP on its standard input and output.
type stdioLink struct {
	name   string
	child  *process.Child
	wire   *wire
	errs   *stderrWriter
	reason time.Duration // see waits
}

// startStdio starts the child of a server. fail is called when the child has exited.
func (s *server) startStdio(ctx context.Context, fail func(error)) (*stdioLink, error) {
	p := s.ledger.current()
	env, err := p.Env(ctx, s.cfg)
	if err != nil {
		return nil, fmt.Errorf("its environment cannot be built: %w", err)
	}
	errs := &stderrWriter{
		server: s.cfg.Name, now: time.Now,
		secret: func() *redact.Redactor { return s.ledger.current().Redactor },
		out:    func(line []byte) { s.ledger.log.append(s.ledger.current().StderrLog, line) },
	}
	child, err := s.host.cfg.Processes.Start(process.Cmd{
		Name: "mcp " + s.cfg.Name, Kind: process.Server,
		Args: append([]string{s.cfg.Command}, s.cfg.Args...), Env: env, Dir: p.Dir,
		Stderr: errs, StdinPipe: true, StdoutPipe: true,
	})
	if err != nil {
		return nil, err
	}
	errs.say(fmt.Sprintf("started, pid %d", child.PID()))
	l := &stdioLink{
		name: s.cfg.Name, child: child, errs: errs, wire: newWire(child.Stdout(), child.Stdin(), errs),
		reason: s.host.waits.reason,
	}
	go func() { // ends with the child, which close ends
		<-child.Done()
		fail(l.explain(ctx, errGone))
	}()
	return l, nil
}

func (l *stdioLink) transport() sdk.Transport { return l.wire }

func (l *stdioLink) pid() int { return l.child.PID() }

// explain says what was wrong with its output, or how the child ended and what it said last.
func (l *stdioLink) explain(ctx context.Context, err error) error {
	if fault := l.wire.fault.Load(); fault != nil {
		return &goneError{*fault}
	}
	select {
	case <-l.child.Done():
	case <-time.After(l.reason): // its output may end a moment before it does
		return err
	}
	exit, werr := l.child.Wait(ctx)
	if werr != nil {
		return err
	}
	text := fmt.Sprintf("its process exited with code %d", exit.Code)
	if exit.Signal != 0 {
		text = fmt.Sprintf("its process was ended by signal %d", int(exit.Signal))
	}
	if tail := l.errs.last(); tail != "" {
		text += ": " + tail
	}
	return &goneError{text}
}

// close ends the child and everything it started, and then the connection. When ctx ends
// there is no grace.
func (l *stdioLink) close(ctx context.Context, hangUp func()) error {
	l.wire.endInput()
	timer := time.NewTimer(polite)
	defer timer.Stop()
	select {
	case <-l.child.Done():
	case <-timer.C:
	case <-ctx.Done():
	}
	err := l.child.Kill(ctx)
	l.wire.shut()
	if hangUp != nil {
		hangUp()
	}
	if err == nil {
		_, err = l.child.Wait(context.WithoutCancel(ctx)) // killed: it cannot take long
	}
	l.errs.last()
	return err
}

// wire is a connection of newline-delimited JSON over two pipes. Unlike the SDK's own it
// passes over lines that are no messages (servers print to their standard output what
// belongs elsewhere), and a peer that does not read holds up nobody beyond their context.
type wire struct {
	in    io.WriteCloser
	out   io.ReadCloser
	lines *bufio.Reader
	junk  io.Writer // takes the lines that are no messages

	queue   []jsonrpc.Message // of a batch; read by one goroutine
	send    chan []byte
	closing sync.Once
	ending  sync.Once
	fault   atomic.Pointer[string] // what was wrong with the peer's output
	closed  chan struct{}
	broken  chan struct{} // closed when a write failed, after err was set
	err     error
}

func newWire(out io.ReadCloser, in io.WriteCloser, junk io.Writer) *wire {
	w := &wire{
		in: in, out: out, lines: bufio.NewReaderSize(out, 64<<10), junk: junk,
		send: make(chan []byte), closed: make(chan struct{}), broken: make(chan struct{}),
	}
	go w.write()
	return w
}

// Connect returns the connection itself.
func (w *wire) Connect(context.Context) (sdk.Connection, error) { return w, nil }

// SessionID is always empty.
func (w *wire) SessionID() string { return "" }

// write writes whole messages in their order. It ends with the connection: closing the pipe
// ends a write that waits for the peer.
func (w *wire) write() {
	for {
		select {
		case <-w.closed:
			return
		case data := <-w.send:
			if _, err := w.in.Write(data); err != nil {
				w.err = err
				close(w.broken)
				return
			}
		}
	}
}

// Write hands a message over.
func (w *wire) Write(ctx context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	select {
	case w.send <- append(data, '\n'):
		return nil
	case <-w.broken:
		return w.err
	case <-w.closed:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Read returns the next message. It is called by one goroutine.
func (w *wire) Read(context.Context) (jsonrpc.Message, error) {
	for junk := 0; junk < maxJunk; junk++ {
		if len(w.queue) > 0 {
			m := w.queue[0]
			w.queue = w.queue[1:]
			return m, nil
		}
		line, err := w.line()
		if err != nil {
			return nil, w.readError(err)
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if w.queue = decode(line); len(w.queue) > 0 {
			junk = -1
			continue
		}
		if _, err := fmt.Fprintf(w.junk, "standard output: %s\n", line[:min(len(line), maxLine)]); err != nil {
			return nil, err
		}
	}
	return nil, w.wrong("it printed %d lines that are no MCP messages", maxJunk)
}

func (w *wire) readError(err error) error {
	select {
	case <-w.closed:
		return io.EOF
	default:
		return err
	}
}

// wrong remembers why this side gives up.
func (w *wire) wrong(format string, n int) error {
	text := fmt.Sprintf(format, n)
	w.fault.Store(&text)
	return &goneError{text}
}

// line reads one line of at most maxFrame bytes.
func (w *wire) line() ([]byte, error) {
	var long []byte
	for {
		part, err := w.lines.ReadSlice('\n')
		switch {
		case len(long)+len(part) > maxFrame:
			return nil, w.wrong("it sent a message of more than %d MiB", maxFrame>>20)
		case err == nil:
			return append(long, part...), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		long = append(long, part...)
	}
}

// decode returns the messages of a line, none if it holds none.
func decode(line []byte) []jsonrpc.Message {
	var batch []json.RawMessage
	switch line[0] {
	case '{':
		if !json.Valid(line) { // the SDK would overlook what follows the first value
			return nil
		}
		batch = []json.RawMessage{line}
	case '[':
		if json.Unmarshal(line, &batch) != nil {
			return nil
		}
	}
	var out []jsonrpc.Message
	for _, raw := range batch {
		if m, err := jsonrpc.DecodeMessage(raw); err == nil {
			out = append(out, m)
		}
	}
	return out
}

// endInput closes the peer's input.
func (w *wire) endInput() {
	w.ending.Do(func() { w.in.Close() }) //nolint:errcheck // a pipe: nothing is buffered
}

// shut ends the connection for good.
func (w *wire) shut() {
	w.endInput()
	w.closing.Do(func() {
		close(w.closed)
		w.out.Close() //nolint:errcheck // a pipe that was only read
	})
}

// Close is called by the SDK when reading or writing failed, and ends the connection.
func (w *wire) Close() error {
	w.shut()
	return nil
}
