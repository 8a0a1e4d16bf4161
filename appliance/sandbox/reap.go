// SPDX-License-Identifier: MIT

package sandbox

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// ReapAge is how long a container must have been stopped before [Engine.Reap] removes it: a
// process that stopped a moment ago may be about to start it again.
const ReapAge = 600 * time.Second

// sibling is the data directory of another task beside one of a profile.
func sibling(data, task string) string { return filepath.Join(filepath.Dir(data), TaskDir(task)) }

// Reap removes containers of the profile, of all its tasks, that stopped longer than
// [ReapAge] ago, and returns how many. Running ones may be another process's. The removal is
// not forced, so a container that somebody starts meanwhile stays.
func (e *Engine) Reap(ctx context.Context, s Spec, now time.Time) (int, error) {
	all, err := e.List(ctx, s)
	if err != nil {
		return 0, err
	}
	removed := 0
	var failures error
	for _, in := range all {
		if !in.Own || in.State != string(container.StateExited) {
			continue
		}
		r, err := e.api.ContainerInspect(ctx, in.ID, client.ContainerInspectOptions{})
		if err != nil || r.Container.State == nil {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, r.Container.State.FinishedAt)
		if err != nil || at.Year() <= 1 || now.Sub(at) < ReapAge {
			continue // never ended, or nobody knows when: kept
		}
		_, err = e.api.ContainerRemove(ctx, in.ID, client.ContainerRemoveOptions{RemoveVolumes: true})
		switch {
		case err == nil:
			removed++
			e.log().Info("removed a sandbox that was stopped", "container", in.Name)
		case !errdefs.IsNotFound(err) && !errdefs.IsConflict(err):
			failures = errors.Join(failures, e.failed("remove the sandbox "+in.Name, err))
		}
	}
	return removed, failures
}

// Release says that the user of a container is done with it. With [Spec.Keep] it runs on;
// else it is stopped and removed in the background, which [Engine.Close] waits for. Then
// removed is called, unless it is nil.
func (c *Container) Release(ctx context.Context, removed func()) {
	if c.spec.Keep {
		return
	}
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.e.closed {
		c.e.log().Warn("a sandbox was released after the engine was closed, and stays", "container", c.name)
		return
	}
	c.e.work.Go(func() {
		if err := c.tearDown(context.WithoutCancel(ctx)); err != nil {
			c.e.log().Warn("cannot remove a sandbox", "container", c.name, "error", err)
		} else if removed != nil {
			removed()
		}
	})
}

// Remove stops and removes a container, whatever its Spec says.
func (c *Container) Remove(ctx context.Context) error { return c.tearDown(ctx) }

func (c *Container) tearDown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, StopGrace+RemoveTimeout)
	defer cancel()
	grace := int(StopGrace / time.Second)
	_, err := c.e.api.ContainerStop(ctx, c.id, client.ContainerStopOptions{Timeout: &grace})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return errors.Join(c.e.failed("stop the sandbox "+c.name, err), c.e.remove(ctx, c.id))
}

// RemoveLeft removes a container that was not to be kept, by its id: the process whose own it was
// did not come to do so. One that is gone, or not this program's, is nobody's concern.
func (e *Engine) RemoveLeft(ctx context.Context, id string) error {
	c, err := e.inspect(ctx, id)
	switch {
	case errdefs.IsNotFound(err) || err == nil && (c.id != id || c.labels[labelMaker] == ""):
		return nil
	case err != nil:
		return e.failed("look at the sandbox "+id, err)
	}
	return e.remove(ctx, id)
}
