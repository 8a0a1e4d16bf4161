// SPDX-License-Identifier: MIT

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Protocols that are tried, in order. Servers that are older than the second would misread
// its first message; those that know nothing else refuse the first one.
const (
	withHandshake = "2025-11-25"
	stateless     = "2026-07-28"
)

// link is how a server is reached.
type link interface {
	transport() sdk.Transport
	pid() int
	// explain says why the connection ended.
	explain(ctx context.Context, err error) error
	// close ends the peer and the connection, and calls hangUp, which may be nil, on the way.
	// When it returns without an error nothing is left.
	close(ctx context.Context, hangUp func()) error
}

// conn is one connection to a server. It is over when its life is; close must be called.
type conn struct {
	link    link
	session *sdk.ClientSession
	changed chan struct{} // the server says that its tools changed

	fail func(error) // ends its life, for the first reason given
	over <-chan struct{}
	why  func() error                        // it is over
	when func(f func()) (detach func() bool) // calls f when it is over
}

// dial connects to the server. The connection's life ends with ctx.
func (s *server) dial(ctx context.Context) (*conn, error) {
	c, err := s.attempt(ctx, withHandshake)
	if modernOnly(err) {
		c, err = s.attempt(ctx, stateless)
	}
	return c, err
}

func (s *server) attempt(ctx context.Context, protocol string) (*conn, error) {
	life, fail := context.WithCancelCause(ctx)
	c := &conn{
		fail: fail, over: life.Done(), changed: make(chan struct{}, 1),
		why:  func() error { return context.Cause(life) },
		when: func(f func()) func() bool { return context.AfterFunc(life, f) },
	}
	var err error
	if s.cfg.URL != "" {
		c.link, err = s.openHTTP(life)
	} else {
		c.link, err = s.startStdio(life, fail)
	}
	if err != nil {
		fail(err)
		return nil, err
	}
	s.update(func() { s.pid = c.link.pid() })
	if err = s.connect(life, c, protocol); err == nil {
		go func() {
			err := c.session.Wait()
			fail(c.link.explain(life, errors.Join(errGone, err)))
		}()
		return c, nil
	}
	return nil, errors.Join(err, s.hangUp(ctx, c))
}

// connect does the handshake within the time the config allows. Whatever the SDK waits for
// ends with the link.
func (s *server) connect(life context.Context, c *conn, protocol string) error {
	limit, cancel := context.WithTimeoutCause(life, s.cfg.ConnectTimeout,
		&TimeoutError{What: "the connection", After: s.cfg.ConnectTimeout})
	defer cancel()
	client := sdk.NewClient(&sdk.Implementation{Name: "hermes-appliance", Version: s.host.cfg.Version}, s.options(c.noteChange))
	type outcome struct {
		session *sdk.ClientSession
		err     error
	}
	done := make(chan outcome, 1)
	go func() {
		session, err := client.Connect(limit, c.link.transport(), &sdk.ClientSessionOptions{ProtocolVersion: protocol})
		done <- outcome{session, err}
	}()
	select {
	case o := <-done:
		c.session = o.session
		if o.err == nil || answered(o.err) != nil { // what it says goes before how it ends then
			return o.err
		}
		if limit.Err() != nil {
			return context.Cause(limit)
		}
		if broken(o.err) {
			return c.link.explain(life, o.err)
		}
		return o.err
	case <-limit.Done():
	}
	err := context.Cause(limit)
	closing := s.hangUp(life, c)
	o := <-done
	if o.session != nil {
		o.session.Close() //nolint:errcheck // its link is closed
	}
	if answered(o.err) != nil {
		err = o.err
	}
	return errors.Join(err, closing)
}

// dead reports whether the connection is over.
func (c *conn) dead() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// noteChange remembers that the tools are to be listed again.
func (c *conn) noteChange() {
	select {
	case c.changed <- struct{}{}:
	default: // it is remembered already
	}
}

// hangUp ends a connection and its peer, with grace unless the server is to be stopped in
// haste. It may be called again.
func (s *server) hangUp(ctx context.Context, c *conn) error {
	c.fail(errStopped)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go func() {
		select {
		case <-s.hurry:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := c.link.close(ctx, func() {
		if c.session != nil {
			c.session.Close() //nolint:errcheck // the link says what matters
		}
	})
	if err == nil {
		s.update(func() { s.pid = 0 })
	}
	return err
}

// within returns a context that also ends with the connection.
func (c *conn) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	detach := c.when(func() { cancel(c.why()) })
	return ctx, func() { detach(); cancel(nil) }
}

// alive asks the server for a sign of life. Any answer is one, also that it does not know
// the question.
func (c *conn) alive(ctx context.Context, limit time.Duration) error {
	ctx, release := c.within(ctx)
	defer release()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &TimeoutError{What: "a ping", After: limit})
	defer cancel()
	err := c.session.Ping(ctx, nil)
	switch {
	case err == nil, answered(err) != nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// pings reports whether the negotiated protocol knows pings.
func (c *conn) pings() bool {
	r := c.session.InitializeResult()
	return r != nil && r.ProtocolVersion < stateless
}

// call calls a tool by the server's own name.
func (c *conn) call(ctx context.Context, tool string, args json.RawMessage) (Result, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	r, err := c.session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return Result{}, err
	}
	return unwrap(r), nil
}
