// SPDX-License-Identifier: MIT

// Package generation remembers what runs on a home: the program, the config with its version,
// the units of the service, the image of the sandbox. Each change of it is one generation below
// .appliance/generations, with a manifest and the bytes that are needed to go back to all of it
// together. Going to another state (an older generation, or a new program) is one [Activation]:
// journalled, undone when the gateway does not come up on it, and settled by the next start
// when it was cut off.
//
// It never copies a secret: .env and SOUL.md are known by their hash, and only what a migration
// changed in them is taken back, from that migration's own backup. It knows nothing of the
// runtime: how a running gateway is asked, a [Fleet] tells it. As root it never takes a unit
// from a home that another user can write.
package generation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// formatVersion is that of manifests and journals. Another one is refused, never guessed.
const formatVersion = 1

// How much is kept. The present generation is always among it.
const (
	KeepGenerations = 5
	KeepPrograms    = 2 // different ones
)

// Reason is which command made a generation.
type Reason string

// The reasons.
const (
	Found         Reason = "found" // nobody recorded it: changed by hand, or before the first record
	Install       Reason = "install"
	Uninstall     Reason = "uninstall"
	Migrate       Reason = "migrate"
	Up            Reason = "up"
	SandboxSwitch Reason = "sandbox switch"
	Update        Reason = "update"
	Rollback      Reason = "rollback"
)

// Manifest is one generation.
type Manifest struct {
	Version int       `json:"version"`
	Number  int       `json:"number"`
	Time    time.Time `json:"time"`
	Reason  Reason    `json:"reason"`
	Program string    `json:"program"` // that recorded it
	Binary  Binary    `json:"binary"`
	Config  Config    `json:"config"`
	Units   []Unit    `json:"units"`
	Sandbox Sandbox   `json:"sandbox"`
}

// Binary is a program file.
type Binary struct {
	Path     string `json:"path"` // absolute
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	SHA256   string `json:"sha256"`
}

// Config is what config.yaml was.
type Config struct {
	Stamp  int    `json:"stamp"`            // 0 = none that can be read
	SHA256 string `json:"sha256,omitempty"` // "" = there was no file
	// Beside has the SHA-256 of .env and SOUL.md, where there are such files.
	Beside map[string]string `json:"beside,omitempty"`
}

// Unit is a file of a service manager.
type Unit struct {
	Path   string `json:"path"` // absolute
	SHA256 string `json:"sha256"`
}

// Sandbox is the image that a home's commands run in; nothing of it where they do not run in
// Docker.
type Sandbox struct {
	Image  string `json:"image,omitempty"`
	Pin    string `json:"pin,omitempty"`    // who chose it; "" = it follows the default
	Digest string `json:"digest,omitempty"` // of the image as the engine had it; "" = unknown
}

// Seen is what a caller knows of the present state; the rest is read from the home.
type Seen struct {
	Binary Binary
	// Units are the files of the service that are there; nil = those of the last generation.
	Units []string
	// Sandbox is nil = that of the last generation. Where its Digest is "" nobody asked.
	Sandbox *Sandbox
}

// Store is the generations of one home. It is safe for concurrent use, also from several
// processes.
type Store struct {
	Home     home.Home
	Migrator migrate.Migrator // of the config
	Program  string           // name and version of this program, for manifests
	Now      func() time.Time
	Files    atomicfile.Writer
	// Reload has the service manager read its units again; nil = nobody has to.
	Reload func(ctx context.Context, units []string) error
}

// ErrNone says that a home has no such generation.
var ErrNone = errors.New("no such generation")

// Refusal is an error that says what removes the obstacle. Nothing was changed.
type Refusal struct {
	File string // or program
	Msg  string
	Fix  string
	Code exitcode.Code
}

func (r *Refusal) Error() string {
	s := r.Msg
	if r.File != "" {
		s = r.File + ": " + s
	}
	if r.Fix != "" {
		s += "; " + r.Fix
	}
	return s
}

// ExitCode is Code, else [exitcode.Error].
func (r *Refusal) ExitCode() exitcode.Code {
	if r.Code == exitcode.OK {
		return exitcode.Error
	}
	return r.Code
}

func refuse(file, fix, format string, args ...any) error {
	return &Refusal{File: file, Msg: fmt.Sprintf(format, args...), Fix: fix}
}

// unitDirs are the ends of directories in which service managers look for their files.
func unitDirs() []string {
	return []string{
		"/systemd/system", "/systemd/user", "/Library/LaunchAgents", "/Library/LaunchDaemons", "/init.d", "/conf.d",
	}
}

// IsUnit reports whether a path can be that of a unit. A manifest that anybody but us wrote
// must not lead us anywhere else.
func IsUnit(path string) bool {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return false
	}
	in := func(dir string) bool {
		return slices.ContainsFunc(unitDirs(), func(end string) bool { return strings.HasSuffix(dir, end) })
	}
	dir := filepath.ToSlash(filepath.Dir(path))
	return in(dir) || strings.HasSuffix(dir, ".d") && in(filepath.ToSlash(filepath.Dir(dir))) // a drop-in
}

// absent reports whether an error means that a file is not there.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
