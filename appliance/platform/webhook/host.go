// SPDX-License-Identifier: MIT

package webhook

import (
	"context"
	"errors"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
)

var (
	// ErrNoProfile says that no profile of that name is served.
	ErrNoProfile = errors.New("no such profile")
	// ErrNoRoute says that the profile has no route of that name.
	ErrNoRoute = errors.New("no such route")
)

// Host is what the server needs of the gateway. Its methods are called concurrently.
type Host interface {
	// Profile finds the profile of a request: "" is the launch profile, everything else the
	// name of a path /p/<name>/. The error is [ErrNoProfile] when it is not served. It binds
	// nothing to ctx: the methods of what it returns do, each for itself.
	Profile(ctx context.Context, name string) (Profile, error)
}

// Profile is one profile as this server sees it. Its methods are called concurrently, before
// the request is known to be authentic only Key and Route.
type Profile interface {
	// Key is the profile's home key: no two profiles share it.
	Key() string
	// Route reads a route of this profile as the files say it now; it is not kept. A route that
	// is bound to another profile is [ErrNoRoute] here. Every other error says why the route is
	// off; it holds no secret.
	Route(ctx context.Context, name string) (Route, error)
	// File reads a file of the profile's home for in_file; it never leads out of the home.
	File(ctx context.Context, name string) ([]byte, error)
	// Handled tells whether a turn of this chat key came to its end, also in an earlier life of
	// the gateway.
	Handled(ctx context.Context, key string) (bool, error)
	// Ask starts a turn, which outlives ctx. The error is [gateway.ErrDraining], or one of the
	// profile's files.
	Ask(ctx context.Context, a gateway.Ask) (*gateway.Turn, error)
	// End closes the session of a turn that is over.
	End(ctx context.Context, session, reason string) error
	// Redact hides the profile's secrets in what is about to be logged. On an error of its own
	// it returns nothing of the text.
	Redact(ctx context.Context, text string) string
	// ChatKey names the chat of a delivery.
	ChatKey(chat string) string
}
