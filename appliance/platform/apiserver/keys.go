// SPDX-License-Identifier: MIT

package apiserver

import (
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

const (
	// keepKeys is how long an idempotency key is remembered (gateway spec 1.2).
	keepKeys = 24 * time.Hour
	// mostKeys is how many keys of one profile are remembered; then the oldest go.
	mostKeys = 10_000
)

// keys are the idempotency keys of POST /v1/runs, in memory: a gateway that was restarted has
// no turns of the old one either.
type keys struct {
	now func() time.Time

	mu  sync.Mutex
	of  map[string]map[string]*keyed // profile → key
	age map[string][]aged            // profile → keys, oldest first
}

type aged struct {
	key string
	at  time.Time
}

// keyed is what a key stands for. mu is held while its run is being started.
type keyed struct {
	mu  sync.Mutex
	sum [sha256.Size]byte // of the request
	run string            // "" = the start failed, the key is free
}

func newKeys(now func() time.Time) *keys {
	return &keys{now: now, of: map[string]map[string]*keyed{}, age: map[string][]aged{}}
}

// get finds a key of a profile, or makes it. A key is of one profile (and so of one API key).
func (k *keys) get(profile, key string) *keyed {
	k.mu.Lock()
	defer k.mu.Unlock()
	of := k.of[profile]
	if of == nil {
		of = map[string]*keyed{}
		k.of[profile] = of
	}
	now := k.now()
	old := k.age[profile]
	for len(old) > 0 && (now.Sub(old[0].at) > keepKeys || len(old) >= mostKeys) {
		delete(of, old[0].key)
		old = old[1:]
	}
	e := of[key]
	if e == nil {
		e = &keyed{}
		of[key] = e
		old = append(old, aged{key, now})
	}
	k.age[profile] = old
	return e
}

// idempotencyKey reads the header; ok is false when there is none.
func (c *call) idempotencyKey() (key string, ok bool, err error) {
	values := c.r.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", false, nil
	}
	key = values[0]
	valid := len(values) == 1 && key != "" && len(key) <= 255
	for i := range len(key) {
		valid = valid && key[i] > ' ' && key[i] < 0x7f
	}
	if !valid {
		return "", false, bad("invalid_idempotency_key", "Idempotency-Key", "Idempotency-Key must be 1 to 255 visible ASCII characters, once")
	}
	return key, true, nil
}

// once starts a run under an idempotency key, or finds the one that was started under it.
func (c *call) once(key string, sum [sha256.Size]byte, start func() (string, error)) (run string, replayed bool, err error) {
	e := c.s.keys.get(c.profile.Name(), key)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.run == "":
		if run, err = start(); err == nil {
			e.run, e.sum = run, sum
		}
		return run, false, err
	case e.sum != sum:
		return "", false, &failure{
			status: http.StatusConflict, code: "idempotency_key_conflict", param: "Idempotency-Key", final: true,
			message: "this Idempotency-Key was used with another request", hint: "use a new key for each new request",
		}
	}
	return e.run, true, nil
}
