// SPDX-License-Identifier: MIT

// Package apiserver is the HTTP API of the gateway, spoken by the clients of OpenAI's API and
// by those of upstream's own: chat completions, responses, runs with events and approvals,
// sessions, and health. Every turn is started through [Profile], as on every other surface.
//
// It never looks at a config, a secret or a file: what it needs of a profile it asks for at
// each request. It never answers for one profile with what belongs to another, never lets a
// request pass without that profile's own key, and never logs a key or a body.
package apiserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// heartbeat is how often a stream is looked at, and sent a sign of life when it was quiet
	// since: proxies close those that are quiet for long. None is for longer than twice this.
	heartbeat = 10 * time.Second
	// writeTime bounds one write to a client that does not read.
	writeTime = 30 * time.Second
	// bodyTime bounds the reading of a request's body.
	bodyTime = 2 * time.Minute
	// maxBody is how large a request may be: pictures come inside it.
	maxBody = 32 << 20
)

// Options are what a [Server] works with. Host is required.
type Options struct {
	Host    Host
	Log     *slog.Logger     // nil = nothing is logged
	Now     func() time.Time // nil = the clock
	Version string           // of the program, for /health/detailed and /v1/capabilities
	// Multiplex reports whether paths /p/<profile>/ are served; nil = they are not.
	Multiplex func() bool
}

// Server is the API server. It is safe for concurrent use.
type Server struct {
	o         Options
	routes    *routes
	responses *shelf
	keys      *keys
	beat      time.Duration
	bodyLimit int64

	mu     sync.Mutex
	http   []*http.Server
	closed bool
}

// New makes a server; it listens nowhere yet.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Multiplex == nil {
		o.Multiplex = func() bool { return false }
	}
	s := &Server{o: o, responses: newShelf(), keys: newKeys(o.Now), beat: heartbeat, bodyLimit: maxBody}
	s.routes = s.table()
	return s
}

// Handler serves the API, for a listener of somebody else's.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Serve accepts connections on l until [Server.Shutdown] is called, which makes it return nil,
// or until ctx ends, which cuts what is open. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	hs := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return l.Close()
	}
	s.http = append(s.http, hs)
	s.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		if err := hs.Close(); err != nil {
			s.o.Log.DebugContext(ctx, "close the api server", "error", err)
		}
	})
	defer stop()
	if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Retire has no connection used for another request than the one it is at; new connections are
// served as before.
func (s *Server) Retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, hs := range s.http {
		hs.SetKeepAlivesEnabled(false)
	}
}

// Shutdown accepts nothing more and waits for the requests that are being answered; their
// turns are ended by whoever owns them. When ctx ends first, what is open is cut, and its
// error is returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	servers := s.http
	s.mu.Unlock()
	var errs []error
	for _, hs := range servers {
		if err := hs.Shutdown(ctx); err != nil {
			errs = append(errs, err)
			if err := hs.Close(); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
