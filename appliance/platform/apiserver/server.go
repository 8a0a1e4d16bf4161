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
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/platform/httpd"
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
	httpd.Life

	o         Options
	routes    *routes
	starting  starting
	beat      time.Duration
	bodyLimit int64
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
	s := &Server{o: o, starting: starting{of: map[startingKey]*startingOne{}}, beat: heartbeat, bodyLimit: maxBody}
	s.routes = s.table()
	return s
}

// Handler serves the API, for a listener of somebody else's.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Serve accepts connections on l until Shutdown is called, which makes it return nil, or until
// ctx ends, which cuts what is open. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.Run(ctx, l, &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}, s.o.Log)
}
