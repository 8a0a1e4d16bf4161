// SPDX-License-Identifier: MIT

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// errBusy says that another process is at work on the container: look again soon.
var errBusy = errors.New("another process is making this sandbox")

// How long to wait for another process that makes, replaces or removes the container.
const (
	busyPoll = 100 * time.Millisecond
	orphaned = 15 * time.Second // after which a container that nobody started is taken over
)

// Container is a running container. It is safe for concurrent use. It needs no closing;
// [Container.Release] says that its user is done with it.
type Container struct {
	e       *Engine
	id      string
	name    string
	image   string
	workdir string
	spec    Spec
}

// ID is the engine's id.
func (c *Container) ID() string { return c.id }

// Name is the container's name.
func (c *Container) Name() string { return c.name }

// Image is the name of the image it was made from.
func (c *Container) Image() string { return c.image }

// Workdir is the directory that commands start in.
func (c *Container) Workdir() string { return c.workdir }

// Ensure returns the container of a Spec, running: the one that is there, or a new one. It
// is also the way to go on after [ErrGone]: the State says what became of the old one. Two
// calls, in one process or several, end up with the same container. A pull may take
// [PullTimeout]; the caller's context bounds all.
func (e *Engine) Ensure(ctx context.Context, s Spec) (*Container, State, error) {
	if err := s.check(); err != nil {
		return nil, State{}, err
	}
	s = s.clone()
	if !s.Keep {
		s.private = e.private
	}
	if _, err := build(s, layout{}, false); err != nil {
		return nil, State{}, err // before anything is touched
	}
	l := e.lock(s.name())
	l.Lock()
	defer l.Unlock()
	seen := map[string]time.Time{}
	until := time.Now().Add(CreateTimeout)
	for {
		c, st, err := e.ensure(ctx, s, seen)
		if !errors.Is(err, errBusy) {
			st.Wanted = s.Image
			e.tell(s, st, err)
			return c, st, err
		}
		if time.Now().After(until) {
			return nil, st, &EngineError{Kind: ErrEngine, Op: "get the sandbox " + s.name(), Err: err, Fix: fmt.Sprintf("look at it with docker ps -a --filter name=%s", s.name())}
		}
		select {
		case <-ctx.Done():
			return nil, st, ctx.Err()
		case <-time.After(busyPoll):
		}
	}
}

// tell logs what a gateway would not ask about.
func (e *Engine) tell(s Spec, st State, err error) {
	if err != nil {
		return
	}
	for _, n := range st.Notes {
		e.log().Warn("sandbox", "profile", s.Profile, "container", s.name(), "note", n)
	}
}

func (e *Engine) ensure(ctx context.Context, s Spec, seen map[string]time.Time) (*Container, State, error) {
	found, notes, err := e.find(ctx, s)
	st := State{Notes: notes}
	if err != nil {
		return nil, st, err
	}
	if err := e.wait(found, s, seen); err != nil {
		return nil, st, err
	}
	if len(found) == 0 {
		st.Outcome = Created
		return e.create(ctx, s, s.name(), st)
	}
	c := found[0]
	switch {
	case s.wantsLock() && !c.locked():
		return e.lockedAnew(ctx, s, found, st)
	case !sameImage(c.image, s.Image) && s.Pinned:
		return e.replace(ctx, s, c, st)
	}
	con, st, err := e.take(ctx, s, c, st)
	if err == nil {
		e.clear(ctx, s, c, found[1:])
		if c.name == s.name()+nextSuffix {
			con.rename(ctx, s.name())
		}
	}
	return con, st, err
}

// wait says errBusy while another process is at work: a container that is being removed, one
// that was made and not started, or one that is to take another's place.
func (e *Engine) wait(found []candidate, s Spec, seen map[string]time.Time) error {
	for _, c := range found {
		busy := c.state == container.StateRemoving || c.state == container.StateRestarting || c.state == container.StateCreated ||
			c.name == s.name()+nextSuffix && len(found) > 1
		if !busy {
			continue
		}
		first, ok := seen[c.id]
		if !ok {
			first = time.Now()
			seen[c.id] = first
		}
		if time.Since(first) < e.patience || c.state == container.StateRemoving {
			return errBusy
		}
	}
	return nil
}

// clear removes what a replacement that was interrupted left behind: containers of this
// identity beside the one that is used, whose image nobody wants any more.
func (e *Engine) clear(ctx context.Context, s Spec, used candidate, others []candidate) {
	for _, c := range others {
		if !s.Pinned || !sameImage(used.image, s.Image) {
			e.log().Warn("a profile has two sandboxes", "used", used.name, "other", c.name)
			continue
		}
		if err := e.remove(ctx, c.id); err != nil {
			e.log().Warn("cannot remove a leftover sandbox", "container", c.name, "error", err)
		}
	}
}

// take uses a container that is there.
func (e *Engine) take(ctx context.Context, s Spec, c candidate, st State) (*Container, State, error) {
	st.Outcome, st.Image = Reused, c.image
	if !sameImage(c.image, s.Image) {
		st.Kept = true
		st.Notes = append(st.Notes, fmt.Sprintf("this sandbox was made from %s and is kept; %s is the default now. hermes-appliance sandbox switch moves to it, sandbox keep stays", c.image, s.Image))
	}
	if changed := s.changes(c.labels[labelConfig]); len(changed) > 0 {
		st.Notes = append(st.Notes, fmt.Sprintf("this sandbox was made with other settings (%s); they take effect in a new one: docker rm -f %s, then go on. /root and /workspace stay if terminal.container_persistent is true", strings.Join(changed, ", "), c.name))
	}
	op := "start the sandbox " + c.name
	ctx, cancel := context.WithTimeout(ctx, CreateTimeout)
	defer cancel()
	var err error
	switch c.state {
	case container.StateRunning:
	case container.StatePaused:
		_, err = e.api.ContainerUnpause(ctx, c.id, client.ContainerUnpauseOptions{})
	default:
		st.Outcome = Started
		_, err = e.api.ContainerStart(ctx, c.id, client.ContainerStartOptions{})
	}
	switch {
	case errdefs.IsNotFound(err):
		return nil, st, errBusy
	case err != nil && (c.state == container.StateCreated || c.state == container.StateDead):
		// It never ran: nothing is in it that could be lost.
		e.log().Warn("removing a sandbox that cannot start", "container", c.name, "error", err)
		if err := e.remove(ctx, c.id); err != nil {
			return nil, st, err
		}
		return nil, st, errBusy
	case err != nil:
		return nil, st, withFix(e.failed(op, err), fmt.Sprintf("docker logs %s tells more; docker rm %[1]s makes way for a new one", c.name))
	}
	con := &Container{e: e, id: c.id, name: c.name, image: c.image, workdir: e.workdirOf(s), spec: s}
	if st.Outcome == Started {
		err = con.prove(ctx)
	}
	if c.name == s.name()+nextSuffix && errors.Is(err, ErrGone) {
		// The successor of another one, left by an interrupted replacement, does not work.
		if err := e.remove(ctx, c.id); err != nil {
			return nil, st, err
		}
		return nil, st, errBusy
	}
	return con, st, err
}

// workdirOf is where commands start, as [Engine.lay] decides for a new container.
func (e *Engine) workdirOf(s Spec) string {
	l := layout{workdir: s.Workdir}
	claimed := map[string]bool{}
	var volumes []volume
	for _, text := range s.Volumes {
		if v, ok := parseVolume(text); ok {
			claimed[v.target] = true
			volumes = append(volumes, v)
		}
	}
	e.placeProject(s, volumes, claimed, &l)
	return l.workdir
}

func withFix(err error, fix string) error {
	if own, ok := errors.AsType[*EngineError](err); ok && own.Fix == "" {
		own.Fix = fix
	}
	return err
}

// lockedAnew replaces containers that have a network and must not. Whatever their image and
// whoever chose it: they are not used. They go only once the image is here.
func (e *Engine) lockedAnew(ctx context.Context, s Spec, found []candidate, st State) (*Container, State, error) {
	if !s.Pinned {
		s.Image = found[0].image // what the profile has, until somebody chooses
	}
	if err := e.have(ctx, s.Image); err != nil {
		return nil, st, err
	}
	for _, c := range found {
		if c.locked() {
			continue
		}
		if err := e.remove(ctx, c.id); err != nil {
			return nil, st, err
		}
	}
	st.Outcome = Recreated
	st.Notes = append(st.Notes, "the sandbox had a network that terminal.docker_network does not allow; it was made anew without one")
	return e.create(ctx, s, s.name(), st)
}

// rename is best effort: a container is found by its labels.
func (c *Container) rename(ctx context.Context, name string) {
	if _, err := c.e.api.ContainerRename(ctx, c.id, client.ContainerRenameOptions{NewName: name}); err != nil {
		c.e.log().Warn("cannot rename a sandbox", "container", c.name, "error", err)
		return
	}
	c.name = name
}

// remove removes a container and waits until it is gone: an engine answers while it is still
// at work, and a new container of the same name would be refused (vscode-remote#6509).
func (e *Engine) remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RemoveTimeout)
	defer cancel()
	for {
		_, err := e.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case errdefs.IsNotFound(err):
			return nil
		case err != nil && (!errdefs.IsConflict(err) || !strings.Contains(err.Error(), "already in progress")):
			return e.failed("remove the sandbox "+id[:min(12, len(id))], err)
		}
		if _, err := e.inspect(ctx, id); errdefs.IsNotFound(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return e.failed("remove the sandbox "+id[:min(12, len(id))], ctx.Err())
		case <-time.After(busyPoll):
		}
	}
}
