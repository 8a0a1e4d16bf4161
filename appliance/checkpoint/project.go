// SPDX-License-Identifier: MIT

package checkpoint

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// meta is what projects/<id>.json says. Upstream writes the same file; keys we do not know are
// kept.
type meta struct {
	Workdir   string  `json:"workdir"`
	Created   float64 `json:"created_at"` // seconds since 1970
	Touched   float64 `json:"last_touch"` // 0 = unknown, never stale
	ParentDev *uint64 `json:"workdir_parent_dev,omitempty"`
	ParentIno *uint64 `json:"workdir_parent_ino,omitempty"`
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// touch records that a project is alive, and which directory its own lies in: that tells a
// deleted project from one whose volume is not there.
func (s *Store) touch(p project) error {
	path := s.path("projects", p.id+".json")
	now := seconds(s.o.Now())
	var all map[string]json.RawMessage
	if data, err := os.ReadFile(path); err == nil {
		if json.Unmarshal(data, &all) != nil {
			all = nil // written anew
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	set := map[string]any{"workdir": p.dir, "last_touch": now}
	if _, ok := all["created_at"]; !ok {
		set["created_at"] = now
	}
	if info, err := os.Stat(filepath.Dir(p.dir)); err == nil {
		if dev, ino, ok := identity(info); ok {
			set["workdir_parent_dev"], set["workdir_parent_ino"] = dev, ino
		}
	}
	for name, raw := range all {
		if _, ok := set[name]; !ok {
			set[name] = raw
		}
	}
	data, err := json.Marshal(set)
	if err != nil {
		return err
	}
	return s.files.Write(path, data, atomicfile.Options{})
}

// entry is one project file.
type entry struct {
	project
	meta
	err error // it cannot be read, or makes no sense
}

// projects lists what is registered, by id.
func (s *Store) projects() ([]entry, error) {
	list, err := os.ReadDir(s.path("projects"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []entry
	for _, f := range list {
		id, ok := strings.CutSuffix(f.Name(), ".json")
		if !ok || len(id) != 16 || strings.Trim(id, "0123456789abcdef") != "" {
			continue
		}
		e := entry{project: project{id: id}}
		data, err := os.ReadFile(s.path("projects", f.Name()))
		if err == nil {
			err = json.Unmarshal(data, &e.meta)
		}
		if err == nil && (!filepath.IsAbs(e.Workdir) || math.IsNaN(e.Touched)) {
			err = ErrInvalid
		}
		e.err, e.dir = err, e.Workdir
		out = append(out, e)
	}
	return out, nil
}

// maxLedger is how many files the record of the agent's own writes keeps, the newest.
const maxLedger = 2000

// capLedger cuts a record of the agent's writes, which upstream keeps beside the store, to its
// limit. One that cannot be read is left alone.
func (s *Store) capLedger(id string) error {
	path := s.path("ledgers", id+".json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil || len(all) <= maxLedger {
		return nil //nolint:nilerr // upstream's file, and not ours to judge
	}
	stamp := map[string]float64{}
	for name, raw := range all {
		var e struct {
			TS float64 `json:"ts"`
		}
		if json.Unmarshal(raw, &e) == nil {
			stamp[name] = e.TS
		}
	}
	byAge := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		if stamp[a] != stamp[b] {
			if stamp[a] > stamp[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	for _, name := range byAge[maxLedger:] {
		delete(all, name)
	}
	if data, err = json.Marshal(all); err != nil {
		return err
	}
	return s.files.Write(path, data, atomicfile.Options{})
}
