// SPDX-License-Identifier: MIT

package webhook

import (
	"sync"
	"time"
)

const (
	// keepDeliveries is how long a delivery is known again (upstream: an hour; its senders
	// retry for longer).
	keepDeliveries = 24 * time.Hour
	// mostDeliveries is how many deliveries of one route are remembered; then the oldest go.
	mostDeliveries = 10_000
)

// laneKey is a route of a profile. Only routes that there are get a lane.
type laneKey struct{ profile, route string }

// lanes keep apart what one route may and did do from every other's.
type lanes struct {
	mu sync.Mutex
	of map[laneKey]*lane
}

func (l *lanes) get(profile, route string) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := laneKey{profile, route}
	if l.of[k] == nil {
		l.of[k] = &lane{seen: map[string]*delivery{}}
	}
	return l.of[k]
}

// lane is the memory of one route.
type lane struct {
	mu     sync.Mutex
	tokens float64   // requests that may come at once
	filled time.Time // when tokens was right; zero = never
	seen   map[string]*delivery
	age    []aged    // oldest first
	told   time.Time // when a refusal was last logged
	legacy bool      // it was said that the proofs of this route hold no time
}

type aged struct {
	d  *delivery
	id string
	at time.Time
}

// delivery is one event, however often it is sent. mu is held while it is being taken in, so
// that of several at a time one starts a turn and the others learn of it.
type delivery struct {
	mu   sync.Mutex
	done bool
	run  string // "" = none was needed
}

// pass takes one request of what the route may have in a minute; wait is how long there is
// none otherwise.
func (l *lane) pass(perMinute int, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	most, each := float64(perMinute), time.Minute/time.Duration(perMinute)
	if l.filled.IsZero() {
		l.tokens = most
	} else if since := now.Sub(l.filled); since > 0 {
		l.tokens = min(most, l.tokens+float64(since)/float64(each))
	}
	l.filled = now
	if l.tokens >= 1 {
		l.tokens--
		return 0, true
	}
	return time.Duration((1 - l.tokens) * float64(each)), false
}

// delivery finds an event by its id, or notes it.
func (l *lane) delivery(id string, now time.Time) *delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.age) > 0 && (now.Sub(l.age[0].at) > keepDeliveries || len(l.age) >= mostDeliveries) {
		if old := l.age[0]; l.seen[old.id] == old.d {
			delete(l.seen, old.id)
		}
		l.age = l.age[1:]
	}
	d := l.seen[id]
	if d == nil {
		d = &delivery{}
		l.seen[id] = d
		l.age = append(l.age, aged{d, id, now})
	}
	return d
}

// forget lets an event come again: its turn failed.
func (l *lane) forget(id string, d *delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[id] == d {
		delete(l.seen, id)
	}
}

// tell reports whether a refusal is to be logged: senders that nobody knows must not fill the
// log.
func (l *lane) tell(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.told.IsZero() && now.Sub(l.told) < time.Minute {
		return false
	}
	l.told = now
	return true
}

// tellLegacy reports, once, that it is to be said that the route's proofs hold no time.
func (l *lane) tellLegacy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.legacy
	l.legacy = true
	return first
}
