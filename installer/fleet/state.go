// SPDX-License-Identifier: MIT

package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

func statePath(h home.Home) string { return filepath.Join(h.Dir, "gateway_state.json") }

// served returns the profiles that the live gateway of the default home says it serves. What
// another process wrote is no word of this one.
func served(h home.Home, pid int) []string {
	data, st, err := atomicfile.Read(statePath(h))
	if err != nil || !st.Exists || pid == 0 {
		return nil
	}
	var s struct {
		PID      int      `json:"pid"`
		Writer   int      `json:"writer_pid"`
		Profiles []string `json:"served_profiles"`
	}
	if json.Unmarshal(data, &s) != nil || s.PID != pid && s.Writer != pid {
		return nil
	}
	return s.Profiles
}

// clearServed takes out of gateway_state.json what only a multiplexer says: its list of
// profiles and the platforms of the named ones. Everything else stays, in its order, and so
// does who wrote it: a new stamp would make the file this process's word, on which a profile's
// own gateway parks itself (H#109473).
func (f Fleet) clearServed(profiles []string) error {
	path := statePath(f.Default)
	data, st, err := atomicfile.Read(path)
	if err != nil || !st.Exists {
		return err
	}
	top, err := members(data)
	if err != nil {
		return nil //nolint:nilerr // a torn file is nobody's word
	}
	for i, m := range top {
		switch m.key {
		case "served_profiles":
			top[i].value = json.RawMessage("[]")
		case "platforms":
			inner, err := members(m.value)
			if err != nil {
				continue
			}
			top[i].value = object(slices.DeleteFunc(inner, func(p member) bool {
				profile, _, ok := strings.Cut(p.key, ":")
				return ok && slices.Contains(profiles, profile)
			}))
		}
	}
	out := object(top)
	if bytes.Contains(bytes.TrimSpace(data), []byte("\n")) {
		var b bytes.Buffer
		if err := json.Indent(&b, out, "", "  "); err != nil {
			return err
		}
		out = b.Bytes()
	}
	if bytes.HasSuffix(data, []byte("\n")) {
		out = append(out, '\n')
	}
	if bytes.Equal(out, data) {
		return nil
	}
	return f.write(path, out)
}

// member is one key of a JSON object with its value as it is written.
type member struct {
	key   string
	value json.RawMessage
}

// members reads a JSON object in order.
func members(data []byte) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("want an object: %w", err)
	}
	var out []member
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := member{key: fmt.Sprint(t)}
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	_, err := dec.Token()
	return out, err
}

// object writes one.
func object(ms []member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range ms {
		if i > 0 {
			b.WriteByte(',')
		}
		key, _ := json.Marshal(m.key) //nolint:errcheck // text always can
		b.Write(key)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
