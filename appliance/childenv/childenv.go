// SPDX-License-Identifier: MIT

// Package childenv decides which environment variables a child process gets: a pure function
// of the kind of child, the profile it works for and a snapshot of values that know where
// they came from. It never changes the environment of this process, never starts anything,
// never reads a file while it builds, and never falls back to another profile's value: what
// it cannot decide it refuses.
//
// The rules stand in policy.json; their ids are those of the isolation spec. A profile's
// files are never merged into the environment of a process that serves others, so a
// profile's values can only reach the children that are built for it: a child's environment
// is the inherited one without what is not the profile's, then the profile's own values, the
// administrator's, the config's, and of that what the kind of child may have.
package childenv

import (
	"fmt"
	"os"
)

// Origin says where a value came from.
type Origin string

// The origins.
const (
	Inherited Origin = "inherited" // the environment this process was started with
	Dotenv    Origin = "dotenv"    // the profile's .env
	OpEnv     Origin = "op-env"    // the profile's .op.env
	Source    Origin = "source"    // a secret source of the profile applied it
	Managed   Origin = "managed"   // the administrator's .env
	Bridge    Origin = "bridge"    // the profile's config.yaml
	Session   Origin = "session"   // the conversation at hand
	Desktop   Origin = "desktop"   // the agent's screen
	Extra     Origin = "extra"     // the caller, for this child only
	Fixed     Origin = "fixed"     // made here for every child
)

// Var is a value with its origin. One whose name is empty or holds '=' or a zero byte, or
// whose value holds a zero byte, is no variable and reaches nobody.
type Var struct {
	Name   string
	Value  string
	Origin Origin
	// Fill lets a value of the same name that is there already win; otherwise this one
	// replaces it. A value of .op.env always only fills, a managed one never does.
	Fill bool
}

// Profile is what a child may get of the profile it works for.
type Profile struct {
	Key      string   // home key; compared with the launch home's
	Dir      string   // HERMES_HOME of the child
	UserHome string   // HOME of the child; "" = the inherited one
	Vars     []Var    // .env, .op.env, applied by sources; a later one replaces an earlier
	Applied  []string // names that its sources applied, not those they merely supplied (N1)
	Bridge   []Var    // terminal.* of its config.yaml, and top-level scalars, which only fill

	Declared    []string // secrets that its platform plugins declare: tier 1 for it (M2)
	DeclaredErr error    // a platform plugin's manifest is unreadable: nothing starts (M4)
	AdapterEnv  []string // settings of its registered adapters; the secret-named are tier 2 (M9)
	BackendKeys []string // credentials of its plugin terminal backends
	BackendErr  error    // they cannot be told: nothing starts
	Passthrough []string // terminal.env_passthrough and what its skills require

	TerminalRefused string // why none of its commands may run (P8); "" = they may
}

// Launch is what is known of the profile this process was started for. All of it is to be
// kept from the children of others.
type Launch struct {
	Key      string
	Dotenv   []string // keys of its .env and .op.env now
	Ever     []string // every key that any load has put into this process's environment
	Supplied []string // names any source supplied, to whichever profile, applied or not (N1, L7)
	Bridged  []string // names its config.yaml bridges, beside TERMINAL_* (L8)
}

// Snapshot is everything a build looks at. It is read only: builds may share one.
type Snapshot struct {
	Inherited []string // KEY=VALUE; of several with one name the last counts
	Launch    Launch
	Target    *Profile // nil = no profile is bound
	Managed   []Var    // the administrator's .env
	// Foreign are the values that the .env files of all profiles but the target hold, by
	// name: an inherited variable with such a name and value was loaded by a parent (L9).
	Foreign     map[string][]string
	Multiplexed bool // the process serves many profiles

	Session         []Var  // of the conversation; replaces every inherited one
	SessionEngaged  bool   // a conversation is at hand, even if Session is empty
	SessionPlatform string // e.g. "buzz"
	Desktop         []Var  // DISPLAY and the like while the screen is up

	// Credentials gives a child that acts for the target the target's tier 2, to which the
	// launch profile's exports count (S13); without it the child gets what Select names.
	Credentials bool
	Select      []string

	Extra        []Var    // for this child only
	Forward      []string // terminal-remote: the names to carry over
	GatePrefixes []string // adapters registered at run time, e.g. "mychat" (G3)
	BinDir       string   // where this program's command is; put on PATH
	OwnPython    []string // directories of Hermes' own Python code, taken out of PYTHONPATH
	Fence        string   // board root that descendants may not write; "" = none (K2)
}

// TakeEnviron returns the environment of this process. It is the only place that reads it.
func TakeEnviron() []string { return os.Environ() }

// Decision is what happened to one name.
type Decision struct {
	Name   string `json:"name"`
	Kept   bool   `json:"kept"`
	Origin Origin `json:"origin"`
	Rule   string `json:"rule"` // id of the rule that decided; "" = nothing spoke against it
}

// Refusal says that the child must not be started.
type Refusal struct {
	Kind string
	Rule string // id in the isolation spec or the policy
	Msg  string
	Err  error
}

func (r *Refusal) Error() string {
	if r.Err != nil {
		return fmt.Sprintf("no %s is started (%s): %s: %v", r.Kind, r.Rule, r.Msg, r.Err)
	}
	return fmt.Sprintf("no %s is started (%s): %s", r.Kind, r.Rule, r.Msg)
}

// Unwrap returns the cause, if there is one.
func (r *Refusal) Unwrap() error { return r.Err }
