// SPDX-License-Identifier: MIT

package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Identity says whose container it is. Two identities never share a container, and one has
// at most one.
type Identity struct {
	// Home is the key of the home ([profile.KeyOf]). Two homes never share a container, even
	// if their profiles have the same name (hermes-agent#79816).
	Home    string
	Profile string // the profile's id
	Task    string // "" = default
	// SharedKey takes the place of home and profile for profiles that are meant to share one
	// container. "" = not shared.
	SharedKey string

	private string // of one Engine, for containers that nobody else may use
}

// Spec is the container that is wanted.
type Spec struct {
	Identity

	Image  string
	Pinned bool // somebody chose the image: a container made from another one is replaced

	// Data is the directory on this host for what a container leaves behind: /root and
	// /workspace are kept in it, also when the container is replaced. "" = nothing is kept.
	Data string
	// Keep leaves the container running when its user is done, for the next process. Without
	// it a container is one Engine's own: no other finds it.
	Keep bool

	// Project is a directory of this host to work in, bound at /workspace or beside it. "" = none.
	Project string
	Volumes []string // SOURCE:TARGET[:OPTIONS] as the engine takes them; what has no colon is ignored
	Mounts  []Mount  // files and directories that this program brings; a missing source is skipped
	Workdir string   // where commands start, in the container; "" = where Project is, or /root without one

	// Env is written into the container and can be read by whoever can inspect it, for as
	// long as it lives. Secrets belong into [Exec.Env].
	Env []string

	CPUs     float64 // 0 = no limit
	MemoryMB int64   // 0 = no limit
	DiskMB   int64   // of the container's own layer, where the engine's storage can limit it; 0 = no limit
	Pids     int64   // processes and threads; 0 = [DefaultPids]
	Shm      string  // size of /dev/shm like 1g; "" or "0" = the engine's default

	NoNetwork  bool
	User       string   // UID:GID to run as; "" = the image's
	SnapCompat bool     // without --init and no-new-privileges, which Docker from snap cannot do
	ExtraArgs  []string // options of docker run, those of [ExtraFlags]; they win over all above
}

// Mount is a directory or file of this host that is readable in the container.
type Mount struct {
	Source, Target string
	File           bool // Source must be a file
	Writable       bool
}

// DefaultPids is the limit of processes and threads. A desktop has 44, one browser page 212,
// a browser of the agent's beside it 488; at 256 every further command failed.
const DefaultPids = 2048

// check finds what no engine could make a container of.
func (s Spec) check() error {
	bad := func(format string, args ...any) error {
		return &EngineError{Kind: ErrConfig, Op: "make a sandbox", Msg: fmt.Sprintf(format, args...)}
	}
	switch {
	case s.SharedKey == "" && (s.Home == "" || s.Profile == ""):
		return bad("no home or profile was given")
	case strings.TrimSpace(s.Image) == "":
		return bad("terminal.docker_image is empty; expected the name of an image")
	case s.Workdir != "" && !path.IsAbs(s.Workdir):
		return bad("the directory %q is relative; expected one that begins with /", s.Workdir)
	case s.CPUs < 0 || s.MemoryMB < 0 || s.DiskMB < 0 || s.Pids < 0:
		return bad("terminal.container_cpu, container_memory and container_disk cannot be negative")
	}
	for _, kv := range s.Env {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" || strings.ContainsRune(kv, 0) {
			return bad("an environment entry is not NAME=VALUE")
		}
	}
	return nil
}

// clone returns a copy that shares nothing.
func (s Spec) clone() Spec {
	s.Volumes, s.Mounts, s.Env, s.ExtraArgs = slices.Clone(s.Volumes), slices.Clone(s.Mounts), slices.Clone(s.Env), slices.Clone(s.ExtraArgs)
	return s
}

// Outcome is how [Engine.Ensure] came by a container.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "created"   // there was none
	Reused    Outcome = "reused"    // it was running
	Started   Outcome = "started"   // it was there and stopped; its processes and /tmp are new
	Recreated Outcome = "recreated" // it took the place of another one, of which only Data is left
)

// State is what [Engine.Ensure] found and did.
type State struct {
	Outcome Outcome
	Image   string   // the image that the container was made from
	Wanted  string   // the image of the Spec
	Kept    bool     // Image is not Wanted, and the container was kept all the same
	Notes   []string // what a person should know, one line each, without secrets
}
