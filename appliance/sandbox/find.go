// SPDX-License-Identifier: MIT

package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// candidate is a container that an identity may have.
type candidate struct {
	id, name, image string
	state           container.ContainerState
	labels          map[string]string
	networks        []string // "none" is in it where there is none
	mode            string
}

func (c candidate) running() bool { return c.state == container.StateRunning }

// list returns all containers of this program, also upstream's, that carry the labels.
func (e *Engine) list(ctx context.Context, labels ...string) ([]container.Summary, error) {
	filters := client.Filters{}.Add("label", append(labels, labelAgent+"=1")...)
	r, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return nil, e.failed("list sandboxes", err)
	}
	return r.Items, nil
}

// find returns the containers of an identity, the best first, and what is to be said about
// others that may or may not be its own.
func (e *Engine) find(ctx context.Context, s Spec) (out []candidate, notes []string, err error) {
	items, err := e.list(ctx, labelTask+"="+labelValue(s.task()), labelProfile+"="+s.profileLabel())
	if err != nil {
		return nil, nil, err
	}
	for _, it := range items {
		own, note := s.owns(it)
		if note != "" {
			notes = append(notes, note)
		}
		if !own {
			continue
		}
		c, err := e.inspect(ctx, it.ID)
		if errdefs.IsNotFound(err) {
			continue // removed a moment ago
		}
		if err != nil {
			return nil, nil, e.failed("look at the sandbox "+nameOf(it), err)
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b candidate) int {
		return cmp.Or(
			before(sameImage(a.image, s.Image), sameImage(b.image, s.Image)),
			before(a.running(), b.running()),
			before(a.name == s.name(), b.name == s.name()),
		)
	})
	return out, notes, nil
}

func before(a, b bool) int {
	switch {
	case a && !b:
		return -1
	case b && !a:
		return 1
	}
	return 0
}

// owns decides whether a container with the task and the profile of an identity is its own.
func (s Spec) owns(it container.Summary) (own bool, note string) {
	if egress := it.Labels[labelEgress]; egress != "" && egress != egressOff {
		return false, "" // made to go through a proxy: not ours to use without it
	}
	if id, ok := it.Labels[labelID]; ok {
		return id == s.key(), ""
	}
	// Upstream's: the labels do not tell the home.
	if s.private != "" {
		return false, ""
	}
	if s.SharedKey != "" {
		return true, ""
	}
	data := ""
	for _, m := range it.Mounts {
		if m.Type == mount.TypeBind && (m.Destination == rootDir || m.Destination == workspaceDir) && filepath.Base(filepath.Dir(m.Source)) == TaskDir(s.Task) {
			data = filepath.Dir(m.Source)
		}
	}
	switch {
	case s.Data != "" && data != "" && samePath(data, s.Data):
		return true, ""
	case data != "":
		return false, "" // another home's
	}
	return false, fmt.Sprintf("the container %s of an older program may be this profile's or another home's, and is left alone; docker rm -f %[1]s removes it", nameOf(it))
}

func samePath(a, b string) bool {
	if real, err := filepath.EvalSymlinks(a); err == nil {
		a = real
	}
	if real, err := filepath.EvalSymlinks(b); err == nil {
		b = real
	}
	return filepath.Clean(a) == filepath.Clean(b)
}

func nameOf(it container.Summary) string {
	if len(it.Names) > 0 {
		return strings.TrimPrefix(it.Names[0], "/")
	}
	return it.ID[:min(12, len(it.ID))]
}

// inspect looks at a container, by id or name.
func (e *Engine) inspect(ctx context.Context, id string) (candidate, error) {
	r, err := e.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return candidate{}, err
	}
	in := r.Container
	c := candidate{id: in.ID, name: strings.TrimPrefix(in.Name, "/")}
	if in.State != nil {
		c.state = in.State.Status
	}
	if in.Config != nil {
		c.image, c.labels = in.Config.Image, in.Config.Labels
	}
	if in.HostConfig != nil {
		c.mode = string(in.HostConfig.NetworkMode)
	}
	if in.NetworkSettings != nil {
		for name := range in.NetworkSettings.Networks {
			c.networks = append(c.networks, name)
		}
	}
	return c, nil
}

// locked reports whether a container surely has no network. What is not known is no.
func (c candidate) locked() bool {
	for _, n := range c.networks {
		if n != "none" {
			return false
		}
	}
	return c.mode == "none"
}

// wantsLock reports whether a container must have no network.
func (s Spec) wantsLock() bool { return s.NoNetwork || networkOf(s.ExtraArgs) == "none" }
