// SPDX-License-Identifier: MIT

package apiserver

import (
	"context"
	"errors"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

// ErrNoProfile says that no profile of that name is served.
var ErrNoProfile = errors.New("no such profile")

// Host is what the server needs of the gateway. Its methods are called concurrently.
type Host interface {
	// Profile finds the profile of a request: "" is the launch profile, everything else the
	// name of a path /p/<name>/. The error is [ErrNoProfile] when it is not served. It binds
	// nothing to ctx: the methods of what it returns do, each for itself (H#61276).
	Profile(ctx context.Context, name string) (Profile, error)
}

// Profile is one profile as this server sees it. Its methods are called concurrently, before
// the request is known to be authorised only Name and Settings.
type Profile interface {
	// Name is the profile's home key: no two profiles share it. What the server keeps for a
	// profile is kept under it.
	Name() string
	// Settings are read at each request and not kept.
	Settings(ctx context.Context) (Settings, error)
	// Health is what there is to say about the profile; for the launch profile also about the
	// gateway. It must not wait for a model or a network.
	Health(ctx context.Context) Health
	// Sessions is the profile's store. The server does not close it.
	Sessions(ctx context.Context) (*session.Store, error)
	// Forget ends what a session has open beside its record: the record was deleted, and who
	// makes another session of its name must find nothing of it.
	Forget(ctx context.Context, session string)
	// Ask starts a turn, which outlives ctx. Ask.Session, if it is given, exists. History
	// without Stateless is recorded before Input; it is only given for a new session. The error
	// is [gateway.ErrDraining], [gateway.ErrBusy] (max_concurrent_runs), a [*RequestError], or
	// one of the session store.
	Ask(ctx context.Context, a gateway.Ask) (*gateway.Turn, error)
	// Turn finds a turn of this profile, whichever surface started it; never another's.
	Turn(id string) (*gateway.Turn, bool)
	Skills(ctx context.Context) ([]Skill, error)
	Toolsets(ctx context.Context) ([]Toolset, error)
	// Sandbox looks at the profile's sandbox, and AnswerSandbox answers its open choice: yes
	// moves to the image that is the default now, no stays. The error is a [*SandboxError].
	Sandbox(ctx context.Context) (Sandbox, error)
	AnswerSandbox(ctx context.Context, yes bool) (SandboxAnswer, error)
}

// Settings are the api_server settings of a profile.
type Settings struct {
	Key         secret.Text // empty = closed: every request that needs it is refused
	CORSOrigins []string    // "*" = any; empty = none
	ModelName   string      // "" = hermes-agent
	// DirectModels lets a request name a model without naming a provider.
	DirectModels bool
	// Reasoning shows what the model thinks (display.show_reasoning for this surface).
	Reasoning bool
	// Aliases are the names of model_routes and what they stand for.
	Aliases map[string]Alias
}

// Alias is what a name of model_routes stands for.
type Alias struct{ Model, Provider string }

// RequestError refuses what a client asks for: it is answered with status 400 and Message,
// which the client sees.
type RequestError struct {
	Param   string // the field of the request; "" = none
	Code    string // for programs; "" = invalid_request
	Message string
}

func (e *RequestError) Error() string { return e.Message }

// Health is what /health/detailed says: states and counts, never a value of a setting.
type Health struct {
	State  string // of the gateway: running, draining …
	Checks []Check
}

// The states of a [Check].
const (
	OK       = "ok"
	Degraded = "degraded"
	Failed   = "failed"
)

// Check is one part of [Health]: config, state_db, model, disk, platforms, runs.
type Check struct {
	Name   string
	Status string         // OK, Degraded or Failed
	Detail string         // why it is not OK, in words; "" otherwise
	Counts map[string]int // nil = none
}

// Skill is an entry of /v1/skills.
type Skill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Category    string `json:"category,omitempty"`
}

// Toolset is an entry of /v1/toolsets.
type Toolset struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Enabled     bool     `json:"enabled"` // for this surface
	Tools       []string `json:"tools"`
}
