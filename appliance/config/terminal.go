// SPDX-License-Identifier: MIT

package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/dotenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// TerminalInput is what the terminal policy of one profile is made of.
type TerminalInput struct {
	Config   *Config      // the profile's
	Env      *dotenv.File // the profile's .env; nil = none
	AdminEnv *dotenv.File // the administrator's; nil = none

	// Launch is the environment of the launch process with its .env applied and nothing
	// bridged into it. It is for the launch profile only: nil for every other one, which must
	// not see it. Names that do not begin with TERMINAL_ are not looked at.
	Launch map[string]string

	UserHome string // the home directory of the user; "" = unknown
	Lookup   Lookup // resolves ${NAME} in config.yaml: the profile's secret scope
}

// Refusal says that a profile has no terminal policy, because a file that decides it is
// there and cannot be understood. Nothing may then run for this profile: not under another
// profile's policy and not under the defaults.
type Refusal struct{ Err error }

func (r *Refusal) Error() string { return "no command can run for this profile: " + r.Err.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// ExitCode is [exitcode.Config].
func (r *Refusal) ExitCode() exitcode.Code { return exitcode.Config }

// setting is the value of one variable and where it comes from.
type setting struct {
	value string
	from  string // the path of a file, or what messages call it
	line  int    // 1-based, 0 = none
}

// What messages call the sources that have no path here.
const (
	inProcess    = "environment"
	envName      = ".env"
	adminEnvName = "administrator's .env"
)

// Terminal is the complete terminal policy of one profile: every variable a terminal tool
// may read. What is not in it is unset; nobody looks for it elsewhere. It never changes and
// is safe for concurrent use.
type Terminal struct {
	vars map[string]setting
	pin  PinSource
}

// LoadTerminal reads a profile's files and makes its policy. It fills the Config, Env and
// AdminEnv of in. The error is a [*Refusal].
func LoadTerminal(h home.Home, o Options, in TerminalInput) (*Terminal, error) {
	f, err := loadFiles(h, o)
	if err != nil {
		return nil, &Refusal{err}
	}
	return f.terminal(in)
}

func readEnv(path string) (*dotenv.File, error) {
	f, err := readFile(path)
	if err != nil || f.Data == nil {
		return nil, err
	}
	env, err := dotenv.Parse(f.Data)
	if err != nil {
		return nil, &Error{Kind: ErrUnreadable, File: path, Msg: err.Error(), Err: err}
	}
	return env, nil
}

// NewTerminal makes the policy from, lowest first: documented defaults, the profile's .env,
// the launch process, the profile's config.yaml, the administrator's .env and config.yaml.
// The error is a [*Refusal].
func NewTerminal(in TerminalInput) (*Terminal, error) {
	t, err := compose(in)
	if err != nil {
		return nil, err
	}
	t.resolveDir(in.UserHome)
	return t, nil
}

// Bridge returns the variables that the terminal section puts into the launch process: a key
// that a file has overrides the variable in in.Launch, a default only fills one that is
// missing. A directory that is to be found later stays unset. The error is a [*Refusal].
func Bridge(in TerminalInput) (map[string]string, error) {
	t, err := compose(in)
	if err != nil {
		return nil, err
	}
	t.expandDir(in.UserHome)
	out := map[string]string{}
	for _, name := range BridgeNames() {
		if s, ok := t.vars[name]; ok {
			out[name] = s.value
		}
	}
	return out, nil
}

// Get returns the value of a variable.
func (t *Terminal) Get(name string) (string, bool) {
	s, ok := t.vars[name]
	return s.value, ok
}

// Vars returns all variables; the map is the caller's.
func (t *Terminal) Vars() map[string]string {
	out := make(map[string]string, len(t.vars))
	for name, s := range t.vars {
		out[name] = s.value
	}
	return out
}

// Names returns the names of all variables, sorted.
func (t *Terminal) Names() []string { return slices.Sorted(maps.Keys(t.vars)) }

// Source says where a variable comes from: a file, with the line if it is known, the
// environment or the built-in defaults. It is for reports.
func (t *Terminal) Source(name string) string {
	s := t.vars[name]
	if s.line > 0 {
		return fmt.Sprintf("%s, line %d", s.from, s.line)
	}
	return s.from
}

// Pin says who chose the Docker image, if anybody did.
func (t *Terminal) Pin() PinSource { return t.pin }

// Backend returns the name of the backend; see [Backends].
func (t *Terminal) Backend() string { return strings.ToLower(strings.TrimSpace(t.Text("backend"))) }

// Text returns the value of a bridged key, "" where it is unset. The readers below return
// the zero value there; their texts were checked when the policy was made.
func (t *Terminal) Text(key string) string { return t.vars[bridged{key: key}.env()].value }

// Bool returns the value of a key that is true or false.
func (t *Terminal) Bool(key string) bool { return t.Text(key) == "true" }

// Number returns the value of a key that is a number.
func (t *Terminal) Number(key string) float64 {
	f, _ := strconv.ParseFloat(t.Text(key), 64) //nolint:errcheck // checked when the policy was made
	return f
}

// Seconds returns the value of a key that is a time in seconds.
func (t *Terminal) Seconds(key string) time.Duration {
	return time.Duration(t.Number(key) * float64(time.Second))
}

// Strings returns the value of a key that is a list.
func (t *Terminal) Strings(key string) []string {
	var out []string
	_ = json.Unmarshal([]byte(t.Text(key)), &out) //nolint:errcheck // checked when the policy was made
	return out
}

// Table returns the value of a key that is a section of names and texts.
func (t *Terminal) Table(key string) map[string]string {
	var out map[string]string
	_ = json.Unmarshal([]byte(t.Text(key)), &out) //nolint:errcheck // checked when the policy was made
	return out
}

// resolveDir gives a local terminal without a directory the user's home. A sandbox without
// one starts where its image says.
func (t *Terminal) resolveDir(userHome string) {
	t.expandDir(userHome)
	if _, ok := t.vars[dirEnv]; !ok && t.Backend() == "local" && userHome != "" {
		t.vars[dirEnv] = setting{value: userHome, from: defaultsFile}
	}
}

// expandDir expands a leading ~ in the directory here, unless it is one of the far side.
func (t *Terminal) expandDir(userHome string) {
	s, ok := t.vars[dirEnv]
	if !ok || userHome == "" || t.Backend() == "ssh" {
		return
	}
	if rest, ok := strings.CutPrefix(s.value, "~"); ok && (rest == "" || rest[0] == '/') {
		if s.value = userHome; rest != "" {
			s.value = strings.TrimSuffix(userHome, "/") + rest
		}
		t.vars[dirEnv] = s
	}
}
