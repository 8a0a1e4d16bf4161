// SPDX-License-Identifier: MIT

package docker_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/sandbox"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal/docker"
	"github.com/hermes-appliance/hermes-appliance/internal/terminaltest"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// kit is a container of the test's own, which goes with it.
type kit struct {
	engine *sandbox.Engine
	spec   sandbox.Spec
	host   *docker.Host
	reg    *process.Registry
}

func newKit(t testing.TB, change func(*sandbox.Spec)) *kit {
	t.Helper()
	addr := testkit.Docker(t)
	log := slog.New(slog.DiscardHandler)
	k := &kit{reg: process.New(log)}
	var err error
	if k.engine, err = sandbox.Dial(t.Context(), sandbox.Options{Host: addr}); err != nil {
		t.Fatal(err)
	}
	k.spec = sandbox.Spec{
		Identity: sandbox.Identity{Home: t.TempDir(), Profile: "default"}, Image: testkit.DockerImage,
		Env: []string{"PATH=/opt/image/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"},
	}
	if change != nil {
		change(&k.spec)
	}
	k.host = k.open()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
		defer cancel()
		if con, err := k.host.Container(ctx); err == nil { // here, for the engine's end waits for a moment only
			if err := con.Remove(ctx); err != nil {
				t.Error(err)
			}
		}
		if err := k.host.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := k.engine.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return k
}

// open returns another backend of the same container.
func (k *kit) open() *docker.Host {
	return docker.New(docker.Config{Engine: k.engine, Spec: k.spec, Registry: k.reg, Log: slog.New(slog.DiscardHandler)})
}

// shell returns a terminal in the container.
func (k *kit) shell(v *terminaltest.Vars) *terminal.Shell {
	return terminal.New(terminal.Config{Host: kept{k.host}, Log: slog.New(slog.DiscardHandler), Temp: "/tmp", Env: v.Env()})
}

// kept outlives its shells.
type kept struct{ *docker.Host }

func (kept) Close(context.Context) error { return nil }

func run(t testing.TB, s *terminal.Shell, text string) terminal.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), terminaltest.Patience)
	defer cancel()
	res, err := s.Run(ctx, terminal.Command{Text: text})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return res
}

func TestConformance(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	setup := k.shell(&terminaltest.Vars{})
	var n atomic.Int32
	terminaltest.Run(t, func(t testing.TB, c *terminal.Config, v *terminaltest.Vars) {
		t.Helper()
		c.Temp = fmt.Sprintf("/tmp/t%d", n.Add(1))
		if out, err := setup.Exec(t.Context(), terminal.Script{Text: "mkdir " + c.Temp}); err != nil || out.Code != 0 {
			t.Fatalf("%s: %v, %s", c.Temp, err, out.Stderr)
		}
		c.Host, c.Env = kept{k.host}, v.Env()
	})
}
