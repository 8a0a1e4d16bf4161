// SPDX-License-Identifier: MIT

package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"
)

// Probe asks a part of the gateway to show that it still works, as the listener does by
// answering a request. It returns when it has, or when ctx ends.
type Probe struct {
	Name string
	Ask  func(ctx context.Context) error
}

// Liveness watches probes (services spec §2.8).
type Liveness struct {
	Every   time.Duration // 0 = 30 s
	Timeout time.Duration // of one round; 0 = 10 s
	Strikes int           // failed rounds in a row that end the process; 0 = 3
	Alive   func()        // called after every good round: feeds the supervisor's watchdog
	Log     *slog.Logger
}

// WedgedError says that the gateway does not answer its own probes any more.
type WedgedError struct {
	Probe string
	Err   error
	Stack []byte // of all goroutines at that time
}

func (e *WedgedError) Error() string { return fmt.Sprintf("%s does not answer: %v", e.Probe, e.Err) }

// Unwrap returns the cause.
func (e *WedgedError) Unwrap() error { return e.Err }

// Run asks the probes until ctx ends, which is no error, or until they failed so often that
// the process had better be replaced: then the error is an [*WedgedError]. A process that was
// stopped for a while, with its machine, gets a fresh count.
func (l Liveness) Run(ctx context.Context, probes []Probe) error {
	every, timeout, strikes := l.Every, l.Timeout, l.Strikes
	if every <= 0 {
		every = 30 * time.Second
	}
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	if strikes <= 0 {
		strikes = 3
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	failed := 0
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if now := time.Now(); now.Sub(last) > 2*every+timeout {
			failed = 0
		}
		err := round(ctx, probes, timeout)
		last = time.Now()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			failed = 0
			if l.Alive != nil {
				l.Alive()
			}
			continue
		}
		failed++
		l.Log.Warn("liveness probe failed", "probe", err.Probe, "error", err.Err, "strike", failed, "of", strikes)
		if failed >= strikes {
			err.Stack = stacks()
			return err
		}
	}
}

// round asks every probe, side by side.
func round(ctx context.Context, probes []Probe, timeout time.Duration) *WedgedError {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answers := make(chan *WedgedError, len(probes))
	for _, p := range probes {
		go func() {
			if err := p.Ask(ctx); err != nil {
				answers <- &WedgedError{Probe: p.Name, Err: err}
				return
			}
			answers <- nil
		}()
	}
	for range probes {
		select {
		case bad := <-answers:
			if bad != nil {
				return bad
			}
		case <-ctx.Done(): // one that does not even heed its context
			return &WedgedError{Probe: "a probe", Err: ctx.Err()}
		}
	}
	return nil
}

// stacks is what all goroutines are doing, cut at a megabyte.
func stacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}
