// SPDX-License-Identifier: MIT

package docker_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/sandbox"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal/docker"
	"github.com/hermes-appliance/hermes-appliance/internal/terminaltest"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// What an earlier gateway left in a container that cannot be reached at the start is ended when the
// container is used next, before anything else runs in it.
func TestLeftIsEndedAtNextUse(t *testing.T) {
	t.Parallel()
	k := newKit(t, func(s *sandbox.Spec) { s.Keep = true })
	list := filepath.Join(t.TempDir(), "commands")
	next := func() *process.Registry {
		r := process.New(slog.New(slog.DiscardHandler))
		if _, err := r.Keep(list); err != nil {
			t.Fatal(err)
		}
		return r
	}
	const count = "pgrep -cfx 'sleep 3602.5'"
	k.reg = next()
	k.host = k.open()
	s := k.shell(&terminaltest.Vars{})
	if _, err := s.Start(t.Context(), terminal.Command{Text: "trap '' TERM; (setsid sleep 3602.5 &); sleep 3602.5; sleep 3602.5"}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(terminaltest.Patience); run(t, s, count).Output != "2\n"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never two processes")
		}
	}
	con, err := k.host.Container(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pause(t, con.ID())
	k.reg = next() // the gateway before it was killed
	if len(k.reg.Left()) != 1 {
		t.Fatalf("%v is on the list", k.reg.Left())
	}
	if n, err := docker.EndLeft(t.Context(), k.engine, k.reg); n != 0 || err == nil {
		t.Errorf("in a container that is paused: %d, %v", n, err)
	}
	k.host = k.open()
	s = k.shell(&terminaltest.Vars{})
	if res := run(t, s, count); res.Output != "0\n" {
		t.Errorf("%s are left", res.Output)
	}
	if left := k.reg.Left(); len(left) > 0 {
		t.Errorf("%v is still on the list", left)
	}
	// One that is in a container of which the engine knows nothing more is over.
	k.reg.NoteAway(process.Away{Mark: sandbox.NewMark(), Where: "docker " + strings.Repeat("0", 64) + " " + k.engine.Host()})
	k.reg.NoteAway(process.Away{Mark: sandbox.NewMark(), Where: "docker " + con.ID() + " unix:///another/engine.sock"})
	k.reg = next()
	if n, err := docker.EndLeft(t.Context(), k.engine, k.reg); n != 1 || err != nil || len(k.reg.Left()) != 1 {
		t.Errorf("%d, %v; left: %v", n, err, k.reg.Left())
	}
}

// A container that was to go with its gateway goes with the next one, if the gateway was killed.
func TestLeftContainerIsRemoved(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	list := filepath.Join(t.TempDir(), "commands")
	next := func() *process.Registry {
		r := process.New(slog.New(slog.DiscardHandler))
		if _, err := r.Keep(list); err != nil {
			t.Fatal(err)
		}
		return r
	}
	containers := func() []sandbox.Info {
		all, err := k.engine.List(t.Context(), k.spec)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	k.reg = next()
	k.host = k.open()
	run(t, k.shell(&terminaltest.Vars{}), "true")
	if all := containers(); len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	r := next() // the gateway before it was killed
	if n, err := docker.EndLeft(t.Context(), k.engine, r); n != 1 || err != nil || len(r.Left()) > 0 {
		t.Errorf("%d, %v; left: %v", n, err, r.Left())
	}
	if all := containers(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
	// One that goes in time is not on the list.
	k.reg = next()
	k.host = k.open()
	run(t, k.shell(&terminaltest.Vars{}), "true")
	if err := k.host.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(terminaltest.Patience); ; time.Sleep(10 * time.Millisecond) {
		data, err := os.ReadFile(list)
		if err != nil || time.Now().After(end) {
			t.Fatalf("it stays on the list: %q, %v", data, err)
		}
		if strings.Count(string(data), "away ") == strings.Count(string(data), "end ") {
			break
		}
	}
}

// pause stops everything in a container.
func pause(t testing.TB, id string) {
	t.Helper()
	api := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(testkit.Docker(t), "unix://"))
	}}}
	defer api.CloseIdleConnections()
	r, err := api.Post("http://engine/containers/"+id+"/pause", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusNoContent {
		t.Fatal(r.Status)
	}
}
