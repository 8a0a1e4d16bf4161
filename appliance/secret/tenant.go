// SPDX-License-Identifier: MIT

package secret

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// Tenant is a home in the role in which a task is served for it. Who asks decides the role
// from the routing identity, not from HERMES_HOME (R4, R5); this package never guesses it.
type Tenant struct {
	Home    home.Home
	Foreign bool // a routed profile; false = the profile the process was started for
}

// Key returns the identity of a home directory: its real path, on Windows without case. What
// does not exist yet is resolved as far as it does. The result is never remembered, so that a
// link that is moved is noticed (C2, C3).
func Key(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = filepath.Clean(dir)
	}
	path := realpath(abs)
	if runtime.GOOS == "windows" {
		return strings.ToLower(path)
	}
	return path
}

func realpath(dir string) string {
	var rest []string
	for at := dir; ; {
		if path, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(append([]string{path}, rest...)...)
		}
		up := filepath.Dir(at)
		if up == at {
			return dir
		}
		rest = append([]string{filepath.Base(at)}, rest...)
		at = up
	}
}

// locate returns the tenant's key. A routed profile whose home is gone has none: nothing may
// be bound for it (R12). The launch home may come into being later.
func (t Tenant) locate() (string, error) {
	key := Key(t.Home.Dir)
	if !t.Foreign {
		return key, nil
	}
	if info, err := os.Stat(key); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%w: %s", home.ErrNoProfile, t.Home.Dir)
	}
	if p, err := t.Home.NamedProfile(t.Home.Profile); err != nil && p.Dir == t.Home.Dir {
		return "", err // a tombstone, or nothing in it that makes it a profile
	}
	return key, nil
}

// moved reports whether a home that had a key has another one by now: what was read below
// the old path may be another home's (C2).
func (t Tenant) moved(key string) bool { return Key(t.Home.Dir) != key }
