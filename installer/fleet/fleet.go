// SPDX-License-Identifier: MIT

// Package fleet turns a fleet of gateways, one a profile, into one gateway that serves every
// profile, and back (services spec §3). It looks at the host ([Fleet.Observe]), says what it
// would do and why it may not ([Observed.Multiplex], [Observed.Standalone], both pure), and
// does it ([Fleet.Apply]) with a manifest on disk before the first step that takes something
// away, so that a run that failed is taken back and one that was killed is finished by the
// next. It never reads a secret, never edits a config but through the [Flag] it is handed, and
// never leaves a fleet without a gateway and without a way back (H#110850).
package fleet

import (
	"context"
	"slices"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Service is how a manager holds a gateway.
type Service struct {
	Kind   string `json:"kind"`   // systemd, launchd, windows
	System bool   `json:"system"` // of the machine, not of one account
}

func (s Service) String() string {
	switch {
	case s.Kind != "systemd":
		return s.Kind
	case s.System:
		return "systemd (system)"
	}
	return "systemd (user)"
}

// File is a file of a unit as it was found.
type File struct {
	Path string `json:"path"`
	Mode uint32 `json:"mode"` // permission bits
	Data []byte `json:"data"`
}

// Unit is an installed definition of a home's gateway.
type Unit struct {
	Service
	Name    string `json:"name"`
	Account string `json:"account"` // whom a system unit runs as; "" = not said
	UID     *int   `json:"uid"`     // of the account; nil = there is no such account
	Home    string `json:"home"`    // the home it pins; "" = none
	Active  bool   `json:"active"`  // started, or starting
	// Disabled says that it does not start by itself. What a record of an older program does not
	// say was enabled.
	Disabled bool   `json:"disabled,omitempty"`
	Foreign  string `json:"foreign"` // who else owns the file, e.g. "nix store"; "" = nobody
	Files    []File `json:"files"`   // the unit and its drop-ins
}

// Process is the live gateway of one home; a multiplexer is the process of its own home only.
type Process struct {
	PID int
	UID *int // nil = cannot be told
}

// Host is what is asked of, and done to, the machine. Every operation names the home it is
// about: none depends on the environment of this process (isolation spec R9). Operations on a
// service concern every unit of the home in that scope, whatever its name (H#109476).
type Host interface {
	// Refusal says why gateways cannot be moved on this host at all; "" = they can.
	Refusal() string
	Process(h home.Home) (p Process, live bool, err error)
	Units(ctx context.Context, h home.Home) ([]Unit, error)
	// Ready fails if this process may not change, or cannot reach, the units of that kind.
	Ready(ctx context.Context, s Service) error
	// Account fails if a system unit cannot run as that account; "" is the one that a fresh
	// installation would choose.
	Account(name string) error
	// Inside reports whether this process would end with the gateway of a home.
	Inside(h home.Home) bool
	UID() int

	Enable(ctx context.Context, h home.Home, s Service) error
	// Disable keeps one unit from starting by itself and leaves it running, if it does.
	Disable(ctx context.Context, h home.Home, u Unit) error
	// Install puts files back as they were, or renders a unit where there are none, and enables
	// it. It starts nothing.
	Install(ctx context.Context, h home.Home, s Service, account string, files []File) error
	Start(ctx context.Context, h home.Home, s Service) error
	Restart(ctx context.Context, h home.Home, s Service) error
	// Uninstall stops the unit, disables it and removes its files. It is no error if it is gone.
	Uninstall(ctx context.Context, h home.Home, s Service) error
	// StopProcess ends the live gateway of a home. It is no error if none runs.
	StopProcess(ctx context.Context, h home.Home) error
	// Spawn starts the gateway of a home detached, with the environment of that home alone.
	Spawn(ctx context.Context, h home.Home) error
}

// Flag is gateway.multiplex_profiles of the default home's config.
type Flag interface {
	// On is what counts: the environment's word, the administrator's, the file's, the alias's.
	On() (bool, error)
	// Draft returns what config.yaml holds and what it would hold with the flag on and without
	// the old key at the top of the file. It fails if that would be refused or have no effect.
	Draft() (before, after []byte, err error)
	// Own reports whether the file has the key itself.
	Own() (bool, error)
	// Turn writes it into a file that is not what Draft knows.
	Turn(ctx context.Context, on bool) error
	// Clear removes it.
	Clear(ctx context.Context) error
	// OptedOut reports whether gateway.auto_multiplex_migration is off (H#110683).
	OptedOut() (bool, error)
}

// Claim is a credential that a profile would connect with. It never holds the credential.
type Claim struct {
	Platform    string
	Fingerprint string // equal for equal credentials; tells nothing about them
	Keys        string // names of the variables or keys that hold it
	Origin      string // where it comes from, e.g. ".env"; [FromEnvironment] if from this process
}

// FromEnvironment is the origin of a claim that stands in no file of the profile.
const FromEnvironment = "the environment of this command"

// Listener is a platform of a profile that binds a port.
type Listener struct {
	Platform string
	Host     string
	Port     int
	Prefix   bool // its adapter answers /p/<profile>/ on the default profile's listener
}

// Facts are what a profile's own config and secrets say.
type Facts struct {
	Claims    []Claim
	Listeners []Listener // in the default profile also those that are off, for the address
}

// Fleet moves the gateways of one default home.
type Fleet struct {
	Default home.Home
	Host    Host
	Flag    Flag
	// Inspect reads a profile's config and secrets under its own scope.
	Inspect func(ctx context.Context, h home.Home) (Facts, error)
	Now     func() time.Time
	Say     func(line string) // told about each step that was done; nil = nobody
	Files   atomicfile.Writer
	Wait    time.Duration // for the gateway to serve every profile; 0 = [ServedWait]
	Poll    time.Duration // between two looks; 0 = half a second
}

// ServedWait is how long the gateway has to say that it serves every profile.
const ServedWait = 90 * time.Second

func (f Fleet) say(line string) {
	if f.Say != nil {
		f.Say(line)
	}
}

// Profile is one profile and the gateway it has of its own. Its JSON is that of the manifest.
type Profile struct {
	Name        string
	Home        string
	PID         int       // 0 = no gateway runs
	Services    []Service // every installed unit, user scope first
	RunAs       string    // User= of a system unit; "" = none
	UID         *int      // whose gateway it is; nil = unknown
	RuntimeHome string    // that a unit pins, where it is not Home; "" = Home

	units []Unit // as observed; not kept in the manifest
}

// own reports whether the profile has a gateway of its own.
func (p Profile) own() bool { return p.PID > 0 || len(p.Services) > 0 }

func (p Profile) home() home.Home { return home.Home{Dir: p.Home, Profile: p.Name} }

// has reports whether a unit of a kind is installed.
func (p Profile) has(s Service) bool {
	return slices.Contains(p.Services, s)
}
