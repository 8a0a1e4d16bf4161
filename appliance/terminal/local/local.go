// SPDX-License-Identifier: MIT

// Package local is the terminal backend of this machine: each bash is a child of the
// appliance in a session of its own, killed with all it started by package process. It never
// looks at the appliance's own environment and never kills anything itself.
package local

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
)

// Config is what the backend is made of.
type Config struct {
	Registry *process.Registry
	Temp     string   // an existing directory, in which every bash starts
	Bash     string   // a path or a name on the command's PATH; "" = bash
	Home     string   // the home directory of commands; "" = unknown
	Path     []string // more directories for the end of PATH: managed runtimes
}

// Host starts bash on this machine.
type Host struct{ c Config }

// New returns the backend.
func New(c Config) *Host {
	if c.Bash == "" {
		c.Bash = "bash"
	}
	return &Host{c}
}

// Describe says what this is.
func (h *Host) Describe() terminal.Description {
	return terminal.Description{Backend: "local", Home: h.c.Home, PTY: hasPTY}
}

// Spawn starts bash.
func (h *Host) Spawn(_ context.Context, s terminal.Spawn) (terminal.Job, error) {
	args := []string{h.c.Bash}
	if s.Login {
		args = append(args, "-l")
	}
	cmd := process.Cmd{
		Name: s.Name, Kind: s.Kind, Args: append(args, "-c", s.Script), Env: h.complete(s.Env), Dir: s.Dir,
		Stdin: s.Stdin, StdinPipe: s.StdinPipe, Stdout: s.Stdout, Stderr: s.Stderr, Merge: s.Stderr == nil,
	}
	if cmd.Dir == "" {
		cmd.Dir = h.c.Temp // the wrapper goes where it should; this one exists
	}
	if s.PTY {
		return startPTY(h.c.Registry, cmd, s.Stdin)
	}
	child, err := h.c.Registry.Start(cmd)
	if err != nil {
		return nil, told(err)
	}
	return child, nil
}

// told turns a missing bash into something that a person can act on.
func told(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return &terminal.ConnError{Backend: "local", Reason: "there is no bash on the PATH of commands", Hint: "install bash", Err: err}
	}
	return err
}

// Restore is never asked for: this machine does not go away.
func (h *Host) Restore(context.Context) error { return nil }

// Close does nothing: commands belong to the registry.
func (h *Host) Close(context.Context) error { return nil }

// complete drops empty entries from PATH, which would mean the current directory, and puts
// at its end what is missing.
func (h *Host) complete(env []string) []string {
	out := slices.Clone(env)
	more := slices.Concat(standardPath(), h.c.Path)
	if h.c.Home != "" {
		more = append(more, filepath.Join(h.c.Home, ".local", "bin"))
	}
	at := slices.IndexFunc(out, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	if at < 0 {
		if len(more) == 0 {
			return out
		}
		out = append(out, "PATH=")
		at = len(out) - 1
	}
	dirs := filepath.SplitList(strings.TrimPrefix(out[at], "PATH="))
	dirs = slices.DeleteFunc(dirs, func(d string) bool { return d == "" })
	for _, d := range more {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	out[at] = "PATH=" + strings.Join(dirs, string(filepath.ListSeparator))
	return out
}

func standardPath() []string {
	if filepath.Separator != '/' {
		return nil
	}
	return []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"}
}

// TempDir is where the backend keeps its files: the profile's terminal.temp_dir, the
// commands' own TMPDIR, TMP or TEMP, the cache of the home, or the system's, which is
// returned unseen. lookup is asked for variables; usable says whether a directory exists and
// can be written.
func TempDir(lookup func(string) string, home, system string, usable func(string) bool) string {
	for _, name := range []string{"TERMINAL_TEMP_DIR", "TMPDIR", "TMP", "TEMP"} {
		if d := lookup(name); filepath.IsAbs(d) && usable(d) {
			return d
		}
	}
	if d := filepath.Join(home, "cache", "terminal"); home != "" && usable(d) {
		return d
	}
	return system
}
