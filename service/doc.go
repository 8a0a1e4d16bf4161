// SPDX-License-Identifier: MIT

// Package service says what the gateway's service is (Spec) and how each service manager is
// told: systemd units with their drop-ins, launchd property lists, Windows scheduled tasks, s6
// slots. It renders text and reads it back; it never runs a manager's command, never writes a
// file, knows no Hermes config, and puts no secret into anything it renders. What it cannot
// write without a manager misreading it, it refuses.
package service

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Scope is whose service it is.
type Scope string

// The scopes.
const (
	System Scope = "system" // starts with the machine
	User   Scope = "user"   // of one account's own manager
)

// Hardening is how much of the machine a system service is kept from.
type Hardening string

// The profiles of hardening (services spec §6).
const (
	Balanced Hardening = "balanced"
	// Agent keeps what browsers with a sandbox of their own, bubblewrap and rootless podman
	// need: user namespaces and mounts.
	Agent    Hardening = "agent"
	Unlocked Hardening = "none"
)

// Credential is a secret that the manager hands to the service as a file in
// $CREDENTIALS_DIRECTORY.
type Credential struct {
	Name string // letters, digits, ".", "_", "-"
	Path string // absolute; a name without a directory is one that the manager stores
}

// Socket is a listener that the manager holds open while the service restarts.
type Socket struct {
	Name   string // handed over with it, e.g. api_server
	Listen string // address:port, a port of every address, or an absolute path
}

// Spec is what the service is, whatever manager runs it.
type Spec struct {
	Name        string // see [Name]
	Description string // "" = Description
	Scope       Scope
	Home        string   // pinned as HERMES_HOME and working directory; absolute
	Exec        []string // absolute program, then its arguments
	// Before is a command that runs to its end before each start; nil = none. Whether it fails
	// or not, the service is started: it says itself what it cannot run on.
	Before []string

	// Of a system service: the account it runs as.
	Account, Group, AccountHome string
	UID                         int // to start after that account's own manager; 0 = no ordering

	Path     []string          // of PATH; absolute directories
	Env      map[string]string // further variables; never a secret
	Watchdog time.Duration     // without a sign of life for this long it is restarted; 0 = off
	Drain    time.Duration     // how long running turns may take at a stop
	Cron     time.Duration     // how long a scheduled job may; 0 = they do not count

	Hardening   Hardening // "" = Balanced for a system service, Unlocked for a user's
	Writable    []string  // directories it may write beside its home; absolute
	Credentials []Credential
	Sockets     []Socket
}

// Base is the name of the service of the default home.
const Base = "hermes-gateway"

// Description is what managers show of the service; upstream's words.
const Description = "Hermes Agent Gateway - Messaging Platform Integration"

// reProfile is what a profile's id looks like.
var reProfile = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// Name returns the name of the service of a home (services spec §1.1): the bare one for the
// platform's default home and no other, with the profile's id for a profile of any home
// directory, else with eight digits of the path's hash. Both paths are absolute and resolved.
func Name(home, platformDefault string) string {
	if home == platformDefault {
		return Base
	}
	if dir, id := filepath.Split(home); filepath.Base(filepath.Clean(dir)) == "profiles" && reProfile.MatchString(id) {
		return Base + "-" + id
	}
	sum := sha256.Sum256([]byte(home))
	return Base + "-" + hex.EncodeToString(sum[:4])
}

// StopBudget is how long a manager must wait for the service to stop before it kills it: ten
// seconds longer than the service's own watchdog over its shutdown, so that a hung stop is
// diagnosed there (H#94759).
func (s Spec) StopBudget() time.Duration {
	cron := time.Duration(0)
	if s.Cron > 0 {
		cron = s.Cron + 10*time.Second
	}
	return max(60*time.Second, max(s.Drain, cron)+30*time.Second, s.Drain+ShutdownWatchdog+10*time.Second)
}

// ShutdownWatchdog is how long after its drain the service gives itself before it ends hard.
const ShutdownWatchdog = 60 * time.Second

// InputError says which part of a Spec no manager can be told.
type InputError struct {
	Field string
	Value string // never a secret: a Spec holds none
	Want  string
}

func (e *InputError) Error() string {
	return fmt.Sprintf("service: %s %q: want %s", e.Field, e.Value, e.Want)
}

var (
	reName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,200}$`)
	reAccount = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*\$?$`)
	reEnv     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Check reports the first thing that is wrong with a Spec, as an [*InputError].
func (s Spec) Check() error {
	if s.Scope != System && s.Scope != User {
		return &InputError{"scope", string(s.Scope), "system or user"}
	}
	if !reName.MatchString(s.Name) {
		return &InputError{"name", s.Name, "letters, digits, '_', '.' and '-'"}
	}
	if len(s.Exec) == 0 {
		return &InputError{"exec", "", "a program"}
	}
	for _, f := range []struct {
		field, value string
		path         bool
	}{{"description", s.Description, false}, {"home", s.Home, true}, {"program", s.Exec[0], true}} {
		if err := text(f.field, f.value, f.path); err != nil {
			return err
		}
	}
	if len(s.Before) > 0 {
		if err := text("program", s.Before[0], true); err != nil {
			return err
		}
	}
	for _, arg := range slices.Concat(s.Exec[1:], s.Before) {
		if err := text("argument", arg, false); err != nil {
			return err
		}
	}
	if err := s.checkAccount(); err != nil {
		return err
	}
	return s.checkLists()
}

func (s Spec) checkAccount() error {
	if s.Scope == User {
		if s.Account != "" || s.Group != "" {
			return &InputError{"account", s.Account, "none: a user's service runs as that user"}
		}
		return nil
	}
	for field, value := range map[string]string{"account": s.Account, "group": s.Group} {
		if !reAccount.MatchString(value) {
			return &InputError{field, value, "the name of an account"}
		}
	}
	return text("account's home", s.AccountHome, true)
}

func (s Spec) checkLists() error {
	for _, dir := range s.Path {
		if err := text("directory of PATH", dir, true); err != nil {
			return err
		}
		if strings.Contains(dir, string(filepath.ListSeparator)) {
			return &InputError{"directory of PATH", dir, "no separator in it"}
		}
	}
	for name, value := range s.Env {
		if !reEnv.MatchString(name) {
			return &InputError{"variable", name, "letters, digits and '_'"}
		}
		if err := text("value of "+name, value, false); err != nil {
			return err
		}
	}
	for _, dir := range s.Writable {
		if err := text("writable directory", dir, true); err != nil {
			return err
		}
	}
	for _, c := range s.Credentials {
		if !reName.MatchString(c.Name) {
			return &InputError{"credential", c.Name, "letters, digits, '_', '.' and '-'"}
		}
		if err := text("credential "+c.Name, c.Path, true); err != nil {
			return err
		}
	}
	for _, k := range s.Sockets {
		if !reName.MatchString(k.Name) {
			return &InputError{"socket", k.Name, "letters, digits, '_', '.' and '-'"}
		}
		if err := text("socket "+k.Name, k.Listen, false); err != nil || strings.ContainsAny(k.Listen, " \t") || k.Listen == "" {
			return &InputError{"socket " + k.Name, k.Listen, "address:port, or an absolute path without spaces"}
		}
	}
	return s.Hardening.Check()
}

// Check refuses a profile that there is none of; "" is one.
func (h Hardening) Check() error {
	switch h {
	case "", Balanced, Agent, Unlocked:
		return nil
	}
	return &InputError{"hardening", string(h), "balanced, agent or none"}
}

// text refuses what would end a line or be invisible in it.
func text(field, value string, path bool) error {
	for _, r := range value {
		if unicode.IsControl(r) || r == unicode.ReplacementChar || r == '\u2028' || r == '\u2029' {
			return &InputError{field, value, "no control characters"}
		}
	}
	if path && (!filepath.IsAbs(value) || filepath.Clean(value) != value) {
		return &InputError{field, value, "an absolute path without . and .."}
	}
	if path && strings.TrimSpace(value) != value {
		return &InputError{field, value, "no space at either end"}
	}
	if (path || field == "description") && strings.HasSuffix(value, `\`) { // it would go on in the next line
		return &InputError{field, value, "no backslash at the end"}
	}
	return nil
}
