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
	"log/slog"
	"time"
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
