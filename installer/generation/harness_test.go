// SPDX-License-Identifier: MIT

package generation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

const (
	oldProgram = "#!/bin/sh\n# one\n"
	newProgram = "#!/bin/sh\n# two\n"
	oldConfig  = "# mine\n_config_version: 48\nkey: sk-secret\nterminal:\n  vercel_runtime: node24\n"
	oldUnit    = "[Service]\nExecStart=/one\n"
	newUnit    = "[Service]\nExecStart=/two\n"
)

// host is a home, a program and a unit in a directory.
type host struct {
	dir, program, unit string
	home               home.Home
}

func hostAt(dir string) host {
	return host{
		dir, filepath.Join(dir, "bin", "hermes-appliance"), filepath.Join(dir, "systemd", "user", "hermes-gateway.service"),
		home.Home{Dir: filepath.Join(dir, "home"), Profile: home.Default},
	}
}

func newHost(t *testing.T) host {
	t.Helper()
	h := hostAt(t.TempDir())
	testkit.WriteTree(t, h.dir, map[string]string{
		"bin/hermes-appliance": oldProgram, "home/config.yaml": oldConfig, "home/.env": "A=1\n",
		"systemd/user/hermes-gateway.service": oldUnit,
	})
	if err := os.Chmod(h.program, 0o755); err != nil {
		t.Fatal(err)
	}
	return h
}

// version is what the programs of these tests would call themselves.
func version(data string) string {
	switch data {
	case oldProgram:
		return "1.0.0"
	case newProgram:
		return "1.1.0"
	}
	return "0.0.1"
}

func (h host) binary() Binary {
	data, err := os.ReadFile(h.program)
	if err != nil {
		panic(err)
	}
	return Binary{Path: h.program, Version: version(string(data)), SHA256: atomicfile.Hash(data)}
}

func (h host) activation(files atomicfile.Writer, f Fleet) Activation {
	now := time.Now
	return Activation{
		Store: Store{
			Home: h.home, Program: "test", Now: now, Files: files,
			Migrator: migrate.Migrator{
				Ladder: migrate.Released(), Getenv: func(string) string { return "" }, Now: now, LockWait: time.Minute, Files: files,
			},
		},
		Seen: Seen{Binary: h.binary(), Units: []string{h.unit}}, Fleet: f, Wait: 2 * time.Second,
	}
}

// rollbackScene has two generations of everything; the second is the present.
func (h host) rollbackScene(t *testing.T) Activation {
	t.Helper()
	a := h.activation(atomicfile.Writer{}, nil)
	if _, err := a.Record(t.Context(), Install, a.Seen); err != nil {
		t.Fatal(err)
	}
	if r, err := a.Migrator.Apply(t.Context(), h.home, migrate.Options{}); err != nil || !r.Applied {
		t.Fatal(r, err)
	}
	if err := os.Remove(h.program); err != nil {
		t.Fatal(err)
	}
	testkit.WriteTree(t, h.dir, map[string]string{"bin/hermes-appliance": newProgram, "systemd/user/hermes-gateway.service": newUnit})
	if err := os.Chmod(h.program, 0o755); err != nil {
		t.Fatal(err)
	}
	a = h.activation(atomicfile.Writer{}, nil)
	if r, err := a.Record(t.Context(), Update, a.Seen); err != nil || r.Number != 2 {
		t.Fatal(r, err)
	}
	return a
}

// whole returns the present program's version, the config's and the unit's, as one word.
func (h host) whole(t *testing.T) string {
	t.Helper()
	config, err := os.ReadFile(h.home.Config())
	if err != nil {
		t.Fatal(err)
	}
	unit, err := os.ReadFile(h.unit)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(h.program)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode of the program: %v %v", info, err)
	}
	word := "/one"
	if string(unit) == newUnit {
		word = "/two"
	}
	return fmt.Sprintf("%s %d %s", h.binary().Version, migrate.Stamp(config), word)
}

// clean reports what an activation left that must not be there.
func (h host) clean(t *testing.T) {
	t.Helper()
	for _, p := range []string{h.activation(atomicfile.Writer{}, nil).JournalPath(), staged(h.program), filepath.Join(h.home.State(), "migrate.journal")} {
		if _, err := os.Lstat(p); err == nil {
			t.Errorf("%s is left", p)
		}
	}
}

// gateways is a fleet of one gateway that runs whatever program is in place when it starts.
type gateways struct {
	h      host
	g      Gateway
	on     bool
	bad    string // versions that never serve
	dead   string // versions that end at once and are started by nobody again
	asked  int
	refuse error // what it answers when it is asked to drain
}

func (f *gateways) Running(ctx context.Context) ([]Gateway, error) {
	g, ok, err := f.Ask(ctx, f.h.home)
	if !ok {
		return nil, err
	}
	return []Gateway{g}, err
}

func (f *gateways) Ask(context.Context, home.Home) (Gateway, bool, error) {
	return f.g, f.on, nil
}

func (f *gateways) start() {
	f.g.PID++
	f.g.Version = f.h.binary().Version
	f.g.Ready = f.g.Version != f.bad
	f.on = f.g.Version != f.dead
}

func (f *gateways) Drain(context.Context, Gateway) (time.Duration, error) {
	f.asked++
	if f.refuse != nil {
		return 0, f.refuse
	}
	f.start()
	return 0, nil
}

func (f *gateways) Revive(context.Context, home.Home) error {
	f.start()
	return nil
}

func newGateways(h host, supervisor string) *gateways {
	return &gateways{h: h, on: true, g: Gateway{Home: h.home, PID: 100, Version: "1.0.0", Supervisor: supervisor, Ready: true}}
}

var errBroken = errors.New("broken here")
