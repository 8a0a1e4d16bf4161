// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// TestHeldListener: while it is paused connections wait, and none is lost or counted wrongly.
func TestHeldListener(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := newHeld(l)
	got := make(chan net.Conn)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := h.Accept()
			if err != nil {
				ended <- err
				return
			}
			got <- c
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dial := func() net.Conn {
		t.Helper()
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	for range 50 { // pausing races a connection: it is counted, or it waits
		dial()
		paused := make(chan struct{})
		go func() {
			h.pause(ctx)
			close(paused)
		}()
		var first net.Conn
		select {
		case first = <-got:
			<-paused
		case <-paused:
			select {
			case first = <-got:
			case <-time.After(time.Millisecond):
			}
		}
		if first == nil {
			if !h.quiet(ctx) {
				t.Fatal("a connection that waits is counted")
			}
			h.resume()
			first = <-got
		} else {
			over, cancel := context.WithCancel(ctx)
			cancel()
			if h.quiet(over) {
				t.Fatal("a connection that was taken is not counted")
			}
			h.resume()
		}
		first.Close()
		first.Close()
		if !h.quiet(ctx) {
			t.Fatal("a connection that was closed is counted")
		}
	}
	h.pause(ctx)
	waits := dial()
	if _, err := waits.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-got:
		t.Fatal("a connection was taken while it is paused")
	case <-time.After(50 * time.Millisecond):
	}
	h.resume()
	c := <-got
	if b, err := io.ReadAll(io.LimitReader(c, 1)); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	h.pause(ctx)
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("ended with %v", err)
	}
	h.pause(ctx) // after its end nobody waits for it
}
