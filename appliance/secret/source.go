// SPDX-License-Identifier: MIT

package secret

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// Shape says how a source names what it supplies.
type Shape int

// The shapes of a source. Mapped beats bulk (P3).
const (
	Mapped Shape = iota // each name is bound to one item on purpose
	Bulk                // whatever a project or command has
)

func (s Shape) String() string {
	if s == Mapped {
		return "mapped"
	}
	return "bulk"
}

// DefaultBudget is how long a source may take if it says nothing else.
const DefaultBudget = 30 * time.Second

// Spec is what a source is.
type Spec struct {
	Name             string // lower_snake, unique in a stack
	Shape            Shape
	Enabled          bool
	OverrideExisting bool              // beats .env and the process, never another source
	Protected        []string          // its bootstrap names: no source may supply them
	Budget           time.Duration     // wall clock of a fetch; 0 = DefaultBudget
	Refs             map[string]string // of a mapped source: what each name is bound to
	Place            string            // account, project or command that values come from
	Plugin           bool              // declared by a plugin's manifest
}

// binding says what a name is bound to, "" if the source does not supply it. A value of an
// earlier fetch is good while this is the same.
func (s Spec) binding(name string) string {
	if s.Shape == Bulk {
		return "\x00" + s.Place
	}
	ref, ok := s.Refs[name]
	if !ok {
		return ""
	}
	return ref + "\x00" + s.Place
}

func (s Spec) budget() time.Duration {
	if s.Budget > 0 {
		return s.Budget
	}
	return DefaultBudget
}

// Source is a place outside the home that secrets come from. Its methods must be safe for
// concurrent use.
type Source interface {
	Spec() Spec
	// Fetch returns what the source has. An error is a [*FetchError] and means that
	// nothing was found out; single names that failed are in [Fetched.Failed]. It must
	// return soon after ctx ends; what it returns later is thrown away.
	Fetch(ctx context.Context, in Input) (Fetched, error)
}

// Input is what a source may use. It holds nothing of any other home.
type Input struct {
	Home home.Home
	Key  string          // home key; the real directory
	Vars map[string]Text // the home's own .env and .op.env, for the launch home over the process's environment
	Own  map[string]Text // the .env and .op.env part of Vars
	// Env builds the environment of a child of a kind ("op", "bws", "command", "plugin").
	// nil = an empty one.
	Env func(kind string) []string
	Run Runner
}

// env is the environment of a child that speaks to a vault: the caller's, without any variable
// that the CLI would authenticate with, then what is given. A token in the caller's base may
// be another home's (#68367).
func (in Input) env(kind string, drop func(name string) bool, add map[string]string) []string {
	out := []string{}
	if in.Env != nil {
		for _, kv := range in.Env(kind) {
			name, _, _ := strings.Cut(kv, "=")
			if _, replaced := add[name]; !replaced && !drop(strings.ToUpper(name)) {
				out = append(out, kv)
			}
		}
	}
	for _, name := range sorted(add) {
		out = append(out, name+"="+add[name])
	}
	return out
}

// Fetched is what a source supplied.
type Fetched struct {
	Values  map[string]Text
	Failed  map[string]Reason // names of a mapped source that could not be had
	Ignored int               // parts of its output that are no secret
}

// Reason says in one word why a fetch failed. Nothing that a vault's command printed is ever
// part of a report: error output can carry the secret.
type Reason string

// The reasons.
const (
	NotConfigured Reason = "not configured"      // token, project or mapping is missing: nothing is kept
	BinaryMissing Reason = "command not found"   //
	AuthFailed    Reason = "not signed in"       // token refused, session over
	NotFound      Reason = "item not found"      // the vault answers that it has no such item
	NoValue       Reason = "empty value"         // the item has nothing in it
	Network       Reason = "network"             //
	TimedOut      Reason = "timeout"             //
	Exited        Reason = "command failed"      // no better word for its error output
	Garbage       Reason = "unreadable output"   //
	TooLong       Reason = "too much output"     //
	Unsupported   Reason = "not on this system"  //
	Internal      Reason = "error in the source" //
)

// gone reports whether the source answered that there is no value, as opposed to no answer.
func (r Reason) gone() bool { return r == NotFound || r == NoValue || r == NotConfigured }

// FetchError says that a source could not be asked.
type FetchError struct {
	Source string
	Reason Reason
	Detail string // for the log: names, paths, exit codes; never output
}

func (e *FetchError) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("secret source %s: %s", e.Source, e.Reason)
	}
	return fmt.Sprintf("secret source %s: %s (%s)", e.Source, e.Reason, e.Detail)
}

// failure makes a FetchError of any error. The text of an unknown one is not used.
func failure(source string, err error) *FetchError {
	var fe *FetchError
	switch {
	case errors.As(err, &fe):
		return fe
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &FetchError{Source: source, Reason: TimedOut}
	case errors.Is(err, ErrFlood):
		return &FetchError{Source: source, Reason: TooLong}
	case errors.Is(err, ErrNoCommand):
		return &FetchError{Source: source, Reason: BinaryMissing}
	}
	return &FetchError{Source: source, Reason: Internal, Detail: fmt.Sprintf("%T", err)}
}

// validName reports whether a name can be that of an environment variable.
func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
