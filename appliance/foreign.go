// SPDX-License-Identifier: MIT

package appliance

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/profile"
)

// inherited is what this process was started with that stands in the .env of some profile,
// name and value alike: whoever started it had loaded that file and did not tell (L9). That
// happened before the start, so each file is read once; what it says later says nothing of
// it. A file that cannot be read is read again for every child until it can be.
type inherited struct {
	mu      sync.Mutex
	started bool
	unread  []home.Home
	values  map[profile.Key]map[string]string // by home and name
}

// foreign returns the values that stand in another profile's .env, by name.
func (e *Environments) foreign(target profile.Key) (map[string][]string, error) {
	in := &e.inherited
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.started {
		profiles, err := e.o.Launch.Profiles()
		if err != nil {
			return nil, err
		}
		in.unread, in.started = append(profiles, e.o.Launch.Root()), true
		in.values = map[profile.Key]map[string]string{}
	}
	left := in.unread[:0]
	for _, h := range in.unread {
		values, err := e.files.Match(h.Env(), e.lookup)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			// Its trouble must not stop the children of the others.
			e.o.Log.Warn("unreadable .env", "profile", h.Profile, "error", err)
			left = append(left, h)
			continue
		}
		if len(values) > 0 {
			in.values[profile.KeyOf(h.Dir)] = values
		}
	}
	in.unread = left
	out := map[string][]string{}
	for key, values := range in.values {
		if key == target {
			continue
		}
		for name, value := range values {
			out[name] = append(out[name], value)
		}
	}
	return out, nil
}
