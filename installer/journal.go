// SPDX-License-Identifier: MIT

package installer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// journalVersion is that of the file format.
const journalVersion = 1

// journal is what a run writes down ahead of each step, so that another process can take it back.
type journal struct {
	Version int     `json:"version"`
	What    string  `json:"what"` // install, uninstall
	Name    string  `json:"name"`
	Home    string  `json:"home"`
	At      int     `json:"at"`   // the step that was begun last
	Done    bool    `json:"done"` // every step holds; only this file is left to remove
	Entries []entry `json:"steps"`
}

// entry is a step with the files of before and after, which a plan does not print.
type entry struct {
	Step

	Before Image `json:"before"`
	After  Image `json:"after"`
}

// run carries steps out.
type run struct {
	h Host
	t Target
	j journal

	notes []string // soft steps that failed
}

// reached reports whether a step of this kind was begun.
func (r *run) reached(op Op) bool {
	for i, e := range r.j.Entries {
		if e.Op == op && i <= r.j.At {
			return true
		}
	}
	return false
}

func (r *run) write() error {
	data, err := json.Marshal(r.j)
	if err != nil {
		return err
	}
	return r.h.Files.Write(r.h.path(r.t.journal()), append(data, '\n'), atomicfile.Options{Mode: 0o600, Temp: staged(r.t.journal())})
}

// StepError is a step that failed. Unless Left names something, everything is as it was before
// the run.
type StepError struct {
	Step Step
	Err  error
	Left error // what could not be undone; the next run tries again
}

func (e *StepError) Error() string {
	text := strings.Join(strings.Fields(strings.Split(e.Step.String(), "  (")[0]), " ") + ": " + e.Err.Error()
	if e.Left != nil {
		return text + "\nnot everything could be undone, the next run tries again: " + e.Left.Error()
	}
	return text + "\neverything is undone"
}

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// carryOut does the steps of a plan. After an error they are undone, in reverse.
func (h Host) carryOut(ctx context.Context, what string, p Plan) (said []string, err error) {
	r := &run{h: h, t: p.Target, j: journal{Version: journalVersion, What: what, Name: p.Name, Home: p.Home.Dir, At: -1}}
	for _, s := range p.Steps {
		r.j.Entries = append(r.j.Entries, entry{s, s.Before, s.After})
	}
	if err := r.write(); err != nil {
		return nil, errors.Join(err, r.forget())
	}
	for i, s := range p.Steps {
		r.j.At = i
		if err := r.one(ctx, i, s); err != nil {
			return r.notes, r.takeBack(ctx, s, err)
		}
	}
	r.j.Done = true
	if err := r.write(); err != nil {
		return r.notes, r.takeBack(ctx, Step{Op: "finish"}, err)
	}
	if err := h.at("done"); err != nil {
		return r.notes, err
	}
	return r.notes, r.forget()
}

// one carries one step out, between two points at which a test may end it.
func (r *run) one(ctx context.Context, i int, s Step) error {
	for _, part := range []struct {
		name string
		do   func() error
	}{
		{"begin", r.write},
		{"do", func() error { return r.do(ctx, s) }},
		{"verify", func() error { return r.verify(ctx, s) }},
	} {
		err := ctx.Err()
		if err == nil {
			err = r.h.at(fmt.Sprintf("%d %s %s", i, s.Op, part.name))
		}
		if err == nil {
			err = part.do()
		}
		if err != nil && s.Soft && ctx.Err() == nil && part.name != "begin" {
			r.notes = append(r.notes, s.String()+": "+err.Error())
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// undoTime is how long everything may take to be undone, also after the run itself was told to end.
const undoTime = 5 * time.Minute

func (r *run) takeBack(ctx context.Context, s Step, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	return &StepError{Step: s, Err: cause, Left: r.undoAll(ctx)}
}

// undoAll undoes every step that was begun, the last one first. One that fails does not keep the
// others from it; the journal stays then.
func (r *run) undoAll(ctx context.Context) error {
	var errs []error
	for i := r.j.At; i >= 0; i-- {
		e := r.j.Entries[i]
		s := e.Step
		s.Before, s.After = e.Before, e.After
		err := r.h.at(fmt.Sprintf("%d %s undo", i, s.Op))
		if err == nil {
			err = r.undo(ctx, s)
		}
		// What somebody changed meanwhile is theirs and stays. Linger that cannot be switched back
		// is no reason to leave anything else half done.
		if err != nil && (errors.Is(err, errChanged) || s.Op == OpLinger || s.Op == OpUnlingr) {
			r.notes = append(r.notes, err.Error())
			continue
		}
		if err != nil && !s.Soft {
			errs = append(errs, fmt.Errorf("%s: %w", s.Op, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return r.forget()
}

// forget removes the journal.
func (r *run) forget() error {
	err := r.h.Files.Remove(r.h.path(r.t.journal()))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// lock keeps other runs on services of the same directory out. It makes the directory for the
// journal. release also removes what is left of it where nothing else is in it.
func (h Host) lock(ctx context.Context, t Target) (release func() error, err error) {
	dir := h.path(t.stateDir())
	if err := h.makeDirs(dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "service")
	unlock, err := home.LockFile(ctx, file)
	if err != nil {
		return nil, err
	}
	if err := h.sweep(t.journal()); err != nil {
		return nil, errors.Join(err, unlock())
	}
	return func() error {
		var err error
		if entries, rerr := os.ReadDir(dir); rerr == nil && len(entries) == 1 && t.stateDir() == systemState {
			err = errors.Join(h.Files.Remove(file+".lock"), os.Remove(dir))
		}
		return errors.Join(err, unlock())
	}, nil
}

func (h Host) makeDirs(dir string, mode fs.FileMode) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := h.makeDirs(parent, 0o755); err != nil {
			return err
		}
	}
	err := h.Files.Mkdir(dir, mode)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return &Refusal{Reason: "readonly", File: h.inside(filepath.Dir(dir)), Msg: "cannot be written: " + err.Error(), Fix: "make it writable, then run again", Code: exitcode.Managed}
	}
	return err
}

// interrupted returns what a run that was cut off left, nil if nothing.
func (h Host) interrupted(t Target) (*journal, error) {
	path := h.path(t.journal())
	data, st, err := atomicfile.Read(path)
	if err != nil || !st.Exists {
		return nil, err
	}
	var j journal
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&j); err != nil || j.Version != journalVersion || j.Name != t.Name || j.At >= len(j.Entries) {
		return nil, &Refusal{Reason: "journal", File: path, Msg: "is no journal of this version", Fix: "look at it, put the files it names right, and remove it", Code: exitcode.Unparseable}
	}
	return &j, nil
}

// settle undoes a run that was cut off, and says so.
func (h Host) settle(ctx context.Context, t Target) (string, error) {
	j, err := h.interrupted(t)
	if err != nil || j == nil {
		return "", err
	}
	r := &run{h: h, t: t, j: *j}
	if j.Done {
		return "an earlier " + j.What + " had come to its end", r.forget()
	}
	if err := r.undoAll(ctx); err != nil {
		return "", fmt.Errorf("an earlier %s was cut off and cannot be undone: %w", j.What, err)
	}
	return strings.Join(append([]string{"an earlier " + j.What + " was cut off; it was undone first"}, r.notes...), "; "), nil
}
