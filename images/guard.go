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
	Tag     bool   // GITHUB_REF_TYPE=tag: it is for a tag that was pushed
	Publish bool   // it was asked to publish (HERMES_IMAGES_PUBLISH=true)
	Named   string // the repository that a person says may be written (HERMES_IMAGES_PUBLISH=NAME)
}

// release reports whether the run may write a production name: for the sandbox's image a
// published release, for the gateway's the tag of one, for both a dispatch that was asked to
// publish.
func (r Run) release(repo Ref) bool {
	switch {
	case !r.CI:
		return false
	case r.Event == "workflow_dispatch":
		return r.Publish
	case repo.gateway():
		return r.Event == "push" && r.Tag && r.Publish
	}
	return r.Event == "release"
}

// Guard refuses to let anything but a release run write to a production repository.
func (r Run) Guard(repo Ref) error {
	if !repo.Production() || r.release(repo) {
		return nil
	}
	what := "this was started by hand"
	if r.CI {
		what = fmt.Sprintf("this is a run for the event %q, publish=%t", r.Event, r.Publish)
	}
	how := "run the workflow sandbox-image with publish=true"
	if repo.gateway() {
		how = "push the tag of a release"
	}
	return fmt.Errorf("%s: %w: %s; publish to a repository of your own with --repository, or %s", repo.Name, ErrGuarded, what, how)
}

// GuardBack is Guard for a rollback, which must be possible when no workflow runs: a person may do
// it who names the repository twice.
func (r Run) GuardBack(repo Ref) error {
	if !r.CI && r.Named != "" && r.Named == repo.Name {
		return nil
	}
	if err := r.Guard(repo); err != nil {
		return fmt.Errorf("%w; to go back by hand, set HERMES_IMAGES_PUBLISH=%s", err, repo.Name)
	}
	return nil
}
