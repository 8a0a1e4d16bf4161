// SPDX-License-Identifier: MIT

package terminal

import (
	"strings"
	"sync"
	"time"
)

// Limits of watching: a notice costs a turn of the agent.
const (
	watchEvery   = 15 * time.Second // at most one notice in this time
	watchStrikes = 3                // times in a row that more came: then no more
	watchNotices = 8                // in the life of a command
)

// watch looks for patterns in lines. It is safe for concurrent use.
type watch struct {
	patterns []string
	now      func() time.Time

	mu       sync.Mutex
	last     time.Time
	struck   bool // something was left out since last
	strikes  int
	left     int // how much was
	notices  int
	disabled bool
}

// sighting is what a line was found to be.
type sighting struct {
	pattern string // "" = nothing to tell
	left    int    // how many were left out since the last notice
	over    bool   // it was the last notice, or none came and there will be none
}

func (w *watch) see(line string) sighting {
	var found string
	for _, p := range w.patterns {
		if p != "" && strings.Contains(line, p) {
			found = p
			break
		}
	}
	if found == "" {
		return sighting{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	switch {
	case w.disabled:
		return sighting{}
	case !w.last.IsZero() && now.Sub(w.last) < watchEvery:
		w.left++
		if !w.struck {
			w.struck = true
			w.strikes++
		}
		w.disabled = w.strikes >= watchStrikes
		return sighting{over: w.disabled}
	}
	if !w.struck {
		w.strikes = 0
	}
	w.struck, w.last = false, now
	w.notices++
	w.disabled = w.notices >= watchNotices
	s := sighting{pattern: found, left: w.left, over: w.disabled}
	w.left = 0
	return s
}

// state says whether it is still looking, and whether it has ever found something.
func (w *watch) state() (looking, hit bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.disabled, w.notices > 0
}
