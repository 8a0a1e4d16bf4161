// SPDX-License-Identifier: MIT

package secret

import (
	"fmt"
	"os"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// Tenant is a home in the role in which a task is served for it. Who asks decides the role
// from the routing identity, not from HERMES_HOME (R4, R5); this package never guesses it.
type Tenant struct {
	Home    home.Home
	Foreign bool // a routed profile; false = the profile the process was started for
}

// locate returns the tenant's key. A routed profile whose home is gone has none: nothing may
// be bound for it (R12). The launch home may come into being later.
func (t Tenant) locate() (string, error) {
	key := home.Key(t.Home.Dir)
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
func (t Tenant) moved(key string) bool { return home.Key(t.Home.Dir) != key }
