// SPDX-License-Identifier: MIT

// Package httpd is the life of a platform that is an HTTP server: it listens, lets its
// connections go, and ends. It never looks at a request.
package httpd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
)

// Life is the life of one platform, for embedding. The zero value has not begun; it is safe for
// concurrent use.
type Life struct {
	work sync.WaitGroup

	mu     sync.Mutex
	http   []*http.Server
	closed bool
}

// Run has hs, which holds the platform's handler and limits, accept connections on l until
// [Life.Shutdown] is called, which makes it return nil, or until ctx ends, which cuts what is
// open. It closes l.
func (f *Life) Run(ctx context.Context, l net.Listener, hs *http.Server, log *slog.Logger) error {
	hs.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	hs.BaseContext = func(net.Listener) context.Context { return ctx }
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return l.Close()
	}
	f.http = append(f.http, hs)
	f.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		if err := hs.Close(); err != nil {
			log.DebugContext(ctx, "close a server", "error", err)
		}
	})
	defer stop()
	if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// After runs what a request leaves to be done; [Life.Shutdown] waits for it.
func (f *Life) After(do func()) { f.work.Go(do) }

// Wait waits for everything that was given to [Life.After].
func (f *Life) Wait() { f.work.Wait() }

// Retire has no connection used for another request than the one it is at; new connections are
// served as before.
func (f *Life) Retire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, hs := range f.http {
		hs.SetKeepAlivesEnabled(false)
	}
}

// Shutdown accepts nothing more and waits for the requests that are being answered and for what
// they left to be done; who owns the turns ends them. When ctx ends first, what is open is cut,
// and its error is returned.
func (f *Life) Shutdown(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	servers := f.http
	f.mu.Unlock()
	var errs []error
	for _, hs := range servers {
		if err := hs.Shutdown(ctx); err != nil {
			errs = append(errs, err, hs.Close())
		}
	}
	done := make(chan struct{})
	go func() {
		f.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		errs = append(errs, ctx.Err())
	}
	return errors.Join(errs...)
}
