// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"fmt"
	"sync"
)

// InterruptError is the cause of a turn that was stopped through its [Control].
type InterruptError struct{ Reason string }

func (e *InterruptError) Error() string { return fmt.Sprintf("interrupted: %s", e.Reason) }

// Control reaches into one turn from outside. The zero value is ready; it serves one turn. It
// is safe for concurrent use.
type Control struct {
	mu     sync.Mutex
	cancel context.CancelCauseFunc // nil = not running
	stop   error
	steer  []string
	over   bool
}

// Interrupt stops the turn at the next safe point: at once while the model speaks, and as
// soon as the running tools have ended otherwise. The first reason counts. A turn that has
// not begun ends when it does.
func (c *Control) Interrupt(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop == nil {
		c.stop = &InterruptError{reason}
	}
	if c.cancel != nil {
		c.cancel(c.stop)
	}
}

// Steer hands the model a text of the user with the next tool result. It returns false when
// the turn is over; the text is then a message of its own. What is accepted and finds no
// result is returned by the turn.
func (c *Control) Steer(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || text == "" {
		return false
	}
	c.steer = append(c.steer, text)
	return true
}

// bind starts the turn.
func (c *Control) bind(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = cancel
	if c.stop != nil {
		cancel(c.stop)
	}
	return ctx, cancel
}

// taken returns the steering texts that wait.
func (c *Control) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	texts := c.steer
	c.steer = nil
	return texts
}

// finish ends the turn: what waits is returned, and nothing more is accepted.
func (c *Control) finish() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	texts := c.steer
	c.steer = nil
	return texts
}
