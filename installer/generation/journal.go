// SPDX-License-Identifier: MIT

package generation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// phase is how far an activation is.
type phase string

const (
	prepared phase = "prepared" // what was before is recorded; some of the new may be in place
	swapped  phase = "swapped"  // all of the new is in place, and no gateway has proven it
	trying   phase = "trying"   // a gateway starts on it, and nobody waits for that one
)

// journal is an activation under way. It is there from before the first change until after the
// last one. It names generations, never what is in them.
type journal struct {
	Version int       `json:"version"`
	Reason  Reason    `json:"reason"` // [Update] or [Rollback]
	Phase   phase     `json:"phase"`
	Time    time.Time `json:"time"`
	Before  int       `json:"before"`           // the generation to return to
	Target  int       `json:"target,omitempty"` // of a rollback
	From    Binary    `json:"from"`
	To      Binary    `json:"to"`
	// Restart are the profiles whose gateways are to start on the new state.
	Restart []string `json:"restart,omitempty"`
}

func (j *journal) what() string {
	if j.Reason == Rollback {
		return fmt.Sprintf("the rollback to generation %d of %s", j.Target, j.Time.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("the update from %s to %s of %s", j.From.Version, j.To.Version, j.Time.UTC().Format(time.RFC3339))
}

func (j *journal) valid() error {
	switch {
	case j.Version != formatVersion:
		return fmt.Errorf("format %d", j.Version)
	case j.Reason != Update && j.Reason != Rollback:
		return fmt.Errorf("reason %q", j.Reason)
	case j.Phase != prepared && j.Phase != swapped && j.Phase != trying:
		return fmt.Errorf("phase %q", j.Phase)
	case !j.From.valid() || !j.To.valid() || j.From.Path != j.To.Path:
		return fmt.Errorf("program %q", j.To.Path)
	}
	for _, id := range j.Restart {
		if id != home.Default && !home.ValidID(id) {
			return fmt.Errorf("profile %q", id)
		}
	}
	return nil
}

// JournalPath is where an activation under way is written down.
func (s Store) JournalPath() string { return filepath.Join(s.Home.State(), "update.json") }

// pending returns the journal of an activation, nil if there is none.
func (s Store) pending() (*journal, error) {
	data, st, err := atomicfile.Read(s.JournalPath())
	if err != nil || !st.Exists {
		return nil, err
	}
	var j journal
	err = decode(data, &j)
	if err == nil {
		err = j.valid()
	}
	if err != nil {
		return nil, damaged(s.JournalPath(), err)
	}
	return &j, nil
}

func (s Store) writeJournal(j *journal) error {
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	return s.Files.Write(s.JournalPath(), append(data, '\n'), atomicfile.Options{Mode: 0o600})
}

// errBusy says that another process activates something.
var errBusy = errors.New("busy")

// lock keeps other activations of the home and of the program out, without waiting: errBusy.
// The locks are the kernel's, and tell whether the one who wrote a journal still works on it.
func (s Store) lock(ctx context.Context, program string) (release func() error, err error) {
	if err := s.Files.Mkdir(s.Home.State(), 0o700); err != nil {
		return nil, err
	}
	real, err := atomicfile.Resolve(program)
	if err != nil {
		return nil, err
	}
	paths := []string{s.JournalPath()}
	if why, err := home.DirOwner(filepath.Dir(real)); err == nil && why == "" {
		dir := keptDir(real)
		if err := s.Files.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		paths = append(paths, filepath.Join(dir, "update"))
	}
	now, cancel := context.WithCancel(ctx)
	cancel() // it is tried once
	var held []func() error
	release = func() error {
		var errs []error
		for _, r := range held {
			errs = append(errs, r())
		}
		return errors.Join(errs...)
	}
	for _, p := range paths {
		r, err := home.LockFile(now, p)
		if errors.Is(err, context.Canceled) {
			err = errBusy
		}
		if err != nil {
			return nil, errors.Join(err, release())
		}
		held = append(held, r)
	}
	return release, nil
}

// busy is errBusy in words.
func (s Store) busy() error {
	return &Refusal{File: s.Home.Dir, Msg: "another update or rollback is under way", Fix: "try again when it is done", Code: exitcode.Locked}
}
