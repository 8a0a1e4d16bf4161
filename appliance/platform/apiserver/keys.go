// SPDX-License-Identifier: MIT

package apiserver

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"sync"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

// starting lets the requests with one idempotency key in, one after the other: those that come
// while the first starts its run find out whether it did.
type starting struct {
	mu sync.Mutex
	of map[startingKey]*startingOne
}

// startingKey is a key of a profile, and so of one API key.
type startingKey struct{ profile, key string }

type startingOne struct {
	mu    sync.Mutex
	users int
}

// enter waits until no other request with the key is in.
func (s *starting) enter(k startingKey) (leave func()) {
	s.mu.Lock()
	one := s.of[k]
	if one == nil {
		one = &startingOne{}
		s.of[k] = one
	}
	one.users++
	s.mu.Unlock()
	one.mu.Lock()
	return func() {
		one.mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(s.of, k)
		}
	}
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

// once starts a run under an idempotency key, or finds the one that was started under it, also
// in an earlier life of the gateway. The key is taken before the run starts: if the gateway is
// killed in between, the run is not made up for, because nobody could tell that from one that
// did its work.
func (c *call) once(key string, data []byte, start func(id string) (*gateway.Turn, error)) error {
	ctx := context.WithoutCancel(c.r.Context()) // a client that goes must not leave a key half taken
	defer c.s.starting.enter(startingKey{c.profile.Name(), key})()
	store, err := c.profile.Sessions(ctx)
	if err != nil {
		return err
	}
	sum := c.fingerprint(data)
	k, taken, err := store.ClaimRun(ctx, session.RunKey{Key: key, Sum: hex.EncodeToString(sum[:]), Run: newID("run_")})
	switch {
	case err != nil:
		return err
	case !taken && k.Sum != hex.EncodeToString(sum[:]):
		return &failure{
			status: http.StatusConflict, code: "idempotency_key_conflict", param: "Idempotency-Key", final: true,
			message: "this Idempotency-Key was used with another request", hint: "use a new key for each new request",
		}
	case !taken:
		c.w.Header().Set("Idempotency-Replayed", "true")
		status := keyedState(k)
		if t, ok := c.profile.Turn(k.Run); ok {
			status = c.state(t)
		}
		c.accepted(k.Run, status, true)
		return nil
	}
	t, err := start(k.Run)
	if err != nil {
		if free := store.FreeRun(ctx, k.Run); free != nil {
			c.s.o.Log.WarnContext(ctx, "the idempotency key of a run that did not start stays taken", "error", free)
		}
		return err
	}
	c.s.After(func() {
		<-t.Done()
		if err := store.EndRun(ctx, t.ID, c.ended(t), t.Session()); err != nil {
			c.s.o.Log.WarnContext(ctx, "the end of a run was not noted", "run", t.ID, "error", err)
		}
	})
	c.accepted(t.ID, "started", false)
	return nil
}

// keyedState is how a run with a key ended that is not in memory any more. One that never did
// went away with its gateway.
func keyedState(k session.RunKey) string { return or(k.Status, interrupted) }

// keyedRun answers for such a run; missing is the answer if there is none.
func (c *call) keyedRun(missing error) error {
	store, err := c.profile.Sessions(c.r.Context())
	if err != nil {
		return err
	}
	k, err := store.Run(c.r.Context(), c.r.PathValue("id"))
	if errors.Is(err, session.ErrNotKept) {
		return missing
	}
	if err != nil {
		return err
	}
	c.json(http.StatusOK, map[string]any{
		"object": "hermes.run", "run_id": k.Run, "status": keyedState(k), "session_id": k.Session, "source": source, "created_at": epoch(k.Made),
	})
	return nil
}
