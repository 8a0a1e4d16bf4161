// SPDX-License-Identifier: MIT

package images

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// peek reads a request's body and puts it back.
func peek(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// TestFaults: every request fails once, in some way, before it is let through.
func TestFaults(t *testing.T) {
	t.Parallel()
	fail := map[string]func(w http.ResponseWriter, r *http.Request){
		"500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"502": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"429": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		"cut": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"cut in the body": func(_ http.ResponseWriter, r *http.Request) {
			io.CopyN(io.Discard, r.Body, 100)
			panic(http.ErrAbortHandler)
		},
		"cut in the answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.Write(make([]byte, 10))
			panic(http.ErrAbortHandler)
		},
	}
	for name, answer := range fail {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, d *desk) {
				var mu sync.Mutex
				seen := map[string]bool{}
				var failed atomic.Int32
				images := release("1.0.0")
				images[0].noise, images[1].noise = 300_000, 300_000
				dir, _ := makeLayout(t, images...)
				d.faults(func(_ int, w http.ResponseWriter, r *http.Request) bool {
					if name == "cut in the answer" && r.Method != http.MethodGet {
						return false // an answer of its own kind; elsewhere it is "cut"
					}
					// An upload has a new address each time: its kind is what counts.
					path := r.URL.Path
					if i := strings.Index(path, "/uploads/"); i >= 0 {
						path = path[:i]
					}
					mu.Lock()
					first := !seen[r.Method+path]
					seen[r.Method+path] = true
					mu.Unlock()
					if first {
						failed.Add(1)
						answer(w, r)
					}
					return first
				})
				_, err := d.Publish(t.Context(), d.options(load(t, dir), RollingTag))
				if err != nil {
					t.Fatal(err)
				}
				if failed.Load() < 10 {
					t.Errorf("only %d requests failed: this tests nothing", failed.Load())
				}
				d.faults(nil)
				d.want(RollingTag)
			})
		})
	}
}

// TestDown: a registry that stays down is an error that says so, after some attempts.
func TestDown(t *testing.T) {
	t.Parallel()
	d := newDesk(t, true)
	var n atomic.Int32
	d.faults(func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		n.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	_, err := d.Verify(t.Context(), VerifyOptions{Ref: d.repo.WithTag(RollingTag), Key: d.signer.Key()})
	if err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("got %v, want an error that names 503", err)
	}
	if n.Load() < 2 || n.Load() > 20 {
		t.Errorf("%d attempts", n.Load())
	}
}

// idling is a transport whose connection was closed, before the first request of each method, by a server that
// took it for idle: net/http says so in these words and sends no POST or PATCH again.
type idling struct {
	next http.RoundTripper

	mu   sync.Mutex
	seen map[string]bool
}

func (i *idling) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	first := !i.seen[r.Method]
	i.seen[r.Method] = true
	i.mu.Unlock()
	if first {
		return nil, errors.New("http: server closed idle connection")
	}
	return i.next.RoundTrip(r)
}

// TestIdleConnectionClosed: a registry closes a connection just when it is used again.
func TestIdleConnectionClosed(t *testing.T) {
	t.Parallel()
	d := newDirectDesk(t, true)
	d.direct = &idling{next: d.direct, seen: map[string]bool{}}
	dir, _ := makeLayout(t, release("1.0.0")...)
	if _, err := d.client().Publish(t.Context(), d.options(load(t, dir), RollingTag)); err != nil {
		t.Fatal(err)
	}
	d.want(RollingTag)
}

// TestPlainHTTP: plain HTTP goes nowhere but to this machine, not by a redirect either.
func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	d := newDesk(t, true)
	d.publish("1.0.0", RollingTag)
	d.faults(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") && r.Method == http.MethodGet {
			http.Redirect(w, r, "http://192.0.2.1/blob", http.StatusTemporaryRedirect)
			return true
		}
		return false
	})
	_, err := d.client().Verify(t.Context(), VerifyOptions{Ref: d.repo.WithTag(RollingTag), Key: d.signer.Key()})
	if !errors.Is(err, ErrPlainHTTP) {
		t.Errorf("redirected: got %v, want %v", err, ErrPlainHTTP)
	}
	for host, want := range map[string]bool{
		"localhost": true, "localhost:5000": true, "127.0.0.1:5000": true, "127.9.9.9": true, "[::1]:5000": true,
		"192.168.1.1:5000": false, "10.0.0.1": false, "example.org": false, "localhost.example.org": false, "127.0.0.1.example.org": false,
	} {
		if got := loopback(host); got != want {
			t.Errorf("loopback(%q): got %t, want %t", host, got, want)
		}
	}
}
