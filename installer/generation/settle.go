// SPDX-License-Identifier: MIT

package generation

import (
	"context"
	"errors"
	"os"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Settle finishes or undoes an activation that was cut off, and says what it did; "" = there
// was none. Where all of the new is in place it is proven like any other, else it is undone.
func (a Activation) Settle(ctx context.Context) (said string, err error) {
	if j, err := a.pending(); err != nil || j == nil {
		return "", err
	}
	release, err := a.lock(ctx, a.Seen.Binary.Path)
	if errors.Is(err, errBusy) {
		err = a.busy()
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, release()) }()
	return a.settle(ctx)
}

// settle is Settle under the lock.
func (a Activation) settle(ctx context.Context) (string, error) {
	j, err := a.mine()
	if err != nil {
		return "", err
	}
	if j == nil {
		return "", a.clear()
	}
	if j.Phase == prepared || !a.inPlace(j) {
		return j.what() + " had been cut off and was undone", a.undo(ctx, j)
	}
	var moved []Gateway
	if a.Fleet != nil {
		if moved, err = a.resume(ctx, j); err != nil {
			undo := context.WithoutCancel(ctx)
			err = &FailedError{err, errors.Join(a.undo(undo, j), a.back(undo, j, moved))}
			return j.what() + " had been cut off and was undone", err
		}
	}
	_, err = a.finish(ctx, j, Outcome{})
	return j.what() + " had been cut off and was finished", err
}

// mine returns the journal of an activation of this program. One of another program is an
// error: only that one knows how to settle it.
func (a Activation) mine() (*journal, error) {
	j, err := a.pending()
	if err != nil || j == nil {
		return nil, err
	}
	if j.From.Path != a.Seen.Binary.Path {
		return nil, refuse(a.JournalPath(), "run "+j.From.Path+" update --check", "%s was cut off, and is one of %s", j.what(), j.From.Path)
	}
	return j, nil
}

// clear removes a program that was staged before there was a journal.
func (a Activation) clear() error {
	real, err := atomicfile.Resolve(a.Seen.Binary.Path)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(staged(real)); absent(err) {
		return nil
	}
	return a.Files.Remove(staged(real))
}

// inPlace reports whether the new program is where it shall be.
func (a Activation) inPlace(j *journal) bool {
	now, err := ReadBinary(j.To.Path, "", "")
	return err == nil && now.SHA256 == j.To.SHA256
}

// resume proves the gateways that were to start on the new state and do not serve on it yet.
func (a Activation) resume(ctx context.Context, j *journal) ([]Gateway, error) {
	var due []Gateway
	for _, id := range j.Restart {
		h, err := a.Home.NamedProfile(id)
		if err != nil {
			continue // deleted since
		}
		g, ok, err := a.Fleet.Ask(ctx, h)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			g = Gateway{Home: h}
		case g.Supervisor == "" || g.Version == j.To.Version && j.From.Version != j.To.Version && g.Ready:
			continue
		}
		due = append(due, g)
	}
	return a.prove(ctx, due, j.To.Version)
}

// Start is what a gateway that starts has to know.
type Start struct {
	Said  string // what was done about an activation that was cut off; "" = nothing
	Again bool   // another program is in place than the one that runs: end, and be started again
	// Ready is to be called once the gateway serves, with which the activation is finished. nil =
	// there is nothing to finish.
	Ready func(ctx context.Context) error

	release func() error // gives the try up, as the end of the process does
}

// Begin settles an activation that was cut off when a gateway starts. While somebody works on
// the activation it does nothing. A new state that is in place gets one try: the gateway starts
// on it, and a start that finds that the one before never served puts back what was. A try
// that is under way is left alone.
func (a Activation) Begin(ctx context.Context) (Start, error) {
	if j, err := a.pending(); err != nil || j == nil {
		return Start{}, err
	}
	release, err := a.lock(ctx, a.Seen.Binary.Path)
	if errors.Is(err, errBusy) {
		return Start{}, nil
	}
	if err != nil {
		return Start{}, err
	}
	s, err := a.begin(ctx, release)
	if s.Ready == nil {
		err = errors.Join(err, release())
	}
	return s, err
}

func (a Activation) begin(ctx context.Context, release func() error) (Start, error) {
	j, err := a.mine()
	if err != nil || j == nil {
		return Start{}, err
	}
	there := a.inPlace(j)
	if j.Phase != swapped || !there {
		s := Start{Said: j.what() + " had been cut off and was undone"}
		if j.Phase == trying {
			s.Said = j.what() + " did not come up and was undone"
		}
		err := a.undo(ctx, j)
		s.Again = there && j.From.SHA256 != j.To.SHA256 && !a.inPlace(j)
		return s, err
	}
	j.Phase = trying
	if err := a.writeJournal(j); err != nil {
		return Start{}, err
	}
	return Start{
		Said: j.what() + " had been cut off; it is finished once this gateway serves",
		Ready: func(ctx context.Context) error {
			_, err := a.finish(ctx, j, Outcome{})
			return errors.Join(err, release())
		},
		release: release,
	}, nil
}
