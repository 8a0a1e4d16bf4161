// SPDX-License-Identifier: MIT

package images

import (
	"errors"
	"fmt"
)

// ErrGuarded says that a production name was to be written outside of a release run. Nothing
// was sent.
var ErrGuarded = errors.New("the production name is written by a release run only")

// Run says what started this process, as the caller reads it from the environment. The zero
// value is a run by hand.
type Run struct {
	CI      bool   // GITHUB_ACTIONS=true
	Event   string // GITHUB_EVENT_NAME
	Publish bool   // a dispatch was asked to publish (its input publish=true)
}

// Release reports whether the run may write production names: a published release, or a
// dispatch that was asked to publish.
func (r Run) Release() bool {
	return r.CI && (r.Event == "release" || r.Event == "workflow_dispatch" && r.Publish)
}

// Guard refuses to let anything but a release run write to a production repository.
func (r Run) Guard(repo Ref) error {
	if !repo.Production() || r.Release() {
		return nil
	}
	what := "this was started by hand"
	if r.CI {
		what = fmt.Sprintf("this is a run for the event %q, publish=%t", r.Event, r.Publish)
	}
	return fmt.Errorf("%s: %w: %s; publish to a repository of your own with --repository, or run the workflow sandbox-image with publish=true", repo.Name, ErrGuarded, what)
}
