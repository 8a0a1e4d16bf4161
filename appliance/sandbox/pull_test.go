// SPDX-License-Identifier: MIT

package sandbox

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/moby/moby/client"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestPullBeforeRemove: the chosen image is here before the old container goes. A registry
// that is down, refuses or has no such image leaves the old one in use, and the next call
// tries again.
func TestPullBeforeRemove(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			http.Error(w, "a fault", http.StatusInternalServerError)
			return
		}
		store.ServeHTTP(w, r)
	}))
	defer srv.Close()
	var mu sync.Mutex
	var steps []Progress
	e := dial(t, Options{Progress: func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, p)
	}})
	image := strings.Replace(srv.Listener.Addr().String(), "127.0.0.1", "localhost", 1) + "/sandbox:new"
	push(t, e, image)

	s := wanted(t)
	s.Pinned = true
	c := ensure(t, e, s)
	kept := func(why string, words ...string) {
		t.Helper()
		again, st := ensureState(t, e, s)
		if again.ID() != c.ID() || !st.Kept || st.Outcome != Reused || !noted(st, append(words, "kept", s.Image)...) || count(t, e, s) != 1 {
			t.Errorf("%s: got %+v", why, st)
		}
		run(t, again, "true")
	}
	s.Image = strings.Replace(image, ":new", ":missing", 1)
	kept("no such image", "docker pull")
	s.Image = image
	broken.Store(true)
	kept("a registry that fails")
	broken.Store(false)
	anew, st := ensureState(t, e, s)
	if anew.ID() == c.ID() || st.Outcome != Recreated || st.Kept || count(t, e, s) != 1 {
		t.Errorf("got %+v", st)
	}
	mu.Lock()
	if len(steps) == 0 || steps[0].Image != image {
		t.Errorf("steps of the pull: %+v", steps)
	}
	mu.Unlock()

	srv.Close()
	c = anew
	s.Image = strings.Replace(image, ":new", ":later", 1)
	kept("a registry that is down", "connection refused")
	fresh := s
	fresh.Task = "fresh"
	if _, _, err := e.Ensure(t.Context(), fresh); !errors.Is(err, ErrNoImage) || !strings.Contains(err.Error(), s.Image) {
		t.Errorf("nothing to keep: got %v", err)
	}
}

// push puts the base image into a registry under a name, and takes the name away here.
func push(t *testing.T, e *Engine, image string) {
	t.Helper()
	if _, err := e.api.ImageTag(t.Context(), client.ImageTagOptions{Source: testkit.DockerImage, Target: image}); err != nil {
		t.Fatal(err)
	}
	dropImage(t, image)
	r, err := e.api.ImagePush(t.Context(), image, client.ImagePushOptions{RegistryAuth: "e30="})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.api.ImageRemove(t.Context(), image, client.ImageRemoveOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestCutPull: a pull whose stream ends in the middle is no success.
func TestCutPull(t *testing.T) {
	t.Parallel()
	f, host := proxy(t)
	e, s := dial(t, Options{Host: host}), wanted(t)
	s.Image = "localhost:1/never:was"
	f.set(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/images/create") {
			return false
		}
		_, _ = io.WriteString(w, `{"status":"Pulling from never","id":"was"}`+"\n")
		return true
	})
	if _, _, err := e.Ensure(t.Context(), s); !errors.Is(err, ErrNoImage) {
		t.Errorf("got %v", err)
	}
}
