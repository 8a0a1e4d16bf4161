// SPDX-License-Identifier: MIT

// Package home knows where a Hermes home keeps its files, which profiles live in it, and
// whether somebody else manages it. It reads; the only thing it ever writes is its own
// state directory with the lock. It never reads a secret and never interprets the config.
package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Default is the name by which reports call the home that is no named profile.
const Default = "default"

// StateDir is where this program keeps its own files in a home; upstream ignores it.
const StateDir = ".appliance"

// Environment variables that choose and describe a home.
const (
	EnvHome    = "HERMES_HOME"
	EnvManaged = "HERMES_MANAGED"
)

// Home is one home directory: the default one or a profile's.
type Home struct {
	Dir     string // absolute
	Profile string // [Default] or the profile's id
}

// ErrNoProfile says that a profile does not exist, or was deleted.
var ErrNoProfile = errors.New("no such profile")

// Config is the path of config.yaml.
func (h Home) Config() string { return filepath.Join(h.Dir, "config.yaml") }

// Env is the path of .env.
func (h Home) Env() string { return filepath.Join(h.Dir, ".env") }

// Soul is the path of SOUL.md.
func (h Home) Soul() string { return filepath.Join(h.Dir, "SOUL.md") }

// Plugins is the directory of installed plugins.
func (h Home) Plugins() string { return filepath.Join(h.Dir, "plugins") }

// Backups is the directory of config backups, shared with upstream.
func (h Home) Backups() string { return filepath.Join(h.Dir, "backups", "config") }

// State is this program's own directory.
func (h Home) State() string { return filepath.Join(h.Dir, StateDir) }

// Locate returns the default home: dir if given, else $HERMES_HOME, else ~/.hermes. It need
// not exist, but is no file. getenv is asked for HERMES_HOME and for the user's home directory.
func Locate(dir string, getenv func(string) string) (Home, error) {
	if dir == "" {
		dir = getenv(EnvHome)
	}
	if dir == "" {
		user := userHome(getenv)
		if user == "" {
			return Home{}, fmt.Errorf("no home directory: set %s or pass --home DIR", EnvHome)
		}
		dir = filepath.Join(user, ".hermes")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Home{}, err
	}
	if info, err := os.Stat(abs); err == nil && !info.IsDir() {
		return Home{}, fmt.Errorf("%s is a file; a home is a directory", abs)
	}
	return Home{Dir: abs, Profile: nameOf(abs)}, nil
}

func userHome(getenv func(string) string) string {
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if v := getenv(name); v != "" {
			return v
		}
	}
	return ""
}

// nameOf is the profile whose home dir is: the last element of <root>/profiles/<id>.
func nameOf(dir string) string {
	if id := filepath.Base(dir); filepath.Base(filepath.Dir(dir)) == "profiles" && ValidID(id) {
		return id
	}
	return Default
}

// Root returns the default home that h belongs to: itself unless it is a profile.
func (h Home) Root() Home {
	if h.Profile == Default {
		return h
	}
	return Home{Dir: filepath.Dir(filepath.Dir(h.Dir)), Profile: Default}
}

// ValidID reports whether a name may be a profile's id: 1 to 64 lower case letters, digits,
// "_" and "-", of which the first is a letter or a digit.
func ValidID(id string) bool {
	for i := range len(id) {
		c := id[i]
		alnum := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !alnum && (i == 0 || c != '_' && c != '-') {
			return false
		}
	}
	return len(id) >= 1 && len(id) <= 64
}

// markers are the files of which one makes a directory a profile.
func markers() []string {
	return []string{"config.yaml", ".env", "SOUL.md", "profile.yaml", "auth.json", "state.db"}
}

// NamedProfile returns the home of a profile below h's root; [Default] is the root itself. The
// error wraps [ErrNoProfile].
func (h Home) NamedProfile(id string) (Home, error) {
	root := h.Root()
	if id == Default {
		return root, nil
	}
	p := Home{Dir: filepath.Join(root.Dir, "profiles", id), Profile: id}
	if !ValidID(id) {
		return p, fmt.Errorf("%w: %q (a name has lower-case letters, digits, - and _, at most 64)", ErrNoProfile, id)
	}
	live, err := p.live()
	if err != nil {
		return p, err
	}
	if !live {
		return p, fmt.Errorf("%w: %q in %s (it needs a config.yaml to be one; hermes-appliance profile list shows those that are)", ErrNoProfile, id, filepath.Dir(p.Dir))
	}
	return p, nil
}

// live reports whether a profile exists: it has a marker and no tombstone.
func (h Home) live() (bool, error) {
	if gone, err := h.deleted(); gone || err != nil {
		return false, err
	}
	return h.marked()
}

// deleted reports whether a profile has a tombstone.
func (h Home) deleted() (bool, error) {
	_, err := os.Lstat(filepath.Join(filepath.Dir(h.Dir), ".deleted", h.Profile))
	if errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
		return false, nil
	}
	return err == nil, err
}

// marked reports whether a directory has a file that makes it a profile.
func (h Home) marked() (bool, error) {
	for _, m := range markers() {
		if _, err := os.Lstat(filepath.Join(h.Dir, m)); err == nil {
			return true, nil
		} else if !errors.Is(err, fs.ErrNotExist) && !isNotDir(err) {
			return false, err
		}
	}
	return false, nil
}

// Profiles returns the homes of all live profiles, by name, without the default one.
// Deleted profiles, and directories that are no profile, are left out, also one that is
// called "default": that name means the root. A profile that cannot be looked at is
// returned, so that its reader reports why. Where tombstones cannot be looked for, nobody
// knows which profiles live, and that is an error.
func (h Home) Profiles() ([]Home, error) {
	dir := filepath.Join(h.Root().Dir, "profiles")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Home
	for _, e := range entries { // by name
		p := Home{Dir: filepath.Join(dir, e.Name()), Profile: e.Name()}
		if !ValidID(e.Name()) || e.Name() == Default {
			continue
		}
		gone, err := p.deleted()
		if err != nil {
			return nil, err
		}
		if gone {
			continue
		}
		if marked, err := p.marked(); marked || err != nil {
			out = append(out, p)
		}
	}
	return out, nil
}
