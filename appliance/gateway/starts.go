// SPDX-License-Identifier: MIT

package gateway

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Storm says how many starts in what time are too many (services spec §2.8).
type Storm struct {
	Starts int           // 0 = 5
	Window time.Duration // 0 = two minutes
}

// The back-off of a storm.
const (
	stormUnit = 5 * time.Second
	stormMost = 300 * time.Second
)

// Start records that the gateway of a home starts now and returns how long it must wait first:
// nothing, until more than Starts starts fall into the window, then 10 s, doubling up to 300 s.
// A ledger that cannot be read or written delays nothing.
func (s Storm) Start(h home.Home, now time.Time) (time.Duration, error) {
	if s.Starts <= 0 {
		s.Starts = 5
	}
	if s.Window <= 0 {
		s.Window = 2 * time.Minute
	}
	path := startsFile(h)
	data, _, err := atomicfile.Read(path)
	if err != nil {
		return 0, err
	}
	var kept []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		at, err := strconv.ParseFloat(line, 64)
		if age := now.Sub(time.UnixMilli(int64(at * 1000))); err == nil && age >= 0 && age <= s.Window {
			kept = append(kept, line)
		}
	}
	kept = append(kept, strconv.FormatFloat(float64(now.UnixMilli())/1000, 'f', 3, 64))
	err = atomicfile.Writer{}.Write(path, []byte(strings.Join(kept, "\n")+"\n"), atomicfile.Options{Mode: 0o600})
	over := len(kept) - s.Starts
	if over <= 0 {
		return 0, err
	}
	return min(stormMost, stormUnit*time.Duration(math.Pow(2, float64(min(over, 6))))), err
}

func startsFile(h home.Home) string { return filepath.Join(h.Dir, "gateway-starts.log") }
