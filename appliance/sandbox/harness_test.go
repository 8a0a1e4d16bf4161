// SPDX-License-Identifier: MIT

package sandbox

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// patience is how long a test waits for what should be quick, before it calls it hung.
const patience = 2 * time.Minute

// dial connects to the tests' engine.
func dial(t testing.TB, o Options) *Engine {
	t.Helper()
	if o.Host == "" {
		o.Host = testkit.Docker(t)
	}
	e, err := Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	e.closing = patience
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return e
}

// wanted returns a Spec of a home of the test's own; its containers go when the test ends.
func wanted(t testing.TB) Spec {
	t.Helper()
	host := testkit.Docker(t)
	s := Spec{Identity: Identity{Home: t.TempDir(), Profile: "default"}, Image: testkit.DockerImage, Keep: true, MemoryMB: 512, CPUs: 1}
	t.Cleanup(func() { sweepLabel(t, host, labelHome+"="+s.homeLabel()) })
	return s
}

// sweepLabel removes the containers that carry a label.
func sweepLabel(t testing.TB, host, label string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	api, err := connect(host, func(string) string { return "" })
	if err != nil {
		t.Error(err)
		return
	}
	defer api.Close()
	r, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", label)})
	if err != nil {
		t.Error(err)
		return
	}
	for _, it := range r.Items {
		if _, err := api.ContainerRemove(ctx, it.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil && !strings.Contains(err.Error(), "in progress") && !strings.Contains(err.Error(), "No such container") {
			t.Error(err)
		}
	}
}

// tag gives the base image a second name for the test.
func tag(t testing.TB, e *Engine, role string) string {
	t.Helper()
	name := "hermes-test/sandbox-" + role + ":" + random()[:8]
	if _, err := e.api.ImageTag(t.Context(), client.ImageTagOptions{Source: testkit.DockerImage, Target: name}); err != nil {
		t.Fatal(err)
	}
	dropImage(t, name)
	return name
}

// dropImage removes an image's name when the test ends, after its containers.
func dropImage(t testing.TB, name string) {
	host := testkit.Docker(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		api, err := connect(host, func(string) string { return "" })
		if err != nil {
			t.Error(err)
			return
		}
		defer api.Close()
		_, _ = api.ImageRemove(ctx, name, client.ImageRemoveOptions{Force: true})
	})
}

// commit makes an image by running a script in the base image and changing its config.
func commit(t testing.TB, e *Engine, script string, config *container.Config) string {
	t.Helper()
	s := wanted(t)
	c := ensure(t, e, s)
	run(t, c, script)
	name := "hermes-test/sandbox-made:" + random()[:8]
	dropImage(t, name)
	if _, err := e.api.ContainerCommit(t.Context(), c.id, client.ContainerCommitOptions{Reference: name, Config: config}); err != nil {
		t.Fatal(err)
	}
	if err := e.remove(t.Context(), c.id); err != nil {
		t.Fatal(err)
	}
	return name
}

func ensure(t testing.TB, e *Engine, s Spec) *Container {
	t.Helper()
	c, _ := ensureState(t, e, s)
	return c
}

func ensureState(t testing.TB, e *Engine, s Spec) (*Container, State) {
	t.Helper()
	c, st, err := e.Ensure(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return c, st
}

// run runs a script that must succeed, and returns what it printed.
func run(t testing.TB, c *Container, script string) string {
	t.Helper()
	var out bytes.Buffer
	code, err := c.Exec(t.Context(), Exec{Argv: []string{"sh", "-c", script}, Dir: "/", Stdout: &out, Merge: true})
	if err != nil || code != 0 {
		t.Fatalf("%s: exit %d, %v\n%s", script, code, err, out.String())
	}
	return out.String()
}

// eventually waits for a condition of the outside world.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("never: %s", what)
		}
	}
}

// faulty is an engine behind a socket that can go wrong.
type faulty struct {
	mu    sync.Mutex
	fault func(w http.ResponseWriter, r *http.Request) bool // true = answered
	after func(r *http.Request) bool                        // true = the engine does it, and the answer is lost
	conns map[net.Conn]bool
	seen  []string
}

// proxy puts a socket in front of the tests' engine and returns its address.
func proxy(t *testing.T) (*faulty, string) {
	t.Helper()
	path := strings.TrimPrefix(testkit.Docker(t), "unix://")
	f := &faulty{conns: map[net.Conn]bool{}}
	target := &url.URL{Scheme: "http", Host: "engine"}
	rp := httputil.NewSingleHostReverseProxy(target)
	rp.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	rp.FlushInterval = -1
	rp.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	rp.ModifyResponse = func(r *http.Response) error {
		f.mu.Lock()
		after := f.after
		f.mu.Unlock()
		if after != nil && after(r.Request) {
			return http.ErrAbortHandler
		}
		return nil
	}
	sock := filepath.Join(t.TempDir(), "e.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{
		ReadHeaderTimeout: time.Minute,
		ConnState: func(c net.Conn, s http.ConnState) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if s == http.StateNew {
				f.conns[c] = true
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			f.seen = append(f.seen, r.Method+" "+r.URL.Path)
			fault := f.fault
			f.mu.Unlock()
			if fault != nil && fault(w, r) {
				return
			}
			rp.ServeHTTP(w, r)
		}),
	}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() {
		f.cut()
		_ = srv.Close()
	})
	return f, "unix://" + sock
}

// set says what goes wrong from now on.
func (f *faulty) set(fault func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *faulty) loseAnswer(after func(r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = after
}

// endFirst makes commands in containers of an image come only when those have ended: whether a
// container that is to end at once outlives its proof is else for the machine to say.
func (f *faulty) endFirst(t *testing.T, image string) {
	t.Helper()
	direct := dial(t, Options{})
	f.set(func(_ http.ResponseWriter, r *http.Request) bool {
		path, ok := strings.CutSuffix(r.URL.Path, "/exec")
		_, id, in := strings.Cut(path, "/containers/")
		for ok && in {
			c, err := direct.inspect(r.Context(), id)
			ok = err == nil && c.image == image && c.running()
		}
		return false
	})
}

// cut ends every connection, also those that carry a command.
func (f *faulty) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Close()
	}
	clear(f.conns)
}

func fail(w http.ResponseWriter, code int, msg string) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(`{"message":"` + msg + `"}`))
	return true
}
