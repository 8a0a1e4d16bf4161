// SPDX-License-Identifier: MIT

package gateway

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Marker is a note to a running gateway about the signal that follows it.
type Marker string

// The markers, by the name of their file in the home.
const (
	// PlannedStop says that somebody wants the gateway stopped: it exits 0.
	PlannedStop Marker = ".gateway-planned-stop.json"
	// Takeover says that another gateway takes the home over: it exits 0.
	Takeover Marker = ".gateway-takeover.json"
)

// markerTTL is how long a marker counts (services spec §2.1).
const markerTTL = 60 * time.Second

// note is the content of a marker.
type note struct {
	TargetPID       int     `json:"target_pid"`
	TargetStartTime int64   `json:"target_start_time"`
	TargetHome      string  `json:"target_hermes_home"`
	WrittenAt       float64 `json:"written_at"` // seconds since 1970
}

func (m Marker) path(h home.Home) string { return filepath.Join(h.Dir, string(m)) }

// Leave writes the marker for a gateway into its home. Without it the signal that follows
// counts as one that nobody planned, so a caller whose marker fails must not send it.
func (m Marker) Leave(h home.Home, target Record, now time.Time) error {
	data, err := json.Marshal(note{target.PID, target.StartTime, h.Dir, float64(now.UnixMilli()) / 1000})
	if err != nil {
		return err
	}
	return atomicfile.Writer{}.Write(m.path(h), append(data, '\n'), atomicfile.Options{Mode: 0o600})
}

// Take reports whether the marker was left for this gateway within the last minute, and
// removes it: it counts once. One that was left for another process stays for that one while
// it may still count, and one that is too old is removed.
func (m Marker) Take(h home.Home, self Record, now time.Time) (bool, error) {
	data, st, err := atomicfile.Read(m.path(h))
	if err != nil || !st.Exists {
		return false, err
	}
	var n note
	bad := json.Unmarshal(data, &n) != nil
	age := now.Sub(time.UnixMilli(int64(n.WrittenAt * 1000)))
	fresh := !bad && age.Abs() <= markerTTL
	mine := self.Same(Record{PID: n.TargetPID, StartTime: n.TargetStartTime}) && (n.TargetHome == "" || n.TargetHome == h.Dir)
	if fresh && !mine {
		return false, nil
	}
	return fresh && mine, errors.Join(atomicfile.Writer{}.Remove(m.path(h)))
}
