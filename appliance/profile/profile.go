// SPDX-License-Identifier: MIT

// Package profile says for which profile a task runs: the identity of this process, of the
// task at hand, and whether the two differ. It never reads a profile's files and never falls
// back to another profile: a task whose profile is gone is bound to nothing.
package profile

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// Key identifies a home whatever path leads to it: its real path, in lower case where file
// names have no case. Caches and ledgers of a profile are filed under it.
type Key string

// KeyOf returns the key of a home directory; see [home.Key].
func KeyOf(dir string) Key { return Key(home.Key(dir)) }

// Task is on whose behalf something runs. The zero Task is the process's own profile.
type Task struct {
	Home home.Home // home override; Dir "" = none
	// Stamp is the key that a secret scope bound without moving the home belongs to. Only
	// binders of a home other than the launch home set it (R3, R4).
	Stamp Key
	// Multiplexed runs this task as if the process served many profiles (a routed cron fire).
	Multiplexed bool
	// Lost says that the profile does not exist any more: every read for it fails (R12).
	Lost bool
}

type taskKey struct{}

// Bind returns a context in which t is the task.
func Bind(ctx context.Context, t Task) context.Context { return context.WithValue(ctx, taskKey{}, t) }

// From returns the task of a context, the zero Task if none was bound.
func From(ctx context.Context) Task {
	t, _ := ctx.Value(taskKey{}).(Task)
	return t
}

// ErrLost says that the profile a task runs for was deleted or renamed.
var ErrLost = errors.New("the profile does not exist any more")

// BindNamed binds the profile with the given id below root. If it does not exist the context
// it returns is bound to nothing, so that no read in it can reach another profile, and the
// error wraps [ErrLost].
func BindNamed(ctx context.Context, root home.Home, id string) (context.Context, error) {
	h, err := root.NamedProfile(id)
	if err != nil {
		return Bind(ctx, Task{Lost: true}), fmt.Errorf("%w: %w", ErrLost, err)
	}
	return Bind(ctx, Task{Home: h}), nil
}

// Host is the identity of this process. It is safe for concurrent use.
type Host struct {
	processHome func() string

	mu        sync.RWMutex
	pin       string
	autoPin   bool
	multiplex bool
}

// NewHost makes the identity of a process whose own home is what processHome returns, asked
// anew each time: an embedding program may move it.
func NewHost(processHome func() string) *Host { return &Host{processHome: processHome} }

// ProcessHome is the process's home as it is now, pinned or not (R7).
func (h *Host) ProcessHome() string { return h.processHome() }

// Pin records the home that this process serves as its own, so that mirroring a served home
// into the process's environment does not make that the launch home (R5).
func (h *Host) Pin(dir string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pin, h.autoPin = dir, false
}

// Unpin returns to the process's home as it is (R6).
func (h *Host) Unpin() { h.Pin("") }

// PinDuring pins a home while f runs, and restores the pin that was (R9).
func (h *Host) PinDuring(dir string, f func()) {
	h.mu.Lock()
	pin, auto := h.pin, h.autoPin
	h.pin, h.autoPin = dir, false
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.pin, h.autoPin = pin, auto
		h.mu.Unlock()
	}()
	f()
}

// SetMultiplex says whether the process serves many profiles. Switching on pins the present
// home if nothing is pinned; switching off clears only a pin made so (R8).
func (h *Host) SetMultiplex(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case on && h.pin == "":
		h.pin, h.autoPin = h.processHome(), true
	case !on && h.autoPin:
		h.pin, h.autoPin = "", false
	}
	h.multiplex = on
}

// Multiplex reports whether the process serves many profiles.
func (h *Host) Multiplex() bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.multiplex
}

// LaunchHome is the home that "is this task routed?" compares with: the pin, else the
// process's home.
func (h *Host) LaunchHome() string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.pin != "" {
		return h.pin
	}
	return h.processHome()
}

// LaunchKey is the key of the launch home.
func (h *Host) LaunchKey() Key { return KeyOf(h.LaunchHome()) }

// Target is the key of the home a task runs for.
func (h *Host) Target(t Task) (Key, error) {
	switch {
	case t.Lost:
		return "", ErrLost
	case t.Home.Dir != "":
		return KeyOf(t.Home.Dir), nil
	case t.Stamp != "":
		return t.Stamp, nil
	}
	return h.LaunchKey(), nil
}

// Routed reports whether a task runs for another home than the launch home (R2, R3). A lost
// task is routed: it must not be taken for the process's own.
func (h *Host) Routed(t Task) bool {
	target, err := h.Target(t)
	return err != nil || target != h.LaunchKey()
}

// Keyed reports whether what a task caches is filed under its home: always when the process
// serves many profiles, also for its own (R1).
func (h *Host) Keyed(t Task) bool { return h.Multiplex() || h.Routed(t) }

// Isolated reports whether reads for the task are closed: a name that its own scope does not
// have is absent, whatever the process's environment says.
func (h *Host) Isolated(t Task) bool { return h.Multiplex() || t.Multiplexed || h.Routed(t) }

// Ledger is the key under which a shared registry files name for a task: of the name alone
// in a process for one profile, of home and name otherwise (R5).
type Ledger struct {
	Home Key // "" in a process that serves one profile
	Name string
}

// Ledger returns the entry's key. A lost task has none.
func (h *Host) Ledger(t Task, name string) (Ledger, error) {
	target, err := h.Target(t)
	if err != nil {
		return Ledger{}, err
	}
	if !h.Keyed(t) {
		target = ""
	}
	return Ledger{target, name}, nil
}
