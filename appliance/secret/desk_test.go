// SPDX-License-Identifier: MIT

package secret

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// script is a source that does as it is told.
type script struct {
	mu     sync.Mutex
	spec   Spec
	values map[string]string
	failed map[string]Reason
	err    error
	hang   bool          // until its budget is over
	deaf   time.Duration // then does not notice for so long
	panics any
	during func() // the fetch
	calls  int
	in     Input // of the last call
}

func source(name string, shape Shape, values map[string]string) *script {
	s := &script{spec: Spec{Name: name, Shape: shape, Enabled: true, Place: name}, values: values}
	s.spec.Refs = refs(values)
	return s
}

func refs(values map[string]string) map[string]string {
	out := map[string]string{}
	for name := range values {
		out[name] = "ref://" + name
	}
	return out
}

func (s *script) with(f func(s *script)) *script {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
	return s
}

func (s *script) Spec() Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spec
}

func (s *script) Fetch(ctx context.Context, in Input) (Fetched, error) {
	s.mu.Lock()
	s.calls++
	s.in = in
	f := Fetched{Values: map[string]Text{}, Failed: maps.Clone(s.failed)}
	for name, v := range s.values {
		f.Values[name] = Wrap(v)
	}
	err, hang, deaf, panics, during := s.err, s.hang, s.deaf, s.panics, s.during
	s.mu.Unlock()
	if during != nil {
		during()
	}
	if hang {
		<-ctx.Done()
		time.Sleep(deaf)
		return Fetched{Values: map[string]Text{"LATE": Wrap("late")}}, ctx.Err()
	}
	if panics != nil {
		panic(panics)
	}
	if err != nil {
		return Fetched{}, err
	}
	return f, nil
}

// desk is a store over the homes of a test. The default home is the launch home.
type desk struct {
	*Store

	t    testing.TB
	root home.Home

	mu      sync.Mutex
	stacks  map[string]Stack // by profile
	broken  map[string]error // config errors by profile
	env     map[string]string
	managed string
	grants  map[string]string
	clock   time.Time
	routed  bool
	log     bytes.Buffer
}

func isGlobal(name string) bool {
	return name == "PATH" || name == "HTTPS_PROXY" || strings.HasPrefix(name, "TERMINAL_")
}

func newDesk(tb testing.TB, profiles ...string) *desk {
	tb.Helper()
	d := &desk{t: tb, root: home.Home{Dir: tb.TempDir(), Profile: home.Default}, stacks: map[string]Stack{}, broken: map[string]error{}, env: map[string]string{}, clock: time.Now()}
	write(tb, filepath.Join(d.root.Dir, "config.yaml"), "")
	for _, p := range profiles {
		write(tb, filepath.Join(d.home(p).Dir, "config.yaml"), "")
	}
	d.Store = New(Config{
		Sources: func(_ context.Context, t Tenant) (Stack, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.stacks[t.Home.Profile], d.broken[t.Home.Profile]
		},
		Global:  isGlobal,
		Control: func(name string) bool { return strings.EqualFold(name, "HERMES_PORTAL_BASE_URL") },
		Routed:  func(context.Context) bool { d.mu.Lock(); defer d.mu.Unlock(); return d.routed },
		Lookup: func(name string) (string, bool) {
			d.mu.Lock()
			defer d.mu.Unlock()
			v, ok := d.env[name]
			return v, ok
		},
		Environ: func() (out []string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			for k, v := range d.env {
				out = append(out, k+"="+v)
			}
			return out
		},
		Managed: func() string { return d.managed },
		Grants:  func() map[string]string { return d.grants },
		Files:   settled(),
		Log:     slog.New(slog.NewTextHandler(&locked{d: d}, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now:     func() time.Time { d.mu.Lock(); defer d.mu.Unlock(); return d.clock },
	})
	return d
}

type locked struct{ d *desk }

func (l *locked) Write(p []byte) (int, error) {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	return l.d.log.Write(p)
}

func (d *desk) logged() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

func (d *desk) home(profile string) home.Home {
	if profile == home.Default {
		return d.root
	}
	return home.Home{Dir: filepath.Join(d.root.Dir, "profiles", profile), Profile: profile}
}

func (d *desk) tenant(profile string) Tenant {
	return Tenant{d.home(profile), profile != home.Default}
}

func (d *desk) wait(dur time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clock = d.clock.Add(dur)
}

func (d *desk) sources(profile string, sources ...Source) {
	d.mu.Lock()
	defer d.mu.Unlock()
	st := d.stacks[profile]
	st.Sources = sources
	d.stacks[profile] = st
}

// dotenv writes a home's .env with a time that no other has.
func (d *desk) dotenv(profile, text string) *desk {
	d.t.Helper()
	path := d.home(profile).Env()
	write(d.t, path, text)
	d.touch(path)
	return d
}

func (d *desk) touch(path string) {
	d.t.Helper()
	d.wait(time.Millisecond)
	if err := os.Chtimes(path, d.clock, d.clock); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) scope(profile string) *Scope {
	d.t.Helper()
	sc, err := d.Scope(d.t.Context(), d.tenant(profile))
	if err != nil {
		d.t.Fatal(err)
	}
	return sc
}

// shown is a scope as NAME -> "value origin".
func shown(sc *Scope) map[string]string {
	out := map[string]string{}
	for _, v := range sc.Values() {
		out[v.Name] = v.Text.Reveal() + " " + v.Origin.String()
	}
	return out
}
