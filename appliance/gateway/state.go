// SPDX-License-Identifier: MIT

package gateway

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Phase is what a gateway is doing: gateway_state of its state file.
type Phase string

// The phases.
const (
	Starting      Phase = "starting"
	Up            Phase = "running"
	Draining      Phase = "draining"
	Stopped       Phase = "stopped"
	Degraded      Phase = "degraded"
	StartupFailed Phase = "startup_failed"
)

// PlatformState is what others may know of one adapter of one profile.
type PlatformState struct {
	State     string `json:"state"` // "connected", "retrying", "failed", "unserved", "stopped"
	Code      string `json:"error_code,omitempty"`
	Message   string `json:"error_message,omitempty"` // holds no secret
	Attention bool   `json:"needs_attention,omitempty"`
	Retrying  string `json:"retrying_since,omitempty"` // RFC 3339
	Listener  string `json:"listener_base,omitempty"`  // e.g. http://127.0.0.1:8642
	Updated   string `json:"updated_at,omitempty"`     // RFC 3339
}

// Status is gateway_state.json of a home: what this gateway says of itself.
type Status struct {
	Record

	Phase     Phase                    `json:"gateway_state"`
	Reason    string                   `json:"exit_reason,omitempty"`
	Restart   bool                     `json:"restart_requested,omitempty"`
	Agents    int                      `json:"active_agents"` // turns that run now
	Platforms map[string]PlatformState `json:"platforms"`     // by "platform", or "profile:platform" of a named profile
	Profiles  []string                 `json:"served_profiles"`
	Notices   []string                 `json:"notices,omitempty"` // what a person should know, e.g. a newer config
	Version   string                   `json:"code_version,omitempty"`
	Revision  string                   `json:"code_sha,omitempty"`
	Started   string                   `json:"started_at,omitempty"`
	Updated   string                   `json:"updated_at"`
	WriterPID int                      `json:"writer_pid"`
	WriterAt  int64                    `json:"writer_start_time"`
}

// settleTime is how long changes gather before the file is written.
const settleTime = 100 * time.Millisecond

// StateFile keeps gateway_state.json up to date. Keys of the file that it does not know stay
// (desired_state is somebody else's word, H#42675). It is safe for concurrent use.
type StateFile struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	mu      sync.Mutex
	status  Status
	timer   *time.Timer
	round   int // how often a timer was set or stopped: one that is late finds another
	writing sync.Mutex
}

// statePath is where a home's gateway says how it is.
func statePath(h home.Home) string { return filepath.Join(h.Dir, "gateway_state.json") }

// NewStateFile returns the state file of a home; nothing is written yet.
func NewStateFile(h home.Home, first Status, log *slog.Logger, now func() time.Time) *StateFile {
	if first.Platforms == nil {
		first.Platforms = map[string]PlatformState{}
	}
	first.Started = now().Format(time.RFC3339)
	return &StateFile{path: statePath(h), log: log, now: now, status: first}
}

// Update changes the status. The file follows within [settleTime], unless Flush comes first.
func (f *StateFile) Update(change func(*Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.status)
	if f.timer == nil {
		f.round++
		round := f.round
		f.timer = time.AfterFunc(settleTime, func() { f.settle(round) })
	}
}

// settle writes what gathered until a timer ran out.
func (f *StateFile) settle(round int) {
	if err := f.write(round); err != nil {
		f.log.Warn("state file not written", "file", f.path, "error", err)
	}
}

// SetPlatform says how an adapter is.
func (f *StateFile) SetPlatform(name string, p PlatformState) {
	p.Updated = f.now().Format(time.RFC3339)
	f.Update(func(s *Status) { s.Platforms[name] = p })
}

// Status returns the present status; its maps and lists are the caller's.
func (f *StateFile) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Platforms = maps.Clone(s.Platforms)
	s.Profiles = append([]string(nil), s.Profiles...)
	s.Notices = append([]string(nil), s.Notices...)
	return s
}

// Flush writes the file now. Nothing is written afterwards before the next change.
func (f *StateFile) Flush() error { return f.write(0) }

// write writes the file, for a timer only if it has not been written since that was set.
func (f *StateFile) write(round int) error {
	f.writing.Lock() // one at a time, so that the last one to write has the newest
	defer f.writing.Unlock()
	f.mu.Lock()
	if round != 0 && round != f.round {
		f.mu.Unlock()
		return nil
	}
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
		f.round++
	}
	f.status.Updated = f.now().Format(time.RFC3339Nano)
	f.status.WriterPID, f.status.WriterAt = f.status.PID, f.status.StartTime
	mine, err := json.Marshal(f.status)
	f.mu.Unlock()
	if err != nil {
		return err
	}
	all := map[string]json.RawMessage{}
	if old, st, err := atomicfile.Read(f.path); err == nil && st.Exists {
		if json.Unmarshal(old, &all) != nil {
			all = map[string]json.RawMessage{} // a torn file of another writer holds nothing to keep
		}
	}
	for _, gone := range []string{"exit_reason", "restart_requested", "notices"} {
		delete(all, gone) // ours, and left out when empty
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(mine, &fields); err != nil {
		return err
	}
	maps.Copy(all, fields)
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Writer{}.Write(f.path, append(data, '\n'), atomicfile.Options{Mode: 0o600})
}

// ReadStatus reads the state file of a home. The error wraps [fs.ErrNotExist] if there is none.
func ReadStatus(h home.Home) (Status, error) {
	var s Status
	data, st, err := atomicfile.Read(statePath(h))
	if err != nil {
		return s, err
	}
	if !st.Exists {
		return s, fmt.Errorf("%s: %w", statePath(h), fs.ErrNotExist)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("%s: want JSON: %w", statePath(h), err)
	}
	return s, nil
}
