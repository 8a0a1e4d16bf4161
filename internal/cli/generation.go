// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer"
	"github.com/hermes-appliance/hermes-appliance/installer/generation"
	"github.com/hermes-appliance/hermes-appliance/internal/buildinfo"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// recorder records the generations of homes for one command. It is safe for concurrent use.
type recorder struct {
	env  Env
	self func() (generation.Binary, error) // read once: programs are large
}

func newRecorder(env Env) *recorder {
	return &recorder{env, sync.OnceValues(self)}
}

// self describes the program that runs.
func self() (generation.Binary, error) {
	path, err := os.Executable()
	if err != nil {
		return generation.Binary{}, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil { // one name for it, however it was called
		return generation.Binary{}, err
	}
	b := buildinfo.Read()
	return generation.ReadBinary(path, b.Version, b.Revision)
}

// store is the generations of a home.
func (r *recorder) store(h home.Home) generation.Store {
	return generation.Store{
		Home: h, Now: r.env.Now, Program: Name + " " + buildinfo.Read().Version, Migrator: migrator(r.env),
		Reload: func(ctx context.Context, units []string) error { return reloadUnits(ctx, r.env, units) },
	}
}

// seen is what runs on a home now, without asking an engine.
func (r *recorder) seen(h home.Home) (generation.Seen, error) {
	b, err := r.self()
	return generation.Seen{Binary: b, Sandbox: sandboxOf(r.env, h)}, err
}

// sandboxOf reads which image a home's commands run in; nil where its config does not say.
func sandboxOf(env Env, h home.Home) *generation.Sandbox {
	p, err := config.LoadTerminal(h, config.Options{AdminDir: home.AdminDir(env.Getenv)}, config.TerminalInput{UserHome: env.Getenv("HOME")})
	if err != nil {
		return nil
	}
	if p.Backend() != "docker" {
		return &generation.Sandbox{}
	}
	return &generation.Sandbox{Image: strings.TrimSpace(p.Text("docker_image")), Pin: string(p.Pin())}
}

// record makes the present state of a home a generation. That it could not is said and stops
// nothing: what was recorded is done.
func (r *recorder) record(ctx context.Context, h home.Home, why generation.Reason) {
	seen, err := r.seen(h)
	if err == nil {
		err = r.put(ctx, h, why, seen)
	}
	if err != nil {
		fmt.Fprintf(r.env.Stderr, "%s: note: what runs is not recorded as a generation: %v\n", Name, err) //nolint:errcheck // nowhere left to say it
	}
}

func (r *recorder) put(ctx context.Context, h home.Home, why generation.Reason, seen generation.Seen) error {
	if manager, err := h.Manager(r.env.Getenv); err != nil || manager != "" {
		return err // the manager has generations of its own
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockWait)
	defer cancel()
	got, err := r.store(h).Record(ctx, why, seen)
	if err == nil && got.New && got.Note != "" {
		fmt.Fprintf(r.env.Stderr, "%s: note: %s\n", Name, got.Note) //nolint:errcheck // nowhere left to say it
	}
	return err
}

// recordSwitch records the answer to the question about the sandbox's image, with what the
// engine knows the image by.
func recordSwitch(ctx context.Context, env Env, v sandboxView) {
	r := newRecorder(env)
	seen, err := r.seen(v.home)
	if err == nil {
		if seen.Sandbox != nil {
			if digest, err := v.engine.Digest(ctx, seen.Sandbox.Image); err == nil {
				seen.Sandbox.Digest = digest
			}
		}
		err = r.put(ctx, v.home, generation.SandboxSwitch, seen)
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "%s: note: what runs is not recorded as a generation: %v\n", Name, err) //nolint:errcheck // nowhere left to say it
	}
}

// recordInstall records a service that was installed, with the files that are there.
func recordInstall(ctx context.Context, env Env, h installer.Host, spec service.Spec, t installer.Target, o installer.Options) {
	r := newRecorder(env)
	seen, err := r.seen(t.Home)
	if err == nil {
		var d installer.Desired
		if d, err = h.Desired(spec, t, o); err == nil {
			for _, a := range d.Files {
				if a.Link == "" && generation.IsUnit(a.Path) {
					seen.Units = append(seen.Units, a.Path)
				}
			}
			err = r.put(ctx, t.Home, generation.Install, seen)
		}
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "%s: note: what runs is not recorded as a generation: %v\n", Name, err) //nolint:errcheck // nowhere left to say it
	}
}

// activation goes from what runs on a home to something else.
func (r *recorder) activation(h home.Home, patience time.Duration) (generation.Activation, error) {
	seen, err := r.seen(h)
	s := r.store(h)
	return generation.Activation{
		Store: s, Seen: seen, Wait: patience, Fleet: &runningFleet{env: r.env, store: s},
		Say: func(msg string) { fmt.Fprintln(r.env.Stderr, msg) }, //nolint:errcheck // nowhere left to say it
	}, err
}

// begin settles an update that was cut off, before a gateway starts. ready is called once it
// serves. An obstacle stops no gateway: it is a notice.
func begin(ctx context.Context, env Env, h home.Home) (notices []string, ready func(context.Context) error, err error) {
	at := h.Root() // where updates are written down; the rollback of a profile is in its own home
	if _, err := os.Lstat(filepath.Join(at.State(), "update.json")); err != nil {
		at = h
	}
	if _, err := os.Lstat(filepath.Join(at.State(), "update.json")); err != nil {
		return nil, nil, nil //nolint:nilerr // nothing was cut off
	}
	a, err := newRecorder(env).activation(at, 0)
	if err != nil {
		return []string{"an update was cut off and cannot be settled: " + err.Error()}, nil, nil //nolint:nilerr // as above
	}
	s, err := a.Begin(ctx)
	if err != nil {
		return []string{"an update was cut off and cannot be settled: " + err.Error() + "; run " + Name + " update as the user who started it"}, nil, nil //nolint:nilerr // as above
	}
	if s.Again {
		return nil, nil, &codeError{exitcode.Restart, s.Said + "; start the gateway again, it is the other program then"}
	}
	if s.Said != "" {
		notices = append(notices, s.Said)
	}
	return notices, s.Ready, nil
}
