// SPDX-License-Identifier: MIT

// Package webhook lets other systems start turns: a forge, a monitor or a program posts an
// event to a route, and the route's template makes a message of it for its profile's agent, or
// for the log alone. It speaks the signatures of GitHub, GitLab, Standard Webhooks, Linear and
// upstream's own.
//
// It never looks at a config, a secret or a file: what it needs of a profile it asks for at
// each request. It never parses what is not authenticated, never starts a turn that somebody
// could be asked in, never answers for one profile with what belongs to another, and never
// logs a secret or a body.
package webhook

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/platform/httpd"
)

const (
	// bodyTime bounds the reading of a request.
	bodyTime = 30 * time.Second
	// mostReading is how many bytes the bodies that are being read have together: as many as the
	// largest that a route may take, or 64 of the usual ones.
	mostReading = 64 << 20
)

// Options are what a [Server] works with. Host is required.
type Options struct {
	Host Host
	Log  *slog.Logger     // nil = nothing is logged
	Now  func() time.Time // nil = the clock
	// Multiplex reports whether paths /p/<profile>/ are served; nil = they are not.
	Multiplex func() bool
}

// Server is the webhook server. It is safe for concurrent use.
type Server struct {
	httpd.Life

	o     Options
	lanes lanes
	room  atomic.Int64 // of mostReading
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
	s := &Server{o: o, lanes: lanes{of: map[laneKey]*lane{}}}
	s.room.Store(mostReading)
	return s
}

// Handler serves webhooks, for a listener of somebody else's.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Serve accepts connections on l until Shutdown is called, which makes it return nil, or until
// ctx ends, which cuts what is open. It closes l. Shutdown waits for the ends of the turns, too.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.Run(ctx, l, &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       bodyTime,
		WriteTimeout:      2 * bodyTime,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}, s.o.Log)
}
